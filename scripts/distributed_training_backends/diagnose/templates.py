"""Messages of libraries as templates, and how they are found in a text in linear time.

A template is the text of a message in words: upper and lower case and punctuation do not count, a lone `*` stands for
whatever the library puts in between, a `*` at the end of a word for the rest of that word, and `#` for a number. A
message may run over several lines. There is nothing in it that could backtrack: its parts are looked for one after
the other, each within reach of the one before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

REACH = 400  # bytes between two parts of one message
LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789_"
UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Keeps the length, so that a position in the plain text is a position in the text.
PLAIN = bytes(byte if byte in LETTERS else byte + 32 if byte in UPPER else 32 for byte in range(256))
_WORD = r"[a-z0-9_]"


def plain(text: str) -> bytes:
    """A text in lower case, with a space for everything that is no letter, digit or underscore; as long as it was."""
    return text.encode("ascii", "replace").translate(PLAIN)


class Template:
    """A message to look for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = tuple(part for part in _parts(text) if part)
        if not self.parts:
            raise ValueError(f"a template without a word: {text!r}")
        whole = [word for part in self.parts for word in part if not word.endswith("*") and word != "#"]
        if not whole:
            raise ValueError(f"a template without a whole word: {text!r}")
        self.key = max(whole, key=len).encode()
        self.words = frozenset(word.encode() for word in whole)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[bytes], ...]:
        """A pattern for each part; compiled only for templates whose key stands in the text."""
        return tuple(re.compile(_pattern(part).encode()) for part in self.parts)

    def find(self, text: bytes, start: int = 0) -> tuple[int, int] | None:
        """Give where the message stands in a plain text, or None."""
        first, *others = self.patterns
        while found := first.search(text, start):
            end = self._rest(text, found.end(), others)
            if end is not None:
                return found.start(), end
            start = found.end()
        return None

    def _rest(self, text: bytes, end: int, others: Iterable[re.Pattern[bytes]]) -> int | None:
        for pattern in others:
            found = pattern.search(text, end, end + REACH)
            if found is None:
                return None
            end = found.end()
        return end


def _parts(text: str) -> Iterator[list[str]]:
    """The words of a template, in the parts that lone stars make."""
    part: list[str] = []
    for word in re.sub(r"[^a-z0-9_*#]+", " ", text.lower()).split():
        if word == "*":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _pattern(words: list[str]) -> str:
    first = words[0].removesuffix("*")
    # What may not stand before the first word is asked after it: a pattern that begins with a text is found faster.
    start = rf"(?<!{_WORD})[0-9]{{1,20}}" if first == "#" else rf"{first}(?<!{_WORD}{first})"
    start += rf"{_WORD}{{0,60}}" if words[0].endswith("*") else ""
    between = " {1,120}".join((start, *(_word(word) for word in words[1:])))
    return between + ("" if words[-1].endswith("*") else rf"(?!{_WORD})")


def _word(word: str) -> str:
    if word == "#":
        return "[0-9]{1,20}"
    return rf"{word[:-1]}{_WORD}{{0,60}}" if word.endswith("*") else word


class Index:
    """Templates by one word each, so that a text is searched only for those that can be in it."""

    def __init__(self, templates: Iterable[Template]) -> None:
        self._by_key: dict[bytes, list[Template]] = {}
        for template in templates:
            self._by_key.setdefault(template.key, []).append(template)

    @property
    def keys(self) -> Mapping[bytes, list[Template]]:
        """The templates of each key."""
        return self._by_key

    def candidates(self, text: bytes) -> list[Template]:
        """The templates whose whole words are all in a plain text, in the order of their keys."""
        words = set(text.split())
        keys = sorted(self._by_key.keys() & words)
        return [template for key in keys for template in self._by_key[key] if template.words <= words]
