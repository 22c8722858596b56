"""Python scripts and notebooks: the calls of Accelerate's and the Trainer's classes, read by `ast` and never run.

The data is {"calls": [{"name", "module", "arguments", "positional", "open", "main", "conditional", "shapes"}],
"members": [{"enum", "member", "sure"}]}. What only running the script would tell is OPEN; an object that another call
makes is `Made`, a name of a library `Symbol`. `open` says that a call has arguments that are not known by name, `main`
that only one process comes there, `conditional` that the script asks first what the library has, or catches a failure;
`shapes` are those of the arguments of `prepare`.

Statements that are too deep for Python's own parser, `1+1+…` of thousands of terms, are left open.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from ..knowledge import history
from ..model import Extent, Kind, Pointer
from .document import OPEN, Document
from .json_source import parse_json
from .limits import LimitError
from .python_scopes import Scope, Seen, Walk, dotted_name, followed, shape
from .python_values import Made, Symbol, Values

PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
METHODS = frozenset({"prepare", "save_state", "load_state", "save_model", "accumulate", "get_state_dict"})
LATE = ("gradient_accumulation_steps", "parallelism_config", "accelerator_config")  # read by the Trainer only
_ROOTS = r"accelerate|transformers|trl|sentence_transformers"
TRAINER = r"\w*Trainer|HfArgumentParser|TrlParser"
TRAINING = re.compile(r"\w*TrainingArguments|(?:SFT|DPO|GRPO|KTO|PPO|PPOv2|ORPO|CPO|RLOO|Reward|OnlineDPO)Config")


def parse_python(path: str, text: str, kind: Kind = "python") -> Document:
	"""Read a script or a notebook. Raises `LimitError`, which names the line where Python's own parser gives up."""
	code = Code(text)
	if text.lstrip().startswith("{"):
		code = notebook(path, text) or code
	try:
		try:
			tree, code = _parsed(code)
		except (RecursionError, MemoryError):
			tree, code = _parsed(code._replace(text=shallow(code.text)))
		return _Reader(path, text, kind, code, tree).document
	except (RecursionError, MemoryError):
		raise LimitError("too-deep", f"it is nested deeper than the parser of {PYTHON} goes") from None


def _parsed(code: Code) -> tuple[ast.Module, Code]:
	try:
		return _tree(code.text), code
	except SyntaxError as error:
		plain = code._replace(text=blanked(code.text))  # an exported notebook keeps its magics
		if plain.text != code.text and code.places is None:
			try:
				return _tree(plain.text), plain
			except SyntaxError:
				pass
		raise _refusal(code, error) from None
	except ValueError as error:
		raise LimitError("python-syntax", f"it is no Python script: {error}") from None


def _tree(text: str) -> ast.Module:
	with warnings.catch_warnings():
		warnings.simplefilter("ignore")  # invalid escapes are the script's business
		return ast.parse(text)


def _refusal(code: Code, error: SyntaxError) -> LimitError:
	line = error.lineno or 1
	where = f"line {line}"
	if code.places is not None:
		where += f" of its code cells, {''.join(lines_of(code.text)[line - 1 : line]).strip()[:60]!r}"
	old = "; it looks like Python 2" if "Missing parentheses" in str(error.msg) else ""
	return LimitError("python-syntax", f"it cannot be parsed: {where}: {error.msg} ({PYTHON}){old}")


def lines_of(text: str) -> list[str]:
	return re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)


class Positions:
	"""From the lines and bytes that `ast` counts to code points of the file."""

	def __init__(self, code: Code) -> None:
		self.code, self.lines = code, lines_of(code.text)
		self.starts = [0, *accumulate(map(len, self.lines))]
		self._bytes: dict[int, list[int]] = {}

	def offset(self, line: int, column: int) -> int:
		start = self.starts[line - 1]
		if line not in self._bytes:
			text = self.lines[line - 1]
			sizes = (len(character.encode("utf-8", "surrogatepass")) for character in text)
			self._bytes[line] = [] if text.isascii() else [0, *accumulate(sizes)]
		places = self._bytes[line]
		return start + (bisect_right(places, column) - 1 if places else column)

	def extent(self, node: Any) -> Extent:
		start = self.offset(node.lineno, node.col_offset)
		return self.code.extent(start, self.offset(node.end_lineno, node.end_col_offset))


