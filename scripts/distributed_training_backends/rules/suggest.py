"""Words for messages: near misses and lists of values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from json import dumps

MOST_LISTED = 14
_PLAIN_WORD = re.compile(r"[\w.-]{1,60}")


def closest(word: str, candidates: Iterable[str], cutoff: float = 0.25) -> str | None:
    """Give the candidate that the word is most likely a slip of, or None.

    The distance counts inserted, left out, changed and swapped letters; it may be at most `cutoff` of the word's
    length, and at least one. Case and the difference between "-", "_" and nothing do not count.
    """
    return _closest(word, frozenset(candidates), cutoff)


@lru_cache(maxsize=1024)
def _closest(word: str, candidates: frozenset[str], cutoff: float) -> str | None:
    plain = _plain(word)
    if len(plain) < 3:
        return None
    limit = max(1, int(len(plain) * cutoff))
    letters = set(plain)
    best: tuple[int, str] | None = None
    for candidate, other, its in _prepared(candidates):
        # each letter that one of them lacks takes a step of its own, and to see that is much cheaper than to count
        longer = abs(len(other) - len(plain)) > limit
        if longer or len(letters - its) > limit or len(its - letters) > limit:
            continue
        distance = edit_distance(plain, other, limit)
        if distance <= limit and (best is None or (distance, candidate) < best) and candidate != word:
            best = (distance, candidate)
    return best[1] if best else None


@lru_cache(maxsize=256)
def _prepared(candidates: frozenset[str]) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """The candidates in order, each with its bare form and the letters of that."""
    bare = [(candidate, _plain(candidate)) for candidate in sorted(candidates)]
    return tuple((candidate, plain, frozenset(plain)) for candidate, plain in bare)


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def edit_distance(one: str, other: str, limit: int) -> int:
    """Count the single-letter steps from one word to the other (optimal string alignment), up to `limit` + 1.

    What lies further than `limit` from the diagonal takes more steps than that, and is not looked at.
    """
    width = len(other) + 1
    before: list[int] = []
    above = list(range(width))
    for row, letter in enumerate(one, 1):
        line = [row] + [limit + 1] * (width - 1)
        for column in range(max(1, row - limit), min(width, row + limit + 1)):
            if letter == other[column - 1]:
                line[column] = above[column - 1]
                continue
            line[column] = 1 + min(above[column - 1], above[column], line[column - 1])
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == other[column - 1]:
                line[column] = min(line[column], before[column - 2] + 1)
        if min(line) > limit:
            return limit + 1
        before, above = above, line
    return above[-1]


def listing(values: Iterable[object]) -> str:
    """List values as they are written in a config: `NO, MULTI_GPU or FSDP`."""
    words = [str(value) for value in values]
    if len(words) > MOST_LISTED:
        words = [*words[:MOST_LISTED], f"{len(words) - MOST_LISTED} more"]
        return ", ".join(words[:-1]) + " and " + words[-1]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else "".join(words)


def did_you_mean(word: str | None) -> str:
    """The tail of a message that offers a near miss; empty without one."""
    return f"; did you mean {word}?" if word else ""


def named(key: object) -> str:
    """A key as a message names it: in quotation marks where it is no plain word."""
    text = str(key)
    return text if _PLAIN_WORD.fullmatch(text) else shown(text)


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
