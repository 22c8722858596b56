"""What each launcher function of one Accelerate release does with the launcher's arguments, read from its source.

Followed are attributes of ``args``, ``getattr`` and ``setattr`` on it, local names that hold such values, loops
over all arguments with a prefix, and what is written to the environment of the training processes.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extraction import Facts, FunctionNode, NotConstantError, dotted, evaluate, functions, parse

MODULES = ("commands/launch.py", "utils/launch.py", "commands/tpu.py")
FUNCTIONS = (
	"_validate_launch_command",
	"launch_command",
	"simple_launcher",
	"multi_gpu_launcher",
	"deepspeed_launcher",
	"tpu_launcher",
	"tpu_pod_launcher",
	"sagemaker_launcher",
	"tpu_command_launcher",
	"setup_fp8_env",
	"prepare_simple_launcher_cmd_env",
	"prepare_multi_gpu_env",
	"prepare_deepspeed_cmd_env",
	"prepare_extend_env_parallelism_config",
	"prepare_tpu",
	"prepare_sagemager_args_inputs",
)
CONFIGS = ("defaults", "sagemaker_config")
ENVIRONMENTS = ("current_env", "environment", "os.environ")
NO_OPTION = "-"


def launcher_facts(package: Path) -> Facts:
	"""(kind, function, name) facts.

	``reads``: options it looks at (``fp8_*``: every argument of that name); ``sets``: arguments it assigns;
	``reads_file``: fields of the loaded file; ``calls``: other launcher functions; ``copies``: parsers whose
	same-named options it copies; ``exports``: option to variables, under ``-`` those that come from no option.
	"""
	facts: Facts = {}
	for module in MODULES:
		for name, node in functions(parse(package / module)).items():
			if name in FUNCTIONS:
				facts.update(_function_facts(name, node))
	return facts


def _function_facts(name: str, node: FunctionNode) -> Facts:
	seen = Reader()
	seen.block(node.body, ())
	facts: Facts = {}
	for kind, found in (("reads", seen.reads), ("sets", seen.sets), ("reads_file", seen.file), ("calls", seen.calls)):
		facts.update({(kind, name, item): True for item in found})
	facts.update({("copies", name, parser): True for parser in seen.copies})
	facts.update({("exports", name, dest): sorted(names) for dest, names in seen.exports.items()})
	return facts


@dataclass
class Reader:
	reads: set[str] = field(default_factory=set)
	sets: set[str] = field(default_factory=set)
	file: set[str] = field(default_factory=set)
	calls: set[str] = field(default_factory=set)
	copies: set[str] = field(default_factory=set)
	exports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
	holds: dict[str, frozenset[str]] = field(default_factory=dict)  # local name: options its value comes from
	texts: dict[str, Any] = field(default_factory=dict)  # local name: its constant value
	loops: dict[str, str] = field(default_factory=dict)  # loop variable over all arguments: pattern

	def block(self, body: Iterable[ast.stmt], guards: tuple[frozenset[str], ...]) -> None:
		for statement in body:
			self.statement(statement, guards)

	def statement(self, node: ast.stmt, guards: tuple[frozenset[str], ...]) -> None:
		match node:
			case ast.If(test=test, body=body, orelse=orelse):
				self.branch(test, body, orelse, guards)
			case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="vars")), body=body):
				self.loops[name] = "*"
				self.block(body, guards)
			case ast.Assign(targets=targets, value=value):
				self.look(value)
				for target in targets:
					self.assign(target, value, guards)
			case _:
				for part in ast.iter_child_nodes(node):
					if isinstance(part, ast.expr | ast.withitem):
						self.look(part)
				self.block(list(_nested(node)), guards)

	def branch(
		self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], guards: tuple[frozenset[str], ...]
	) -> None:
		"""A branch narrows a loop over all arguments to those of a prefix, or to one of them."""
		self.look(test)
		guard = self.options(test)
		deeper = (*guards, guard) if guard else guards
		outer = dict(self.loops), dict(self.holds)
		for name, narrower in self.narrowings(test):
			pattern, self.loops[name] = self.loops[name], narrower
			self.holds = {
				local: frozenset(narrower if option == pattern else option for option in options)
				for local, options in self.holds.items()
			}
		self.block(body, deeper)
		self.loops, self.holds = outer[0], {**self.holds, **outer[1]}
		self.block(orelse, deeper)

	def narrowings(self, test: ast.expr) -> Iterator[tuple[str, str]]:
		match test:
			case ast.Call(
				func=ast.Attribute(value=ast.Name(id=name), attr="startswith"), args=[ast.Constant(value=str(prefix))]
			) if name in self.loops:
				yield name, f"{prefix}*"
			case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=str(one))]) if (
				name in self.loops
			):
				yield name, one

	def assign(self, target: ast.expr, value: ast.expr, guards: tuple[frozenset[str], ...]) -> None:
		match target:
			case ast.Name(id=name):
				self.holds[name] = self.options(value)
				self.remember(name, value)
				if name in ENVIRONMENTS and isinstance(value, ast.Dict):
					for key, item in zip(value.keys, value.values, strict=True):
						if key is not None:
							self.export(key, self.options(item))
			case ast.Subscript(value=owner, slice=key) if dotted(owner) in ENVIRONMENTS:
				self.export(key, self.options(value) or (guards[-1] if guards else frozenset()))
			case ast.Attribute(value=ast.Name(id="args"), attr=name):
				self.sets.add(name)

	def remember(self, name: str, value: ast.expr) -> None:
		try:
			self.texts[name] = evaluate(value, self.texts)
		except NotConstantError:
			self.texts.pop(name, None)

	def export(self, key: ast.expr, options: frozenset[str]) -> None:
		"""The last part of an f-string key may be the loop variable itself: then every such argument is meant."""
		known = {**self.texts, **{name: pattern for name, pattern in self.loops.items() if pattern != "*"}}
		try:
			variable = str(evaluate(key, known))
		except NotConstantError:
			return
		for option in options or {NO_OPTION}:
			self.exports[option].add(variable)

	def options(self, node: ast.AST) -> frozenset[str]:
		found: set[str] = set()
		for part in ast.walk(node):
			match part:
				case ast.Attribute(value=ast.Name(id="args"), attr=name, ctx=ast.Load()):
					found.add(name)
				case ast.Call(
					func=ast.Name(id="getattr"), args=[ast.Name(id="args"), ast.Constant(value=str(name)), *_]
				):
					found.add(name)
				case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="args"), ast.Name(id=name), *_]):
					found.add(self.loops.get(name, "*"))
				case ast.Name(id=name) if name in self.holds:
					found.update(self.holds[name])
		return frozenset(found)

	def look(self, node: ast.AST) -> None:
		"""Record reads, assignments by ``setattr``, calls and copies anywhere in an expression."""
		self.reads |= self.options(node) - {"*"}
		for part in ast.walk(node):
			match part:
				case ast.Attribute(value=ast.Name(id=config), attr=name) if config in CONFIGS and name[0] != "_":
					self.file.add(name)
				case ast.Call(
					func=ast.Name(id="setattr"), args=[ast.Name(id="args"), ast.Constant(value=str(name)), _]
				):
					self.sets.add(name)
				case ast.Call(func=ast.Name(id="_filter_args"), args=[_, ast.Call(func=parser), *_]):
					self.copies.add(dotted(parser).split(".")[0])
				case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
					self.calls.add(name)


def _nested(node: ast.stmt) -> Iterator[ast.stmt]:
	for part in ("body", "handlers", "orelse", "finalbody"):
		for inner in getattr(node, part, []):
			if isinstance(inner, ast.ExceptHandler):
				yield from inner.body
			else:
				yield inner
