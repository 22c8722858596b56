"""What was asked, cleaned: words, a key, a flag, a class, a variable, a code, or a line of an error."""

import re
from typing import NamedTuple

from ..model import BadQueryError
from ..resources import load_json
from .words import chunks, is_name, is_problem, name_of, pairs_of, parts_of, spelling_of, spoken_of

LONGEST = 10_000
LONG, DEEP = 2, 2  # parts of a class's name; dots in a setting's
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")
# A name that stands alone: what may be around it, and where a value or arguments begin behind it.
_LEFT, _RIGHT = "'\"`([{$", "'\"`)]}.,;"
_LABEL = re.compile(r"(?:error|warning|info)(?=\[)")
_BEFORE = re.compile(r"\s*(?:\$ |export |set |env |import |from [\w.]+ import )")
_NESTED = re.compile(r"(\w+):\s+(?=\w+:)")  # a key in its block, both on a line
_AS_WRITTEN = [(re.compile(pattern, re.IGNORECASE), text) for pattern, text in load_json("lookup.json")["written"]]
_VALUE = re.compile(r"([^\s=:(]+)([=:(\s]\s*)(.*)", re.DOTALL)


class Query(NamedTuple):
	"""The words of a question, pairs of them, and its names.

	`spellings` are those names that are written as flags or variables; `alone` is set where a name is all there is.
	"""

	text: str
	words: tuple[str, ...]
	pairs: tuple[str, ...]
	names: tuple[str, ...]
	spellings: tuple[str, ...]
	alone: bool


def read_query(text: str) -> Query:
	"""Take a question apart. Raises BadQueryError for one that is empty, huge or not text."""
	if len(text) > LONGEST:
		raise BadQueryError(f"the query has {len(text)} characters; give a name, a few words or one line, not a log")
	cleaned = _ANSI.sub("", text).strip()
	if _CONTROL.search(cleaned):
		raise BadQueryError("the query is not text: it holds control characters or broken UTF-8")
	if not cleaned:
		raise BadQueryError("the query is empty; give words, a key, a flag, a class, a rule code or an error line")
	if not chunks(cleaned):
		raise BadQueryError(f"the query {cleaned[:40]!r} has no word or name in it that could be looked up")
	return taken_apart(cleaned)


def taken_apart(text: str) -> Query:
	bare = _NESTED.sub(r"\1.", _BEFORE.sub("", text, count=1)) or text
	alone = lone_name(bare)
	asked = chunks(as_pages_say(bare)) or chunks(text)
	names = [alone] if alone else [chunk for chunk in asked if is_name(chunk) and not is_problem(chunk)]
	words = [word for chunk in asked for word in said(chunk)]
	return Query(
		text,
		tuple(dict.fromkeys(words)),
		tuple(dict.fromkeys(pairs_of(asked))),
		tuple(dict.fromkeys(name_of(name) for name in names)),
		tuple(dict.fromkeys(spelling for name in names if (spelling := spelling_of(name)))),
		bool(alone),
	)


def as_pages_say(text: str) -> str:
	for pattern, written in _AS_WRITTEN:
		text = pattern.sub(written, text)
	return text


def said(chunk: str) -> tuple[str, ...]:
	"""The words of a chunk that is asked for; what capitals mark in it only where it is long, as a class is.

	A module of Python, as log lines name it, has none: "api" and "launcher" in it say nothing about what happened.
	"""
	if chunk.count(".") > DEEP:
		return ()
	parts = parts_of(chunk)
	return (*spoken_of(chunk), *(parts if len(parts) > LONG else ()))


def lone_name(text: str) -> str:
	"""The name that a question consists of, with a value behind it or not; empty where there is more, or no name."""
	found = _VALUE.match(text)
	name, joint, value = found.groups() if found else (text, "", "")
	bare = _LABEL.sub("", name, count=1).lstrip(_LEFT).rstrip(_RIGHT)
	if chunks(bare) != [bare] or is_problem(bare):
		return ""
	opening = joint.strip("=: ") or value[:1]
	is_value = len(value.split()) <= 1 or opening + value[-1] in ("()", "{}", "[]")
	return bare if not joint or (is_value and (joint.strip() or is_name(bare))) else ""
