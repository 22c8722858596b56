"""The names of a Python script: where each is bound, and what it stands for where that can be known without running it.

One walk over the tree, without recursion: a script may be as deep as Python's own parser lets it be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST_CHAIN = 20  # names that stand for names; more than any script has, and an end to `a = b; b = a`
_MAIN = re.compile(r"is_main_process|is_local_main_process|is_world_process_zero|on_(?:local_)?main_process")
_CONDITIONAL = re.compile(r"version|signature|hasattr|is_accelerate_available", re.IGNORECASE)
_EXPECTED = re.compile(r"\braises|assertRaises|\bsuppress\b")
# methods that leave a list or a mapping as it is
_READERS = frozenset({"get", "keys", "values", "items", "copy", "index", "count"})
_HARMLESS = frozenset({"print", "len", "str", "repr", "list", "dict", "sorted", "isinstance", "type"})


class Binding(NamedTuple):
	"""One way in which a name gets its meaning: an import (the dotted name), a value (an expression), or another."""

	dotted: str = ""
	value: ast.expr | None = None
	scope: Scope | None = None
	kind: str = "other"


class Scope:
	"""The names of a module, a function or a class."""

	def __init__(self, parent: Scope | None = None, is_class: bool = False) -> None:
		self.parent = parent
		self.is_class = is_class
		self.names: dict[str, list[Binding]] = {}
		self.elsewhere: dict[str, Scope] = {}
		self.touched: set[str] = set()  # names whose list or mapping is changed here, or given to code that could
		self.changed: set[str] = set()  # the names of this scope that are touched anywhere
		self.stars: set[str] = set()  # the modules whose names are all imported

	@property
	def module(self) -> Scope:
		scope = self
		while scope.parent is not None:
			scope = scope.parent
		return scope

	def bind(self, name: str, binding: Binding | None = None) -> None:
		self.elsewhere.get(name, self).names.setdefault(name, []).append(binding or Binding())

	def owner(self, name: str) -> Scope | None:
		"""The scope in which a name is bound, seen from here; a class body is not seen from its functions."""
		scope: Scope | None = self.elsewhere.get(name, self)
		while scope is not None:
			if name in scope.names and (scope is self or not scope.is_class):
				return scope
			scope = scope.parent
		return None

	def bindings(self, name: str) -> list[Binding]:
		owner = self.owner(name)
		return owner.names[name] if owner else []


class Guard(NamedTuple):
	"""What must hold for a piece of code to run: `main`: only one process runs it; `conditional`: what the libraries
	have is asked first, or a failure is caught; `branch`: it stands in one of several ways that a function may go."""

	main: bool = False
	conditional: bool = False
	branch: bool = False


class Seen(NamedTuple):
	"""A call or an attribute, and where it stands."""

	node: ast.expr
	scope: Scope
	guard: Guard


class Walk:
	"""The scopes of a module, and its calls and attributes in the order of the text."""

	def __init__(self, tree: ast.Module) -> None:
		self.module = Scope()
		self.calls: list[Seen] = []
		self.attributes: list[Seen] = []
		self.classes: list[tuple[ast.ClassDef, Scope]] = []
		self._scopes = [self.module]
		self._pending: list[tuple[ast.AST, Scope, Guard]] = [(tree, self.module, Guard())]
		while self._pending:
			self._visit(*self._pending.pop())
		for scope in self._scopes:
			for name in scope.touched:
				(scope.owner(name) or scope).changed.add(name)

	def _inside(self, scope: Scope, is_class: bool = False) -> Scope:
		self._scopes.append(Scope(scope, is_class))
		return self._scopes[-1]

	def _push(self, nodes: Iterable[ast.AST | None], scope: Scope, guard: Guard) -> None:
		self._pending += [(node, scope, guard) for node in reversed(list(nodes)) if node is not None]

	def _visit(self, node: ast.AST, scope: Scope, guard: Guard) -> None:
		if isinstance(node, ast.Name):
			if not isinstance(node.ctx, ast.Load):
				scope.bind(node.id)
		elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
			self._function(node, scope, guard)
		elif isinstance(node, ast.If):
			self._test(node, scope, guard)
		elif isinstance(node, (ast.Assign, ast.AnnAssign)):
			self._assignment(node, scope, guard)
		else:
			self._other(node, scope, guard)

	def _other(self, node: ast.AST, scope: Scope, guard: Guard) -> None:
		inner = scope
		if isinstance(node, (ast.Import, ast.ImportFrom)):
			self._import(node, scope)
		elif isinstance(node, ast.Call):
			self.calls.append(Seen(node, scope, guard))
			mark_arguments(node, scope)
		elif isinstance(node, ast.Attribute):
			self.attributes.append(Seen(node, scope, guard))
		elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
			mark(node.value, scope)
		elif isinstance(node, ast.ClassDef):
			scope.bind(node.name, Binding(kind="definition"))
			self.classes.append((node, scope))
			inner = self._inside(scope, is_class=True)
		elif isinstance(node, (ast.Global, ast.Nonlocal)):
			for name in node.names:
				home = scope.module if isinstance(node, ast.Global) else scope.parent and scope.parent.owner(name)
				scope.elsewhere[name] = home or scope.module
		elif isinstance(node, ast.ExceptHandler) and node.name:
			scope.bind(node.name)
		elif isinstance(node, ast.With) and any(_EXPECTED.search(words(one.context_expr)) for one in node.items):
			guard = guard._replace(conditional=True)
		elif isinstance(node, (ast.BoolOp, ast.IfExp)):
			guard = guard._replace(branch=True)
		elif isinstance(node, ast.Try) and any(map(swallows, node.handlers)):
			self._push([*node.handlers, *node.orelse, *node.finalbody], scope, guard)
			self._push(node.body, scope, guard._replace(conditional=True))
			return
		self._push(ast.iter_child_nodes(node), inner, guard)

	def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, guard: Guard) -> None:
		inner = self._inside(scope)
		every = node.args
		for argument in [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]:
			if argument is not None:
				inner.bind(argument.arg)
		if isinstance(node, ast.Lambda):
			self._push([node.body], inner, guard)
		else:
			scope.bind(node.name, Binding(kind="definition"))
			main = guard.main or any(_MAIN.search(words(one)) for one in node.decorator_list)
			self._push(node.body, inner, guard._replace(main=main))
			self._push(node.decorator_list, scope, guard)
		self._push([node.args], scope, guard)

	def _test(self, node: ast.If, scope: Scope, guard: Guard) -> None:
		asked = words(node.test)
		conditional = guard.conditional or _CONDITIONAL.search(asked) is not None
		main = asks_for_main(node.test)
		self._push(node.orelse, scope, Guard(guard.main or main is False, conditional, True))
		self._push(node.body, scope, Guard(guard.main or main is True, conditional, True))
		self._push([node.test], scope, guard)

	def _assignment(self, node: ast.Assign | ast.AnnAssign, scope: Scope, guard: Guard) -> None:
		targets = node.targets if isinstance(node, ast.Assign) else [node.target]
		for target in targets:
			if isinstance(target, ast.Name) and node.value is not None:
				scope.bind(target.id, Binding(value=node.value, scope=scope, kind="value"))
			elif not isinstance(target, ast.Name):
				self._push([target], scope, guard)
		if isinstance(node.value, ast.Name):
			mark(node.value, scope)  # the same list or mapping under two names
		self._push([node.value], scope, guard)

	def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
		origin = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
		for alias in node.names:
			if alias.name == "*":
				scope.module.stars.add(origin.split(".")[0])
			elif origin:
				scope.bind(alias.asname or alias.name, Binding(f"{origin}.{alias.name}", kind="import"))
			else:
				dotted = alias.name if alias.asname else alias.name.split(".")[0]
				scope.bind(alias.asname or dotted, Binding(dotted, kind="import"))


def words(node: ast.AST) -> str:
	found = (getattr(one, "attr", "") or getattr(one, "id", "") for one in ast.walk(node))
	return " ".join(filter(None, found))


def asks_for_main(test: ast.expr) -> bool | None:
	wanted = True
	while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
		test, wanted = test.operand, not wanted
	while isinstance(test, ast.Call) and not test.args:
		test = test.func
	if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
		return wanted if any(map(asks_for_main, test.values)) else None
	return wanted if isinstance(test, ast.Attribute) and _MAIN.fullmatch(test.attr) else None


def swallows(handler: ast.ExceptHandler) -> bool:
	return not any(isinstance(one, ast.Raise) for one in ast.walk(handler))


def mark(node: ast.expr, scope: Scope) -> None:
	while isinstance(node, (ast.Subscript, ast.Attribute)):
		node = node.value
	if isinstance(node, ast.Name):
		scope.touched.add(node.id)


def mark_arguments(call: ast.Call, scope: Scope) -> None:
	function = call.func
	if isinstance(function, ast.Attribute):
		if function.attr not in _READERS and isinstance(function.value, (ast.Name, ast.Subscript)):
			mark(function.value, scope)
		name = function.attr
	else:
		name = function.id if isinstance(function, ast.Name) else ""
	if name[:1].isupper() or name in _HARMLESS:  # a class keeps what it is given, as a rule
		return
	for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
		if isinstance(value, ast.Name):
			mark(value, scope)


def dotted_name(node: ast.expr, scope: Scope) -> str:
	"""What a name or an attribute is called where it comes from: "accelerate.utils.DeepSpeedPlugin"; "" if unknown."""
	parts: list[str] = []
	while isinstance(node, ast.Attribute):
		parts.append(node.attr)
		node = node.value
	if not isinstance(node, ast.Name):
		return ""
	first = imported(node.id, scope)
	return ".".join([first, *reversed(parts)]) if first else ""


def imported(name: str, scope: Scope) -> str:
	"""The dotted name that an import binds; a None for where the import fails does not count."""
	if not scope.bindings(name) and "accelerate" in scope.module.stars and name[:1].isupper():
		return f"accelerate.{name}"
	bindings = [one for one in scope.bindings(name) if not is_none(one)]
	found = {one.dotted for one in bindings}
	if not bindings or any(one.kind != "import" for one in bindings):
		return ""
	return found.pop() if len({one.rpartition(".")[2] for one in found}) == 1 else ""


def is_none(binding: Binding) -> bool:
	return isinstance(binding.value, ast.Constant) and binding.value.value is None


def followed(node: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
	"""An expression, and what its name stands for in turn, as long as each name is bound once, by an assignment."""
	for _ in range(LONGEST_CHAIN):
		yield node, scope
		if not isinstance(node, ast.Name):
			return
		found = scope.bindings(node.id)
		if len(found) != 1 or found[0].value is None or found[0].scope is None:
			return
		node, scope = found[0].value, found[0].scope


_SCHEDULER = re.compile(r"get_\w*schedule\w*|\w*(?:Scheduler|LR)")
_OPTIMIZER = re.compile(r"(?:\w*(?:Adam|Adamax|Adamw|AdamW\w*|SGD|RMSprop|Adagrad|Adafactor|Lion|Optim))")
_MODEL = re.compile(r"\w*(?:Model|For[A-Z]\w+|Autoencoder\w*|UNet\w*|Transformer2D\w*)")


def shape(node: ast.expr, scope: Scope, modules: frozenset[str]) -> str:
	"""What an argument of `prepare` is: "model", "optimizer", "scheduler", "dataloader", "*" for several that are not
	known, or "" for what is not known. `modules` are the classes of the script that are modules of torch."""
	if isinstance(node, ast.Starred):
		return "*"
	if isinstance(node, ast.Name):
		found = {made(one.value, one.scope, modules) for one in scope.bindings(node.id) if one.value and one.scope}
		return found.pop() if len(found) == 1 else ""
	return made(node, scope, modules)


def made(node: ast.expr, scope: Scope, modules: frozenset[str]) -> str:
	if not isinstance(node, ast.Call):
		return ""
	function = node.func
	name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
	dotted = dotted_name(function, scope)
	if name in modules or name == "get_peft_model" or dotted.startswith("torch.nn."):
		return "model"
	if name in ("from_pretrained", "from_config") and isinstance(function, ast.Attribute):
		owner = getattr(function.value, "attr", "") or getattr(function.value, "id", "")
		return "model" if _MODEL.fullmatch(owner) and "Config" not in owner else ""
	if _SCHEDULER.fullmatch(name):
		return "scheduler"
	if _OPTIMIZER.fullmatch(name):
		return "optimizer"
	return "dataloader" if name.endswith("DataLoader") else ""
