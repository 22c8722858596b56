"""Which sections fit a question, the best first: BM25 over weighted words, and names that beat words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import log

from distributed_training_backends.lookup.index import Index
from distributed_training_backends.lookup.query import Query

SATURATION, LENGTH_PENALTY = 1.2, 0.5
NAME = 3.0  # a name that is asked for, against a word of the same rarity
LEAST_SHARE = 0.15  # of the best score; what is below says nothing about the question


def ranked(query: Query, index: Index) -> list[tuple[float, int]]:
    """(score, number of the section) of every section that fits."""
    scores: dict[int, float] = defaultdict(float)
    for word in query.words:
        add(scores, index.words.get(word, {}), index)
    for name in known_names(query, index):
        postings = index.names[name]
        rarity = rarity_of(postings, index)
        for number, weight in postings.items():
            scores[number] += NAME * rarity * weight
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


def add(scores: dict[int, float], postings: Mapping[int, float], index: Index) -> None:
    """Add what one word gives each section."""
    rarity = rarity_of(postings, index)
    for number, weight in postings.items():
        length = index.lengths[number] / index.average_length
        scores[number] += rarity * weight / (weight + SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length))


def rarity_of(postings: Mapping[int, float], index: Index) -> float:
    """How telling a word is: the fewer sections have it, the more."""
    return log(1 + (len(index.sections) - len(postings) + 0.5) / (len(postings) + 0.5))
