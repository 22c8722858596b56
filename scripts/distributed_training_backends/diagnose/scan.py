"""One pass over a log: which messages stand in it and where, which exceptions, and how its processes ended."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from .ends import End, Ends
from .reading import Line, Source, clean_lines, is_quiet, looks_binary
from .templates import Index, Template, joined, plain, words_in
from .tracebacks import Raised, Tracebacks

BLOCK = 131_072  # code points that are searched at once
OVERLAP = 12  # lines of a block that the next one sees again, for messages over several lines
KEPT = 4  # places of a message that are kept; the others are counted
ENOUGH = 500  # of one message; what comes after is not looked for
EXCERPT = 700
SHORT = 4_000  # code points up to which a text is kept whole: people paste a line, or describe what they see


class Spot(NamedTuple):
	line: int
	source: Source
	text: str


class Hit(NamedTuple):
	"""A message that was found: the first places, how often, from which processes, and the last line of it."""

	template: Template
	spots: tuple[Spot, ...]
	times: int
	sources: frozenset[Source]
	last: int


class Scan(NamedTuple):
	"""What a log holds. `completed` is the last line by which a run says that it is done, 0 if there is none.

	`whole` is its text where it is short, `told` the lines that tell releases and settings.
	"""

	hits: dict[str, Hit]
	raised: tuple[Raised, ...]
	end: End | None
	completed: int
	lines: int
	binary: bool
	whole: str | None
	told: str


class Scanner:
	"""Finds the templates of an index; `telling` are those whose lines are kept for what they tell of the run."""

	def __init__(self, index: Index, telling: Index) -> None:
		self._index, self._telling = index, telling
		self._hits: dict[str, Hit] = {}
		self._seen: set[tuple[str, int]] = set()
		self._told: dict[int, str] = {}

	def scan(self, texts: Iterable[str]) -> Scan:
		tracebacks, ends, start, last = Tracebacks(), Ends(), _Start(), 0
		for block in blocks(clean_lines(start.watch(texts))):
			fresh = [line for line in block if line.number > last] if last else block
			text = "\n".join(line.text for line in block)
			self._block(block, words_in(text))
			if tracebacks.wants(text):
				for line in fresh:
					tracebacks.feed(line)
			if ends.wants(text):
				for line in fresh:
					ends.feed(line)
			last = block[-1].number
		return Scan(
			self._hits,
			tuple(tracebacks.finish()),
			ends.finish(),
			ends.completed,
			last,
			looks_binary(start.text),
			start.text if start.whole else None,
			"\n".join(self._told.values()),
		)

	def _block(self, block: list[Line], words: list[bytes]) -> None:
		known = set(words)
		wanted, telling = self._index.candidates(known), self._telling.candidates(known)
		if not wanted and not telling:
			return
		searched = joined(words)
		starts = list(accumulate((len(plain(line.text)) - 1 for line in block), initial=1))
		for template in wanted:
			for begin, end in self._found(template, searched):
				self._note(template, block[bisect_right(starts, begin) - 1 : bisect_right(starts, end - 1)])
		for template in telling:
			for begin, _ in self._found(template, searched):
				line = block[bisect_right(starts, begin) - 1]
				if len(self._told) < KEPT * ENOUGH:
					self._told.setdefault(line.number, line.text[:EXCERPT])

	def _found(self, template: Template, text: bytes) -> Iterator[tuple[int, int]]:
		start = 0
		known = self._hits.get(template.text)
		left = ENOUGH - (known.times if known else 0)
		while left > 0 and (found := template.find(text, start)):
			yield found
			start, left = found[1], left - 1

	def _note(self, template: Template, lines: list[Line]) -> None:
		first = lines[0]
		if (template.text, first.number) in self._seen or is_quiet(first.text):
			return
		self._seen.add((template.text, first.number))
		known = self._hits.get(template.text) or Hit(template, (), 0, frozenset(), 0)
		spots = known.spots
		if len(spots) < KEPT:
			said = " ".join(line.text.strip() for line in lines)
			spots = (*spots, Spot(first.number, first.source, said[:EXCERPT]))
		self._hits[template.text] = Hit(template, spots, known.times + 1, known.sources | {first.source}, first.number)


class _Start:
	def __init__(self) -> None:
		self.text = ""
		self.whole = True

	def watch(self, texts: Iterable[str]) -> Iterator[str]:
		for text in texts:
			if len(self.text) < 2 * SHORT:
				self.text += text[: 2 * SHORT]
			self.whole = self.whole and len(self.text) <= SHORT
			yield text


def blocks(lines: Iterable[Line]) -> Iterator[list[Line]]:
	"""Gather lines into blocks; each begins with the last lines of the one before."""
	block: list[Line] = []
	size = carried = 0
	for line in lines:
		block.append(line)
		size += len(line.text) + 1
		if size >= BLOCK:
			yield block
			block = block[-OVERLAP:] if len(block) > OVERLAP else []
			size = carried = sum(len(line.text) + 1 for line in block)
			if size >= BLOCK // 2:  # a line as long as a block is not carried along
				block, size, carried = [], 0, 0
	if size > carried:
		yield block
