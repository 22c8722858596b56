"""A source line with a row of carets below it, cut to the width that there is."""

from typing import NamedTuple

from ..model import Place
from .characters import Cell, cells

CUT = "…"


class Excerpt(NamedTuple):
	line: str
	carets: str


def excerpt_of(lines: list[str], place: Place, width: int) -> Excerpt | None:
	if not 1 <= place.line <= len(lines):
		return None
	line = lines[place.line - 1].removesuffix("\r")
	start = min(place.column - 1, len(line))
	one_line = place.end_line == place.line
	end = min(place.end_column - 1, len(line)) if one_line else len(line)
	return excerpt(line, start, max(start, end), max(width, 20))


def excerpt(line: str, start: int, end: int, width: int) -> Excerpt:
	"""Show code points start..end of a line with carets, within `width` columns."""
	first = max(0, start - width)
	last = min(len(line), start + width)
	row = cells(line[first:last])
	low, high = _window(row, start - first, width)
	cut_before, cut_after = first + low > 0, first + high < len(line)
	shown = (CUT if cut_before else "") + "".join(cell.shown for cell in row[low:high]) + (CUT if cut_after else "")
	lead = int(cut_before) + _wide(row[low : start - first])
	marked = _wide(row[start - first : min(end - first, high)])
	return Excerpt(shown, " " * lead + "^" * max(1, marked))


def _wide(row: list[Cell]) -> int:
	return sum(cell.width for cell in row)


def _window(row: list[Cell], start: int, width: int) -> tuple[int, int]:
	if _wide(row) <= width - 2:
		return 0, len(row)
	low = _back(row, start, width // 3)
	high, room = low, width - 2
	while high < len(row) and row[high].width <= room:
		room -= row[high].width
		high += 1
	return (_back(row, low, room) if high == len(row) else low), high


def _back(row: list[Cell], start: int, room: int) -> int:
	while start > 0 and row[start - 1].width <= room:
		start -= 1
		room -= row[start].width
	return start
