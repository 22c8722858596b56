"""Which sections fit a question, the best first: BM25 over weighted words and pairs, and names that beat words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from math import log, sqrt
from typing import NamedTuple

from distributed_training_backends.lookup.index import Index
from distributed_training_backends.lookup.postings import Postings
from distributed_training_backends.lookup.query import Query


class Tuning(NamedTuple):
    """The numbers of the ranking; measured with tools/measure_lookup.py."""

    saturation: float = 1.2  # how soon more of the same word gives nothing more
    length: float = 0.3  # how much a long section loses
    pair: float = 0.2  # a pair of words against a word of the same rarity
    phrase: float = 0.3  # a section that has all pairs of words, as the one that quotes a message
    name: float = 1.0  # a name against a word of the same rarity
    spelling: float = 1.0  # more for a flag or a variable that is written like that
    alone: float = 20.0  # how much less words count where a name alone is asked for
    title: float = 3.0  # a heading whose words are all asked for
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
    add(scores, query.words, index.words, index, 1 / factor, tuning)
    add(scores, query.pairs, index.pairs, index, tuning.pair / factor, tuning)
    add_phrases(scores, query.pairs, index, tuning.phrase / factor)
    add_names(scores, names, index, tuning.name)
    add_names(scores, query.spellings, index, tuning.spelling)
    for number in scores:
        scores[number] = fitted(scores[number], number, query, index, tuning.title / factor, tuning)
    order = sorted(((score, -number) for number, score in scores.items()), reverse=True)
    least = LEAST_SHARE * order[0][0] if order else 0.0
    return [(score, -number) for score, number in order if score >= least]


def known_names(query: Query, index: Index) -> list[str]:
    """The names of a question that the reference knows; of a dotted one its last part where the whole is unknown."""
    found = []
    for name in query.names:
        last = name.rpartition(".")[2]
        known = name if name in index.names else last if last in index.names else ""
        found += [known] if known else []
    return list(dict.fromkeys(found))


def add(
    scores: dict[int, float], asked: Iterable[str], postings: Postings, index: Index, factor: float, tuning: Tuning
) -> None:
    """Add what words or pairs give each section."""
    for item in asked:
        found = postings.of(item)
        rarity = factor * rarity_of(len(found), index)
        for number, weight in found.items():
            penalty = 1 - tuning.length + tuning.length * index.lengths[number]
            scores[number] += rarity * weight / (weight + tuning.saturation * penalty)


def add_phrases(scores: dict[int, float], pairs: Iterable[str], index: Index, factor: float) -> None:
    """Add what a section gets for the share of the known pairs that it has."""
    whole = 0.0
    found: dict[int, float] = defaultdict(float)
    for pair in pairs:
        postings = index.pairs.of(pair)
        rarity = rarity_of(len(postings), index)
        whole += rarity if postings else 0.0
        for number in postings:
            found[number] += rarity
    for number, rarity in found.items():
        scores[number] += factor * rarity * rarity / whole


def add_names(scores: dict[int, float], asked: Iterable[str], index: Index, factor: float) -> None:
    """Add what names give each section, by where they stand in it."""
    for name in asked:
        found = index.names.of(name)
        rarity = factor * rarity_of(len(found), index)
        for number, weight in found.items():
            scores[number] += rarity * weight / (weight + NAME_SATURATION)


def fitted(score: float, number: int, query: Query, index: Index, title: float, tuning: Tuning) -> float:
    """A score, after a look at the section's heading and place."""
    section, own = index.sections[number], index.titles[number]
    shared = weight_of(own.intersection(query.words), index)
    if shared:
        whole, asked = weight_of(own, index), weight_of(query.words, index)
        score += title * shared * (shared / whole) * sqrt(shared / asked)
    if not query.alone and section.page.endswith(TABLES):
        score *= tuning.table
    if _RELEASE.fullmatch(section.title):
        score *= tuning.release
    return score * tuning.opening if section.level == 1 or not section.units else score


def weight_of(words: Iterable[str], index: Index) -> float:
    """How telling words are together; those that no section has do not count."""
    return sum(rarity_of(index.words.count(word), index) for word in words if word in index.words)


def rarity_of(count: int, index: Index) -> float:
    """How telling a word is: the fewer sections have it, the more."""
    return log(1 + (len(index.sections) - count + 0.5) / (count + 0.5))
