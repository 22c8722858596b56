"""Config file, command line, enums and constants of one Accelerate release, read from its source."""

import argparse
import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
	first_sentence,
	functions,
	keywords,
	parse,
	value_or_text,
)

CONFIG_CLASSES = ("BaseConfig", "ClusterConfig", "SageMakerConfig")


def config_facts(package: Path) -> Facts:
	names = package_constants(package)
	loader = parse(package / "commands/config/config_args.py")
	launch = parse(package / "commands/launch.py")
	kinds = parse(package / "utils/dataclasses.py")
	known_enums = enums(kinds)
	custom_parser = package / "commands/utils.py"
	parser_source = custom_parser.read_text(encoding="utf-8") if custom_parser.exists() else ""
	is_custom = "class CustomArgumentParser" in parser_source
	members = {f"{path[1]}.{path[2]}": value for path, value in known_enums.items()}
	return {
		**config_fields(loader, names),
		**loading(classes(loader)["BaseConfig"], members),
		("command_line", "hyphens"): is_custom,
		("command_line", "remembers_given"): "nondefault" in parser_source,
		**options(functions(launch)["launch_command_parser"], names, is_custom),
		**merging(functions(launch)["_validate_launch_command"]),
		**known_enums,
		**literals(kinds),
		**constant_facts(package),
	}


def package_constants(package: Path) -> dict[str, Any]:
	names = constants(parse(package / "utils/constants.py"))
	return {**names, **constants(parse(package / "commands/config/config_utils.py"), names)}


LIBRARY_NAMES = {"argparse.REMAINDER": argparse.REMAINDER}


# --- the config file ---


def config_fields(module: ast.Module, names: Mapping[str, Any]) -> Facts:
	facts: Facts = {}
	for owner in CONFIG_CLASSES:
		known = dict(names)
		for name, annotation, value in assignments(classes(module)[owner]):
			record: dict[str, Any] = {"type": annotation_text(annotation)} if annotation else {}
			if value is not None:
				record.update(dataclass_default(value, known))
				known[name] = record.get("default")
			facts["fields", owner, name] = record
	return facts


def loading(base: ast.ClassDef, names: Mapping[str, Any]) -> Facts:
	"""What the loader does with keys that are missing, old or unknown, before it builds the config class."""
	methods = functions(base)
	reader = methods["from_yaml_file"]
	steps = methods.get("process_config", reader)
	facts: Facts = {("loading", "unknown_keys"): "ValueError" if "extra_keys" in ast.unparse(reader) else "TypeError"}
	if "isinstance(config_dict['mixed_precision'], bool)" in ast.unparse(steps):
		facts["loading", "mixed_precision_false"] = "no"
	for test, body, _ in branches(steps):
		key, missing = _membership(test)
		if key and missing:
			facts.update(_when_missing(key, test, body, names))
		elif key:
			facts["old_keys", key] = {"fp16": "mixed_precision", "dynamo_backend": "dynamo_config"}.get(key, "")
	return facts


def _membership(test: ast.expr) -> tuple[str, bool]:
	first = test.values[0] if isinstance(test, ast.BoolOp) else test
	match first:
		case ast.Compare(left=ast.Constant(value=str(key)), ops=[operator], comparators=[ast.Name(id="config_dict")]):
			return key, isinstance(operator, ast.NotIn)
	return "", False


def _when_missing(key: str, test: ast.expr, body: list[ast.stmt], names: Mapping[str, Any]) -> Facts:
	match body[0]:
		case ast.Raise(exc=ast.Call(func=ast.Name(id=error))):
			return {("loading", f"missing {key}"): error}
		case ast.Assign(value=value):
			plain = value.orelse if isinstance(value, ast.IfExp) else value
			filled: dict[str, Any] = {"value": value_or_text(plain, names)}
			if isinstance(test, ast.BoolOp):
				filled["when"] = ast.unparse(test.values[1])
			return {("fills", key): filled}
	return {}


# --- the command line ---


