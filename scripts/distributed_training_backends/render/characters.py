"""How code points look on a terminal: what is shown for each, and how many columns that takes."""

from collections.abc import Iterator
from typing import NamedTuple

TAB = 4


class Cell(NamedTuple):
	"""What is shown for one code point, and its width in columns."""

	shown: str
	width: int


def visible(text: str) -> str:
	"""Write out everything that could steer a terminal or hide: controls, direction marks, odd spaces."""
	if text.isprintable():
		return text
	return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
	code = ord(char)
	if char in "\t\n\r":
		return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[char]
	return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cells(line: str) -> list[Cell]:
	"""Give a cell for each code point of a line; a tab goes to the next multiple of four columns."""
	if line.isascii() and line.isprintable():
		return [Cell(char, 1) for char in line]
	return list(_cells(line))


def _cells(line: str) -> Iterator[Cell]:
	column = 0
	for char in line:
		cell = _cell(char, column)
		column += cell.width
		yield cell


def _cell(char: str, column: int) -> Cell:
	if char == "\t":
		gap = TAB - column % TAB
		return Cell(" " * gap, gap)
	if not char.isprintable():
		shown = _escape(char)
		return Cell(shown, len(shown))
	return Cell(char, 1 if char.isascii() else _width(char))


def _width(char: str) -> int:
	import unicodedata  # only lines beyond ASCII pay for its tables

	if unicodedata.category(char) in ("Mn", "Me"):
		return 0
	return 2 if unicodedata.east_asian_width(char) in "WF" else 1
