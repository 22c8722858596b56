"""All sections of the reference and where each word and name occurs in them. Built once, kept in memory."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from os.path import join, relpath
from typing import NamedTuple

from distributed_training_backends.lookup.sections import CODE, PageSection, parse_page, plain
from distributed_training_backends.lookup.words import chunks, name_of, words
from distributed_training_backends.resources import references

# How much a word counts for by where it stands.
IN_TITLE, IN_PAGE_TITLE, IN_DEFINITION, IN_CODE_SPAN, IN_TEXT, IN_CODE_BLOCK = 5.0, 0.5, 2.0, 0.5, 1.0, 0.3
# How much a name counts for: what a section defines beats what it mentions.
DEFINED, MENTIONED, SHOWN = 4.0, 1.5, 1.0


class Index(NamedTuple):
    """Sections, the weight of each word and name in each of them, and their lengths."""

    sections: tuple[PageSection, ...]
    words: Mapping[str, Mapping[int, float]]
    names: Mapping[str, Mapping[int, float]]
    lengths: tuple[float, ...]

    @property
    def average_length(self) -> float:
        """The usual length of a section."""
        return sum(self.lengths) / max(1, len(self.lengths))


@cache
def the_index() -> Index:
    """The index of the pages that come with the program."""
    return build(section for page, text in pages(references()) for section in parse_page(page, text))


def pages(folder: str) -> Iterator[tuple[str, str]]:
    """(path from the folder's parent, text) of each page below a folder."""
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".md"):
                path = join(where, name)
                with open(path, encoding="utf-8") as file:
                    yield relpath(path, join(folder, os.pardir)).replace(os.sep, "/"), file.read()


def build(sections: Iterable[PageSection]) -> Index:
    """Count the words and names of sections."""
    kept = tuple(sections)
    weights: dict[str, dict[int, float]] = defaultdict(dict)
    names: dict[str, dict[int, float]] = defaultdict(dict)
    lengths = []
    for number, section in enumerate(kept):
        counted = word_weights(section)
        for word, weight in counted.items():
            weights[word][number] = weight
        for name, weight in name_weights(section).items():
            names[name][number] = weight
        lengths.append(sum(counted.values()))
    return Index(kept, weights, names, tuple(lengths))


def word_weights(section: PageSection) -> dict[str, float]:
    """How much each word counts for in a section."""
    found: dict[str, float] = defaultdict(float)
    for text, weight in weighted_texts(section):
        for word in words(text):
            found[word] += weight
    return found


def weighted_texts(section: PageSection) -> Iterator[tuple[str, float]]:
    """The texts of a section with the weight of their words."""
    yield section.title, IN_TITLE
    yield section.page_title, IN_PAGE_TITLE
    yield from ((name, IN_DEFINITION) for name in section.defines[1:])
    for unit in section.units:
        yield (unit.text, IN_CODE_BLOCK) if unit.kind == "code" else (plain(unit.text), IN_TEXT)
        if unit.kind != "code":
            yield from ((span, IN_CODE_SPAN) for span in CODE.findall(unit.text))


def name_weights(section: PageSection) -> dict[str, float]:
    """How much each name counts for in a section: the most that any of its places gives."""
    found: dict[str, float] = {}
    for text, weight in named_texts(section):
        for name in names_in(text):
            found[name] = max(weight, found.get(name, 0.0))
    return found


def named_texts(section: PageSection) -> Iterator[tuple[str, float]]:
    """The texts of a section with the weight of their names."""
    for unit in section.units:
        yield unit.text, SHOWN if unit.kind == "code" else MENTIONED
    yield from ((name, DEFINED) for name in section.defines)


def names_in(text: str) -> Iterator[str]:
    """Every chunk of a text as a name, and of a dotted one its last part too."""
    for chunk in chunks(text):
        yield name_of(chunk)
        if "." in chunk:
            yield name_of(chunk.rpartition(".")[2])
