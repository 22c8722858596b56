"""What the extraction tools share: reading sources without importing them, and run-length encoding of facts.

A *fact* is a JSON value under a path of names, such as ``("options", "num_processes")``. The facts of many
releases become one tree whose leaves are spans ``[first release, last release or null, value]``; null means
that the newest release still has it, and a release outside every span does not have the fact at all.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

FactPath: TypeAlias = tuple[str, ...]
Facts: TypeAlias = dict[FactPath, Any]
Tree: TypeAlias = dict[str, Any]
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

HELP_LENGTH = 120


class NotConstantError(Exception):
	"""The value of an expression cannot be told without running it."""


def release_order(release: str) -> tuple[int, ...]:
	return tuple(int(part) for part in release.split("."))


# --- spans ---


def spans(values: Sequence[tuple[bool, Any]], releases: Sequence[str]) -> list[list[Any]]:
	"""Run-length encode one fact: ``values[i]`` is (present, value) in ``releases[i]``."""
	runs: list[list[Any]] = []
	previous = ""
	for release, (present, value) in zip(releases, values, strict=True):
		current = compact(value) if present else ""  # as text, since 1 equals True
		if present and current == previous:
			runs[-1][1] = release
		elif present:
			runs.append([release, release, value])
		previous = current
	for run in runs:
		if run[1] == releases[-1]:
			run[1] = None
	return runs


def encode(by_release: Mapping[str, Facts]) -> Tree:
	releases = sorted(by_release, key=release_order)
	tree: Tree = {}
	for path in sorted({path for facts in by_release.values() for path in facts}):
		values = [(path in by_release[name], by_release[name].get(path)) for name in releases]
		branch = tree
		for name in path[:-1]:
			branch = branch.setdefault(name, {})
		branch[path[-1]] = spans(values, releases)
	return tree


def leaves(tree: Mapping[str, Any], path: FactPath = ()) -> Iterator[tuple[FactPath, list[list[Any]]]]:
	for name, below in tree.items():
		if isinstance(below, list):
			yield (*path, name), below
		else:
			yield from leaves(below, (*path, name))


def facts_of(tree: Mapping[str, Any], release: str) -> Facts:
	"""The facts that a tree of spans states about one release: the inverse of :func:`encode`."""
	at = release_order(release)
	return {
		path: value
		for path, runs in leaves(tree)
		for first, last, value in runs
		if release_order(first) <= at and (last is None or at <= release_order(last))
	}


def differences(committed: Facts, fresh: Facts) -> list[str]:
	lines = []
	for path in sorted(committed.keys() | fresh.keys()):
		name = "/".join(path)
		if path not in fresh:
			lines.append(f"{name}: only in the committed data")
		elif path not in committed:
			lines.append(f"{name}: missing from the committed data")
		elif compact(committed[path]) != compact(fresh[path]):
			lines.append(f"{name}: committed {compact(committed[path])}, fresh {compact(fresh[path])}")
	return lines


# --- files ---


def compact(value: Any) -> str:
	return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dump(tree: Mapping[str, Any]) -> str:
	"""JSON text with one fact on a line, so that a new release reads well in a diff."""
	return "\n".join(_lines(tree, 0)) + "\n"


def _lines(tree: Mapping[str, Any], depth: int) -> Iterator[str]:
	yield "{"
	for position, (name, below) in enumerate(tree.items()):
		comma = "," if position + 1 < len(tree) else ""
		head = " " * (depth + 1) + compact(name) + ":"
		if isinstance(below, dict) and below:
			first, *rest = _lines(below, depth + 1)
			yield head + first
			yield from rest[:-1]
			yield rest[-1] + comma
		else:
			yield head + compact(below) + comma
	yield " " * depth + "}"


def parse(path: Path) -> ast.Module:
	return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


# --- syntax trees ---


def definitions(node: ast.AST) -> Iterator[ast.stmt]:
	"""The statements of a module or class body, those under ``if`` and ``try`` included."""
	for part in ("body", "handlers", "orelse", "finalbody"):
		for statement in getattr(node, part, []):
			yield statement
			if isinstance(statement, ast.If | ast.Try | ast.ExceptHandler):
				yield from definitions(statement)


def classes(module: ast.AST) -> dict[str, ast.ClassDef]:
	return {node.name: node for node in definitions(module) if isinstance(node, ast.ClassDef)}


def functions(module: ast.AST) -> dict[str, FunctionNode]:
	"""Functions of a module (or methods of a class) by name; of redefinitions the last one counts."""
	kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
	return {node.name: node for node in definitions(module) if isinstance(node, kinds)}


def assignments(body: ast.AST) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
	"""(name, annotation, value) of the plain assignments of a module or class body."""
	for node in definitions(body):
		if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
			yield node.target.id, node.annotation, node.value
		elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
			yield node.targets[0].id, None, node.value


def branches(function: ast.AST) -> Iterator[tuple[ast.expr, list[ast.stmt], list[ast.stmt]]]:
	for node in ast.walk(function):
		if isinstance(node, ast.If):
			yield node.test, node.body, node.orelse


def dotted(node: ast.expr) -> str:
	"""``a.b.c`` for a chain of attributes on a name, else an empty string."""
	if isinstance(node, ast.Name):
		return node.id
	if isinstance(node, ast.Attribute):
		base = dotted(node.value)
		return f"{base}.{node.attr}" if base else ""
	return ""


def evaluate(node: ast.expr, names: Mapping[str, Any] | None = None) -> Any:
	"""The value of a constant expression over known names; raises :class:`NotConstantError` for any other."""
	known = names or {}
	match node:
		case ast.Constant(value=value):
			return value
		case ast.Name(id=name) if name in known:
			return known[name]
		case ast.Attribute() if dotted(node) in known:
			return known[dotted(node)]
		case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
			return [evaluate(item, known) for item in items]
		case ast.Dict(keys=keys, values=values):
			return {evaluate(k, known): evaluate(v, known) for k, v in zip(keys, values, strict=True) if k}
		case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(place))) if name in known:
			return known[name][place]
		case ast.UnaryOp(op=ast.USub(), operand=operand):
			return -evaluate(operand, known)
		case ast.BinOp():
			return _arithmetic(node, known)
		case ast.JoinedStr(values=parts):
			return "".join(str(evaluate(part, known)) for part in parts)
		case ast.FormattedValue(value=value, format_spec=None):
			return evaluate(value, known)
		case ast.ListComp(elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])]):
			return [evaluate(element, {**known, name: item}) for item in evaluate(source, known)]
		case ast.Call(func=ast.Attribute(value=text, attr="lower" | "upper" as method), args=[]):
			return getattr(str(evaluate(text, known)), method)()
		case ast.Call(func=ast.Name(id="int"), args=[number], keywords=[]):
			return int(evaluate(number, known))
	raise NotConstantError(ast.unparse(node))


def _arithmetic(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
	left, right = evaluate(node.left, names), evaluate(node.right, names)
	try:
		match node.op:
			case ast.Add():
				return left + right
			case ast.Mult():
				return left * right
			case ast.Pow():
				return left**right
	except TypeError:
		pass
	raise NotConstantError(ast.unparse(node))


def constants(module: ast.AST, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
	"""Upper-case and other plain names of a module that are bound to constant expressions."""
	found: dict[str, Any] = dict(names or {})
	own: dict[str, Any] = {}
	for name, _, value in assignments(module):
		if value is None:
			continue
		try:
			own[name] = found[name] = evaluate(value, found)
		except NotConstantError:
			continue
	return own


def value_or_text(node: ast.expr, names: Mapping[str, Any] | None = None) -> Any:
	"""The value of a constant expression, else ``{"expr": its source}``."""
	try:
		value = evaluate(node, names)
		json.dumps(value)
	except (NotConstantError, TypeError):
		return {"expr": ast.unparse(node)}
	return value


def keywords(call: ast.Call) -> dict[str, ast.expr]:
	return {item.arg: item.value for item in call.keywords if item.arg is not None}


def dataclass_default(node: ast.expr, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
	"""``{"default": …}`` of a field's right-hand side; empty where ``field()`` gives none."""
	if not (isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in ("field", "Field")):
		return {"default": value_or_text(node, names)}
	given = keywords(node)
	if "default" in given:
		return {"default": value_or_text(given["default"], names)}
	if "default_factory" in given:
		empty: dict[str, Any] = {"list": [], "dict": {}}
		made = dotted(given["default_factory"])
		return {"default": empty[made] if made in empty else value_or_text(given["default_factory"], names)}
	return {}


