"""What may have been meant where nothing is called as it is asked for."""

from collections.abc import Iterator, Mapping
from functools import cache

from ..rules.suggest import closest
from .index import Index, the_index
from .query import Query
from .ranking import known_names
from .words import chunks, name_of

MOST = 3


def suggestions_for(query: Query, index: Index, fits: bool) -> tuple[str, ...]:
	"""The nearest name for each one that nothing is called; where nothing fits, also for each word."""
	known = known_names(query, index)
	strange = [name for name in query.names if name not in known and name.rpartition(".")[2] not in known]
	if len(query.words) == 1 and query.words[0] in index.words:  # an ordinary word that pages say otherwise
		strange = []
	words = [] if fits else [name_of(chunk) for chunk in chunks(query.text)]
	return tuple(dict.fromkeys(nearest(strange or words, query)))


def nearest(names: list[str], query: Query) -> Iterator[str]:
	for name in names[:MOST]:
		if near := closest(name, every_name()):
			spelled = written()[near]
			spelled = spelled.lower() if spelled.istitle() else spelled  # a word with which a heading begins
			yield f"--{near}" if f"--{name}" in query.spellings else spelled


@cache
def every_name() -> frozenset[str]:
	return frozenset(written())


@cache
def written() -> Mapping[str, str]:
	"""Each name as it is written: in headings and where it is defined, or else anywhere."""
	found: dict[str, str] = {}
	sections = the_index().sections
	for texts in (
		*((section.title, *section.defines) for section in sections),
		*((unit.text for unit in section.units) for section in sections),
	):
		for chunk in chunks(" ".join(texts)):
			found.setdefault(name_of(chunk), chunk.removeprefix("--"))
	return found
