"""Fields of DeepSpeed's pydantic models: types, defaults, limits, other names, what replaces a deprecated one."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from extract_deepspeed_package import Constants, Definition, Expression, Package, class_constants, value_of
from extraction import NotConstantError, assignments, dotted, keywords

SIMPLE = {
	"bool": "bool",
	"int": "int",
	"float": "float",
	"str": "str",
	"list": "list",
	"dict": "dict",
	"tuple": "tuple",
	"Dict": "dict",
	"List": "list",
	"Path": "path",
	"object": "any",
	"Any": "any",
	"torch.dtype": "dtype",
}
BOUNDS = ("ge", "gt", "le", "lt")
AUTO_DROPPING = "DeepSpeedConfigModel"
Path = tuple[str, ...]
Record = dict[str, Any]


@dataclass
class Type:
	"""An annotation in the notation of the data files."""

	text: str
	choices: list[Any] | None = None
	model: Definition | None = None


class Models:
	"""The models of one release; its pydantic generation decides what a default of null means."""

	def __init__(self, package: Package) -> None:
		self.package = package
		utilities = package.path("runtime.config_utils").read_text(encoding="utf-8")
		self.generation = 2 if "ConfigDict(" in utilities else 1

	def mounted(self, path: Path, model: Definition) -> Iterator[tuple[Path, Record | None, Record | None]]:
		"""(path, key record, section record) of a model at a path and of all that is nested in it."""
		yield path, None, self.section(model)
		for name, record, nested in self.fields(model):
			yield (*path, name), record, None
			if nested is not None:
				yield from self.mounted((*path, name), nested)

	def section(self, model: Definition) -> Record:
		record: Record = {"unknown": "refused" if self.forbids(model) else "ignored", "model": model.name}
		if not any(each.name == AUTO_DROPPING for each in self.package.bases(model)):
			record["keeps_auto"] = True
		return record

	def forbids(self, model: Definition) -> bool:
		for each in self.package.bases(model):
			for node in ast.walk(each.node):
				given = keywords(node).get("extra") if isinstance(node, ast.Call) else None
				if isinstance(node, ast.Assign) and dotted(node.targets[0]) == "extra":
					given = node.value
				if isinstance(given, ast.Constant) and given.value == "forbid":
					return True
		return False

	def fields(self, model: Definition) -> Iterator[tuple[str, Record, Definition | None]]:
		"""(documented name, record, nested model) of each field; a subclass's own definition counts."""
		found: dict[str, tuple[str, Record, Definition | None]] = {}
		for each in reversed(list(self.package.bases(model))):
			scope = self.package.constants(each.module)
			for name, annotation, value in assignments(each.node):
				if name != "model_config" and not name.startswith("_"):
					inferred = annotation or ast.Name(_inferred(value, scope))
					found[name] = self.field(name, self.type(inferred, scope), value, scope)
		yield from found.values()

	def field(
		self, name: str, kind: Type, value: ast.expr | None, scope: Constants
	) -> tuple[str, Record, Definition | None]:
		given, default = _field_arguments(value)
		record: Record = {"type": kind.text, **({"choices": kind.choices} if kind.choices else {})}
		record |= _default(default, scope, kind)
		if self.generation == 1 and record.get("default", 0) is None and not kind.text.endswith("?"):
			record["type"] += "?"
		bounds = {test: value_of(given[test], scope) for test in BOUNDS if test in given}
		if bounds:
			record["bounds"] = bounds
		record |= _deprecation(given, scope)
		public = ast.literal_eval(given["alias"]) if "alias" in given else name
		if public != name:
			record["names"] = [name]
		return public, record, kind.model

	def type(self, node: ast.expr, scope: Constants) -> Type:
		text = dotted(node)
		if text in SIMPLE:
			return Type(SIMPLE[text])
		if isinstance(node, ast.Subscript):
			return self.generic(node, scope)
		entry = self.package.entry(scope.module, text)
		if isinstance(entry, Definition) and self.is_enum(entry):
			return Type("enum", list(dict.fromkeys(class_constants(entry, self.package).values())))
		if isinstance(entry, Definition):
			return Type("model", model=entry)
		if isinstance(entry, Expression):
			return self.type(entry.node, self.package.constants(entry.module))
		raise NotConstantError(f"no notation for the type {ast.unparse(node)}")

	def generic(self, node: ast.Subscript, scope: Constants) -> Type:
		name = dotted(node.value)
		parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
		if name == "Literal":
			return Type("literal", [ast.literal_eval(part) for part in parts])
		if name in ("Dict", "dict", "Tuple", "tuple"):
			return Type(SIMPLE[name.lower()])
		inner = [self.type(part, scope) for part in parts]
		text = {"Optional": "{}?", "List": "list[{}]", "list": "list[{}]", "Union": "{}"}[name].format(
			"|".join(each.text for each in inner)
		)
		return Type(text, inner[0].choices, inner[0].model)

	def is_enum(self, definition: Definition) -> bool:
		return isinstance(definition.node, ast.ClassDef) and "Enum" in self.package.base_names(definition)


def _inferred(value: ast.expr | None, scope: Constants) -> str:
	assert value is not None
	return type(value_of(value, scope)).__name__


def _field_arguments(value: ast.expr | None) -> tuple[dict[str, ast.expr], ast.expr | None]:
	if not (isinstance(value, ast.Call) and dotted(value.func) == "Field"):
		return {}, value
	given = keywords(value)
	extra = given.get("json_schema_extra")
	if isinstance(extra, ast.Dict):
		given |= {ast.literal_eval(key): item for key, item in zip(extra.keys, extra.values, strict=True) if key}
	first = value.args[0] if value.args else None
	return given, first or given.get("default") or given.get("default_factory")


def _default(node: ast.expr | None, scope: Constants, kind: Type) -> Record:
	if node is None:
		return {"required": True}
	if kind.model is not None:
		return {}
	return {"default": value_of(node, scope)}


def _deprecation(given: dict[str, ast.expr], scope: Constants) -> Record:
	if "deprecated" not in given or not value_of(given["deprecated"], scope):
		return {}
	replaced = given.get("new_param")
	return {"deprecated": True, **({"replaced_by": ast.literal_eval(replaced)} if replaced else {})}
