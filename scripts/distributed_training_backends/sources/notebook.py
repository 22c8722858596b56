"""The code of a Jupyter notebook as one Python text, and where each character of it stands in the file."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..model import Extent, Pointer
from .document import Document
from .json_source import parse_json

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
