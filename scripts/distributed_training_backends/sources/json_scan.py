"""The tokens of JSON, and the walk over a text that Hjson shares; it keeps its own stack, so depth is data."""

import json.decoder
import re
from typing import Any, NamedTuple

from ..model import Extent
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
