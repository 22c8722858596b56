"""What the Trainer of each Transformers release reads of an FSDP, accelerator or bitsandbytes configuration.

One release of each minor version is read, as pinned in ``tools/releases.json.gz``. Nothing of a release is run.
"""

import ast
import contextlib
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extract_classes import checked_fields
from extract_config import enums
from extraction import (
	Facts,
	NotConstantError,
	annotation_text,
	assignments,
	classes,
	constants,
	dataclass_default,
	evaluate,
	functions,
	parameters,
)
from extraction_files import DataFile, main

ENUM_MODULES = ("transformers/trainer_utils.py", "transformers/training_args.py")
FSDP_READERS = ("transformers/training_args.py", "transformers/trainer.py", "transformers/integrations/tpu.py")
ENUMS = ("FSDPOption", "HubStrategy", "IntervalStrategy", "OptimizerNames", "SaveStrategy", "SchedulerType")
IMPORTED = {"FSDP_AUTO_WRAP_POLICY": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"]}  # from Accelerate


def minor(release: str) -> str:
	"""``4.57`` for 4.57.6: the facts of one patch release stand for its minor version."""
	return ".".join(release.split(".")[:2])


def trainer_facts(archive: Path) -> Facts:
	with zipfile.ZipFile(archive) as wheel:
		present = set(wheel.namelist())

		def module(name: str) -> ast.Module:
			return ast.parse(wheel.read(name).decode("utf-8"))

		known = [fact for name in ENUM_MODULES for fact in enums(module(name)).items()]
		members = {f"{path[1]}.{path[2]}": value for path, value in known}
		training = module("transformers/training_args.py")
		return {
			**{path: value for path, value in known if path[1] in ENUMS},
			**_fields("training_arguments", classes(training)["TrainingArguments"], members),
			**_fields(
				"accelerator_config", classes(module("transformers/trainer_pt_utils.py"))["AcceleratorConfig"], {}
			),
			**_bits_and_bytes(classes(module("transformers/utils/quantization_config.py"))["BitsAndBytesConfig"]),
			**_fsdp_keys({name: module(name) for name in FSDP_READERS if name in present}),
			("fsdp", "prefix_stripped"): "always" if _strips_always(training) else "in files",
			("packages", "accelerate"): constants(module("transformers/utils/import_utils.py"))[
				"ACCELERATE_MIN_VERSION"
			],
		}


def _fields(kind: str, node: ast.ClassDef, names: Mapping[str, Any]) -> Facts:
	facts: Facts = {}
	for name, annotation, value in assignments(node):
		if annotation is not None and "ClassVar" not in ast.unparse(annotation):
			record: dict[str, Any] = {"type": modern(annotation)}
			record.update(dataclass_default(value, names) if value is not None else {})
			facts[kind, name] = record
	return facts


def _bits_and_bytes(node: ast.ClassDef) -> Facts:
	setup = functions(node)
	checked = checked_fields(ast.Module([*setup["__init__"].body, *setup["post_init"].body], []), {})
	return {
		("bits_and_bytes", *path): {**record, **checked.get(path[0], {})}
		for path, record in parameters(setup["__init__"]).items()
	}


def modern(annotation: ast.expr) -> str:
	"""A type in today's spelling: ``Optional[Union[dict, str]]`` is ``dict | str | None``."""
	match annotation:
		case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
			return f"{modern(inner)} | None"
		case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
			return " | ".join(modern(part) for part in parts)
		case ast.Constant(value=str(text)):
			return text
	return annotation_text(annotation)


# --- fsdp_config ---


@dataclass
class KeyReader:
	"""Collects what a module reads of ``fsdp_config``, and for which FSDP version."""

	module: str
	found: dict[str, dict[str, Any]] = field(default_factory=dict)

	def visit(self, node: ast.AST, version: str, names: Mapping[str, Any]) -> None:
		match node:
			case ast.If(test=ast.Compare(left=ast.Name(id="fsdp_version" | "version"), ops=[ast.Eq()]), body=body):
				self.parts(body, "2", names)
				self.parts(node.orelse, "1", names)
				return
			case ast.For(target=ast.Name(id=name), iter=ast.List(elts=items), body=body) if all(
				isinstance(item, ast.Constant) for item in items
			):
				for item in items:
					self.parts(body, version, {**names, name: evaluate(item)})
				return
		for holder, key, default in _lookups(node):
			try:
				name = str(evaluate(key, names))
			except NotConstantError:
				continue
			self.add(name if holder == "fsdp_config" else f"xla_fsdp_settings.{name}", version, default)
		self.parts(list(ast.iter_child_nodes(node)), version, names)

	def parts(self, nodes: list[Any], version: str, names: Mapping[str, Any]) -> None:
		for node in nodes:
			self.visit(node, version, names)

	def add(self, key: str, version: str, default: ast.expr | None) -> None:
		record = self.found.setdefault(key, {"versions": set(), "defaults": {}})
		record["versions"].add(version)
		with contextlib.suppress(NotConstantError):
			if default is not None:
				record["defaults"].setdefault(version, evaluate(default, IMPORTED))


def _lookups(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
	match node:
		case ast.Call(func=ast.Attribute(value=owner, attr="get" | "setdefault" as how), args=[key, *rest]):
			# Where a legacy option string fills a key, the option is read, not the key.
			if _holder(owner) and not (how == "setdefault" and isinstance(owner, ast.Name)):
				yield _holder(owner), key, rest[0] if rest else None
		case ast.Subscript(value=owner, slice=key, ctx=ast.Load()) if _holder(owner):
			yield _holder(owner), key, None
		case ast.Compare(left=key, ops=[ast.In()], comparators=[owner]) if _holder(owner):
			yield _holder(owner), key, None


def _holder(node: ast.expr) -> str:
	name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
	return name if name in ("fsdp_config", "xla_fsdp_config") else ""


def _fsdp_keys(modules: Mapping[str, ast.Module]) -> Facts:
	facts: dict[str, dict[str, Any]] = {}
	for path, tree in modules.items():
		reader = KeyReader(Path(path).stem)
		reader.visit(tree, "", {})
		for key, seen in reader.found.items():
			record = facts.setdefault(key, {"readers": [], "versions": set(), "defaults": {}})
			record["readers"].append(reader.module)
			record["versions"] |= seen["versions"]
			record["defaults"] = {**seen["defaults"], **record["defaults"]}
	return {("fsdp_config", key): _key_record(seen) for key, seen in facts.items()}


def _key_record(seen: Mapping[str, Any]) -> dict[str, Any]:
	record: dict[str, Any] = {"readers": sorted(seen["readers"])}
	defaults = seen["defaults"]
	if "" in defaults or len(defaults) == 1:
		record["default"] = defaults.get("", next(iter(defaults.values())))
	elif defaults:
		record["default_by_version"] = defaults
	if seen["versions"] in ({"1"}, {"2"}):
		(record["only_version"],) = seen["versions"]
	return record


def _strips_always(training: ast.Module) -> bool:
	for node in ast.walk(classes(training)["TrainingArguments"]):
		if isinstance(node, ast.With) and "startswith('fsdp_')" in ast.unparse(node):
			return False
	return True


FILES = (DataFile("transformers.json", "transformers", trainer_facts, named=minor, archive=True),)

if __name__ == "__main__":
	sys.exit(main(__doc__.splitlines()[0], FILES))
