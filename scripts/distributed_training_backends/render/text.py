"""A report for people: one block for each finding, with the source line and carets, and a summary."""

import re
from collections.abc import Iterator

from ..model import Applicability, FileReport, Finding, Fix, Report, Severity
from .characters import visible
from .excerpt import excerpt_of
from .style import SEVERITY_COLOUR, Style, counted

LINE_END = re.compile(r"\r\n?|\n")  # what the columns are counted by
_HOW = {Applicability.SAFE: " (--fix does it)", Applicability.UNSAFE: " (--unsafe-fixes does it)"}


def render_text(report: Report, style: Style) -> str:
	blocks = [block for file in report.files for block in _file_blocks(file, style)]
	if report.effective or report.comparison:
		from .effective import comparison_text, text_of

		full = style.least is Severity.INFO
		blocks += [text_of(report.effective, style, full)] if report.effective else []
		blocks += [comparison_text(report.comparison, style)] if report.comparison else []
	summary = summary_of(report, style)
	return "\n".join([*blocks, *([summary] if summary else [])])


def _file_blocks(file: FileReport, style: Style) -> Iterator[str]:
	lines = LINE_END.split(file.text or "") if file.findings else []
	unreadable = file.verdict == "unreadable"
	for finding in file.findings:
		if unreadable or style.shows(finding):
			yield "\n".join(_block(file, finding, lines, style)) + "\n"
	if unreadable and not file.findings:
		yield f"{style.paint(visible(file.path), 'bold')}: it could not be judged\n"


def _block(file: FileReport, finding: Finding, lines: list[str], style: Style) -> Iterator[str]:
	place = finding.place
	label = "unreadable" if file.verdict == "unreadable" else finding.severity.value
	where = style.paint(visible(f"{place.path}:{place.line}:{place.column}"), "bold")
	what = style.paint(f"{label}[{finding.code}]", SEVERITY_COLOUR[finding.severity])
	yield f"{where}: {what} {visible(finding.message)}"
	number = str(place.line)
	gutter = " " * (len(number) + 1)
	excerpt = excerpt_of(lines, place, style.width - len(number) - 4) if file.text else None
	if excerpt:
		yield f" {style.paint(number + ' |', 'cyan')} {excerpt.line}"
		yield f"{gutter} {style.paint('|', 'cyan')} {style.paint(excerpt.carets, SEVERITY_COLOUR[finding.severity])}"
	for note in _notes(finding):
		yield f"{gutter} {style.paint('=', 'cyan')} {visible(note)}"


def _notes(finding: Finding) -> Iterator[str]:
	for place in finding.related:
		yield f"also: {place.path}:{place.line}:{place.column}"
	if finding.fix:
		yield f"help: {finding.fix.title}{_HOW.get(finding.fix.applicability, '')}"
	if finding.reference:
		yield f"see: {finding.reference}"


def summary_of(report: Report, style: Style) -> str:
	"""Count in one line what was found, for which releases, and what can be fixed; nothing to say is "" when quiet."""
	errors, warnings, infos = (report.total(severity) for severity in Severity)
	unreadable = sum(file.verdict == "unreadable" for file in report.files)
	if style.least is Severity.ERROR and not errors and not unreadable:
		return ""
	found = [counted(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
	judged = len(report.files) - unreadable
	parts = [f"{counted(unreadable, 'file')} could not be judged"] if unreadable else []
	if judged or not unreadable:
		parts.append(f"{', '.join(found) or 'No errors or warnings'} in {counted(judged, 'file')}")
	parts.append("targets: " + ", ".join(f"{library} {release}" for library, release in report.targets.items()))
	parts.extend(_fixable(report))
	hints = infos - sum(len(file.findings) for file in report.files if file.verdict == "unreadable")
	if hints and style.least is not Severity.INFO:
		parts.append(f"{counted(hints, 'hint')} with --verbose")
	return style.paint(visible("; ".join(parts)), "bold" if errors or unreadable else "green") + "\n"


def _fixable(report: Report) -> Iterator[str]:
	"""How many fixes can be made; files that were not given themselves are not changed."""
	fixes = [finding.fix for file in report.files if file.named_by is None for finding in file.findings]
	safe = sum(is_fixable(fix, Applicability.SAFE) for fix in fixes)
	unsafe = sum(is_fixable(fix, Applicability.UNSAFE) for fix in fixes)
	if safe:
		yield f"{safe} fixable with --fix"
	if unsafe:
		yield f"{unsafe} {'more ' if safe else ''}with --fix --unsafe-fixes"


def is_fixable(fix: Fix | None, applicability: Applicability) -> bool:
	return fix is not None and fix.applicability is applicability


# --- how often each code was found ---


def render_statistics(report: Report, style: Style) -> str:
	"""Write one line for each code and severity, the most frequent first, and the summary."""
	return "".join(_counts(report, style)) + summary_of(report, style)


def _counts(report: Report, style: Style) -> Iterator[str]:
	groups: dict[tuple[str, int], list[Finding]] = {}
	for file in report.files:
		for finding in file.findings:
			if style.shows(finding) or file.verdict == "unreadable":
				groups.setdefault((finding.code, finding.severity.rank), []).append(finding)
	width = len(str(max(map(len, groups.values()), default=0)))
	for group in sorted(groups.values(), key=lambda found: (-len(found), found[0].code, found[0].severity.rank)):
		yield _count(group, width, style)


def _count(group: list[Finding], width: int, style: Style) -> str:
	first = group[0]
	fixable = sum(is_fixable(finding.fix, Applicability.SAFE) for finding in group)
	mark = f" ({fixable} fixable)" if fixable else ""
	severity = style.paint(f"{first.severity.value:<7}", SEVERITY_COLOUR[first.severity])
	return f"{len(group):>{width}}  {severity}  {first.code}  {first.name}{mark}\n"
