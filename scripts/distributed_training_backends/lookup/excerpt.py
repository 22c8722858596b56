"""The text of a section, whole or in the parts that fit the question. What is left out is marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distributed_training_backends.lookup.query import Query
from distributed_training_backends.lookup.sections import PageSection, Unit
from distributed_training_backends.lookup.words import chunks, name_of, words

GAP = "[…]"
_NAME_WEIGHT = 10


def text_of(section: PageSection, query: Query, length: int) -> tuple[str, bool]:
    """(text, whether something was left out) of a section in about `length` characters."""
    whole = joined(section.units, range(len(section.units)))
    if len(whole) <= length:
        return whole, False
    chosen: set[int] = set()
    for number in by_fit(section.units, query):
        longer = sorted(chosen | {number})
        if len(joined(section.units, longer)) <= length:
            chosen.add(number)
    if not chosen:
        return clipped(section.units[by_fit(section.units, query)[0]].text, length), True
    return joined(section.units, sorted(chosen)), True


def by_fit(units: Sequence[Unit], query: Query) -> list[int]:
    """The numbers of the units: the opening first, unless a name is asked for, then the better the fit."""
    fits = [fit(unit, query) for unit in units]
    fits[0] += 1 if fits[0] else 0.5
    return sorted(range(len(units)), key=lambda number: (-fits[number], number))


def fit(unit: Unit, query: Query) -> float:
    """How well a unit answers a question."""
    own_words = set(words(unit.text))
    own_names = {name_of(chunk) for chunk in chunks(unit.text)}
    found = sum(word in own_words for word in query.words)
    return found + _NAME_WEIGHT * sum(name in own_names for name in query.names)


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
        parts.append(unit.text if same_table or not unit.head else f"{unit.head}\n{unit.text}")
        before = number
    if before + 1 < len(units):
        parts.append(f"\n\n{GAP}")
    return "".join(parts)


def clipped(text: str, length: int) -> str:
    """The beginning of a text, up to a line's or a word's end."""
    kept = text[:length]
    cut = max(kept.rfind("\n"), kept.rfind(" "))
    return (kept[:cut] if cut > length // 2 else kept).rstrip() + f" {GAP}"
