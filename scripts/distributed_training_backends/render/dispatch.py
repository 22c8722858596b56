"""One entry for every output format. Nothing leaves here before its secrets are masked."""

from collections.abc import Sequence

from ..model import Report, RuleInfo
from .redact import redact_report
from .style import Style

FORMATS = ("text", "json", "sarif", "github")


def render(report: Report, output_format: str, style: Style | None = None, rules: Sequence[RuleInfo] = ()) -> str:
	"""Write a report in one of FORMATS; `rules` describes the codes for SARIF. Only what is needed is imported."""
	report, style = redact_report(report), style or Style()
	if output_format == "json":
		from .json_report import render_json

		return render_json(report)
	if output_format == "sarif":
		from .sarif import render_sarif

		return render_sarif(report, style, rules)
	if output_format == "github":
		from .github import render_github

		return render_github(report, style)
	from .text import render_statistics, render_text

	return render_statistics(report, style) if style.statistics else render_text(report, style)
