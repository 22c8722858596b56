"""The walk over the text of a JSON document that its two grammars share; it keeps its own stack, so depth is data."""

from typing import Any, NamedTuple, Protocol

from ..model import Extent
from .limits import MAX_DEPTH, MAX_NODES, too_deep, too_many_nodes

_NOWHERE = Extent(0, 0)


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


class Grammar(Protocol):
	"""What differs between JSON and Hjson."""

	text: str
	braceless: bool

	def skip(self, position: int) -> int:
		"""Pass over what stands between two tokens."""

	def key(self, position: int) -> tuple[str, int]:
		"""Read a key; give it and the position after it."""

	def scalar(self, position: int) -> tuple[Any, int, int]:
		"""Read a value that is no object or array; give it, its end, and where to go on."""

	def next_slot(self, position: int, closing: str) -> int | None:
		"""After a value: give where the next entry begins, or None when the collection closes at `closed`."""

	closed: int


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

	def __init__(self, grammar: Grammar) -> None:
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
