"""The text of a section, whole or in the parts that fit the question. What is left out is marked."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from .query import Query
from .sections import PageSection, Unit
from .words import chunks, forms_of, name_of, words_of

GAP = "[…]"
_NAME_WEIGHT = 10


def text_of(section: PageSection, query: Query, length: int) -> tuple[str, bool]:
	"""(text, whether something was left out) of a section in about `length` characters."""
	units = section.units
	whole = joined(units, range(len(units)))
	if len(whole) <= length:
		return whole, False
	order = list(range(len(units))) if is_about(section, query) else by_fit(units, query)
	chosen: set[int] = set()
	for number in order:
		longer = sorted(chosen | {number})
		if len(joined(units, longer)) <= length:
			chosen.add(number)
	if not chosen:
		return clipped(units[order[0]].text, length), True
	return joined(units, sorted(chosen)), True


def is_about(section: PageSection, query: Query) -> bool:
	own = [section.title, *(section.defines[1:2] if section.units[0].text.startswith("**") else ())]
	return query.alone and query.names[0] in map(name_of, own)


def by_fit(units: Sequence[Unit], query: Query) -> list[int]:
	"""The numbers of the units that fit, the better first, and the opening, which says what the section is about.

	Where a name alone is asked for, only those that have it; where nothing fits, all in order.
	"""
	least = _NAME_WEIGHT if query.alone and query.names else 1
	fits = {number: fit(unit, query) for number, unit in enumerate(units)}
	opening = [number for number in (0, 1) if number < len(units) and units[number].kind == "text"]
	good = sorted((number for number in fits if fits[number] >= least), key=lambda number: (-fits[number], number))
	if not good:
		return list(fits)
	return list(dict.fromkeys([good[0], *opening, *good]))


def fit(unit: Unit, query: Query) -> float:
	own_words, own_names = contents_of(f"{unit.head} {unit.text}" if unit.kind == "code" else unit.text)
	found = sum(word in own_words for word in query.words)
	return found + _NAME_WEIGHT * sum(name in own_names for name in query.names)


@lru_cache(maxsize=1 << 8)
def contents_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
	found = set(chunks(text))
	return (
		frozenset(word for chunk in found for word in words_of(chunk)),
		frozenset(name for chunk in found for name in forms_of(chunk)),
	)


def joined(units: Sequence[Unit], numbers: Iterable[int]) -> str:
	"""Units in the order of the page, with their table's head, and a mark where others are left out."""
	parts: list[str] = []
	before = -1
	for number in numbers:
		unit, follows = units[number], number == before + 1
		together = before >= 0 and unit.kind in ("row", "item") and units[before].kind == unit.kind
		same_table = together and units[before].head == unit.head
		if not follows:
			parts.append(("\n" if same_table else "\n\n") + GAP if parts else GAP)
		parts.append("\n" if same_table and parts else "\n\n" if parts else "")
		gap = "\n" if unit.kind == "row" else "\n\n"
		parts.append(unit.text if same_table or not unit.head else f"{unit.head}{gap}{unit.text}")
		before = number
	if before + 1 < len(units):
		parts.append(f"\n\n{GAP}")
	return "".join(parts)


def clipped(text: str, length: int) -> str:
	kept = text[:length]
	cut = max(kept.rfind("\n"), kept.rfind(" "))
	return (kept[:cut] if cut > length // 2 else kept).rstrip() + f" {GAP}"