class _Reader:
	"""Makes a document of a tree."""

	def __init__(self, path: str, text: str, kind: Kind, code: Code, tree: ast.Module) -> None:
		self.walk = Walk(tree)
		self.known = frozenset(history.branch("accelerate_api.json", ("parameters",)))
		self.extent = Positions(code).extent
		bases = [(node.name, dotted_name(base, scope)) for node, scope in self.walk.classes for base in node.bases]
		self.relatives = {name for name, base in bases if TRAINING.fullmatch(base.rpartition(".")[2])}
		self.modules = frozenset(name for name, base in bases if base.endswith((".Module", ".PreTrainedModel")))
		named = [(seen, name) for seen in self.walk.calls if (name := self._name(seen))]
		indices: dict[ast.AST, Made] = {seen.node: Made(name[1], place) for place, (seen, name) in enumerate(named)}
		self.values = Values(self.extent, indices)
		calls = [self._call(place, seen, *name) for place, (seen, name) in enumerate(named)]
		for node, scope, _ in (*self.walk.calls, *self.walk.attributes):
			self._changed(node, scope, calls)
		data = {"calls": calls, "members": list(self._members()), "trainers": list(self._trainers())}
		self.document = Document(path, kind, "python", text, data, self.values.nodes)

	def _name(self, seen: Seen) -> tuple[str, str] | None:
		function = seen.node.func if isinstance(seen.node, ast.Call) else seen.node
		dotted = dotted_name(function, seen.scope)
		root, name = dotted.partition(".")[0], dotted.rpartition(".")[2]
		if root == "accelerate" and name in self.known:
			return root, name
		if dotted:
			training = root in _ROOTS.split("|") and TRAINING.fullmatch(name)
			return (root, name) if training else None
		if isinstance(function, ast.Name) and not seen.scope.bindings(function.id):
			return self._unbound(function.id)
		if isinstance(function, ast.Name) and function.id in self.relatives:
			return "", function.id
		if not isinstance(function, ast.Attribute) or function.attr not in METHODS:
			return None
		return ("accelerate", f"Accelerator.{function.attr}") if self._is_accelerator(function.value, seen) else None

	def _unbound(self, name: str) -> tuple[str, str] | None:
		if name in self.known and (name[:1].isupper() or self.walk.module.stars):
			return "accelerate", name
		return ("transformers", name) if name == "TrainingArguments" else None

	def _is_accelerator(self, node: ast.expr, seen: Seen) -> bool:
		if isinstance(node, ast.Attribute):
			return node.attr == "accelerator"
		if not isinstance(node, ast.Name):
			return False
		last, scope = list(followed(node, seen.scope))[-1]
		made = isinstance(last, ast.Call) and dotted_name(last.func, scope).endswith("Accelerator")
		return made or node.id == "accelerator"

	def _call(self, place: int, seen: Seen, module: str, name: str) -> dict[str, Any]:
		node, base = seen.node, ("calls", place)
		assert isinstance(node, ast.Call)
		self.values.note(base, node, self.extent(node.func))
		self.values.note((*base, "arguments"), node)
		positional = []
		for number, item in enumerate(node.args):
			self.values.note((*base, "positional", number), item)
			if not isinstance(item, ast.Starred):
				positional.append(self.values.value(item, seen.scope, (*base, "positional", number)))
		arguments, known = self.values.keywords(node, seen.scope, (*base, "arguments"))
		shapes = [shape(item, seen.scope, self.modules) for item in node.args] if name.endswith(".prepare") else []
		return {
			"name": name,
			"module": module,
			"arguments": arguments,
			"positional": positional,
			"open": not known or len(positional) < len(node.args),
			"main": seen.guard.main,
			"conditional": seen.guard.conditional,
			"shapes": shapes,
		}

	def _changed(self, node: ast.expr, scope: Scope, calls: list[dict[str, Any]]) -> None:
		"""Leave open what a script changes of TrainingArguments that it has made, where that still counts."""
		changed: list[tuple[str | None, ast.expr]] = []
		owner = node.value if isinstance(node, ast.Attribute) else None
		if isinstance(node, ast.Call) and node.args and dotted_name(node.func, scope) == "dataclasses.replace":
			owner, changed = node.args[0], [(one.arg, one.value) for one in node.keywords]
		elif isinstance(node, ast.Attribute) and node.attr in LATE and isinstance(node.ctx, ast.Store):
			changed = [(node.attr, node)]
		elif isinstance(node, ast.Attribute) and node.attr == "set_training":
			changed = [(LATE[0], node)]
		made = self.values.value(owner, scope, ()) if owner and changed else None
		call: dict[str, Any] = calls[made.call] if isinstance(made, Made) else {"module": "accelerate"}
		for name, value in changed if call["module"] != "accelerate" else ():
			call["open"] |= name is None
			if made and name:
				call["arguments"][name] = OPEN
				self.values.note(("calls", made.call, "arguments", name), value, self.extent(value))

	def _trainers(self) -> Iterator[dict[str, Any]]:
		"""Who takes TrainingArguments: a Trainer, or what parses them; `args` is None where it gets none."""
		place = 0
		for node, scope, _ in self.walk.calls:
			function = node.func if isinstance(node, ast.Call) else node
			dotted = dotted_name(function, scope)
			root, name = dotted.partition(".")[0], dotted.rpartition(".")[2] or getattr(function, "id", "")
			if not isinstance(node, ast.Call) or not re.fullmatch(TRAINER, name):
				continue
			given = [one.value for one in node.keywords if one.arg in ("args", None)] or node.args[1:2]
			args = self.values.value(given[0], scope, ()) if given else None
			taken = isinstance(args, Made) and (TRAINING.fullmatch(args.name) or args.name in self.relatives)
			if taken or re.fullmatch(_ROOTS, root):
				self.values.note(("trainers", place), node, self.extent(function))
				place += 1
				yield {"name": name, "module": root, "args": OPEN if name.endswith("Parser") else args}

	def _members(self) -> Iterator[dict[str, Any]]:
		place = 0
		for seen in self.walk.attributes:
			node = seen.node
			dotted = dotted_name(node, seen.scope) if isinstance(node, ast.Attribute) and node.attr.isupper() else ""
			if dotted.startswith("accelerate."):
				symbol = Symbol.of(dotted)
				self.values.note(("members", place), node)
				place += 1
				sure = not seen.guard.branch and not seen.guard.conditional
				yield {"enum": symbol.owner, "member": str(symbol), "sure": sure}


