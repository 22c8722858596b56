"""A parsed source: its data, and the extent of every key and value in the text."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from ..model import Extent, Kind, Place, Pointer, json_pointer

Syntax = Literal["yaml", "json", "shell", "python"]
Part = Literal["key", "value", "entry"]


class Open(Enum):
	"""What stands for a value that is only known when a script runs: `$N` of a command, a name in Python."""

	OPEN = "open"

	def __repr__(self) -> str:
		return "OPEN"


OPEN: Final = Open.OPEN


class OpenValueError(Exception):
	"""A rule asked for a value that only the shell knows, and so has nothing to say."""


class Node(NamedTuple):
	"""Extents of one entry: its key (None for the root and for list items) and its value."""

	key: Extent | None
	value: Extent


class Defect(NamedTuple):
	"""Something about the text itself that its readers treat differently: `name` is a slug, `extent` says where, and
	`pointer` names the entry when it is about one.

	Refused by the reader of this syntax, `detail` has its words, and the document is not `parsed`: syntax-error.
	A DeepSpeed file that `json.load` refuses, but Hjson (DeepSpeed's own reader) takes: not-strict-json, with the words
	of `json`; the reverse: not-hjson. Each departure from JSON: comment, trailing-comma, missing-comma,
	missing-braces, unquoted-key, unquoted-string, single-quoted, multiline-string.
	About the whole: byte-order-mark, other-encoding (than UTF-8), empty, not-a-mapping, fragment, filled-by-shell.
	About one entry: duplicate-key (the extent is the whole overridden entry), template, surrogate, legacy-octal,
	sexagesimal, not-a-number (NaN, Infinity, an overflow: Hjson reads them as text up to the line's end)."""

	name: str
	extent: Extent
	detail: str = ""
	pointer: Pointer = ()


def copied(data: Any) -> Any:
	"""Make the mappings and lists of some data anew; `copy` would do it too, and takes long to import."""
	if isinstance(data, dict):
		return {key: copied(value) for key, value in data.items()}
	return [copied(item) for item in data] if isinstance(data, list) else data


class Document:
	"""One source. `data` is what the target's own reader gives (YAML 1.1 or JSON); None when it cannot be parsed.

	Everything about it is shared and stays as it is once made.
	"""

	def __init__(
		self,
		path: str,
		kind: Kind,
		syntax: Syntax,
		text: str,
		data: Any,
		nodes: Mapping[Pointer, Node],
		defects: tuple[Defect, ...] = (),
		parsed: bool = True,
	) -> None:
		self.path, self.text, self.data = path, text, data
		self.kind: Kind = kind
		self.syntax: Syntax = syntax
		self.nodes, self.defects, self.parsed = nodes, defects, parsed
		self.newline, self.bom = "\n", False
		self.begin = 0  # where it begins, when it is a part of a larger text
		self.outer: tuple[Document, Pointer] | None = None  # where it stands, when it is an entry of another document

	@property
	def mapping(self) -> dict[Any, Any]:
		"""The entries at the top, none where something else than a mapping stands there."""
		return self.data if isinstance(self.data, dict) else {}

	def key(self, *pointer: str | int) -> "At":
		return At(self, pointer, "key")

	def value(self, *pointer: str | int) -> "At":
		return At(self, pointer, "value")

	def stretch(self, extent: Extent, pointer: Pointer = ()) -> "At":
		return At(self, pointer, "value", extent)

	def get(self, *pointer: str | int) -> Any:
		"""Give the value at a pointer, or None when there is none."""
		node: Any = self.data
		for step in pointer:
			try:
				node = node[step]
			except (KeyError, IndexError, TypeError):
				return None
		return node

	def has(self, *pointer: str | int) -> bool:
		return pointer in self.nodes

	@property
	def filled(self) -> bool:
		"""Tell whether the shell fills in some of it."""
		return any(defect.name == "filled-by-shell" for defect in self.defects)

	def raw(self, *pointer: str | int) -> str | None:
		"""Give the text of a value as it is written, or None when there is no such entry."""
		node = self.nodes.get(pointer)
		return None if node is None else self.text[node.value.start : node.value.end]

	def with_defects(self, *defects: Defect, **changes: Any) -> "Document":
		return self._with(defects=(*self.defects, *defects), **changes)

	def _with(self, **changes: Any) -> "Document":
		same = Document.__new__(Document)
		same.__dict__.update(vars(self), **changes)
		same.__dict__.pop("_line_starts", None)
		return same

	def within(self, text: str, start: int) -> "Document":
		"""Give the same document as a part of a larger text, in which it begins at `start`."""

		def moved(extent: Extent) -> Extent:
			return Extent(extent.start + start, extent.end + start)

		nodes = {
			pointer: Node(None if node.key is None else moved(node.key), moved(node.value))
			for pointer, node in self.nodes.items()
		}
		defects = tuple(defect._replace(extent=moved(defect.extent)) for defect in self.defects)
		return self._with(text=text, nodes=nodes, defects=defects, begin=start)

	def part(self, *base: str | int, kind: Kind) -> "Document":
		"""Give what stands at a pointer as a document of its own, which knows where it comes from."""
		depth = len(base)
		nodes = {pointer[depth:]: node for pointer, node in self.nodes.items() if pointer[:depth] == base}
		return self._with(data=self.get(*base), nodes=nodes, defects=(), kind=kind, outer=(self, base))

	@cached_property
	def _line_starts(self) -> list[int]:
		return [0, *(found.end() for found in re.finditer(r"\r\n?|\n", self.text))]

	def position(self, offset: int) -> tuple[int, int]:
		line = bisect_right(self._line_starts, offset) - 1
		return line + 1, offset - self._line_starts[line] + 1

	def extent_of(self, at: "At") -> Extent:
		"""Resolve a symbolic position; where the entry is missing, the nearest parent that exists is meant."""
		if at.extent is not None:
			return at.extent
		pointer = at.pointer
		part: Part = at.part
		while pointer and pointer not in self.nodes:
			pointer, part = pointer[:-1], "key"
		node = self.nodes.get(pointer)
		if node is None or not pointer:
			return self._first_line()
		return node.key if part == "key" and node.key is not None else node.value

	def _first_line(self) -> Extent:
		start = len(self.text) - len(self.text[self.begin :].lstrip())
		first = re.compile(r"[^\r\n]*").match(self.text, start)
		return Extent(*first.span()) if first and start < len(self.text) else Extent(0, 0)

	def place(self, at: "At") -> Place:
		extent = self.extent_of(at)
		start, end = self.position(extent.start), self.position(extent.end)
		return Place(self.path, json_pointer(at.pointer), extent, *start, *end)


class At(NamedTuple):
	"""A symbolic position that a rule gives: an entry of a document, and the part of it that is meant."""

	document: Document
	pointer: Pointer
	part: Part
	extent: Extent | None = None


class Partly(dict[Any, Any]):
	"""A mapping of which something is open: values that are OPEN, and with `open` keys that are not seen."""

	def __init__(self, known: dict[Any, Any], open_: bool = False) -> None:
		super().__init__(known)
		self.open = open_

	def _checked(self, key: Any) -> None:
		if super().get(key) is OPEN or (self.open and not super().__contains__(key)):
			raise OpenValueError

	def __getitem__(self, key: Any) -> Any:
		self._checked(key)
		return super().__getitem__(key)

	def get(self, key: Any, default: Any = None) -> Any:
		self._checked(key)
		return super().get(key, default)

	def __contains__(self, key: object) -> bool:
		there = super().__contains__(key)
		if self.open and not there:
			raise OpenValueError
		return there

	def values(self) -> Any:
		if self.open or any(value is OPEN for value in super().values()):
			raise OpenValueError
		return super().values()

	def items(self) -> Any:
		self.values()
		return super().items()


class Gapped(Partly):
	"""A mapping whose keys are all seen. Rules that look at one entry after the other get those that are not open."""

	def values(self) -> Any:
		return [value for _, value in self.items()]

	def items(self) -> Any:
		return [(key, value) for key, value in super(Partly, self).items() if value is not OPEN]


def gapped(value: Any) -> Any:
	if not isinstance(value, dict):
		return value
	found = {key: gapped(item) for key, item in value.items()}
	return Gapped(found) if OPEN in found.values() else found
