"""The difference between a text and its fixed form."""

from difflib import unified_diff

from .characters import visible
from .redact import redact

NO_LINE_END = "\\ No newline at end of file\n"


def render_diff(path: str, before: str, after: str) -> str:
	"""Write a unified diff, with the mark that tools expect where the last line has no end; secrets are masked."""
	old, new = (redact(text).split("\n") for text in (before, after))
	name = visible(path) + ("\t" if " " in path else "")  # the mark by which patch tells where a name ends
	lines = unified_diff(_with_ends(old), _with_ends(new), name, name)
	return "".join(line if line.endswith("\n") else f"{line}\n{NO_LINE_END}" for line in lines)


def _with_ends(lines: list[str]) -> list[str]:
	ended = [line + "\n" for line in lines[:-1]]
	return [*ended, lines[-1]] if lines[-1] else ended