_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LINE = re.compile(r"(?m)^([ \t]*)([!%?][^\n]*)$|^([ \t]*)([A-Za-z_][\w.]*\?{1,2})[ \t]*$")
_ASSIGNED = re.compile(r"(?m)(?<==)([ \t]*)([!%][^\n]*)$")
_OTHER_LANGUAGE = re.compile(r"\s*%%(?!time|capture|timeit|prun|debug|memit|mprun|python|snoop)")


class Code(NamedTuple):
	"""Python code, and for each character of it the place in the file (None: the same place)."""

	text: str
	places: array[int] | None = None

	def extent(self, start: int, end: int) -> Extent:
		if self.places is None:
			return Extent(start, end)
		last = self.places[end - 1] + 1 if end > start else self.places[start]
		return Extent(self.places[start], max(last, self.places[start]))


def notebook(path: str, text: str) -> Code | None:
	"""The code cells of a notebook, one below the other; None for a text that is no notebook. Raises `LimitError`."""
	document = parse_json(path, text, "python")
	cells = document.get("cells")
	if not isinstance(cells, list):
		return None
	pieces: list[str] = []
	places = array("L")
	for number, cell in enumerate(cells):
		if not isinstance(cell, dict) or cell.get("cell_type") != "code":
			continue
		code, where = _cell(document, number, cell.get("source"))
		pieces.append(blanked("".join(code)) + "\n")
		places.extend(where)
		places.append(where[-1] if where else 0)
	places.append(places[-1] if places else 0)
	return Code("".join(pieces), places)


