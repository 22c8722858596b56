"""From a question to a report: find, rank, quote, and say what was left out or may have been meant."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

from ..model import Targets
from ..model_lookup import LookupReport, Section
from ..rules.suggest import closest
from .excerpt import text_of
from .index import Index, the_index
from .notes import notes
from .query import Query, read_query
from .ranking import known_names, ranked
from .words import chunks, name_of

Detail = Literal["concise", "full"]
LENGTHS = {"concise": (1100, 350), "full": (8000, 4000)}  # characters of the first section and of each other one
MOST_SECTIONS = 50
MOST_SUGGESTED = 3
ECHOED = 300  # characters of the question in the answer


def look_up(query: str, targets: Targets, detail: Detail = "concise", limit: int = 5, offset: int = 0) -> LookupReport:
	"""Find the sections that answer a question. Raises BadQueryError for what cannot be looked up."""
	index, asked = the_index(), read_query(query)
	found = ranked(asked, index)
	suggestions = suggestions_for(asked, index, fits=bool(found))
	meant = asked
	if suggestions:  # a name that nothing is called: its parts would find less than what it resembles
		meant = asked._replace(names=(*asked.names, *map(name_of, suggestions)))
		if asked.alone or not found:
			meant = read_query(suggestions[0] if asked.alone else " ".join(suggestions))
		found = ranked(meant, index)
	shown = [number for _, number in found[:MOST_SECTIONS]][offset : offset + limit]
	total, following = min(len(found), MOST_SECTIONS), offset + len(shown)
	sections = tuple(quoted(index, number, meant, detail, place == 0) for place, number in enumerate(shown, offset))
	return LookupReport(
		query=asked.text if len(asked.text) <= ECHOED else f"{asked.text[:ECHOED]} […]",
		targets=targets,
		total=total,
		offset=offset,
		next_offset=following if shown and following < total else -1,
		sections=sections,
		suggestions=suggestions,
		notes=tuple(notes(meant, targets)),
		summary=summary(sections, total, offset, suggestions, index),
	)


def quoted(index: Index, number: int, query: Query, detail: Detail, is_first: bool) -> Section:
	section = index.sections[number]
	text, truncated = text_of(section, query, LENGTHS[detail][0 if is_first else 1])
	return Section(section.reference, section.title, section.page_title, text, truncated)


def summary(sections: tuple[Section, ...], total: int, offset: int, suggestions: tuple[str, ...], index: Index) -> str:
	meant = f"did you mean {' or '.join(suggestions)}?" if suggestions else ""
	if not total:
		pages = ", ".join(dict.fromkeys(section.page for section in index.sections))
		return f"Nothing fits; {meant or f'the pages are {pages}'}"
	if not sections:
		return f"Only {total} sections fit; offset {offset} is beyond them"
	parts = [f"Sections {offset + 1} to {offset + len(sections)} of {total} that fit, the best first"]
	parts += [meant] if meant else []
	if any(section.truncated for section in sections):
		parts.append("[…] marks what is left out; more with detail full")
	if offset + len(sections) < total:
		parts.append(f"the next with offset {offset + len(sections)}")
	return "; ".join(parts)


# --- what may have been meant where nothing is called as it is asked for ---


def suggestions_for(query: Query, index: Index, fits: bool) -> tuple[str, ...]:
	"""The nearest name for each one that nothing is called; where nothing fits, also for each word."""
	known = known_names(query, index)
	strange = [name for name in query.names if name not in known and name.rpartition(".")[2] not in known]
	if len(query.words) == 1 and query.words[0] in index.words:  # an ordinary word that pages say otherwise
		strange = []
	words = [] if fits else [name_of(chunk) for chunk in chunks(query.text)]
	return tuple(dict.fromkeys(nearest(strange or words, query)))


def nearest(names: list[str], query: Query) -> Iterator[str]:
	for name in names[:MOST_SUGGESTED]:
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
