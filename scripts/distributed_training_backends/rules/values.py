"""How the value of each launch option is read, by release and launcher.

`data/accelerate_values.json` has a row for each way in which a release reads an option: as a truth word, an integer,
a name of a list and so on, and under which conditions it reads it at all. Values of the file travel as the text of
an environment variable, so `true`, `"true"` and `True` are one; what is said here is what the text is taken for.

For rules of any family: `value_hits` says which values are refused or fall on deaf ears, `unread_hits` which options
are passed on and then not looked at, `meaning` what an option amounts to.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ..flow.effect import default_of_option, same
from ..flow.launch import Launch
from ..flow.placement import is_read
from ..knowledge import accelerate as knowledge
from ..model import Severity
from ..resources import load_json
from ..sources.document import At
from ..versions import covers
from .readings import Outcome, advice, read, repair_of
from .registry import Hit, Hits
from .rewriting import removing
from .suggest import listing, misfit, shown

DATA = "accelerate_values.json"
Condition = Mapping[str, Any]


class Row(NamedTuple):
	"""One way to read an option. `how` holds the particulars of the reading (names, case, bounds)."""

	option: str
	routes: tuple[str, ...]
	releases: str
	when: Mapping[str, Condition]
	used: bool
	how: Mapping[str, Any]


@cache
def table() -> Mapping[str, tuple[Row, ...]]:
	rows: dict[str, list[Row]] = {}
	for item in load_json(DATA)["rows"]:
		row = Row(
			item["option"], tuple(item["routes"]), item["releases"], item.get("when", {}), item.get("used", True), item
		)
		rows.setdefault(row.option, []).append(row)
	return {option: tuple(found) for option, found in rows.items()}


@lru_cache(maxsize=1 << 12)
def rows_of(option: str, release: str) -> tuple[Row, ...]:
	return tuple(row for row in table().get(option, ()) if covers(row.releases, release))


def on_route(launch: Launch, option: str) -> list[Row]:
	return [row for row in rows_of(option, launch.release) if belongs(launch, row.routes)]


def belongs(launch: Launch, routes: Sequence[str]) -> bool:
	return launch.route in routes or ("parallelism" in routes and launch.uses_parallelism)


def active(launch: Launch, option: str) -> list[Row]:
	return [row for row in on_route(launch, option) if not unmet(launch, row)]


def unmet(launch: Launch, row: Row) -> list[tuple[str, Condition]]:
	options = knowledge.for_release(launch.release).options
	return [
		(name, condition)
		for name, condition in row.when.items()
		if name in options and not holds(launch, name, condition)
	]


def undecided(launch: Launch, row: Row) -> bool:
	"""Tell whether a setting that a row depends on is refused itself: which rows count is open until it is mended."""
	return any("given" not in condition and is_refused(launch, name) for name, condition in row.when.items())


def is_refused(launch: Launch, option: str) -> bool:
	"""Tell whether the file gives an option a value that is refused before training begins."""
	rows = active(launch, option) if launch.given(option) else []
	return any(read(row.how, launch.value(option), launch.release).expected and not row.how.get("late") for row in rows)


def holds(launch: Launch, option: str, condition: Condition) -> bool:
	if "given" in condition:
		given: bool = condition["given"]
		return (launch.value(option) is not None) is given
	value = meaning(launch, option)
	if "above" in condition:
		return isinstance(value, (int, float)) and value > condition["above"]
	if "not_in" in condition:
		return value not in condition["not_in"]
	return value in condition["in"]


def meaning(launch: Launch, option: str) -> Any:
	"""What an option amounts to in this file: True, 4, "FULL_SHARD"; its plain value where no row describes it."""
	value = launch.value(option)
	rows = active_first(launch, option)
	return read(rows[0].how, value, launch.release).meaning if rows else value


def active_first(launch: Launch, option: str) -> list[Row]:
	return sorted(on_route(launch, option), key=lambda row: len(row.when))


@lru_cache(maxsize=1 << 10)
def options_with(prefixes: tuple[str, ...], release: str) -> tuple[str, ...]:
	return tuple(option for option in table() if option.startswith(prefixes) and rows_of(option, release))


def value_hits(launch: Launch, prefixes: tuple[str, ...]) -> Hits:
	"""What is to be said about the values of the options with these prefixes: refused, or taken for something else."""
	for option in options_with(prefixes, launch.release):
		given = launch.given(option)
		if not given and not any(row.how.get("default") for row in rows_of(option, launch.release)):
			continue
		for row in active(launch, option):
			if undecided(launch, row) or (not given and not row.how.get("default")):
				continue
			outcome = read(row.how, launch.value(option), launch.release)
			if outcome.expected or outcome.slip:
				yield hit_of(launch, row, outcome)
				break


def hit_of(launch: Launch, row: Row, outcome: Outcome) -> Hit:
	value = launch.value(row.option)
	late = bool(row.how.get("late"))
	if not launch.given(row.option):
		text = f"{row.option} is missing, and its default {value!r} is not {outcome.expected}"
		text += f"; {refuser(launch, row)} it"
		return Hit(owner(launch, row), text, severity=Severity.WARNING if late else None)
	at, key = launch.at(row.option), key_of(launch, row.option)
	repair = repair_of(at, value, outcome)
	if outcome.slip:
		return Hit(at, f"{key} {shown(value)}: {outcome.slip}", repair, Severity.WARNING)
	what = f"{key} {shown(value)}" if value is not None else f'the empty {key} is passed on as the text "None", which'
	refusal = f"{refuser(launch, row)} it" + (" in prepare()" if late else "") + advice(at, outcome)
	return Hit(at, misfit(what, outcome.expected, refusal), repair, Severity.WARNING if late else None)


def refuser(launch: Launch, row: Row) -> str:
	return f"{row.how.get('by') or 'accelerate ' + launch.release} refuses"


def key_of(launch: Launch, option: str) -> str:
	found = launch.arguments[option]
	return f"--{option}" if found.document else str(found.pointer[-1]) if found.pointer else option


def owner(launch: Launch, row: Row) -> At:
	"""Where to point for an option that is not given: at what makes it count, else at the block."""
	for name in row.when:
		if launch.given(name):
			return launch.at(name)
	return launch.at(row.option)


def unread_hits(launch: Launch, prefixes: tuple[str, ...], skip: Sequence[str] = ()) -> Hits:
	"""The options that the launcher passes on although nothing looks at them in this file.

	A warning, or an info where the value is the one that takes effect anyway. Options that the launcher itself does
	not look at are not meant: those are unread keys of the ACC family.
	"""
	for option in options_with(prefixes, launch.release):
		rows = on_route(launch, option) if launch.given(option) and option not in skip else []
		if not rows or not is_read(launch, option) or any(undecided(launch, row) for row in rows):
			continue
		if any(row.used for row in rows if not unmet(launch, row)):
			continue
		if launch.value(option) is None and rows[0].how.get("null") == "unset":
			continue
		severity = Severity.INFO if takes_effect_anyway(launch, rows) else Severity.WARNING
		reason = why_unread(launch, [row for row in rows if row.used] or rows)
		text = f"{key_of(launch, option)} has no effect: accelerate {launch.release} {reason}"
		yield Hit(launch.at(option, "key"), text, removing(launch.arguments[option].pointer), severity)


def takes_effect_anyway(launch: Launch, rows: Sequence[Row]) -> bool:
	value = launch.value(rows[0].option)
	harmless = [item for row in rows for item in row.how.get("harmless", ())]
	return value in harmless or same(value, default_of_option(rows[0].option, launch.release))


def defect_hits(launch: Launch, routes: Sequence[str]) -> Hits:
	for item in load_json(DATA)["defects"]:
		if not set(routes) & set(item["routes"]) or not belongs(launch, item["routes"]):
			continue
		if covers(item["releases"], launch.release) and all(holds(launch, *pair) for pair in item["when"].items()):
			text = f"accelerate {launch.release}: {item['effect']} (fixed in {item['fixed']})"
			yield Hit(launch.at(item["at"]), text)


def why_unread(launch: Launch, rows: Sequence[Row]) -> str:
	conditions = unmet(launch, rows[0])
	if not conditions:
		return str(rows[0].how.get("because", "passes it on, and nothing reads it"))
	texts = [f"{name} is {wanted(condition)}, here it is {now(launch, name)}" for name, condition in conditions]
	return f"reads it only where {' and '.join(texts)}"


def wanted(condition: Condition) -> str:
	if "above" in condition:
		return f"above {condition['above']}"
	if "given" in condition:
		return "given" if condition["given"] else "not given"
	values = listing(shown_plainly(value) for value in condition.get("in", condition.get("not_in", ())))
	return values if "in" in condition else f"not {values}"


def now(launch: Launch, option: str) -> str:
	value = meaning(launch, option)
	return "not given" if value is None else shown_plainly(value)


def shown_plainly(value: object) -> str:
	return value if isinstance(value, str) else shown(value)
