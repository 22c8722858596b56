"""Statements that Python's own parser finds too deep: `1+1+…` of thousands of terms is left open, the rest is read."""

import ast
import re
from collections.abc import Iterator

# no parser gives up before this many levels, and a level takes a character at least
_SHORTEST = 1000
_PIECE = re.compile(
	r"""\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
	r"""|\#[^\n]*|\\\r?\n|[][(){}\n]""",
	re.DOTALL,
)
# what is kept: the names that a statement binds, or the word that it begins with
_HEAD = re.compile(r"[ \t]*(?:(?:if|elif|while|return|assert)\b|(?:[\w., *\[\]:]+[-+*/|]?=(?!=))*)")


def shallow(code: str) -> str:
	"""The code with an ellipsis for each statement that is too deep to parse; every line keeps its place."""
	pieces = [open_(code[start:end]) if too_deep(code[start:end]) else code[start:end] for start, end in lines(code)]
	return "".join(pieces)


def lines(code: str) -> Iterator[tuple[int, int]]:
	"""Where the logical lines of a code begin and end."""
	start = depth = 0
	for found in _PIECE.finditer(code):
		mark = found.group()
		if mark in "([{":
			depth += 1
		elif mark in ")]}":
			depth = max(0, depth - 1)
		elif mark == "\n" and not depth:
			yield start, found.end()
			start = found.end()
	yield start, len(code)


def too_deep(line: str) -> bool:
	text = re.sub(r"^elif\b", "if", line.strip())
	try:
		if len(text) > _SHORTEST:
			ast.parse(text + " pass" * text.endswith(":"))
	except (RecursionError, MemoryError):
		return True
	except (SyntaxError, ValueError):
		pass
	return False


def open_(line: str) -> str:
	head = _HEAD.match(line)
	kept, end = head.end() if head else 0, len(line.rstrip())
	last = end - line[:end].endswith(":")
	blank = re.sub(r"[^\n]", " ", line[kept + 1 : last - 1]).replace("   ", "...", 1)
	return f"{line[:kept]}({blank}){line[last:]}"
