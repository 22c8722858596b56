"""Which sections fit a question, the best first: BM25 over weighted words and pairs, and names that beat words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import log
from typing import NamedTuple

from distributed_training_backends.lookup.index import Index, Postings
from distributed_training_backends.lookup.query import Query


class Tuning(NamedTuple):
    """The numbers of the ranking; measured with tools/measure_lookup.py."""

    saturation: float = 1.2
    length: float = 0.4  # how much a long section loses
    pair: float = 0.7  # a pair of words against one of the same rarity
    name: float = 1.0  # a name against a word of the same rarity
    spelling: float = 1.0  # more for a flag or a variable that is written like that
    alone: float = 4.0  # factor for names where nothing else is asked for
    title: float = 2.0  # a heading whose words are all asked for
    opening: float = 0.5  # factor for what stands above the first section of a page


TUNING = Tuning()
NAME_SATURATION = 3.0
LEAST_SHARE = 0.15  # of the best score; what is below says nothing about the question


def ranked(query: Query, index: Index, tuning: Tuning = TUNING) -> list[tuple[float, int]]:
    """(score, number of the section) of every section that fits."""
    scores: dict[int, float] = defaultdict(float)
    factor = tuning.alone if query.alone else 1.0
    add(scores, query.words, index.words, index, 1.0, tuning)
    add(scores, query.pairs, index.pairs, index, tuning.pair, tuning)
    add_names(scores, known_names(query, index), index, factor * tuning.name)
    add_names(scores, query.spellings, index, factor * tuning.spelling)
    for number in scores:
        scores[number] = fitted(scores[number], number, query, index, tuning)
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
        found = postings.get(item, {})
        rarity = factor * rarity_of(found, index)
        for number, weight in found.items():
            penalty = 1 - tuning.length + tuning.length * index.lengths[number]
            scores[number] += rarity * weight / (weight + tuning.saturation * penalty)


def add_names(scores: dict[int, float], asked: Iterable[str], index: Index, factor: float) -> None:
    """Add what names give each section, by where they stand in it."""
    for name in asked:
        found = index.names.get(name, {})
        rarity = factor * rarity_of(found, index)
        for number, weight in found.items():
            scores[number] += rarity * weight / (weight + NAME_SATURATION)


def fitted(score: float, number: int, query: Query, index: Index, tuning: Tuning) -> float:
    """A score, after a look at the section's heading and place."""
    section, title = index.sections[number], index.titles[number]
    asked = title.intersection(query.words)
    if asked:
        weight = sum(rarity_of(index.words[word], index) for word in title)
        share = sum(rarity_of(index.words[word], index) for word in asked) / weight
        score += tuning.title * share * share * weight
    if section.level == 1:
        score *= tuning.opening
    return score


def rarity_of(postings: Mapping[int, float], index: Index) -> float:
    """How telling a word is: the fewer sections have it, the more."""
    return log(1 + (len(index.sections) - len(postings) + 0.5) / (len(postings) + 0.5))
