"""The answer to a conversion, as notes for people and as JSON (data/schemas/convert_report.schema.json)."""

import json
from collections.abc import Iterator
from typing import Any

from ..model_convert import ConvertReport, ordered
from .characters import visible
from .redact import redact

FORMAT_VERSION = 1
FIELDS = ("path", "kind", "to", "verdict", "equivalent", "result", "text")


def convert_data(report: ConvertReport) -> dict[str, Any]:
	"""The order of the keys is part of the contract."""
	return {
		"version": FORMAT_VERSION,
		"targets": dict(report.targets.items()),
		**{name: getattr(report, name) for name in FIELDS},
		"notes": [{**note._asdict(), "message": redact(note.message)} for note in ordered(report.notes)],
		"findings": [
			{"path": path, "code": one.code, "line": one.place.line, "message": redact(one.message)}
			for path, one in report.findings
		],
	}


def convert_json(report: ConvertReport) -> str:
	return json.dumps(convert_data(report), indent=2, ensure_ascii=False) + "\n"


def note_lines(report: ConvertReport) -> Iterator[str]:
	for path, found in report.findings:
		yield f"{path}:{found.place.line}: {found.severity.value}[{found.code}] {visible(redact(found.message))}"
	if report.verdict == "rejected":
		yield f"{report.path}: not converted, because it is refused as it is: mend it first (--fix of the validator)"
	elif report.verdict == "unreadable":
		yield f"{report.path}: not converted, because it cannot be judged"
	for note in ordered(report.notes):
		place = report.path + (f":{note.line}" if note.line else "")
		yield f"{place}: {note.status}: {visible(redact(f'{note.setting}: {note.message}'))}"
	if report.text:
		yield summary(report)


def summary(report: ConvertReport) -> str:
	if report.verdict == "unchanged":
		return f"{report.path}: nothing to convert"
	given = ", once what is open is given" if any(note.status == "open" for note in report.notes) else ""
	given = given if report.equivalent else " but for what is said above"
	return f"{report.path}: converted; the run is the same{given}"
