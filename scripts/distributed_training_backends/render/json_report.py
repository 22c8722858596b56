"""A report as JSON. The shape is published as data/schemas/report.schema.json.gz."""

import json
from typing import Any

from ..model import FileReport, Finding, Fix, Report, Severity

FORMAT_VERSION = 1


def report_data(report: Report) -> dict[str, Any]:
	errors, warnings, infos = (report.total(severity) for severity in Severity)
	return {
		"version": FORMAT_VERSION,
		"targets": dict(report.targets.items()),
		"files": [_file(file) for file in report.files],
		"summary": {"files": len(report.files), "errors": errors, "warnings": warnings, "infos": infos},
		**_effects(report),
	}


def _effects(report: Report) -> dict[str, Any]:
	if report.effective is None and report.comparison is None:
		return {}
	from .effective import comparison_data, data_of

	found = {"effective": data_of(report.effective)} if report.effective else {}
	return {**found, **({"comparison": comparison_data(report.comparison)} if report.comparison else {})}


def render_json(report: Report) -> str:
	return json.dumps(report_data(report), indent=2) + "\n"


def _file(file: FileReport) -> dict[str, Any]:
	findings = [_finding(finding) for finding in file.findings]
	return {"path": file.path, "kind": file.kind, "verdict": file.verdict, "findings": findings}


def _finding(finding: Finding) -> dict[str, Any]:
	place = finding.place
	return {
		"code": finding.code,
		"name": finding.name,
		"severity": finding.severity.value,
		"message": finding.message,
		**{name: getattr(place, name) for name in ("pointer", "line", "column", "end_line", "end_column")},
		"fix": fix_data(finding.fix) if finding.fix else None,
		"reference": finding.reference,
	}


def fix_data(fix: Fix) -> dict[str, Any]:
	edits = [edit._asdict() for edit in fix.edits]
	return {"applicability": fix.applicability.value, "title": fix.title, "edits": edits}