def options(function: FunctionNode, names: Mapping[str, Any], custom_parser: bool) -> Facts:
	"""Every option of ``accelerate launch``, and the first sentence of its help apart from it.

	The custom parser (since 0.28.0) leaves a flag that is in no group at None until it is given.
	"""
	groups: dict[str, str] = {}
	facts: Facts = {}
	for node in ast.walk(function):
		match node:
			case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(func=ast.Attribute(attr=attr)) as call) if (
				attr == "add_argument_group"
			):
				groups[variable] = str(evaluate(call.args[0]))
	for node in ast.walk(function):
		match node:
			case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="add_argument")):
				dest, record, text = _option(node, names)
				if ("options", dest) in facts:  # `--no_tpu_cluster`: the first option of a destination sets its default
					facts["options", dest]["negated"] = record["flags"]
					continue
				if record.get("action") == "store_true" and "default" not in record:
					record["default"] = None if custom_parser and owner == "parser" else False
				facts["options", dest] = {**record, **({"group": groups[owner]} if owner in groups else {})}
				facts["help", dest] = first_sentence(text)
	return facts


def _option(call: ast.Call, names: Mapping[str, Any]) -> tuple[str, dict[str, Any], str]:
	flags = [str(evaluate(argument)) for argument in call.args]
	given = keywords(call)
	long = next((flag for flag in flags if flag.startswith("--")), flags[0])
	dest = str(evaluate(given.pop("dest"))) if "dest" in given else long.lstrip("-").replace("-", "_")
	text = str(evaluate(given.pop("help"))) if "help" in given else ""
	record: dict[str, Any] = {"flags": flags} if flags[0].startswith("-") else {"flags": []}
	for name, node in given.items():
		record[name] = ast.unparse(node) if name == "type" else value_or_text(node, {**names, **LIBRARY_NAMES})
	return dest, record, text


# --- file into command line ---


def merging(function: FunctionNode) -> Facts:
	"""How the blocks and scalars of a file reach the launcher's arguments.

	``blocks`` has the blocks that the loop knows, with the prefix it puts before keys that lack it and the test
	for lacking it; ``*`` stands for any key with a mapping as its value.
	"""
	loop = next(
		node
		for node in ast.walk(function)
		if isinstance(node, ast.For) and ast.unparse(node.iter) == "defaults.__dict__.items()"
	)
	text = ast.unparse(loop)
	facts: Facts = {
		("merging", "given_option_wins"): "args.nondefault" in text,
		("merging", "scalars"): "where the option is None" if "getattr(args, name, None) is None" in text else "",
		("merging", "set_apart"): _set_apart(loop),
	}
	for node in ast.walk(loop):
		match node:
			case ast.For(iter=ast.Attribute(value=ast.Name(id="defaults"), attr=block)):
				facts["blocks", block] = _prefix(node)
			case ast.For(iter=ast.Call(func=ast.Attribute(value=ast.Name(id="attr"), attr="items"))):
				facts["blocks", "*"] = {}
			case ast.If(test=ast.BoolOp(values=[ast.Compare(comparators=[ast.Constant(value=str(block))]), _])):
				facts["blocks", block] = _prefix(node)
	return facts


def _set_apart(loop: ast.For) -> list[str]:
	for node in ast.walk(loop):
		if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
			try:
				return [str(name) for name in evaluate(node.comparators[0])]
			except (NotConstantError, TypeError):
				continue
	return []


def _prefix(branch: ast.For | ast.If) -> dict[str, str]:
	rule: dict[str, str] = {}
	parts = [branch.test, *branch.body] if isinstance(branch, ast.If) else branch.body
	for node in (inner for part in parts for inner in ast.walk(part)):
		match node:
			case ast.BinOp(left=ast.Constant(value=str(prefix)), op=ast.Add()):
				rule["prefix"] = prefix
			case ast.Compare(left=ast.Constant(value=str(mark)), ops=[ast.NotIn()], comparators=[ast.Name()]):
				rule.update(test="contains", unless=mark)
			case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=str(mark))]):
				rule.update(test="startswith", unless=mark)
	return rule


# --- names with values ---


def enums(module: ast.Module) -> Facts:
	"""Members with their values; a descriptor in an enum's body (``TPU`` in 0.28.0) is no member."""
	facts: Facts = {}
	for name, node in classes(module).items():
		if not any(dotted(base).endswith(("Enum", "Flag")) for base in node.bases):
			continue
		for member, _, value in assignments(node):
			if isinstance(value, ast.Constant):
				facts["enums", name, member] = value.value
	return facts


def literals(module: ast.Module) -> Facts:
	return {
		("literals", name): evaluate(value.slice if isinstance(value.slice, ast.Tuple) else ast.List([value.slice]))
		for name, _, value in assignments(module)
		if isinstance(value, ast.Subscript) and dotted(value.value).split(".")[-1] == "Literal"
	}


def constant_facts(package: Path) -> Facts:
	questionnaire = package_constants(package)
	return {("constants", name): value for name, value in questionnaire.items() if name.isupper()}
