"""Blocks cut out of a larger text: a fenced block of a Markdown page, or a here-document of a shell script."""

import re
from collections.abc import Iterator
from itertools import islice

from ..model import Extent

MAX_BLOCKS = 500  # of a long page, only the first ones are looked at

_FENCE = re.compile(r"^[ \t]*()(`{3,}|~{3,})[^\r\n`]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)
_HEREDOC = re.compile(r"^[^\r\n#]*<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1[^\r\n]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)

# What the shell fills in; a backslash keeps it from that
_EXPANSION = re.compile(
	r"(?<!\\)(?:\$(?:\{[^{}\n]*\}|\([^()\n]*\)|\(\([^\n]*?\)\)|[A-Za-z_]\w*|[\d@*#?!$-])|`[^`\n]*`)"
)
_LEFT_OUT = re.compile(r"""(?m)^[ \t]*["']?(?:\.{3}|…)["']?,?[ \t]*$|(?:[][{},:#]|//)[ \t]*(?:\.{3}|…)""")
_OBJECT = re.compile(r"\s*(?:(?:#|//)[^\n]*\n\s*)*\{")
_FENCED = re.compile(r"\s*(?:```|~~~)")


def is_fenced(text: str, extent: Extent) -> bool:
	"""Tell whether a block is a fenced one, and not all that there is."""
	return bool(_FENCED.match(text, extent.end) and not _FENCED.match(text))


def is_excerpt(text: str, braces: bool) -> bool:
	"""Tell whether a block shows a part of a config only: it has an ellipsis, or misses the braces that it needs."""
	return bool(_LEFT_OUT.search(text) or (braces and not _OBJECT.match(text)))


def expansions(text: str, extent: Extent) -> list[Extent]:
	"""Give what the shell fills in where a block is a here-document whose mark is not quoted; within the block."""
	opening = _HEREDOC.match(text, text.rfind("\n", 0, max(extent.start - 1, 0)) + 1)
	if opening is None or opening.end() != extent.start or opening.group(1):
		return []
	found = _EXPANSION.finditer(text[extent.start : extent.end])
	return [Extent(*one.span()) for one in found]


def blocks(text: str) -> Iterator[Extent]:
	"""Give where the blocks of a text stand, without the lines that open and close them; at most MAX_BLOCKS."""
	return islice(_extents(text), MAX_BLOCKS)


def fences(text: str) -> Iterator[Extent]:
	"""Give where the fenced blocks of a page stand; at most MAX_BLOCKS."""
	return islice(_extents(text, (_FENCE,)), MAX_BLOCKS)


def has_more(text: str) -> bool:
	return next(islice(_extents(text), MAX_BLOCKS, None), None) is not None


def _extents(text: str, forms: tuple[re.Pattern[str], ...] = (_FENCE, _HEREDOC)) -> Iterator[Extent]:
	position = 0
	while True:
		openings = [found for form in forms if (found := form.search(text, position))]
		if not openings:
			return
		opening = min(openings, key=lambda found: found.start())
		mark = re.escape(opening.group(2))
		closing = re.compile(rf"^[ \t]*{mark}[ \t]*\r?$", re.MULTILINE).search(text, opening.end())
		yield Extent(opening.end(), closing.start() if closing else len(text))
		position = closing.end() if closing else len(text)
