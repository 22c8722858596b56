"""What takes effect, as text for people, as lines for tools, and as JSON (data/schemas/report.schema.json.gz)."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..model import Finding, Place
from ..model_effective import Change, Comparison, Effective, Loser, Setting
from .characters import visible
from .redact import redact
from .style import Style, counted

WIDEST = 44  # of a column; after something longer the line goes on below
INNER = ("argument", "variable")  # steps on the way to the workers, shown where something is lost on them

NOTHING = "no run of accelerate launch is given; what takes effect under torchrun or deepspeed is not told"


def text_of(effective: Effective, style: Style, full: bool) -> str:
	shown = chosen(effective, full)
	doubted = effective.doubt and f" {effective.doubt}"
	rows = [(one.name, value_of(one), origin(one), " · ".join(losses(one))) for one in shown]
	head = f"What takes effect with Accelerate {effective.release} ({title(effective)})"
	more = len(effective.settings) - len(shown)
	note = [f"{counted(more, 'setting')} more with --verbose: defaults{doubted}, and steps on the way"] if more else []
	others = (text_of(other, style, full) for other in effective.others)
	block = [style.paint(head, "bold"), *table([("setting", "value", "set by", "lost"), *rows]), *note, ""]
	return "\n".join([*block, *others])


def title(effective: Effective) -> str:
	run = f"run: {where(effective.place)}, " if effective.place else ""
	return f"{run}route: {effective.route}"


def chosen(effective: Effective, full: bool) -> list[Setting]:
	"""The settings to show: all, or what is not default, and on the way to the workers only what gets lost."""
	if full:
		return list(effective.settings)
	shown: list[Setting] = []
	told: set[tuple[Place | None, str]] = set()
	for one in effective.settings:
		lost = {(loser.place, loser.reason) for loser in one.losers}
		unread = one.layer == "argument" and one.state == "set" and not one.reader
		if one.told and (one.layer not in INNER or unread or lost - told):
			shown.append(one)
		told |= lost
	return shown


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
	columns = list(zip(*rows, strict=True))[:-1]
	widths = [max(len(cell) for cell in column if len(cell) <= WIDEST) for column in columns]
	for row in rows:
		line, at = "", 0
		for cell, width in zip(row, widths, strict=False):
			line, at = f"{line}{cell}".ljust(at + width) + "  ", at + width + 2
			if len(cell) > width:
				yield line.rstrip()
				line = " " * at
		if tail := f"{line}{row[-1]}".rstrip():
			yield tail


def value_of(setting: Setting) -> str:
	text = masked(setting.name, setting.value)
	return f"open: {text}" if setting.state == "open" else text


def masked(name: str, value: Any) -> str:
	"""A value as JSON writes it, without secrets: a variable's name tells of what it holds."""
	if isinstance(value, list) and all(isinstance(word, str) for word in value):
		value = words(value)
	text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)
	head = f"{name.rpartition('.')[2]}="
	return visible(redact(head + text)[len(head) :])


def words(command: list[str]) -> list[str]:
	"""Words of a command line, each masked by what stands before it."""
	told, start, found = redact(" ".join(command)), 0, []
	for word in command:
		found.append(told[start : start + len(word)])
		start += len(word) + 1
	return found


def origin(setting: Setting | Loser) -> str:
	return where(setting.place) if setting.place else setting.surface


def where(place: Place) -> str:
	return visible(f"{place.path}:{place.line}:{place.column}")


def losses(setting: Setting) -> Iterator[str]:
	if setting.layer == "argument" and setting.state == "set" and not setting.reader:
		yield "nothing on this route reads it"
	for one in setting.losers:
		yield f"{origin(one)} {masked(setting.name, one.value)} ({one.reason})"


def lines(effective: Effective, full: bool) -> list[str]:
	shown, others = chosen(effective, full), counted(len(effective.others), "other run")
	head = [f"{title(effective)}; {others}, to be given alone"] if effective.others else []
	return head + ["; lost: ".join([f"{one.name} = {value_of(one)} [{origin(one)}]", *losses(one)]) for one in shown]


def data_of(effective: Effective) -> dict[str, Any]:
	settings = list(map(setting_data, effective.settings))
	made = {"accelerate": effective.release, "route": effective.route, "settings": settings}
	made |= {"place": where(effective.place)} if effective.place else {}
	return made | ({"others": [*map(data_of, effective.others)]} if effective.others else {})


def setting_data(one: Setting) -> dict[str, Any]:
	shown = {"name": one.name, **given(one.name, one), "state": one.state, "reader": one.reader}
	return {**shown, "lost": [{**given(one.name, loser), "reason": loser.reason} for loser in one.losers]}


def given(name: str, one: Setting | Loser) -> dict[str, Any]:
	return {"value": plain(name, one.value), "surface": one.surface, "place": origin(one) if one.place else None}


def plain(name: str, value: Any) -> Any:
	return value if value is None or isinstance(value, (bool, int, float)) else masked(name, value)


def comparison_text(comparison: Comparison, style: Style) -> str:
	head = f"Going from Accelerate {comparison.before} to {comparison.after} changes"
	rows = list(map(change_line, comparison.changes))
	rows += [f"finding appears: {finding_line(one)}" for one in comparison.appear]
	rows += [f"finding goes: {finding_line(one)}" for one in comparison.go]
	return "\n".join([style.paint(head if rows else f"{head} nothing in this run", "bold"), *rows, ""])


def change_line(change: Change) -> str:
	run = f"{where(change.run)}: " if change.run else ""
	return f"{run}{change.name}: {side(change.before)} -> {side(change.after)}"


def side(setting: Setting | None) -> str:
	if setting is None:
		return "not there"
	unread = setting.layer in INNER and not setting.reader
	return f"{value_of(setting)} [{origin(setting)}]{' (read by nothing)' if unread else ''}"


def finding_line(finding: Finding) -> str:
	place = finding.place
	return visible(redact(f"{place.path}:{place.line}: {finding.severity.value}[{finding.code}] {finding.message}"))


def comparison_data(comparison: Comparison) -> dict[str, Any]:
	settings = [
		{
			"name": one.name,
			**({"run": where(one.run)} if one.run else {}),
			"before": one.before and setting_data(one.before),
			"after": one.after and setting_data(one.after),
		}
		for one in comparison.changes
	]
	findings = [
		{"change": change, "code": one.code, "severity": one.severity.value, "place": where(one.place)}
		for change, several in (("appears", comparison.appear), ("goes", comparison.go))
		for one in several
	]
	return {"before": comparison.before, "after": comparison.after, "settings": settings, "findings": findings}
