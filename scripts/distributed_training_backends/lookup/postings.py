"""Which sections a term stands in, and how much it counts for there.

In flat arrays, because a dict for each of some 25,000 terms takes several times the memory, which the MCP server keeps
for as long as it runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from math import log

from distributed_training_backends.lookup.words import share_of

NONE = -1


class Postings:
    """Rows of (section, weight), each with the row before it that is about the same term."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        self._last, self._counts = array("i"), array("i")  # by term
        self._sections, self._weights, self._before = array("i"), array("d"), array("i")  # by row

    def add(self, section: int, weights: Mapping[str, float]) -> None:
        """Take up what terms count for in a section."""
        for term, weight in weights.items():
            number = self._terms.setdefault(term, len(self._terms))
            if number == len(self._last):
                self._last.append(NONE)
                self._counts.append(0)
            self._before.append(self._last[number])
            self._last[number] = len(self._sections)
            self._counts[number] += 1
            self._sections.append(section)
            self._weights.append(weight)

    def __contains__(self, term: str) -> bool:
        return term in self._terms

    def count(self, term: str) -> int:
        """How many sections have a term."""
        number = self._terms.get(term)
        return 0 if number is None else self._counts[number]

    def of(self, term: str) -> dict[int, float]:
        """What a term counts for, by section."""
        number = self._terms.get(term)
        row = NONE if number is None else self._last[number]
        found: dict[int, float] = {}
        while row != NONE:
            found[self._sections[row]] = self._weights[row]
            row = self._before[row]
        return found


def rarity_of(count: int, sections: int) -> float:
    """How telling a term is: the fewer sections have it, the more."""
    return log(1 + (sections - count + 0.5) / (count + 0.5))


def telling(words: Iterable[str], postings: Postings, sections: int) -> float:
    """How telling words are together; those that no section has do not count, ordinary ones little."""
    return sum(share_of(word) * rarity_of(postings.count(word), sections) for word in words if word in postings)
