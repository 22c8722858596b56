"""Words for messages: near misses and lists of values."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from json import dumps

MOST_LISTED = 14
LONG_LIST = 100
LONGEST = 80  # letters of a word that may be a slip of one that is known
_MARKS_OF_KEYS = str.maketrans("", "", "_.-")


def closest(word: str, candidates: Iterable[str], cutoff: float = 0.25) -> str | None:
	"""Give the candidate that the word is most likely a slip of, or None.

	The distance counts inserted, left out, changed and swapped letters; it may be at most `cutoff` of the word's
	length, and at least one. Case and the difference between "-", "_" and nothing do not count.
	"""
	return _closest(word, _known(frozenset(candidates)), cutoff)


@lru_cache(maxsize=64)
def _known(candidates: frozenset[str]) -> frozenset[str]:
	"""The same set for equal ones, so that not each word that is remembered keeps one of its own."""
	return candidates


# Three readers of a DeepSpeed file ask the same; and a file may hold twenty thousand keys that nobody knows.
@lru_cache(maxsize=1 << 15)
def _closest(word: str, candidates: frozenset[str], cutoff: float) -> str | None:
	plain = _plain(word)
	if not 3 <= len(plain) <= LONGEST:
		return None
	limit = max(1, int(len(plain) * cutoff))
	letters, places = _letters(plain), _places(plain)
	best: tuple[int, str] | None = None
	for length in range(len(plain) - limit, len(plain) + limit + 1):
		for candidate, other, its in _by_length(candidates).get(length, ()):
			# each letter that one of them lacks takes a step of its own, and to see that is much cheaper than to count
			if (letters & ~its).bit_count() > limit or (its & ~letters).bit_count() > limit or candidate == word:
				continue
			distance = _distance(places, len(plain), other)
			if distance <= limit and (best is None or (distance, candidate) < best):
				best = (distance, candidate)
	return best[1] if best else None


@lru_cache(maxsize=64)
def _by_length(candidates: frozenset[str]) -> dict[int, list[tuple[str, str, int]]]:
	found: dict[int, list[tuple[str, str, int]]] = {}
	for candidate in candidates:
		plain = _plain(candidate)
		found.setdefault(len(plain), []).append((candidate, plain, _letters(plain)))
	return found


def _plain(word: str) -> str:
	return word.lower().replace("_", "").replace("-", "")


def _letters(word: str) -> int:
	bits = 0
	for letter, count in Counter(word).items():
		bits |= (0, 1, 3, 7)[min(count, 3)] << ord(letter) % 65 * 3
	return bits


def _places(word: str) -> dict[str, int]:
	found: dict[str, int] = {}
	for place, letter in enumerate(word):
		found[letter] = found.get(letter, 0) | 1 << place
	return found


def _distance(places: dict[str, int], length: int, other: str) -> int:
	"""Count the single-letter steps from one word to another (optimal string alignment), the first one given by the
	places of its letters. A whole column of the table of distances is one integer, whose
	bits say where it rises and falls (Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit
	distances", 2003)."""
	full, last = (1 << length) - 1, 1 << (length - 1)
	rises, falls, equal, before, distance = full, 0, 0, 0, length
	for letter in other:
		here = places.get(letter, 0)
		swapped = (((~equal & here) << 1) & before) & full
		equal = ((((here & rises) + rises) ^ rises) | here | falls | swapped) & full
		right_rises = falls | (full & ~(equal | rises))
		right_falls = equal & rises
		distance += bool(right_rises & last) - bool(right_falls & last)
		right_rises = (right_rises << 1 | 1) & full
		rises = (right_falls << 1 & full) | (full & ~(equal | right_rises))
		falls = right_rises & equal
		before = here
	return distance


def listing(values: Iterable[object]) -> str:
	"""List values as they are written in a config: `NO, MULTI_GPU or FSDP`."""
	words = [str(value) for value in values]
	if len(words) > MOST_LISTED:
		words = [*words[:MOST_LISTED], f"{len(words) - MOST_LISTED} more"]
		return ", ".join(words[:-1]) + " and " + words[-1]
	return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else "".join(words)


def did_you_mean(word: str | None) -> str:
	return f"; did you mean {word}?" if word else ""


def misfit(what: str, expected: str, refusal: str) -> str:
	"""Say that a value is refused, and what it should be: last where that is a list too long to read on behind it."""
	short = len(expected) <= LONG_LIST
	return f"{what} is not {expected}; {refusal}" if short else f"{what}: {refusal} (it takes {expected})"


def unlike(name: str, reason: str, value: object) -> str:
	"""Say that a setting has to be something else than it is, or what is wrong with what it is."""
	if reason.startswith("is "):
		return f"`{name}: {shown(value)}` {reason}"
	return f"`{name}` {reason}, but is {shown(value)}"


def named(key: object) -> str:
	"""A key as a message names it: in quotation marks where it is no plain word."""
	text = str(key)
	letters = text.translate(_MARKS_OF_KEYS)
	return text if letters.isalnum() and len(text) <= LONGEST else shown(text)


def _as_json(value: object) -> str:
	try:
		return dumps(value, ensure_ascii=False, default=str)
	except TypeError:  # YAML takes dates and lists for keys
		return repr(value)


def shown(value: object) -> str:
	"""A value as a message quotes it: as JSON, and cut to a sensible length."""
	text = value if isinstance(value, str) else _as_json(value)
	text = text if len(text) <= 60 else text[:57] + "..."
	return f'"{text}"' if isinstance(value, str) else text
