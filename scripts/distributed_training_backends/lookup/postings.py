"""Which sections a term stands in, and how much it counts for there.

In flat arrays sorted by the hash of the term: a dict of some 25,000 terms takes several times the memory, which the MCP
server keeps for as long as it runs. That two terms share one of 2**44 keys does not happen in practice.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from math import log

from .words import share_of

ROWS = (1 << 20) - 1  # the bits of a hash that give way to the number of a row while rows are sorted


class Postings:
	"""Rows of (term, section, weight), in the order of the terms' hashes once they are sorted."""

	def __init__(self) -> None:
		self._terms, self._sections, self._weights = array("q"), array("H"), array("f")

	def add(self, section: int, weights: Mapping[str, float]) -> None:
		self._terms.extend(map(key_of, weights))
		self._sections.extend([section] * len(weights))
		self._weights.extend(weights.values())

	def sort(self) -> None:
		"""Put the rows into the order that they are looked up in, after the last one."""
		ordered = array("q", sorted(key | row for row, key in enumerate(self._terms)))
		self._sections = array("H", (self._sections[key & ROWS] for key in ordered))
		self._weights = array("f", (self._weights[key & ROWS] for key in ordered))
		self._terms = array("q", (key & ~ROWS for key in ordered))

	def __contains__(self, term: str) -> bool:
		return self.count(term) > 0

	def count(self, term: str) -> int:
		rows = self._rows(term)
		return int(rows.stop) - int(rows.start)

	def of(self, term: str) -> dict[int, float]:
		rows = self._rows(term)
		return dict(zip(self._sections[rows], self._weights[rows], strict=True))

	def _rows(self, term: str) -> slice:
		key = key_of(term)
		first = bisect_left(self._terms, key)
		return slice(first, bisect_right(self._terms, key, first))


def key_of(term: str) -> int:
	return hash(term) & ~ROWS


def rarity_of(count: int, sections: int) -> float:
	"""How telling a term is: the fewer sections have it, the more."""
	return log(1 + (sections - count + 0.5) / (count + 0.5))


def telling(words: Iterable[str], postings: Postings, sections: int) -> float:
	"""How telling words are together; those that no section has do not count, ordinary ones little."""
	return sum(share_of(word) * rarity_of(postings.count(word), sections) for word in words if word in postings)
