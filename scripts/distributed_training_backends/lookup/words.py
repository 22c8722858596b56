"""Words and names in a text. A name counts as a whole, and its parts count as words."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from sys import intern

from ..resources import load_json

_CHUNK = re.compile(r"(?:--)?[A-Za-z0-9_]+(?:[.\-/][A-Za-z0-9_]+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PLURAL = re.compile(r"[A-Z]+s")
_JOINT = re.compile(r"[._\-/]+")
_NUMBER = re.compile(r"[0-9]+(?:[.\-/][0-9]+)*")
_CODE = re.compile(r"[A-Za-z]{3}\d{3}")
_PROBLEM = re.compile(r"(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt)")
_ENDINGS = ("ations", "ation", "ating", "ated", "ates", "ate", "ings", "ing", "edly", "ed", "es", "s", "e")
_SHORTEST = 3
STOP_WORDS = frozenset(load_json("lookup.json")["stop_words"])
PRODUCTS = frozenset(load_json("lookup.json")["products"])
SAME: dict[str, str] = load_json("lookup.json")["same"]
LIGHT = frozenset(load_json("lookup.json")["light"])
PROBLEM, ORDINARY, AKIN = 0.5, 0.4, 0.6  # what an exception, an ordinary word and one of like meaning count for


def chunks(text: str) -> list[str]:
	"""The words and names of a text as they are written, with the two dashes of a flag."""
	return _CHUNK.findall(text)


def name_of(chunk: str) -> str:
	"""The form under which a name is known: hyphens and underscores are the same, and so are upper and lower case."""
	return chunk.lower().replace("-", "_").strip("_")


def spelling_of(chunk: str) -> str:
	"""What sets a flag or a variable apart from a key of that name; empty for what looks like neither."""
	if chunk.startswith("--"):
		return "--" + name_of(chunk)
	return chunk if "_" in chunk and chunk.isupper() else ""


def words_of(chunk: str) -> tuple[str, ...]:
	"""The words that a chunk of a page is found by: those of fsdp_version, and of LocalSGD the one and the two."""
	return spoken_of(chunk) if chunk.islower() else (*spoken_of(chunk), *parts_of(chunk))


def parts_of(chunk: str) -> tuple[str, ...]:
	parts = _PART.findall(chunk) if chunk.isalpha() and not chunk.islower() and not _PLURAL.fullmatch(chunk) else []
	return tuple(word for part in parts for word in _word(part.lower())) if len(parts) > 1 else ()


@lru_cache(maxsize=1 << 13)
def spoken_of(chunk: str) -> tuple[str, ...]:
	"""The words of a chunk as one would say them: DeepSpeed is one, fsdp_version two."""
	if _NUMBER.fullmatch(chunk):
		return (chunk,)
	return tuple(word for part in _JOINT.split(chunk.lower()) if part for word in _word(part))


def _word(part: str) -> Iterator[str]:
	if part not in STOP_WORDS:
		stemmed = stem(part)
		yield intern(SAME.get(part) or SAME.get(stemmed) or stemmed)


@lru_cache(maxsize=1 << 12)
def meanings(word: str) -> tuple[tuple[str, float], ...]:
	"""The words of pages that answer a word of a question, and how much each counts for."""
	own = ORDINARY if word in light() or word.isdigit() else PROBLEM if word.endswith(("error", "exception")) else 1.0
	return ((word, own), *((other, own * AKIN) for other in akin().get(word, ()) if other != word))


def share_of(word: str) -> float:
	return meanings(word)[0][1]


@cache
def light() -> frozenset[str]:
	return frozenset(word for written in LIGHT for word in _word(written))


@cache
def akin() -> dict[str, tuple[str, ...]]:
	groups = [[word for written in group for word in spoken_of(written)] for group in load_json("lookup.json")["akin"]]
	found: dict[str, tuple[str, ...]] = {}
	for group in groups:
		for word in group:
			found[word] = (*found.get(word, ()), *(other for other in group if other != word))
	return found


def is_problem(chunk: str) -> bool:
	return _PROBLEM.fullmatch(chunk) is not None


def is_name(chunk: str) -> bool:
	"""Tell a name of code from a word: a flag, something with joints, a class, or the code of a rule.

	Abbreviations, "GPUs" and "DeepSpeed" are words.
	"""
	bare = chunk.strip("-./")
	if _NUMBER.fullmatch(chunk) or bare.lower() in PRODUCTS:
		return False
	joined = chunk.startswith("--") or any(mark in bare for mark in "_.")
	return joined or len(parts_of(bare)) > 1 or _CODE.fullmatch(bare) is not None


def stem(word: str) -> str:
	"""A word without its ending, so that "sharded" and "shards" are the same."""
	if word.endswith("ss"):
		return word
	if word.endswith("ies") and len(word) > _SHORTEST + 1:
		return word[:-3] + "y"
	for ending in _ENDINGS:
		if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
			return _single(word[: -len(ending)])
	return word


def _single(word: str) -> str:
	"""A stem with one consonant at its end: "clipp" is "clip", but "fill" stays."""
	return word[:-1] if word[-1] == word[-2] and word[-1] not in "aeioulsz" else word


def pairs_of(asked: Sequence[str]) -> Iterator[str]:
	return map(" ".join, pairwise([word for chunk in asked for word in spoken_of(chunk)]))


def forms_of(chunk: str) -> tuple[str, ...]:
	"""The names that a chunk counts as: itself, as a flag or variable too, and the last part if it is dotted."""
	last = (name_of(chunk.rpartition(".")[2]),) if "." in chunk and is_name(chunk) else ()
	spelling = spelling_of(chunk)
	return (name_of(chunk), *((spelling,) if spelling else ()), *last)


def forget() -> None:
	spoken_of.cache_clear()
