"""A here-document as the shell writes it: what it fills in is open, and so is a value with an escape."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from ..model import Extent
from .document import OPEN, Defect, Document, gapped
from .fragment import Block

DECIDING = ("compute_environment", "distributed_type", "fp16")  # without them nothing can be said about a config
LONGEST = 90  # digits: a longer number is refused as one
_INNER = r"\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)"
_GAP = re.compile(rf"\\[$`\\\n]|\$(?:\{{[^{{}}\n]*\}}|{_INNER}|[A-Za-z_]\w*|[\d@*#?!$-])|`[^`\n]*`")
_MORE = re.compile(r"\$[\w({]|`")
_COMMENT = re.compile(r"(?:^|\s)(?:#|//)")


def as_written(text: str, block: Block, read: Callable[[str], Document | None]) -> Document | None:
	"""Read a block; None where what it says is not known well enough. `read` gets a text of the same length."""
	plain = _without_tabs(text) if block.tabs else text
	if plain is None:
		return None
	if not block.live:
		return read(plain)
	gaps = [Extent(*found.span()) for found in _GAP.finditer(plain)]
	if _MORE.search(_GAP.sub("", plain)):
		return None
	document = read(_GAP.sub(lambda found: _filler(len(found.group())), plain))
	if not gaps or document is None:
		return document
	if document.kind not in ("accelerate", "deepspeed") or not isinstance(document.data, dict):
		return None
	touched = set(_opened(document, gaps))
	fine = all(gap in touched or _in_comment(plain, gap) for gap in gaps)
	if not fine or OPEN in map(document.get, DECIDING):
		return None
	data = gapped(document.data) if document.kind == "accelerate" else document.data
	return document.with_defects(Defect("filled-by-shell", Extent(0, 0)), data=data) if touched else document


def _without_tabs(text: str) -> str | None:
	"""Blanks for the tabs that lines begin with; None where lines have different ones, so that indents would change."""
	heads = {len(line) - len(line.lstrip("\t")) for line in text.splitlines() if line.strip()}
	return re.sub(r"(?m)^\t+", lambda found: " " * len(found.group()), text) if len(heads) < 2 else None


def _filler(length: int) -> str:
	"""What may stand in a text, in a number or alone, of the same length."""
	return "1" * length if length <= LONGEST else "1".ljust(length)


def _opened(document: Document, gaps: list[Extent]) -> Iterator[Extent]:
	"""Make the values open that a gap touches, and give these gaps. A list with a gap is open as a whole."""
	ends, starts = [gap.end for gap in gaps], [gap.start for gap in gaps]
	for pointer, node in document.nodes.items():
		inside = gaps[bisect_right(ends, node.value.start) : bisect_left(starts, node.value.end)]
		if inside and not isinstance(document.get(*pointer), (dict, list)):
			depth = next((place for place, step in enumerate(pointer) if isinstance(step, int)), len(pointer))
			document.get(*pointer[: depth - 1])[pointer[depth - 1]] = OPEN
			yield from inside


def _in_comment(text: str, gap: Extent) -> bool:
	return _COMMENT.search(text[text.rfind("\n", 0, gap.start) + 1 : gap.start]) is not None
