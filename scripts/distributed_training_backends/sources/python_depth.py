"""Statements that are too deep for Python's own parser, `1+1+…` of thousands of terms: they are left open."""

import ast
import re
from collections.abc import Iterator

_SHORTEST = 1000  # a level takes a character at least, and no parser gives up before
_PIECE = re.compile(
	r"""("{3}|'{3})(?:\\.|[^\\])*?\1|(["'])(?:\\.|(?!\2)[^\\\n])*\2|\#[^\n]*|\\\r?\n|[][(){}\n]""", re.DOTALL
)
# what is kept: the names that a statement binds, or the word that it begins with
_HEAD = re.compile(r"[ \t]*(?:(?:if|elif|while|return|assert)\b|(?:[\w., *\[\]:]+[-+*/|]?=(?!=))*)")


def shallow(code: str) -> str:
	"""The code with an ellipsis for each statement that is too deep; every line keeps its place."""
	return "".join(opened(line) if is_too_deep(line) else line for line in lines(code))


def lines(code: str) -> Iterator[str]:
	"""The logical lines of a code."""
	start = depth = 0
	for found in _PIECE.finditer(code):
		mark = found.group()
		depth = max(0, depth + (mark in "([{") - (mark in ")]}"))
		if mark == "\n" and not depth:
			yield code[start : found.end()]
			start = found.end()
	yield code[start:]


def is_too_deep(line: str) -> bool:
	text = re.sub(r"^elif\b", "if", line.strip())
	try:
		if len(text) > _SHORTEST:
			ast.parse(text + " pass" * text.endswith(":"))
	except (RecursionError, MemoryError):
		return True
	except (SyntaxError, ValueError):
		pass
	return False


def opened(line: str) -> str:
	head, end = _HEAD.match(line), len(line.rstrip())
	kept, end = head.end() if head else 0, end - line[:end].endswith(":")
	blank = re.sub(r"[^\n]", " ", line[kept + 1 : end - 1]).replace("   ", "...", 1)
	return f"{line[:kept]}({blank}){line[end:]}"
