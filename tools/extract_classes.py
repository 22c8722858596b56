"""The Python surface of one Accelerate release: plugins, handlers, configs and entry points, with their parameters."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from extract_config import literals, package_constants
from extraction import (
	Facts,
	FunctionNode,
	NotConstantError,
	annotation_text,
	assignments,
	branches,
	classes,
	constants,
	dataclass_default,
	dotted,
	evaluate,
	functions,
	parameters,
	parse,
)

DATACLASS_MODULES = ("utils/dataclasses.py", "parallelism_config.py")
# By module what else is called: functions, classes for their constructors, and methods behind the name of a class.
CALLED = {
	"accelerator.py": (
		"Accelerator",
		*("Accelerator.prepare", "Accelerator.accumulate", "Accelerator.clip_grad_norm_", "Accelerator.save_state"),
		*("Accelerator.load_state", "Accelerator.autocast", "Accelerator.get_state_dict", "Accelerator.no_sync"),
		*("Accelerator.save_model", "Accelerator.unwrap_model"),
	),
	"state.py": ("PartialState", "AcceleratorState"),
	"local_sgd.py": ("LocalSGD",),
	"utils/deepspeed.py": ("DummyOptim", "DummyScheduler", "HfDeepSpeedConfig"),
	"launchers.py": ("notebook_launcher", "debug_launcher"),
	"utils/bnb.py": ("load_and_quantize_model",),
	"utils/other.py": ("write_basic_config",),
	"commands/config/default.py": ("write_basic_config",),
}


def class_facts(package: Path) -> Facts:
	"""("parameters", class or function, name) → type, default and checked values; ("bases", class) → base classes."""
	names = package_constants(package)
	facts: Facts = {}
	for module in DATACLASS_MODULES:
		if (package / module).exists():
			facts.update(_dataclasses(parse(package / module), names))
	for module, wanted in CALLED.items():
		if (package / module).exists():
			tree = parse(package / module)
			for title in wanted:
				if function := _called(tree, title):
					found = parameters(function, names)
					facts.update({("parameters", title, *path): item for path, item in found.items()})
	return facts


def _called(module: ast.Module, title: str) -> FunctionNode | None:
	owner, _, method = title.partition(".")
	scope = classes(module).get(owner)
	return functions(scope).get(method or "__init__") if scope else functions(module).get(owner)


def _dataclasses(module: ast.Module, names: Mapping[str, Any]) -> Facts:
	known = {**names, **constants(module, names), **{path[1]: value for path, value in literals(module).items()}}
	facts: Facts = {}
	for owner, node in classes(module).items():
		if not _is_dataclass(node):
			continue
		bases = [dotted(base) for base in node.bases if dotted(base) not in ("", "object")]
		if bases:
			facts["bases", owner] = bases
		checked = _checks(node, known)
		for name, annotation, value in assignments(node):
			if annotation is None or "ClassVar" in ast.unparse(annotation):
				continue
			record = {"type": annotation_text(annotation)}
			record.update(dataclass_default(value, known) if value is not None else {})
			facts["parameters", owner, name] = {**record, **checked.get(name, {})}
	return facts


def _is_dataclass(node: ast.ClassDef) -> bool:
	return any(
		dotted(item.func if isinstance(item, ast.Call) else item).endswith("dataclass") for item in node.decorator_list
	)


# --- what a class checks of its own fields ---


def _checks(node: ast.ClassDef, names: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
	setup = functions(node).get("__post_init__")
	return {} if setup is None else checked_fields(setup, names)


def checked_fields(setup: ast.AST, names: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
	"""``allowed``: the values beside which a body raises; ``instance``: the types beside which it does."""
	found: dict[str, dict[str, Any]] = {}
	known = {**names, **constants(setup, names)}
	types: dict[str, list[str]] = {}
	refused: set[str] = set()
	for test, body, orelse in branches(setup):
		for name, values in _listed(test, body, known):
			found.setdefault(name, {})["allowed"] = values
		chained = _chained(test, orelse)
		if chained:
			found.setdefault(chained[0], {}).setdefault("allowed", chained[1])  # its tail comes again as a branch
		for name, kinds, negated in _instances(test):
			types.setdefault(name, []).extend(kind for kind in kinds if kind not in types.get(name, []))
			if negated and isinstance(body[0], ast.Raise):
				refused.add(name)
	for name in (name for name in refused if types[name]):
		found.setdefault(name, {})["instance"] = types[name]
	return found


def _own_field(node: ast.expr) -> str:
	match node:
		case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.Name(id=name):
			return name
		case ast.Call(func=ast.Attribute(value=inner, attr="upper" | "lower"), args=[]):
			return _own_field(inner)
	return ""


def _listed(test: ast.expr, body: list[ast.stmt], names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
	match test:
		case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[values]) if isinstance(body[0], ast.Raise):
			match values:
				case ast.Call(func=ast.Name(id="get_args"), args=[values]):
					pass
			try:
				yield _own_field(left), evaluate(values, names)
			except NotConstantError:
				return


def _chained(test: ast.expr, orelse: list[ast.stmt]) -> tuple[str, list[Any]] | None:
	"""(field, values) of ``if self.x == "a": … elif self.x == "b": … else: raise``."""
	values = []
	name = ""
	branch: ast.expr = test
	while True:
		match branch:
			case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if _own_field(left):
				if name not in ("", _own_field(left)):
					return None
				name = _own_field(left)
				values.append(value)
			case _:
				return None
		match orelse:
			case [ast.If(test=branch, orelse=orelse)]:
				continue
			case [ast.Raise(), *_]:
				return (name, values) if len(values) > 1 else None
			case _:
				return None


def _instances(test: ast.expr) -> Iterator[tuple[str, list[str], bool]]:
	"""(field, types, negated) of an ``isinstance`` test, alone or beside ``is not None``, which allows None."""
	parts = test.values if isinstance(test, ast.BoolOp) else [test]
	others = [ast.unparse(part) for part in parts if "isinstance" not in ast.unparse(part)]
	if any("is not None" not in other for other in others):
		return
	for part in parts:
		negated = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not)
		call = part.operand if isinstance(part, ast.UnaryOp) else part
		match call:
			case ast.Call(func=ast.Name(id="isinstance"), args=[field, kinds]) if _own_field(field):
				items = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
				yield (
					_own_field(field),
					[dotted(item) for item in items if dotted(item)] + ["None"] * len(others),
					negated,
				)