def _cell(document: Document, number: int, source: Any) -> tuple[list[str], array[int]]:
	lines = source if isinstance(source, list) else [source]
	code: list[str] = []
	places = array("L")
	for place, line in enumerate(lines):
		pointer: Pointer = ("cells", number, "source", *([place] if isinstance(source, list) else []))
		node = document.nodes.get(pointer)
		if node is not None and isinstance(line, str):
			for character, offset in _characters(document.text, node.value):
				code.append(character)
				places.append(offset)
	return code, places


def _characters(text: str, extent: Extent) -> Iterator[tuple[str, int]]:
	"""The characters of a JSON string, with their places; half of a surrogate pair becomes a question mark."""
	position, end = extent.start + 1, extent.end - 1
	while position < end:
		if text[position] != "\\":
			yield text[position], position
			position += 1
			continue
		found = _ESCAPE.match(text, position, end)
		if found is None:
			return
		escape = found.group()
		character = chr(int(escape[2:], 16)) if escape[1] == "u" else _SHORT.get(escape[1], escape[1])
		yield "?" if "\ud800" <= character <= "\udfff" else character, position
		position = found.end()


_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def blanked(code: str) -> str:
	"""A cell without what only Jupyter understands, each character in its place; other languages go as a whole."""
	if _OTHER_LANGUAGE.match(code):
		return re.sub(r"[^\n]", " ", code)
	joined = re.sub(r"(?m)^[ \t]*[!%](?:[^\n]*\\\n)+[^\n]*", _shortened, code)
	return _ASSIGNED.sub(_nothing, _LINE.sub(_nothing, joined))


def _shortened(found: re.Match[str]) -> str:
	first, *rest = found.group().split("\n")
	return "\n".join([first[:-1] + " ", *(" " * len(line) for line in rest)])


def _nothing(found: re.Match[str]) -> str:
	blank, magic = (group for group in found.groups() if group is not None)
	return blank + "0" + " " * (len(magic) - 1)


_SHORTEST = 1000  # a level takes a character at least, and no parser gives up before
_PIECE = re.compile(
	r"""("{3}|'{3})(?:\\.|[^\\])*?\1|(["'])(?:\\.|(?!\2)[^\\\n])*\2|\#[^\n]*|\\\r?\n|[][(){}\n]""", re.DOTALL
)
# what is kept: the names that a statement binds, or the word that it begins with
_HEAD = re.compile(
	r"[ \t]*(?:(?:[\w., *\[\]:]+[-+*/|]?=(?!=))+"
	r"|(?:(?:if|elif|while|return|assert|(?:async[ \t]+)?(?:with|for\b[^\n:]*?\bin)|class[ \t]+\w+)\b)?)"
)
_TAIL = re.compile(r"(?:[ \t]+as[ \t]+[^\n:]+)?:[ \t]*$")  # of a block
_OPEN = "\u0298"  # a name that nothing binds, of one letter


def shallow(code: str) -> str:
	"""The code with an open name for what is too deep in a statement; every line keeps its place."""
	return "".join(opened(line) if is_too_deep(line) else line for line in lines(code))


def lines(code: str) -> Iterator[str]:
	"""The logical lines of a code."""
	start = depth = 0
	for found in _PIECE.finditer(code):
		mark = found.group()
		depth = max(0, depth + (mark in "([{") - (mark in ")]}"))
		if mark == "\n" and not depth:
			yield code[start : found.end()]
			start = found.end()
	yield code[start:]


def is_too_deep(line: str) -> bool:
	try:
		if len(line) > _SHORTEST:
			ast.parse(alone(line))
	except (RecursionError, MemoryError):
		return True
	except (SyntaxError, ValueError):
		pass
	return False


def opened(line: str) -> str:
	head, end = _HEAD.match(line), len(line.rstrip())
	tail = _TAIL.search(line[end - 200 : end])
	kept, end = head.end() if head else 0, end - len(tail[0] if tail else "")
	blank = re.sub(r"[^\n]", " ", line[kept + 1 : end - 1]).replace(" ", _OPEN, 1)
	left = f"{line[:kept]}({blank}){line[end:]}"
	try:
		ast.parse(alone(left))
	except SyntaxError:
		raise RecursionError from None  # which is what it is
	return left


def alone(line: str) -> str:
	"""A logical line as a statement of its own."""
	text = re.sub(r"^elif\b", "if", line.strip())
	return text + " pass" * text.endswith(":")
