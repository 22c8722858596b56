"""Messages of libraries as templates, and how they are found in a text in linear time.

A template is the text of a message in words: upper and lower case and punctuation do not count, a lone `*` stands for
whatever the library puts in between, a `*` at the end of a word for the rest of that word, and `#` for a number. A
message may run over several lines. There is nothing in it that could backtrack: its parts are looked for one after
the other, each within reach of the one before.
"""

import re
from collections.abc import Iterable, Iterator, Set
from functools import cached_property

REACH = 400  # bytes between two parts of one message
LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789_"
UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PLAIN = bytes(byte if byte in LETTERS else byte + 32 if byte in UPPER else 32 for byte in range(256))


def words_in(text: str) -> list[bytes]:
	"""The words of a text in lower case: what is no letter, digit or underscore only stands between them."""
	return text.encode("ascii", "replace").translate(PLAIN).split()


def plain(text: str) -> bytes:
	return joined(words_in(text))


def joined(words: Iterable[bytes]) -> bytes:
	return b" ".join((b"", *words, b""))


class Template:
	def __init__(self, text: str) -> None:
		self.text = text
		self.parts = tuple(filter(None, _parts(text)))
		whole = [word for part in self.parts for word in part if not word.endswith("*") and word != "#"]
		if not whole:
			raise ValueError(f"a template without a whole word: {text!r}")
		self.key = max(whole, key=len).encode()
		self.words = frozenset(word.encode() for word in whole)

	@cached_property
	def patterns(self) -> tuple[re.Pattern[bytes] | bytes, ...]:
		"""What to look for, for each part; a pattern only where a text does not do, because compiling takes a while."""
		return tuple(
			re.compile(f" {' '.join(map(_word, part))} ".encode())
			if "*" in "".join(part) or "#" in part
			else joined(map(str.encode, part))
			for part in self.parts
		)

	def find(self, text: bytes, start: int = 0) -> tuple[int, int] | None:
		first, *others = self.patterns
		while found := _found(first, text, start, len(text)):
			end = self._rest(text, found[1] - 1, others)
			if end is not None:
				return found[0] + 1, end
			start = found[1] - 1
		return None

	def _rest(self, text: bytes, end: int, others: Iterable[re.Pattern[bytes] | bytes]) -> int | None:
		for pattern in others:
			found = _found(pattern, text, end, end + REACH)
			if found is None:
				return None
			end = found[1] - 1
		return end


def _found(pattern: re.Pattern[bytes] | bytes, text: bytes, start: int, end: int) -> tuple[int, int] | None:
	if isinstance(pattern, bytes):
		place = text.find(pattern, start, end)
		return (place, place + len(pattern)) if place >= 0 else None
	found = pattern.search(text, start, end)
	return found.span() if found else None


def _parts(text: str) -> Iterator[list[str]]:
	part: list[str] = []
	for word in re.sub(r"[^a-z0-9_*#]+", " ", text.lower()).split():
		if word == "*":
			yield part
			part = []
		else:
			part.append(word)
	yield part


def _word(word: str) -> str:
	if word == "#":
		return "[0-9]{1,20}"
	return f"{word[:-1]}[a-z0-9_]{{0,60}}" if word.endswith("*") else word


class Index:
	"""Templates by one word each, so that a text is searched only for those that can be in it."""

	def __init__(self, templates: Iterable[Template]) -> None:
		self._by_key: dict[bytes, list[Template]] = {}
		for template in templates:
			self._by_key.setdefault(template.key, []).append(template)

	def candidates(self, words: Set[bytes]) -> list[Template]:
		keys = sorted(self._by_key.keys() & words)
		return [template for key in keys for template in self._by_key[key] if template.words <= words]
