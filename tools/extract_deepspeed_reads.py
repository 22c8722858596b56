"""Which keys of its JSON a DeepSpeed release reads, found by following the parsed dict through the source.

The parsed JSON enters `DeepSpeedConfig`; from there it is handed from function to function, down into blocks
(`param_dict[AIO]`), until a key is read (`get_scalar_param(aio_dict, AIO_BLOCK_SIZE, AIO_BLOCK_SIZE_DEFAULT)`) or
a block is unpacked into a pydantic model. Every branch is taken, nothing is run.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extract_deepspeed_package import Constants, Definition, Import, Index, Package, value_of
from extraction import NotConstantError, dotted, functions

SKIPPED = {"_reject_removed_config_keys"}
COPIES = {"copy.copy", "copy.deepcopy", "dict"}
DEPTH = 40
MISSING: Any = object()
ANY = "*"
UNDEFINED = "?"


@dataclass(frozen=True)
class Block:
	"""A dict of the JSON, by its path; as a value also whatever stands at that path."""

	path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Known:
	value: Any


Value: TypeAlias = Block | Known | Definition | dict[str, Any] | None
Names: TypeAlias = dict[str, Value]


@dataclass
class Reads:
	"""What was found: keys with their defaults, blocks that are models, blocks that are kept whole."""

	keys: dict[tuple[str, ...], Any] = field(default_factory=dict)
	models: dict[tuple[str, ...], Definition] = field(default_factory=dict)
	stored: set[tuple[str, ...]] = field(default_factory=set)

	def read(self, path: tuple[str, ...], default: Any) -> None:
		if UNDEFINED not in path and self.keys.get(path, MISSING) is MISSING:
			self.keys[path] = default


@dataclass
class Frame:
	"""One call: its names, the attributes of its `self`, and what it returned."""

	module: str
	names: Names
	attributes: Names
	methods: dict[str, Definition]
	local: Index = field(default_factory=Index)
	returned: Value = None


class Tracer:
	def __init__(self, package: Package, follow: bool = True) -> None:
		self.package = package
		self.follow = follow
		self.reads = Reads()
		self._active: list[tuple[str, str]] = []

	def call(self, target: Definition, arguments: Names, caller: Frame | None = None) -> Value:
		"""Follow a function; a class through its constructor; a method with the `self` of its caller."""
		key = (target.module, target.name)
		if target.name in SKIPPED or key in self._active or len(self._active) > DEPTH:
			return None
		attributes, methods = (caller.attributes, caller.methods) if caller else ({}, {})
		function = target.node
		if isinstance(function, ast.ClassDef):
			methods = {name: Definition(target.module, node) for name, node in _methods(function)}
			if "__init__" not in methods:
				return None
			function = methods["__init__"].node
		assert isinstance(function, ast.FunctionDef)
		frame = Frame(target.module, dict(arguments), attributes, methods)
		self._active.append(key)
		self.run(frame, function.body)
		self._active.pop()
		return frame.returned

	def definition(self, frame: Frame, name: str) -> Definition | None:
		found = frame.local.names.get(name)
		if isinstance(found, Import):
			return self.package.definition(found.module, found.name)
		return found if isinstance(found, Definition) else self.package.definition(frame.module, name)

	def constants(self, frame: Frame, known: dict[str, Any] | None = None) -> Constants:
		return Constants(self.package, frame.module, frame.local.names, known)

	# --- statements ---

	def run(self, frame: Frame, body: Iterable[ast.stmt]) -> None:
		for statement in body:
			self.step(frame, statement)

	def step(self, frame: Frame, statement: ast.stmt) -> None:
		match statement:
			case ast.Assign(targets=targets, value=value):
				result = self.value(frame, value)
				for target in targets:
					self.bind(frame, target, result)
			case ast.AnnAssign(target=target, value=ast.expr() as value):
				self.bind(frame, target, self.value(frame, value))
			case ast.For(target=target, iter=source, body=body):
				for item in self.items(frame, source, body):
					self.bind(frame, target, item)
					self.run(frame, body)
			case ast.If(test=ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]), body=body):
				# a stand-in for a missing block: followed, but the block stays what the name means
				self.run(_with(frame, "", None), body)
				self.run(frame, statement.orelse)
			case ast.Return(value=ast.expr() as value):
				result = self.value(frame, value)
				frame.returned = frame.returned or result
			case ast.FunctionDef() | ast.ImportFrom():
				self.package.bind(frame.local, frame.module, statement)
			case _:
				self.inside(frame, statement)

	def inside(self, frame: Frame, node: ast.AST) -> None:
		"""Any other statement or expression: whatever it holds is followed."""
		for child in ast.iter_child_nodes(node):
			if isinstance(child, ast.stmt):
				self.step(frame, child)
			elif isinstance(child, ast.expr):
				self.value(frame, child)
			else:
				self.inside(frame, child)

	def bind(self, frame: Frame, target: ast.expr, value: Value) -> None:
		match target:
			case ast.Name(id=name) if isinstance(value, Block) or not isinstance(frame.names.get(name), Block):
				frame.names[name] = value
			case ast.Attribute(value=ast.Name(id="self"), attr=name) if value is not None:
				frame.attributes[name] = value
			case ast.Tuple(elts=elements) if isinstance(value, dict):
				for element, part in zip(elements, value.values(), strict=False):
					self.bind(frame, element, part)

	def items(self, frame: Frame, source: ast.expr, body: list[ast.stmt]) -> Iterator[Value]:
		"""What a loop variable goes through: constants one by one, the entries of a block as one."""
		over = self.value(frame, source)
		if isinstance(over, Block):
			for merged in _merged_into(body):
				self.reads.stored.add(over.path)
				defaults = frame.names.get(merged)
				if isinstance(defaults, Known) and isinstance(defaults.value, dict):
					for key, default in defaults.value.items():
						self.reads.read((*over.path, key), default)
			yield {"key": Known(ANY), "value": Block((*over.path, ANY))}
		elif isinstance(over, Known) and isinstance(over.value, dict):
			for key, value in over.value.items():
				yield {"key": Known(key), "value": Known(value)}
		elif isinstance(over, Known) and isinstance(over.value, list):
			yield from map(Known, over.value)
		else:
			yield None

	# --- expressions ---

	def value(self, frame: Frame, node: ast.expr) -> Value:
		match node:
			case ast.Name(id=name):
				return self.named(frame, name)
			case ast.Attribute(value=ast.Name(id="self"), attr=name):
				return frame.attributes.get(name)
			case ast.Subscript(value=base, slice=key, ctx=ast.Load()):
				return self.read(frame, base, key, MISSING)
			case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[base]):
				self.read(frame, base, key, MISSING)
				return None
			case ast.Call():
				return self.called(frame, node)
			case ast.DictComp(key=ast.Name(id=name), value=value, generators=[loop]) if loop.target.id == name:  # type: ignore[attr-defined]
				return self.comprehension(frame, name, value, loop.iter)
			case ast.IfExp(test=test, body=one, orelse=other):
				self.value(frame, test)
				return self.first(frame, [one, other])
			case ast.BoolOp(values=values):
				return self.first(frame, values)
			case ast.Lambda():
				return None
		try:
			return Known(value_of(node, self.constants(frame, self.known(frame))))
		except (NotConstantError, TypeError):
			self.inside(frame, node)
		return None

	def known(self, frame: Frame) -> dict[str, Any]:
		return {name: value.value for name, value in frame.names.items() if isinstance(value, Known)}

	def first(self, frame: Frame, nodes: list[ast.expr]) -> Value:
		values = [self.value(frame, node) for node in nodes]
		return next((value for value in values if isinstance(value, Block)), None)

	def named(self, frame: Frame, name: str) -> Value:
		if name in frame.names:
			return frame.names[name]
		constants = self.constants(frame)
		return self.definition(frame, name) or (Known(constants[name]) if name in constants else None)

	def comprehension(self, frame: Frame, name: str, value: ast.expr, source: ast.expr) -> Value:
		"""`{key: param_dict.get(key, {}) for key in ("tensorboard", …)}`: a block for each name."""
		over = self.value(frame, source)
		if not (isinstance(over, Known) and isinstance(over.value, list)):
			return None
		return {key: self.value(_with(frame, name, Known(key)), value) for key in over.value}

	def read(self, frame: Frame, base: ast.expr, key: ast.expr, default: Any) -> Value:
		"""A key of a block: noted, and what stands there is the value."""
		block, name = self.value(frame, base), self.value(frame, key)
		if not isinstance(block, Block):
			return None
		# some releases use a constant that they no longer define
		path = (*block.path, str(name.value) if isinstance(name, Known) else UNDEFINED)
		if path[-1] != ANY:
			self.reads.read(path, default)
		return Block(path)

	def called(self, frame: Frame, call: ast.Call) -> Value:
		match call.func, call.args:
			case ast.Attribute(value=base, attr="get" | "pop" as method), [key, *rest]:
				missing: Any = None if method == "get" else MISSING
				default = self.constant(frame, rest[0]) if rest else missing
				found = self.read(frame, base, key, default)
				if found is not None:
					return found
			case ast.Attribute(value=base, attr="keys" | "items" | "values"), []:
				return self.value(frame, base)
			case ast.Attribute(value=base, attr="setdefault"), [key, *_]:
				return self.read(frame, base, key, MISSING)
		if dotted(call.func) in COPIES and call.args:
			copied = self.value(frame, call.args[0])
			if isinstance(copied, Block) and copied.path:
				self.reads.stored.add(copied.path)
			return copied
		return self.followed(frame, call)

	def constant(self, frame: Frame, node: ast.expr) -> Any:
		value = self.value(frame, node)
		return value.value if isinstance(value, Known) else MISSING

	def followed(self, frame: Frame, call: ast.Call) -> Value:
		target = self.target(frame, call.func)
		positional = [self.value(frame, argument) for argument in call.args]
		named = {word.arg: self.value(frame, word.value) for word in call.keywords}
		if target is None:
			if isinstance(call.func, ast.Attribute):
				self.value(frame, call.func.value)
			# `str(block["x"])` and its like hand on what they wrap
			return next((value for value in positional if isinstance(value, Block)), None)
		if isinstance(target.node, ast.ClassDef) and self.is_model(target):
			self.mount(target, named.get(None))
			return None
		values = [*positional, *named.values()]
		own = dotted(call.func).startswith("self.")
		if not self.follow or not (own or any(isinstance(value, Block | dict) for value in values)):
			return None
		return self.call(target, self.arguments(target, positional, named), frame if own else None)

	def target(self, frame: Frame, function: ast.expr) -> Definition | None:
		name = dotted(function)
		if name.startswith("self."):
			return frame.methods.get(name.removeprefix("self."))
		found = frame.names.get(name)
		return found if isinstance(found, Definition) else self.definition(frame, name)

	def arguments(self, target: Definition, positional: list[Value], named: dict[Any, Value]) -> Names:
		node = target.node
		if isinstance(node, ast.ClassDef):
			constructor = dict(_methods(node)).get("__init__")
			if constructor is None:
				return {}
			node = constructor
		names = [argument.arg for argument in node.args.args if argument.arg != "self"]
		constants = self.package.constants(target.module)
		defaults = dict(
			zip(reversed(names), (_default(each, constants) for each in reversed(node.args.defaults)), strict=False)
		)
		given = dict(zip(names, positional, strict=False))
		return {**defaults, **given, **{name: value for name, value in named.items() if name}}

	def is_model(self, target: Definition) -> bool:
		return "BaseModel" in self.package.base_names(target)

	def mount(self, model: Definition, block: Value) -> None:
		if isinstance(block, Block):
			self.reads.models.setdefault(block.path, model)
		elif isinstance(block, dict):
			self.reads.models.setdefault((), model)


def _methods(node: ast.ClassDef) -> Iterator[tuple[str, ast.FunctionDef]]:
	for name, function in functions(node).items():
		if isinstance(function, ast.FunctionDef):
			yield name, function


def _merged_into(body: list[ast.stmt]) -> Iterator[str]:
	for node in body:
		if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
			yield dotted(node.targets[0].value)


def _default(node: ast.expr, constants: Constants) -> Value:
	try:
		return Known(value_of(node, constants))
	except NotConstantError:
		return None


def _with(frame: Frame, name: str, value: Value) -> Frame:
	names = {**frame.names, name: value}
	return Frame(frame.module, names, frame.attributes, frame.methods, frame.local)


def trace(package: Package) -> Reads:
	"""Follow the JSON through `DeepSpeedConfig`, and note what `deepspeed.initialize` itself reads."""
	config = package.definition("runtime.config", "DeepSpeedConfig")
	assert config is not None, "no DeepSpeedConfig in runtime/config.py"
	tracer = Tracer(package)
	tracer.call(config, {"config": Block()})
	initialize = package.definition("", "initialize")
	outer = Tracer(package, follow=False)
	outer.reads = tracer.reads
	if initialize is not None:
		outer.call(initialize, {"config": Block(), "config_params": Block()})
	return tracer.reads
