"""The answer to a diagnosis, for people and as JSON (data/schemas/diagnose_report.schema.json.gz)."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from ..model_diagnose import Cause, DiagnoseReport, Failure
from .characters import visible
from .json_report import fix_data
from .redact import redact, redact_fix
from .style import Style

FORMAT_VERSION = 1
CONCISE = 3  # causes, and places of evidence for each
SHORT, LONG = 200, 700  # code points of a line of evidence
COLOURS = {"high": "red", "medium": "yellow", "low": "blue"}


def diagnose_data(report: DiagnoseReport, full: bool = True) -> dict[str, Any]:
	"""The order of the keys is part of the contract."""
	causes = report.causes if full else report.causes[:CONCISE]
	return {
		"version": FORMAT_VERSION,
		"verdict": report.verdict,
		"summary": redact(report.summary),
		"failure": _failure(report.failure, full) if report.failure else None,
		"causes": [_cause(cause, full) for cause in causes],
		"notes": [redact(note) for note in report.notes],
		"collect": list(report.collect),
		"run": dict(report.run),
		"targets": dict(report.targets.items()),
		"lines": report.lines,
	}


def _failure(failure: Failure, full: bool) -> dict[str, Any]:
	said = {"exception": shortened(failure.exception, full), "raised_as": shortened(failure.raised_as, full)}
	return {**failure._asdict(), **said}


def _cause(cause: Cause, full: bool) -> dict[str, Any]:
	seen = cause.evidence if full else cause.evidence[:CONCISE]
	return {
		**cause._asdict(),
		"why": redact(cause.why),
		"evidence": [{**one._asdict(), "text": shortened(one.text, full), "ranks": list(one.ranks)} for one in seen],
		"fixes": [{**one._asdict(), "fix": fix_data(redact_fix(one.fix))} for one in cause.fixes],
		"rules": list(cause.rules),
	}


def shortened(text: str, full: bool) -> str:
	masked = redact(text)
	most = LONG if full else SHORT
	return masked if len(masked) <= most else f"{masked[:most]}…"


def render_diagnose(report: DiagnoseReport, output_format: str, style: Style, full: bool) -> str:
	"""JSON is in ASCII, which every terminal and pipe can carry."""
	if output_format == "json":
		return json.dumps(diagnose_data(report, full), indent=2) + "\n"
	return "\n".join(_lines(diagnose_data(report, full), style)) + "\n"


def _lines(data: dict[str, Any], style: Style) -> Iterator[str]:
	yield from (style.paint(line, "bold") for line in _wrapped("", data["summary"], style))
	first = first_failure_line(data["failure"]) if data["failure"] else ""
	if first:
		yield from _wrapped("first failure: ", first, style)
	for number, cause in enumerate(data["causes"], 1):
		yield ""
		yield from _cause_lines(number, cause, style)
	if data["notes"] or data["collect"]:
		yield ""
	for note in data["notes"]:
		head, *rest = _wrapped("note: ", note, style)
		yield from (style.paint("note:", "yellow") + head[5:], *rest)
	if data["collect"]:
		yield "to tell more:"
		yield from (line for step in data["collect"] for line in _wrapped("  - ", step, style))


def _wrapped(head: str, text: str, style: Style) -> list[str]:
	"""A text behind its head; what is too long goes on below its beginning."""
	width = max(40, style.width - len(head))
	lines = textwrap.wrap(visible(text), width, break_long_words=False, break_on_hyphens=False)
	return [(" " * len(head) if number else head) + line for number, line in enumerate(lines or [""])]


def first_failure_line(failure: dict[str, Any]) -> str:
	rank = f"rank {failure['rank']}" if failure["rank"] is not None else ""
	line = f"line {failure['line']}" if failure["line"] else ""
	ended = f"exit code {failure['exit_code']}" if failure["exit_code"] is not None else ""
	place = ", ".join(part for part in (rank, failure["host"], line, ended) if part)
	return ": ".join(part for part in (place, failure["exception"].split("\n")[0]) if part)


def _cause_lines(number: int, cause: dict[str, Any], style: Style) -> Iterator[str]:
	level = style.paint(f"{cause['level']}, {cause['confidence']:.0%}", COLOURS[cause["level"]])
	yield f"{number}. {style.paint(cause['title'], 'bold')} [{level}] ({cause['family']})"
	rows = [("why", cause["why"]), *(("seen", seen(one)) for one in cause["evidence"]), ("fix", cause["fix"])]
	rows += [("edit", f"{one['path']}:{one['line']}: {one['fix']['title']} ({one['code']})") for one in cause["fixes"]]
	for name, text in (*rows, ("check", cause["verify"])):
		yield from _wrapped(f"   {name + ':':7}", text, style)
	if cause["reference"]:
		yield f"   see:   {style.paint(cause['reference'], 'cyan')}"


def seen(one: dict[str, Any]) -> str:
	place = f"{one['source']} line {one['line']}" if one["line"] else one["source"]
	times = f", {one['times']} times" if one["times"] > 1 else ""
	ranks = f", ranks {_spans(one['ranks'])}" if one["ranks"] else ""
	return f"{place}{times}{ranks}: {one['text']}"


def _spans(ranks: list[int]) -> str:
	spans: list[list[int]] = []
	for rank in ranks:
		if spans and rank == spans[-1][1] + 1:
			spans[-1][1] = rank
		else:
			spans.append([rank, rank])
	return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
