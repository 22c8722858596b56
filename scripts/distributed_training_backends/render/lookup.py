"""The answer to a question to the reference, for people and as JSON (data/schemas/lookup_report.schema.json.gz)."""

import json
from collections.abc import Iterator
from typing import Any

from ..model_lookup import LookupReport
from .characters import visible
from .redact import redact
from .style import Style

FORMAT_VERSION = 1


def lookup_data(report: LookupReport) -> dict[str, Any]:
	"""The order of the keys is part of the contract."""
	return {
		"version": FORMAT_VERSION,
		"summary": redact(report.summary),
		"query": redact(report.query),
		"targets": dict(report.targets.items()),
		"notes": [redact(note) for note in report.notes],
		"suggestions": list(report.suggestions),
		"total": report.total,
		"offset": report.offset,
		"next_offset": report.next_offset,
		"sections": [section._asdict() for section in report.sections],
	}


def render_lookup(report: LookupReport, output_format: str, style: Style) -> str:
	"""JSON is in ASCII, which every terminal and pipe can carry."""
	if output_format == "json":
		return json.dumps(lookup_data(report), indent=2) + "\n"
	return "\n".join(_lines(report, style)) + "\n"


def _lines(report: LookupReport, style: Style) -> Iterator[str]:
	for section in report.sections:
		title = section.title if section.title == section.page else f"{section.title} ({section.page})"
		yield f"{style.paint(section.reference, 'cyan')}: {style.paint(title, 'bold')}"
		yield ""
		yield from (f"  {visible(line)}".rstrip() for line in section.text.split("\n"))
		yield ""
	for note in report.notes:
		yield f"{style.paint('note:', 'yellow')} {visible(redact(note))}"
	yield style.paint(visible(redact(report.summary)), "green" if report.total else "bold")
