"""Which sections fit a question, the best first: BM25 over weighted words and pairs, and names that beat words."""

import re
from collections import defaultdict
from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

from .index import Index
from .postings import Postings, rarity_of, telling
from .query import Query
from .words import meanings, share_of

Meanings = Iterable[tuple[str, float]]


class Tuning(NamedTuple):
	"""The numbers of the ranking; measured with tools/measure_lookup.py."""

	saturation: float = 1.0  # how soon more of the same word gives nothing more
	length: float = 0.3  # how much a long section loses
	pair: float = 0.2  # a pair of words against a word of the same rarity
	phrase: float = 0.25  # a section that has all pairs of words, as the one that quotes a message
	name: float = 1.0  # a name against a word of the same rarity
	spelling: float = 1.0  # more for a flag or a variable that is written like that
	alone: float = 20.0  # how much less words count where a name alone is asked for
	title: float = 1.7  # a heading whose words are all asked for
	opening: float = 0.3  # factor for what stands above the first section of a page, and for a heading without text
	table: float = 0.8  # factor for generated tables, where more than a name is asked for
	release: float = 0.7  # factor for the list of what a release changed


TUNING = Tuning()
NAME_SATURATION = 3.0
TABLES = ("api-reference.md", "config-keys.md")
LEAST_SHARE = 0.25  # of the best score; what is below says nothing about the question
_RELEASE = re.compile(r"\w+ \d+(?:\.\d+)+")


def ranked(query: Query, index: Index, tuning: Tuning = TUNING) -> list[tuple[float, int]]:
	"""(score, number of the section) of every section that fits."""
	scores: dict[int, float] = defaultdict(float)
	names = known_names(query, index)
	factor = tuning.alone if query.alone and names else 1.0
	add(scores, map(meanings, query.words), index.words, index, 1 / factor, tuning)
	add(scores, (((pair, pair_share(pair)),) for pair in query.pairs), index.pairs, index, tuning.pair / factor, tuning)
	add_phrases(scores, query.pairs, index, tuning.phrase / factor)
	add_names(scores, names, index, tuning.name)
	add_names(scores, query.spellings, index, tuning.spelling)
	wanted, whole = wanted_words(query, index), telling(query.words, index.words, len(index.sections))
	for number in scores:
		own = index.titles[number]
		if shared := sum(wanted.get(word, 0.0) for word in own):
			part = min(1.0, shared / whole) if whole else 1.0
			scores[number] += tuning.title / factor * shared * (shared / index.telling[number]) * sqrt(part)
		scores[number] *= factor_of(number, query, index, tuning)
	order = sorted(((score, -number) for number, score in scores.items()), reverse=True)
	least = LEAST_SHARE * order[0][0] if order else 0.0
	return [(score, -number) for score, number in order if score >= least]


def known_names(query: Query, index: Index) -> list[str]:
	"""The names of a question that the reference knows; of a dotted one its last part where the whole is unknown."""
	either = ((name, name.rpartition(".")[2]) for name in query.names)
	known = (next((one for one in names if one in index.names), "") for names in either)
	return list(dict.fromkeys(filter(None, known)))


def add(
	scores: dict[int, float], asked: Iterable[Meanings], postings: Postings, index: Index, factor: float, tuning: Tuning
) -> None:
	"""Add what words or pairs give each section; of those that mean the same the best counts."""
	for alternatives in asked:
		best: dict[int, float] = {}
		for item, share in alternatives:
			found = postings.of(item)
			rarity = factor * share * rarity_of(len(found), len(index.sections))
			for number, weight in found.items():
				penalty = 1 - tuning.length + tuning.length * index.lengths[number]
				best[number] = max(best.get(number, 0.0), rarity * weight / (weight + tuning.saturation * penalty))
		for number, score in best.items():
			scores[number] += score


def add_phrases(scores: dict[int, float], pairs: Iterable[str], index: Index, factor: float) -> None:
	whole = 0.0
	found: dict[int, float] = defaultdict(float)
	for pair in pairs:
		postings = index.pairs.of(pair)
		rarity = pair_share(pair) * rarity_of(len(postings), len(index.sections))
		whole += rarity if postings else 0.0
		for number in postings:
			found[number] += rarity
	for number, rarity in found.items():
		scores[number] += factor * rarity * rarity / whole


def add_names(scores: dict[int, float], asked: Iterable[str], index: Index, factor: float) -> None:
	for name in asked:
		found = index.names.of(name)
		rarity = factor * rarity_of(len(found), len(index.sections))
		for number, weight in found.items():
			scores[number] += rarity * weight / (weight + NAME_SATURATION)


def wanted_words(query: Query, index: Index) -> dict[str, float]:
	wanted: dict[str, float] = {}
	for asked in query.words:
		for word, share in meanings(asked):
			wanted[word] = max(wanted.get(word, 0.0), share * rarity_of(index.words.count(word), len(index.sections)))
	return wanted


def factor_of(number: int, query: Query, index: Index, tuning: Tuning) -> float:
	section = index.sections[number]
	factor = tuning.opening if section.level == 1 or not section.units else 1.0
	if not query.alone and not query.spellings and section.page.endswith(TABLES):
		factor *= tuning.table
	return factor * tuning.release if _RELEASE.fullmatch(section.title) else factor


def pair_share(pair: str) -> float:
	return max(map(share_of, pair.split()))
