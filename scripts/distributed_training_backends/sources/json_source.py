"""JSON as `json.load` reads it, and as Hjson reads it for DeepSpeed, with the extent of every key and value.

A text is first read strictly. What strict JSON refuses is read once more as Hjson does, which DeepSpeed uses; the
departures from JSON are then noted as defects, because Accelerate and the Transformers Trainer refuse the file.

The walk over a text is one for both grammars; it keeps its own stack, so depth is data.
"""

import json
import json.decoder
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model import Extent, Kind, Pointer
from . import marks
from .document import Defect, Document, Node
from .limits import MAX_DEPTH, MAX_NODES, check_number, too_deep, too_many_nodes

_NOWHERE = Extent(0, 0)
_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"null|true|false|NaN|-?Infinity")
_WORDS = {
	"null": None,
	"true": True,
	"false": False,
	"NaN": float("nan"),
	"Infinity": float("inf"),
	"-Infinity": float("-inf"),
}


class ScanError(ValueError):
	"""The text does not follow the grammar. What the library says about it is asked from the library's own parser."""


class ScanBreakdownError(ScanError):
	"""The library's own parser does not refuse such a text, it breaks down over it."""


class Item(NamedTuple):
	"""A value and its extent; `below` has the items of an object (with the extents of their keys) or of an array."""

	value: Any
	extent: Extent
	below: dict[str, Any] | list[Any] | None = None  # of (Extent, Item), or of Item
	overridden: tuple[tuple[str, Extent], ...] = ()


class JsonGrammar:
	"""The tokens of strict JSON, as Python's `json` module reads it (with NaN and Infinity); Hjson's differ."""

	braceless = False

	def __init__(self, text: str) -> None:
		self.text = text
		self.closed = 0

	def skip(self, position: int) -> int:
		"""Pass over what stands between two tokens."""
		found = _BLANK.match(self.text, position)
		return found.end() if found else position

	def key(self, position: int) -> tuple[str, int]:
		"""Read a key; give it and the position after it."""
		if self.text[position : position + 1] != '"':
			raise ScanError
		return self._string(position)

	def scalar(self, position: int) -> tuple[Any, int, int]:
		"""Read a value that is no object or array; give it, its end, and where to go on."""
		if self.text[position : position + 1] == '"':
			string, end = self._string(position)
			return string, end, end
		word = _WORD.match(self.text, position)
		if word:
			return _WORDS[word.group()], word.end(), word.end()
		number = _NUMBER.match(self.text, position)
		if number is None:
			raise ScanError
		return to_number(number), number.end(), number.end()

	def next_slot(self, position: int, closing: str) -> int | None:
		"""After a value: give where the next entry begins, or None when the collection closes at `closed`."""
		char = self.text[position : position + 1]
		if char == ",":
			return self.skip(position + 1)
		if char != closing:
			raise ScanError
		self.closed = position + 1
		return None

	def _string(self, position: int) -> tuple[str, int]:
		try:
			return json.decoder.scanstring(self.text, position + 1, True)  # type: ignore[attr-defined,no-any-return]
		except json.JSONDecodeError as error:
			raise ScanError from error


class _Frame:
	"""An object or array that is still open. Its closing character is empty for a root object without braces."""

	def __init__(self, start: int, closing: str, value: Any, below: Any) -> None:
		self.start = start
		self.closing = closing
		self.value = value
		self.below = below
		self.key = ""
		self.key_extent = _NOWHERE
		self.overridden: list[tuple[str, Extent]] = []

	def add(self, item: Item) -> None:
		if self.closing == "]":
			self.value.append(item.value)
			self.below.append(item)
			return
		if self.key in self.value:
			key_extent, former = self.below[self.key]
			self.overridden.append((self.key, Extent(key_extent.start, former.extent.end)))
		self.value[self.key] = item.value
		self.below[self.key] = (self.key_extent, item)

	def close(self, end: int) -> Item:
		return Item(self.value, Extent(self.start, end), self.below, tuple(self.overridden))


class Scan:
	"""One pass over a text with one grammar."""

	def __init__(self, grammar: JsonGrammar) -> None:
		self._grammar = grammar
		self._text = grammar.text
		self._frames: list[_Frame] = []
		self._count = 0

	def run(self) -> Item:
		grammar = self._grammar
		position = grammar.skip(0)
		if grammar.braceless:
			self._frames.append(_Frame(position, "", {}, {}))
			position = self._slot(position)
		item, end = self._value(position)
		while self._frames:
			frame = self._frames[-1]
			frame.add(item)
			following = grammar.next_slot(grammar.skip(end), frame.closing)
			if following is None:
				end = grammar.closed
				item = self._frames.pop().close(end)
			else:
				item, end = self._value(self._slot(following))
		if grammar.skip(end) != len(self._text):
			raise ScanError
		return item

	def _value(self, position: int) -> tuple[Item, int]:
		"""Read a scalar or an empty collection; open the collections that stand before it."""
		while True:
			self._tick()
			opening = self._text[position : position + 1]
			if opening not in ("{", "["):
				value, end, following = self._grammar.scalar(position)
				return Item(value, Extent(position, end)), following
			frame = _Frame(position, "}", {}, {}) if opening == "{" else _Frame(position, "]", [], [])
			self._frames.append(frame)
			if len(self._frames) > MAX_DEPTH:
				raise too_deep()
			position = self._grammar.skip(position + 1)
			if self._text[position : position + 1] == frame.closing:
				return self._frames.pop().close(position + 1), position + 1
			position = self._slot(position)

	def _slot(self, position: int) -> int:
		frame = self._frames[-1]
		if frame.closing == "]":
			return position
		self._tick()
		frame.key, end = self._grammar.key(position)
		frame.key_extent = Extent(position, end)
		colon = self._grammar.skip(end)
		if self._text[colon : colon + 1] != ":":
			raise ScanError
		return self._grammar.skip(colon + 1)

	def _tick(self) -> None:
		self._count += 1
		if self._count > MAX_NODES:
			raise too_many_nodes()


