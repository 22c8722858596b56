"""How often each code was found."""

from collections.abc import Iterator

from ..model import Applicability, Finding, Report
from .style import SEVERITY_COLOUR, Style
from .text import is_fixable, summary_of


def render_statistics(report: Report, style: Style) -> str:
	"""Write one line for each code and severity, the most frequent first, and the summary."""
	return "".join(_lines(report, style)) + summary_of(report, style)


def _lines(report: Report, style: Style) -> Iterator[str]:
	groups: dict[tuple[str, int], list[Finding]] = {}
	for file in report.files:
		for finding in file.findings:
			if style.shows(finding) or file.verdict == "unreadable":
				groups.setdefault((finding.code, finding.severity.rank), []).append(finding)
	width = len(str(max(map(len, groups.values()), default=0)))
	for group in sorted(groups.values(), key=lambda found: (-len(found), found[0].code, found[0].severity.rank)):
		yield _line(group, width, style)


def _line(group: list[Finding], width: int, style: Style) -> str:
	first = group[0]
	fixable = sum(is_fixable(finding.fix, Applicability.SAFE) for finding in group)
	mark = f" ({fixable} fixable)" if fixable else ""
	severity = style.paint(f"{first.severity.value:<7}", SEVERITY_COLOUR[first.severity])
	return f"{len(group):>{width}}  {severity}  {first.code}  {first.name}{mark}\n"
