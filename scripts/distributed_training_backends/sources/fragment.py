"""Blocks cut out of a larger text: a fenced block of a Markdown page, or a here-document of a shell script."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ..model import Extent

MAX_BLOCKS = 500  # of a long page, only the first ones are looked at
MAX_DEPTH = 5  # of scripts that write scripts

_FENCE = r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\r\n`]*(?:\r\n|\r|\n|\Z)"
# no here-string, no shift in an arithmetic expression
_HEREDOC = (
	r"^(?:(?!\(\()[^\r\n#])*?(?<!<)<<(?P<tabs>-?)[ \t]*(?P<quote>\\|['\"]?)(?P<mark>[A-Za-z_]\w*)"
	r"[^\r\n]*(?:\r\n|\r|\n|\Z)"
)
_OPENING = re.compile(f"{_FENCE}|{_HEREDOC}", re.MULTILINE)
_PAGE = re.compile(_FENCE, re.MULTILINE)
_ENDS_BY_DOTS = re.compile(r"\n\.\.\.\s*\Z")
_STRING = re.compile(r'"(?!(?:\.{3}|…)")(?:\\.|[^"\\\n])*"')
_LEFT_OUT = re.compile(r"""(?m)^[ \t]*["']?(?:\.{3}|…)["']?,?[ \t]*$|(?:[][{},:#]|//)[ \t]*(?:\.{3}|…)""")
_OBJECT = re.compile(r"\s*(?:(?:#|//)[^\n]*\n\s*)*\{")
_FENCED = re.compile(r"\s*(?:```|~~~)")


class Block(NamedTuple):
	"""Where a block stands, without the lines that open and close it; whether a fence does, or the shell fills in what
	it holds (`live`) and takes away the tabs that its lines begin with (`tabs`)."""

	extent: Extent
	fenced: bool = False
	live: bool = False
	tabs: bool = False


def is_excerpt(text: str, braces: bool) -> bool:
	"""Tell whether a block shows a part of a config only: it has an ellipsis, or misses the braces that it needs."""
	plain = _STRING.sub('""', _ENDS_BY_DOTS.sub("", text))
	return bool(_LEFT_OUT.search(plain) or (braces and not _OBJECT.match(text)))


def blocks(text: str) -> Iterator[Block]:
	"""Give the innermost blocks of a text; at most MAX_BLOCKS. A fence around all of it counts for nothing."""
	whole = _FENCED.match(text) is not None
	found = (block._replace(fenced=block.fenced and not whole) for block in _every(text, _OPENING))
	return islice(found, MAX_BLOCKS)


def fences(text: str) -> Iterator[Extent]:
	"""Give where the fenced blocks of a page stand; at most MAX_BLOCKS."""
	return islice((block.extent for block in _every(text, _PAGE)), MAX_BLOCKS)


def has_more(text: str) -> bool:
	return next(islice(_every(text, _OPENING), MAX_BLOCKS, None), None) is not None


def _every(text: str, opening: re.Pattern[str]) -> Iterator[Block]:
	ends: dict[str, list[int]] = {}
	start = 0
	for line in text.split("\n") if opening.search(text) else ():
		ends.setdefault(line.strip(" \t\r"), []).append(start)
		start += len(line) + 1
	return _within(text, opening, Block(Extent(0, len(text))), ends)


def _within(
	text: str, opening: re.Pattern[str], outer: Block, ends: dict[str, list[int]], depth: int = 0
) -> Iterator[Block]:
	position, end = outer.extent
	while found := opening.search(text, position, end):
		fence, lines = found.group("fence"), ends.get(found.group("fence") or found.group("mark"), [])
		place = bisect_left(lines, found.end())
		closed = place < len(lines) and lines[place] < end
		position = found.end()
		if not closed and not fence:
			continue
		inside = Extent(position, lines[place] if closed else end)
		block = Block(inside, outer.fenced or closed, outer.live, outer.tabs)
		if not fence:
			live, tabs = not found.group("quote"), bool(found.group("tabs"))
			block = Block(inside, outer.fenced, outer.live or live, outer.tabs or tabs)
		inner = [*_within(text, opening, block, ends, depth + 1)] if depth < MAX_DEPTH else []
		yield from inner or [block]
		position = min(inside.end + 1, end) if closed else end