def annotation_text(node: ast.expr) -> str:
	"""A type as written, with ``List[str]`` of older releases spelled ``list[str]``."""
	return re.sub(r"\b(List|Dict|Tuple|Set|Type)\[", lambda found: found[0].lower(), ast.unparse(node))


def parameters(function: FunctionNode, names: Mapping[str, Any] | None = None) -> Facts:
	"""(name,) → {"type", "default"} of a function's parameters, without ``self``; ``**kwargs`` as such."""
	arguments = function.args
	positional = [*arguments.posonlyargs, *arguments.args]
	defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
	pairs = [
		*zip(positional, [*defaults, *arguments.defaults], strict=True),
		*zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
	]
	found: Facts = {}
	for argument, default in pairs:
		record = {} if argument.annotation is None else {"type": annotation_text(argument.annotation)}
		if default is not None:
			record["default"] = value_or_text(default, names)
		if argument.arg not in ("self", "cls"):
			found[(argument.arg,)] = record
	for stars, rest in (("*", arguments.vararg), ("**", arguments.kwarg)):
		if rest is not None:
			found[(stars + rest.arg,)] = {}
	return found


def first_sentence(text: str, limit: int = HELP_LENGTH) -> str:
	"""The first sentence of a help text, cut at a word where it is longer than the limit."""
	flat = " ".join(text.split())
	end = flat.find(". ")
	sentence = flat if end < 0 else flat[: end + 1]
	if len(sentence) <= limit:
		return sentence
	return sentence[: limit - 1].rsplit(" ", 1)[0] + "…"
