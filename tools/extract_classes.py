"""The Python surface of one Accelerate release: plugins, handlers, configs and entry points, with their parameters."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from extract_config import literals, package_constants
from extraction import (
	Facts,
	NotConstantError,
	annotation_text,
	assignments,
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
CONSTRUCTORS = {
	"accelerator.py": ("Accelerator",),
	"state.py": ("PartialState", "AcceleratorState"),
	"local_sgd.py": ("LocalSGD",),
	"utils/deepspeed.py": ("DummyOptim", "DummyScheduler", "HfDeepSpeedConfig"),
}
ENTRY_POINTS = {
	"launchers.py": ("notebook_launcher", "debug_launcher"),
	"utils/bnb.py": ("load_and_quantize_model",),
	"utils/other.py": ("write_basic_config",),
	"commands/config/default.py": ("write_basic_config",),
}
METHODS_OF_ACCELERATOR = (
	*("prepare", "accumulate", "clip_grad_norm_", "save_state", "load_state"),
	*("autocast", "get_state_dict", "no_sync", "save_model", "unwrap_model"),
)
METHODS = {"accelerator.py": {"Accelerator": METHODS_OF_ACCELERATOR}}


def class_facts(package: Path) -> Facts:
	"""("parameters", class or function, name) → type, default and checked values; ("bases", class) → base classes."""
	names = package_constants(package)
	facts: Facts = {}
	for module in DATACLASS_MODULES:
		if (package / module).exists():
			facts.update(_dataclasses(parse(package / module), names))
	for module, wanted in CONSTRUCTORS.items():
		found = classes(parse(package / module))
		for owner in wanted:
			if owner in found:
				facts.update(_signature(owner, found[owner], "__init__", names))
	for module, methods in METHODS.items():
		for owner, wanted in methods.items():
			for method in wanted:
				facts.update(_signature(f"{owner}.{method}", classes(parse(package / module))[owner], method, names))
	for module, wanted in ENTRY_POINTS.items():
		if (package / module).exists():
			for name in wanted:
				facts.update(_signature(name, parse(package / module), name, names))
	return facts


def _signature(title: str, owner: ast.AST, name: str, names: Mapping[str, Any]) -> Facts:
	node = functions(owner).get(name)
	return (
		{} if node is None else {("parameters", title, *path): item for path, item in parameters(node, names).items()}
	)


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
	for test, body, orelse in _branches(setup):
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


def _branches(function: ast.AST) -> Iterator[tuple[ast.expr, list[ast.stmt], list[ast.stmt]]]:
	for node in ast.walk(function):
		if isinstance(node, ast.If):
			yield node.test, node.body, node.orelse


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
