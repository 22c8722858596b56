"""Names inside one DeepSpeed release, followed through its imports on demand; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from extraction import NotConstantError, assignments, definitions, evaluate, parse

ROOT = "deepspeed"
BUILT_IN = {"sys.maxsize": 9223372036854775807, "torch.float16": "torch.float16", "torch.half": "torch.float16"}


@dataclass(frozen=True)
class Definition:
	"""A function or class, with the module whose names its body sees."""

	module: str
	node: ast.FunctionDef | ast.ClassDef

	@property
	def name(self) -> str:
		return self.node.name


@dataclass(frozen=True)
class Import:
	module: str
	name: str


@dataclass(frozen=True)
class Expression:
	module: str
	node: ast.expr


Entry: TypeAlias = Definition | Import | Expression


@dataclass
class Index:
	"""What the statements of a module bind, and the modules it imports everything from."""

	names: dict[str, Entry] = field(default_factory=dict)
	stars: list[str] = field(default_factory=list)


class Package:
	def __init__(self, root: Path) -> None:
		self.root = root
		self._indexes: dict[str, Index] = {}

	def path(self, module: str) -> Path:
		base = self.root.joinpath(*module.split(".")) if module else self.root
		plain = base.with_name(base.name + ".py")
		return plain if module and plain.is_file() else base / "__init__.py"

	def index(self, module: str) -> Index:
		if module not in self._indexes:
			index = self._indexes[module] = Index()
			if self.path(module).is_file():
				for statement in definitions(parse(self.path(module))):
					self.bind(index, module, statement)
		return self._indexes[module]

	def bind(self, index: Index, module: str, statement: ast.stmt) -> None:
		if isinstance(statement, ast.FunctionDef | ast.ClassDef):
			index.names[statement.name] = Definition(module, statement)
		elif isinstance(statement, ast.Assign | ast.AnnAssign):
			for name, _, value in assignments(ast.Module(body=[statement], type_ignores=[])):
				if value is not None:
					index.names[name] = Expression(module, value)
		elif isinstance(statement, ast.ImportFrom):
			source = self._absolute(module, statement)
			for alias in statement.names if source is not None else ():
				assert source is not None
				if alias.name == "*":
					index.stars.append(source)
				else:
					index.names[alias.asname or alias.name] = Import(source, alias.name)

	def _absolute(self, module: str, statement: ast.ImportFrom) -> str | None:
		if statement.level == 0:
			top, _, rest = (statement.module or "").partition(".")
			return rest if top == ROOT else None
		parts = module.split(".") if module else []
		is_package = self.path(module).name == "__init__.py"
		kept = parts[: len(parts) - statement.level + is_package]
		return ".".join([*kept, *(statement.module or "").split(".")]).strip(".")

	def entry(self, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Entry | None:
		"""What a name of a module stands for, through imports; circular ones end the search."""
		if (module, name) in seen:
			return None
		seen |= {(module, name)}
		index = self.index(module)
		found = index.names.get(name)
		if isinstance(found, Import):
			return self.entry(found.module, found.name, seen)
		for star in reversed(index.stars):
			found = found or self.entry(star, name, seen)
		return found

	def definition(self, module: str, name: str) -> Definition | None:
		found = self.entry(module, name)
		return found if isinstance(found, Definition) else None

	def bases(self, definition: Definition) -> Iterator[Definition]:
		"""A class and the classes of this package that it derives from, nearest first."""
		yield definition
		assert isinstance(definition.node, ast.ClassDef)
		for base in definition.node.bases:
			found = self.definition(definition.module, ast.unparse(base))
			if found and isinstance(found.node, ast.ClassDef):
				yield from self.bases(found)

	def base_names(self, definition: Definition) -> set[str]:
		return {
			ast.unparse(base)
			for each in self.bases(definition)
			if isinstance(each.node, ast.ClassDef)
			for base in each.node.bases
		}

	def constants(self, module: str) -> Constants:
		return Constants(self, module, {})


class Constants(Mapping[str, Any]):
	"""The constants that a module sees, by name, evaluated when asked for; `Class.member` works too."""

	def __init__(
		self, package: Package, module: str, local: Mapping[str, Entry], known: Mapping[str, Any] | None = None
	) -> None:
		self.package, self.module, self.local = package, module, local
		self.known = {**BUILT_IN, **(known or {})}

	def __getitem__(self, name: str) -> Any:
		if name in self.known:
			return self.known[name]
		first, _, member = name.partition(".")
		entry = self.local.get(first)
		if isinstance(entry, Import):
			entry = self.package.entry(entry.module, entry.name)
		entry = entry or self.package.entry(self.module, first)
		if member and isinstance(entry, Definition):
			return class_constants(entry, self.package)[member]
		if member or not isinstance(entry, Expression):
			raise KeyError(name)
		try:
			return value_of(entry.node, self.package.constants(entry.module))
		except (NotConstantError, RecursionError):
			raise KeyError(name) from None

	def __contains__(self, name: object) -> bool:
		try:
			self[str(name)]
		except KeyError:
			return False
		return True

	def __iter__(self) -> Iterator[str]:
		return iter(())

	def __len__(self) -> int:
		return 1  # so that it never counts as empty


def class_constants(owner: Definition, package: Package) -> dict[str, Any]:
	found: dict[str, Any] = {}
	names = package.constants(owner.module)
	for name, _, expression in assignments(owner.node):
		if expression is not None:
			try:
				found[name] = value_of(expression, names)
			except NotConstantError:
				continue
	return found


def value_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
	"""A constant expression, also where it is wrapped in `int()` or DeepSpeed's printable `pp_int()`."""
	match node:
		case ast.Call(func=ast.Name(id="pp_int" | "int"), args=[inner, *_]):
			return int(value_of(inner, names))
		case ast.Call(func=ast.Name(id="list"), args=[inner]) | ast.Lambda(body=inner):
			return value_of(inner, names)
		case ast.List(elts=items) | ast.Tuple(elts=items):
			return [value_of(item, names) for item in items]
	return evaluate(node, names)
