"""Words and names in a text. A name counts as a whole, and its parts count as words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from distributed_training_backends.resources import load_json

_CHUNK = re.compile(r"[A-Za-z0-9_]+(?:[.\-/][A-Za-z0-9_]+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NUMBER = re.compile(r"[0-9]+(?:[.\-/][0-9]+)*")
_ENDINGS = ("ings", "ing", "edly", "ed", "es", "s", "e")
_SHORTEST = 3
STOP_WORDS = frozenset(load_json("lookup.json")["stop_words"])


def chunks(text: str) -> list[str]:
    """The words and names of a text as they are written; dashes before a flag are left out."""
    return _CHUNK.findall(text)


@lru_cache(maxsize=1 << 15)
def name_of(chunk: str) -> str:
    """The form under which a name is known: hyphens and underscores are the same, and so are upper and lower case."""
    return chunk.lower().replace("-", "_").strip("_")


@lru_cache(maxsize=1 << 15)
def words_of(chunk: str) -> tuple[str, ...]:
    """The words in a chunk: of FullyShardedDataParallelPlugin, of fsdp_version, or the chunk itself."""
    if _NUMBER.fullmatch(chunk):
        return (chunk,)
    return tuple(stem(part.lower()) for part in _PART.findall(chunk) if part.lower() not in STOP_WORDS)


def is_name(chunk: str) -> bool:
    """Tell a name of code from a word: it joins several parts, or mixes letters with digits or cases."""
    if _NUMBER.fullmatch(chunk):
        return False
    return any(mark in chunk.strip("-./") for mark in "_.") or not (chunk.islower() or chunk.istitle())


def stem(word: str) -> str:
    """A word without its ending, so that "sharded" and "shards" are the same."""
    if word.endswith("ss"):
        return word
    if word.endswith("ies") and len(word) > _SHORTEST + 1:
        return word[:-3] + "y"
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


def words(text: str) -> Iterator[str]:
    """Every word of a text, those inside names included."""
    for chunk in chunks(text):
        yield from words_of(chunk)
