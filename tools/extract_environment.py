"""Which environment variables one Accelerate release reads, and where, read from its source."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from extract_field_sources import FLAGS, GETTERS
from extraction import Facts, FunctionNode, NotConstantError, constants, dotted, evaluate, parse

READERS = GETTERS | FLAGS | {"getenv"}
ENVIRONMENT = "os.environ"


def environment_facts(package: Path) -> Facts:
	"""("environment", variable) → the places that read it, as ``module:function`` or ``module:Class.method``.

	Where a part of the name is known only when it runs, ``*`` stands for it.
	"""
	places: dict[str, set[str]] = defaultdict(set)
	for file in sorted(package.rglob("*.py")):
		module = file.relative_to(package).with_suffix("").as_posix()
		if not module.startswith("test_utils/"):
			tree = parse(file)
			for name, place in _reads(tree, "", constants(tree)):
				places[name].add(f"{module}:{place}".rstrip(":"))
	return {("environment", name): sorted(where) for name, where in places.items()}


def _reads(scope: ast.AST, place: str, names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
	"""(variable, place) of a scope, after the constants that are bound in it."""
	known = dict(names)
	for node in _own_nodes(scope):
		if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
			try:
				known[node.targets[0].id] = evaluate(node.value, known)
			except NotConstantError:
				known.pop(node.targets[0].id, None)
		for key in _keys(node):
			yield from ((name, place) for name in _variables(key, known))
		if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
			yield from _reads(node, f"{place}.{node.name}".lstrip("."), _without_parameters(node, known))


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
	for node in ast.iter_child_nodes(scope):
		yield node
		if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
			yield from _own_nodes(node)


def _without_parameters(node: ast.ClassDef | FunctionNode, known: Mapping[str, Any]) -> dict[str, Any]:
	if isinstance(node, ast.ClassDef):
		return dict(known)
	own = {argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
	return {name: value for name, value in known.items() if name not in own}


def _keys(node: ast.AST) -> Iterator[ast.expr]:
	match node:
		case ast.Call(func=function, args=[key, *_]) if dotted(function) in READERS:
			yield key
		case ast.Subscript(value=owner, slice=key, ctx=ast.Load()) if dotted(owner) == ENVIRONMENT:
			yield key
		case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[owner]) if dotted(owner) == ENVIRONMENT:
			yield key


def _variables(key: ast.expr, known: Mapping[str, Any]) -> list[str]:
	if isinstance(key, ast.List | ast.Tuple):
		return [name for item in key.elts for name in _variables(item, known)]
	name = _pattern(key, known)
	return [name] if any(letter.isalpha() for letter in name) else []


def _pattern(node: ast.expr, known: Mapping[str, Any]) -> str:
	try:
		return str(evaluate(node, known))
	except NotConstantError:
		pass
	match node:
		case ast.BinOp(left=left, op=ast.Add(), right=right):
			return _pattern(left, known) + _pattern(right, known)
		case ast.JoinedStr(values=parts):
			return "".join(_pattern(part, known) for part in parts)
	return "*"
