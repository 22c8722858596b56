"""Which environment variable a field of a plugin takes its value from, read from one release's source."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from extract_config import package_constants
from extraction import Facts, NotConstantError, classes, dotted, evaluate, functions, keywords, parse, value_or_text

MODULES = ("utils/dataclasses.py", "parallelism_config.py")
CONSTRUCTORS = {"accelerator.py": ("Accelerator",), "state.py": ("PartialState", "AcceleratorState")}
GETTERS = {"os.environ.get", "os.getenv", "parse_choice_from_env"}
FLAGS = {"parse_flag_from_env", "get_int_from_env"}
TRUE_WORDS = ("y", "yes", "t", "true", "on", "1")  # of ``str_to_bool``
Source = dict[str, Any]


def source_facts(package: Path) -> Facts:
	"""("environment", class, field) → its ``variables``, and what it takes ``otherwise`` where the code says so."""
	names = package_constants(package)
	facts: Facts = {}
	for module in MODULES:
		for owner, node in classes(parse(package / module)).items() if (package / module).exists() else ():
			for method in functions(node).values():
				facts.update(_facts(owner, FieldSources(names, ()).read(method.body)))
	for module, owners in CONSTRUCTORS.items():
		found = classes(parse(package / module))
		for owner in owners:
			setup = functions(found[owner])["__init__"]
			parameters = {item.arg for item in [*setup.args.args, *setup.args.kwonlyargs]}
			sources = FieldSources(names, parameters).read(setup.body)
			facts.update(_facts(owner, {name: item for name, item in sources.items() if name in parameters}))
	return facts


def _facts(owner: str, sources: Mapping[str, Source]) -> Facts:
	return {("environment", owner, name): source for name, source in sources.items()}


class FieldSources:
	"""Follows what is read from the environment into ``self.field``, or into a parameter of a constructor."""

	def __init__(self, names: Mapping[str, Any], parameters: Iterable[str]) -> None:
		self.known = dict(names)
		self.parameters = set(parameters)
		self.texts: dict[str, str] = {}
		self.holds: dict[str, Source] = {}
		self.found: dict[str, Source] = {}

	def read(self, statements: Iterable[ast.stmt], guard: Source | None = None) -> dict[str, Source]:
		"""Go through statements in order; ``guard`` is the variable on which the branch depends."""
		for node in statements:
			if isinstance(node, ast.Assign) and len(node.targets) == 1:
				self._assign(node.targets[0], node.value, guard)
			elif isinstance(node, ast.If):
				self.read(node.body, next(self._reads(node.test), None))
				self.read(node.orelse)
			else:
				for part in ("body", "orelse", "finalbody"):
					self.read(getattr(node, part, []), guard)
		return self.found

	def _assign(self, target: ast.expr, value: ast.expr, guard: Source | None) -> None:
		source = _joined(list(self._reads(value)), value)
		if source and guard and guard["variables"] == source["variables"]:  # read only where it is set
			source = {**source, "otherwise": None}
		match target:
			case ast.Name(id=name) if name in self.parameters:
				self._keep(name, source or guard)
			case ast.Name(id=name):
				self._remember(name, value, source)
			case ast.Attribute(value=ast.Name(id="self"), attr=name) if name[0] != "_":
				self._keep(name, source or guard)

	def _keep(self, name: str, source: Source | None) -> None:
		if source:
			own = source.get("otherwise") == {"expr": name}
			kept = {key: item for key, item in source.items() if not (own and key == "otherwise")}
			self.found.setdefault(name, kept)

	def _remember(self, name: str, value: ast.expr, source: Source | None) -> None:
		self.holds.pop(name, None)
		if source:
			self.holds[name] = source
		else:
			try:
				self.known[name] = evaluate(value, self.known)
			except NotConstantError:
				self.known.pop(name, None)
				self.texts[name] = ast.unparse(value)

	def _reads(self, expression: ast.expr) -> Iterator[Source]:
		for node in ast.walk(expression):
			match node:
				case ast.Call(func=function, args=[key, *rest]) if dotted(function) in GETTERS | FLAGS:
					default = rest[0] if rest else keywords(node).get("default")
					yield from self._source(key, default, flag=dotted(function) in FLAGS)
				case ast.Subscript(value=owner, slice=key, ctx=ast.Load()) if dotted(owner) == "os.environ":
					yield from self._source(key, None)
				case ast.Name(id=name, ctx=ast.Load()) if name in self.holds:
					yield self.holds[name]

	def _source(self, key: ast.expr, default: ast.expr | None, flag: bool = False) -> Iterator[Source]:
		try:
			variable = str(evaluate(key, self.known))
		except NotConstantError:
			return
		if isinstance(default, ast.Name) and default.id in self.texts:
			yield {"variables": [variable], "otherwise": {"expr": self.texts[default.id]}}
		elif default is not None:
			yield {"variables": [variable], "otherwise": value_or_text(default, self.known)}
		else:
			yield {"variables": [variable], **({"otherwise": False} if flag else {})}


def _joined(sources: list[Source], value: ast.expr) -> Source | None:
	if not sources:
		return None
	variables = list(dict.fromkeys(name for source in sources for name in source["variables"]))
	joined = {**sources[0], "variables": variables}
	default = joined.get("otherwise")
	match value:
		case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=wanted)]) if not isinstance(default, dict):
			joined["otherwise"] = str(default).lower() in TRUE_WORDS if wanted == 1 else default == wanted
	return joined
