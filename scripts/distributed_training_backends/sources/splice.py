"""The edits that change one entry of a text: its comments, order, indentation, quotes and line ends survive."""

import re
from bisect import bisect_right
from functools import lru_cache
from typing import Any, NamedTuple

from ..model import Edit, Extent, Fix, Pointer
from .document import Document, Node
from .writing import write

_LINE_END = r"\r\n|\r|\n|\Z"
_REST_OF_LINE = r"[ \t]*(?:(?:#|//)[^\r\n]*)?(?:\r\n|\r|\n|\Z)"
_REMARK = re.compile(r"(?:#|//)[^\r\n]*")
_BLANK_OR_COMMENT = r"(?s)\s+|(?:#|//)[^\r\n]*|/\*.*?\*/"


class NotPossibleError(Exception):
	"""The edit cannot be done without touching more than the entry."""


class Verbatim(NamedTuple):
	"""A value that keeps the words it is written in; `lines` says that they are the lines below a key."""

	text: str
	lines: bool


class Children(NamedTuple):
	"""The entries of a collection by position, and where each ends."""

	pointers: list[Pointer]
	ends: list[int]


class Splicer:
	"""Makes edits for the entries of one document. Raises `NotPossibleError`."""

	def __init__(self, document: Document) -> None:
		self.document = document
		self.text = document.text
		self.tried = 0  # how many code points have been parsed again to try edits out
		self.made: dict[str, Fix | None] = {}  # what repairs have come to
		self._children_of: dict[Pointer, Children] = {}

	def rename(self, pointer: Pointer, name: str) -> list[Edit]:
		extent = self._node(pointer).key
		if extent is None or (*pointer[:-1], name) in self.document.nodes:
			raise NotPossibleError
		return [Edit(*extent, self._written(name, extent))]

	def replace(self, pointer: Pointer, value: Any) -> list[Edit]:
		node = self._node(pointer)
		extent = self._tight(node.value)
		written = self._written(value, extent)
		if extent.start == extent.end:  # a missing value stands right behind the colon or the dash
			return [Edit(*extent, " " + written)]
		if node.key is None or self._line_end(node.key.end) > extent.start:
			return [Edit(*extent, written)]
		colon = self.text.index(":", node.key.end) + 1
		return [Edit(colon, colon, " " + written), Edit(self._line_end(colon), extent.end, "")]

	def move(self, pointer: Pointer, target: Pointer, name: str) -> list[Edit]:
		"""Put an entry at the end of another mapping, in its own words where they fit there."""
		edits = [*self.add(target, name, self._own_words(pointer, target), without=pointer), *self.remove(pointer)]
		written = "".join(edit.text for edit in edits)
		if any(remark not in written for edit in edits for remark in _REMARK.findall(self.text[edit.start : edit.end])):
			raise NotPossibleError  # a remark would get lost
		return edits

	def _own_words(self, pointer: Pointer, target: Pointer) -> Any:
		"""The text of a value, with the comment behind it where the target has lines of its own."""
		node = self._node(pointer)
		start, end = self._tight(node.value)
		siblings = self._children(target).pointers
		made = not self.document.has(*target)  # a block that is missing gets lines where its parent has them
		lines = not self._flow(target[:-1]) if made else bool(siblings) and not self._flow(target)
		if lines and not self._flow(pointer[:-1]):
			end = self._line_end(end)
		if node.key is None or self._line_end(node.key.end) > start:
			return Verbatim(self.text[start:end].rstrip(), False)
		if not lines or not siblings:
			return self.document.get(*pointer)
		sibling = self._node(siblings[0])
		before, after = self._indent(node.key.start), self._indent((sibling.key or sibling.value).start)
		colon = self.text.index(":", node.key.end) + 1
		first, *others = self.text[colon:end].rstrip().splitlines(keepends=True)
		return Verbatim("".join([first, *(after + line.removeprefix(before) for line in others)]), True)

	def remove(self, pointer: Pointer, extent: Extent | None = None) -> list[Edit]:
		"""Take an entry out with its lines or its comma; `extent` stands for one that another has overridden."""
		entry = extent or self._entry(pointer)
		siblings = self._children(pointer[:-1])
		if extent is None and len(siblings.pointers) == 1:
			return self._empty(pointer[:-1])
		if self._flow(pointer[:-1]):
			return self._remove_from_flow(entry, siblings)
		return [Edit(*self._lines(self._with_dash(entry, pointer)), "")]

	def add(self, pointer: Pointer, name: str, value: Any, without: Pointer | None = None) -> list[Edit]:
		"""Put an entry at the end of a mapping; where that is missing, it is made. `without` is about to go."""
		if not self.document.has(*pointer):
			if not pointer:
				raise NotPossibleError
			return self.add(pointer[:-1], str(pointer[-1]), {name: value}, without)
		if (*pointer, name) in self.document.nodes:
			raise NotPossibleError
		target = self.document.get(*pointer)
		if target is None or target == {}:
			return self._fill(pointer, name, value)
		children = self._children(pointer).pointers
		last = next((child for child in reversed(children) if child != without), None)
		if not isinstance(target, dict) or last is None:
			raise NotPossibleError
		node = self._node(last)
		key = node.key or node.value
		end = self._tight(node.value).end
		own_line = not self.text[self._line_start(key.start) : key.start].strip()
		if self._flow(pointer):
			gap = self.document.newline + self._indent(key.start) if own_line else " "
			return [Edit(end, end, f",{gap}{self._written(name, key)}: {self._written(value, node.value)}")]
		line_end = self._line_end(end)
		return [Edit(line_end, line_end, self._block(name, value, self._indent(key.start)))]

	def _fill(self, pointer: Pointer, name: str, value: Any) -> list[Edit]:
		extent = self._node(pointer).value
		if self.text[extent.start : extent.start + 1] == "{":
			inside = extent.start + 1
			return [Edit(inside, inside, f"{self._plain_key(name)}: {self._written(value, extent)}")]
		if not pointer:
			raise NotPossibleError
		return self.replace(pointer, {name: value})

	def _remove_from_flow(self, entry: Extent, siblings: Children) -> list[Edit]:
		after = self._skip(entry.end)
		if self.text[after : after + 1] == ",":
			return [Edit(*self._lines_or_words(Extent(entry.start, after + 1)), "")]
		former = bisect_right(siblings.ends, entry.start) - 1
		comma = self._skip(siblings.ends[former]) if former >= 0 else 0
		if self.text[comma : comma + 1] != ",":
			raise NotPossibleError
		if self.text[comma + 1 : entry.start].strip():  # a comment stands between
			return [Edit(comma, comma + 1, ""), Edit(*self._lines_or_words(entry), "")]
		return [Edit(comma, entry.end, "")]

	def _empty(self, pointer: Pointer) -> list[Edit]:
		empty: Any = {} if isinstance(self.document.get(*pointer), dict) else []
		if not pointer:
			return [Edit(*self._tight(self._node(()).value), write(empty, self.document.syntax))]
		return self.replace(pointer, empty)

	def _lines_or_words(self, extent: Extent) -> Extent:
		try:
			return self._lines(extent)
		except NotPossibleError:
			blanks = re.compile(r"[ \t]*").match(self.text, extent.end)
			return Extent(extent.start, blanks.end() if blanks else extent.end)

	def _lines(self, extent: Extent) -> Extent:
		"""Widen to whole lines, with the comment at their end; nothing else may stand on them."""
		start = self._line_start(extent.start)
		rest = re.compile(_REST_OF_LINE).match(self.text, extent.end)
		if rest is None or self.text[start : extent.start].strip():
			raise NotPossibleError
		return Extent(start, rest.end())

	def _with_dash(self, entry: Extent, pointer: Pointer) -> Extent:
		if not isinstance(pointer[-1], int) or self._node(pointer).key is not None:
			return entry
		dash = self.text.rfind("-", self._line_start(entry.start), entry.start)
		return Extent(dash if dash >= 0 else entry.start, entry.end)

	def _node(self, pointer: Pointer) -> Node:
		node = self.document.nodes.get(pointer)
		if node is None:
			raise NotPossibleError
		return node

	def _entry(self, pointer: Pointer) -> Extent:
		node = self._node(pointer)
		if not pointer:
			raise NotPossibleError
		return Extent((node.key or node.value).start, self._tight(node.value).end)

	def _children(self, pointer: Pointer) -> Children:
		known = self._children_of.get(pointer)
		if known is None:
			value = self.document.get(*pointer) if pointer else self.document.data
			steps: Any = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
			ends = sorted(
				(self._tight(self._node((*pointer, step)).value).end, index) for index, step in enumerate(steps)
			)
			pointers: list[Pointer] = [(*pointer, step) for step in steps]
			known = Children([pointers[index] for _, index in ends], [end for end, _ in ends])
			self._children_of[pointer] = known
		return known

	def _flow(self, pointer: Pointer) -> bool:
		start = self._node(pointer).value.start
		return self.text[start : start + 1] in ("{", "[")

	def _tight(self, extent: Extent) -> Extent:
		return Extent(extent.start, extent.start + len(self.text[extent.start : extent.end].rstrip()))

	def _skip(self, position: int) -> int:
		while found := re.compile(_BLANK_OR_COMMENT).match(self.text, position):
			position = found.end()
		return position

	def _line_start(self, position: int) -> int:
		return position + 1 - self.document.position(position)[1]

	def _line_end(self, position: int) -> int:
		found = re.compile(_LINE_END).search(self.text, position)
		return found.start() if found else len(self.text)

	def _indent(self, position: int) -> str:
		before = self.text[self._line_start(position) : position]
		return before if not before.strip() else " " * len(before)

	def _written(self, value: Any, former: Extent) -> str:
		if isinstance(value, Verbatim):
			if value.lines:
				raise NotPossibleError
			return value.text
		quote = self.text[former.start : former.start + 1]
		return write(value, self.document.syntax, quote if quote in ("'", '"') else "")

	def _plain_key(self, name: str) -> str:
		return write(name, self.document.syntax)

	def _block(self, name: str, value: Any, indent: str) -> str:
		start = f"{self.document.newline}{indent}{self._plain_key(name)}:"
		if isinstance(value, Verbatim):
			return start + ("" if value.lines else " ") + value.text
		if not isinstance(value, dict) or not value:
			return f"{start} {write(value, 'yaml')}"
		return start + "".join(self._block(str(key), item, indent + "  ") for key, item in value.items())


@lru_cache(maxsize=4)
def splicer(document: Document) -> Splicer:
	"""Give the splicer of a document; what it has found out about a large one is not found out again."""
	return Splicer(document)
