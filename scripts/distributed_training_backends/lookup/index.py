"""All sections of the reference and where each word and name occurs in them. Built once, kept in memory."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from os.path import join, relpath
from typing import NamedTuple

from ..resources import load_json, references
from .key_pages import PAGES, spelled_out
from .postings import Postings, telling
from .rule_pages import documented
from .sections import PageSection, Unit, parse_page, plain
from .words import chunks, forget, forms_of, pairs_of, words_of

Weights = dict[str, float]
# What stands in every section about a rule, so that it tells nothing about any: kept out of the index.
_RULE_HEAD = re.compile(r"^\*\*[\w-]+\*\* \(.*\)$", re.DOTALL)
_SOURCE = re.compile(r"\bSource: .*", re.DOTALL)
_FINDING = re.compile(r"^(?:\S+:)?\d+:\d+: (?:error|warning|info|unreadable)\[\w+\] (.*)", re.MULTILINE)


class Place(NamedTuple):
	"""How much a word, a pair of words and a name count for that stand somewhere; 0 where they do not count."""

	word: float
	pair: float
	name: float


TITLE = Place(4.0, 4.0, 6.0)
SUBTITLE = Place(2.0, 2.0, 4.0)
LEAD = Place(0.5, 0.0, 0.0)  # once more, for the sentence that says what the section is about
ABOVE = Place(2.0, 0.0, 0.0)
PAGE_TITLE = Place(0.5, 0.0, 0.0)
DEFINED = Place(1.0, 0.0, 4.0)  # what a section defines beats what it mentions
SPELLED_OUT = Place(0.0, 0.0, 3.0)
TEXT = Place(1.0, 1.0, 1.5)
ASKED_AS = Place(2.0, 1.0, 0.0)  # what it is called by those who ask
SOURCE = Place(0.0, 0.0, 0.7)  # functions, as the lines of a traceback name them
MESSAGE = Place(0.6, 1.0, 1.0)
CODE = Place(0.6, 0.0, 1.0)  # nobody asks for two words that follow each other in a config


class Index(NamedTuple):
	"""Sections with the words of their headings, how telling these are, their lengths, and what terms count for."""

	sections: tuple[PageSection, ...]
	titles: tuple[frozenset[str], ...]
	telling: tuple[float, ...]
	lengths: tuple[float, ...]
	words: Postings
	pairs: Postings
	names: Postings


@cache
def the_index() -> Index:
	texts = (
		(page, spelled_out(text) if page in PAGES else documented(page, text)) for page, text in pages(references())
	)
	return build(section for page, text in texts for section in parse_page(page, text))


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
	kept = tuple(sections)
	words, pairs, names = Postings(), Postings(), Postings()
	lengths = []
	for number, section in enumerate(kept):
		counted = weigh(section)
		for postings, weights in zip((words, pairs, names), counted, strict=True):
			postings.add(number, weights)
		lengths.append(sum(counted[0].values()))
	for postings in (words, pairs, names):
		postings.sort()
	average = sum(lengths) / max(1, len(lengths))
	titles = tuple(map(title_words, kept))
	told = tuple(telling(title, words, len(kept)) for title in titles)
	forget()  # what is remembered of each chunk took more memory than the index
	return Index(kept, titles, told, tuple(length / average for length in lengths), words, pairs, names)


def title_words(section: PageSection) -> frozenset[str]:
	return frozenset(word for chunk in chunks(f"{section.title} {section.subtitle}") for word in words_of(chunk))


def weigh(section: PageSection) -> tuple[Weights, Weights, Weights]:
	"""How much each word, pair and name counts for in a section; a name by the best of its places."""
	words: Weights = defaultdict(float)
	pairs: Weights = {}
	names: Weights = {}
	for text, place in places(section):
		found = chunks(text)
		if place.word:
			for chunk in found:
				for word in words_of(chunk):
					words[word] += place.word
		if place.pair:
			for pair in pairs_of(found):
				pairs.setdefault(pair, place.pair)
		if place.name:
			for name in {form for chunk in set(found) for form in forms_of(chunk)}:
				names[name] = max(place.name, names.get(name, 0.0))
	return words, pairs, names


def places(section: PageSection) -> Iterator[tuple[str, Place]]:
	yield section.title, TITLE
	yield section.above, ABOVE
	yield section.page_title, PAGE_TITLE
	yield section.subtitle, SUBTITLE
	yield asked_as(section), ASKED_AS
	yield from ((unit.text, LEAD) for unit in section.units[:2] if unit.kind == "text")
	yield from ((name, DEFINED) for name in section.defines)
	yield from ((name, SPELLED_OUT) for name in section.spells)
	yield from ((head, TEXT) for head in {unit.head for unit in section.units})
	yield from ((found[0], SOURCE) for unit in section.units if (found := _SOURCE.search(unit.text)))
	yield from map(place_of, section.units)


def asked_as(section: PageSection) -> str:
	pages: dict[str, dict[str, str]] = load_json("lookup_asked.json")["pages"]
	return pages.get(section.page.removeprefix("references/"), {}).get(section.anchor, "")


def place_of(unit: Unit) -> tuple[str, Place]:
	"""The text of a unit without what every section of its kind has, and what kind of place it is."""
	if unit.kind != "code":
		return plain(_SOURCE.sub("", _RULE_HEAD.sub("", unit.text))), TEXT
	info, _, code = unit.text.partition("\n")
	if not info.endswith("```text"):
		return code, CODE
	return "\n".join(_FINDING.findall(code)) or code, MESSAGE
