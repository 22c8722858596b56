"""A report as workflow commands, which GitHub turns into annotations of the lines of a change."""

from collections.abc import Iterator

from ..model import FileReport, Finding, Report, Severity
from .characters import visible
from .style import Style

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render_github(report: Report, style: Style) -> str:
	return "".join(line + "\n" for file in report.files for line in _lines(file, style))


def _lines(file: FileReport, style: Style) -> Iterator[str]:
	unreadable = file.verdict == "unreadable"
	for finding in file.findings:
		if unreadable or style.shows(finding):
			yield _command(finding, "error" if unreadable else _COMMAND[finding.severity])
	if unreadable and not file.findings:
		yield f"::error file={_property(file.path)}::it could not be judged"


def _command(finding: Finding, command: str) -> str:
	place = finding.place
	fields: dict[str, str | int] = {"file": place.path, "line": place.line}
	if place.line == place.end_line:  # columns are not taken together with a range of lines
		fields |= {"col": place.column, "endLine": place.end_line, "endColumn": place.end_column}
	else:
		fields |= {"endLine": place.end_line}
	fields["title"] = f"{finding.code} {finding.name}"
	written = ",".join(f"{name}={_property(str(value))}" for name, value in fields.items())
	stop = "" if finding.message.endswith((".", "?", "!")) else "."
	help_text = f"{stop} Help: {finding.fix.title}." if finding.fix else ""
	return f"::{command} {written}::{_data(finding.message + help_text)}"


def _data(text: str) -> str:
	"""Escape a message: line ends stay line ends in the annotation, other control characters are written out."""
	shown = "".join(part if part in "\r\n" else visible(part) for part in text)
	return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
	return _data(text).replace(":", "%3A").replace(",", "%2C")
