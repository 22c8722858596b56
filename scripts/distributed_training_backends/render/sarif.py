"""A report as SARIF 2.1.0, the format of code-scanning services."""

import json
import os.path
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from ..about import NAME, VERSION
from ..model import FileReport, Finding, Fix, Place, Report, RuleInfo
from .style import Style

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def render_sarif(report: Report, style: Style, rules: Sequence[RuleInfo]) -> str:
	log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report, style, rules)]}
	return json.dumps(log, indent=2) + "\n"


def _run(report: Report, style: Style, rules: Sequence[RuleInfo]) -> dict[str, Any]:
	index = {rule.code: position for position, rule in enumerate(rules)}
	results = [_result(finding, index, style) for file in report.files for finding in file.findings]
	driver = {"name": NAME, "version": VERSION, "semanticVersion": VERSION, "rules": [_rule(rule) for rule in rules]}
	return {
		"tool": {"driver": driver},
		"columnKind": "unicodeCodePoints",
		"invocations": [_invocation(report, style)],
		"properties": {"targets": dict(report.targets.items())},
		"artifacts": [{"location": _artifact(file.path, style)} for file in report.files],
		"results": results,
	}


def _rule(rule: RuleInfo) -> dict[str, Any]:
	heaviest = rule.severities[0][0] if rule.severities else "warning"
	return {
		"id": rule.code,
		"name": rule.name,
		"shortDescription": {"text": rule.summary or rule.name},
		"help": {"text": f"{rule.summary or rule.name} See {rule.page}."},
		"defaultConfiguration": {"level": _LEVEL[heaviest]},
	}


def _invocation(report: Report, style: Style) -> dict[str, Any]:
	notices = [notice for file in report.files for notice in _notices(file, style)]
	return {
		"executionSuccessful": report.exit_code != 2,
		"exitCode": report.exit_code,
		"toolExecutionNotifications": notices,
	}


def _notices(file: FileReport, style: Style) -> Iterator[dict[str, Any]]:
	if file.verdict == "unreadable":
		reasons = " ".join(finding.message for finding in file.findings) or "It could not be judged."
		location = {"physicalLocation": {"artifactLocation": _artifact(file.path, style)}}
		yield {"level": "error", "message": {"text": reasons}, "locations": [location]}


def _result(finding: Finding, index: dict[str, int], style: Style) -> dict[str, Any]:
	result: dict[str, Any] = {"ruleId": finding.code}
	if finding.code in index:
		result["ruleIndex"] = index[finding.code]
	result |= {
		"level": _LEVEL[finding.severity.value],
		"message": {"text": finding.message or finding.name},
		"locations": [_location(finding.place, style)],
	}
	if finding.related:
		related = enumerate(finding.related)
		result["relatedLocations"] = [{"id": number, **_location(place, style)} for number, place in related]
	if finding.fix and finding.fix.edits and finding.fix.applicability.value != "display":
		result["fixes"] = [_fix(finding.fix, finding.place.path, style)]
	return result


def _location(place: Place, style: Style) -> dict[str, Any]:
	region = {
		"startLine": place.line,
		"startColumn": place.column,
		"endLine": place.end_line,
		"endColumn": place.end_column,
		"charOffset": place.extent.start,
		"charLength": place.extent.end - place.extent.start,
	}
	logical = {"fullyQualifiedName": place.pointer or "/", "kind": "member"}
	physical = {"artifactLocation": _artifact(place.path, style), "region": region}
	return {"physicalLocation": physical, "logicalLocations": [logical]}


def _fix(fix: Fix, path: str, style: Style) -> dict[str, Any]:
	regions = [{"charOffset": edit.start, "charLength": edit.end - edit.start} for edit in fix.edits]
	contents = [{"text": edit.text} for edit in fix.edits]
	replacements = [
		{"deletedRegion": region, "insertedContent": content} for region, content in zip(regions, contents, strict=True)
	]
	change = {"artifactLocation": _artifact(path, style), "replacements": replacements}
	return {"description": {"text": f"{fix.title} ({fix.applicability.value})"}, "artifactChanges": [change]}


def _artifact(path: str, style: Style) -> dict[str, Any]:
	if os.path.isabs(path):
		inside = os.path.relpath(path, style.base) if style.base else ".."
		if inside.split(os.sep)[0] == "..":
			return {"uri": "file://" + _encoded(path)}
		path = inside
	return {"uri": _encoded(os.path.normpath(path)), "uriBaseId": "%SRCROOT%"}


def _encoded(path: str) -> str:
	path = path.replace(os.sep, "/")
	try:
		return quote(path, errors="surrogateescape")  # bytes that are no UTF-8 in a name of this system
	except UnicodeEncodeError:
		return quote(path, errors="surrogatepass")