def to_number(found: re.Match[str]) -> int | float:
	whole, fraction, exponent = found.groups()
	check_number(found.group())
	if fraction or exponent:
		return float(whole + (fraction or "") + (exponent or ""))
	return int(whole)


if TYPE_CHECKING:
	from .hjson_grammar import HjsonGrammar


def parse_json(path: str, text: str, kind: Kind) -> Document:
	"""Read a JSON document. Raises `LimitError`; what its readers refuse becomes a defect.

	Only a DeepSpeed file has a reader that takes Hjson. For other kinds the departures from JSON are noted, but the
	text counts as not parsed.
	"""
	try:
		return _hjson_too(_document(path, text, kind, Scan(JsonGrammar(text)).run(), None))
	except ScanError:
		objection = strict_objection(text)
	try:
		item, grammar = _read_hjson(text)
	except ScanError:
		return _refused(path, text, kind, objection)
	if kind != "deepspeed":
		return _refused(path, text, kind, objection).with_defects(*grammar.defects)
	refused = objection._replace(name="not-strict-json")
	return _document(path, text, kind, item, grammar).with_defects(refused, *grammar.defects)


def _refused(path: str, text: str, kind: Kind, objection: Defect) -> Document:
	return Document(path, kind, "json", text, None, {}, (objection, *marks.template_marks(text)), parsed=False)


def _hjson_too(document: Document) -> Document:
	odd = next((defect for defect in document.defects if defect.name == "not-a-number"), None)
	if odd is None or document.kind != "deepspeed":
		return document
	try:
		_read_hjson(document.text)
	except ScanError:
		return document.with_defects(Defect("not-hjson", odd.extent, odd.detail, odd.pointer))
	return document


def as_hjson(document: Document) -> Any:
	"""The data that DeepSpeed's own reader gives for a text that `json` takes, and that holds a NaN or an Infinity: a
	text up to the end of its line, whatever else stands there. None where it gives none (`not-hjson`)."""
	try:
		return _read_hjson(document.text)[0].value
	except ScanError:
		return None


def strict_objection(text: str) -> Defect:
	try:
		json.loads(text)
	except json.JSONDecodeError as error:
		return Defect("syntax-error", marks.around(text, error.pos), f"{error.msg} (char {error.pos})")
	except (ValueError, RecursionError) as error:
		return Defect("syntax-error", Extent(0, len(text)), str(error))
	return Defect("syntax-error", Extent(0, len(text)), "it is not JSON")


def _read_hjson(text: str) -> "tuple[Item, HjsonGrammar]":
	from .hjson_grammar import HjsonGrammar  # few files need it

	grammar = HjsonGrammar(text)
	start = grammar.skip(0)
	if start == len(grammar.text):
		return Item({}, Extent(0, 0), {}), grammar
	if grammar.text[start] in "{[":
		return Scan(grammar).run(), grammar
	try:
		braceless = HjsonGrammar(text, braceless=True)
		item = Scan(braceless).run()
	except ScanBreakdownError:
		raise
	except ScanError:
		return Scan(grammar).run(), grammar
	braceless.note("missing-braces", *item.extent)
	return item, braceless


def _document(path: str, text: str, kind: Kind, item: Item, grammar: "HjsonGrammar | None") -> Document:
	nodes: dict[Pointer, Node] = {}
	defects = list(_walk(item, (), None, nodes, grammar))
	shape = marks.shape_defects(None if grammar and not item.value and not nodes[()].value.end else item.value, text)
	return Document(path, kind, "json", text, item.value, nodes, (*defects, *shape))


def _walk(
	item: Item, pointer: Pointer, key: Extent | None, nodes: dict[Pointer, Node], grammar: "HjsonGrammar | None"
) -> Iterator[Defect]:
	"""Record an entry and those below it. The depth is bounded by the limit on nesting."""
	extent = grammar.original(item.extent) if grammar else item.extent
	nodes[pointer] = Node(grammar.original(key) if grammar and key else key, extent)
	if isinstance(item.value, str):
		yield from marks.string_defects(item.value, extent, pointer)
	elif isinstance(item.value, float) and not math.isfinite(item.value):
		yield Defect("not-a-number", extent, str(item.value), pointer)
	for name, overridden in item.overridden:
		where = grammar.original(overridden) if grammar else overridden
		yield Defect("duplicate-key", where, name, (*pointer, name))
	if isinstance(item.below, dict):
		for name, (key_extent, child) in item.below.items():
			yield from _walk(child, (*pointer, name), key_extent, nodes, grammar)
	else:
		for index, child in enumerate(item.below or ()):
			yield from _walk(child, (*pointer, index), None, nodes, grammar)
