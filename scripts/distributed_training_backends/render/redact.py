"""Hide secrets before anything is shown.

A mask is as long as what it hides, so that columns, carets and the offsets of edits stay right.
"""

from ..model import Applicability, Edit, FileReport, Finding, Fix, Place, Report

# What every secret that can be found has about it; most texts have none of these, and cost one search.
# (plain strings, because compiling a pattern costs every run more than these searches do)
HINTS = (
	*("passwd", "password", "passphrase", "secret", "token", "credential", "bearer", "authorization"),
	*(f"{word}{joint}key" for word in ("api", "access", "private", "account", "auth") for joint in ("", "_", "-", " ")),
	*("wandb_key", "wandb-key", "hf_key", "hf-key", "hub_key", "hub-key"),
	*("hf_", "api_org_", "sk-", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
	*("xox", "aiza", "eyj", "npm_", "pypi-", "ya29", "://", "-----begin"),
	*("pwd", "_pass", "dbpass", "cookie", "login", "sig=", "signature=", "-u ", "--user", "@"),
)


def redact(text: str) -> str:
	"""Put stars in the place of every secret; all else, the line ends and the length stay as they are."""
	lowered = text.lower()
	if not any(hint in lowered for hint in HINTS):
		return text
	from .secrets import find_secrets  # its patterns take a while to compile

	chars: list[str] | None = None
	for start, end in find_secrets(text):
		chars = chars or list(text)
		chars[start:end] = ["*" if char not in "\r\n" else char for char in chars[start:end]]
	return "".join(chars) if chars else text


def redact_report(report: Report) -> Report:
	return report._replace(files=tuple(_file(file) for file in report.files))


def _file(file: FileReport) -> FileReport:
	if not file.findings:
		return file
	text = None if file.text is None else redact(file.text)
	return file._replace(findings=tuple(_finding(finding) for finding in file.findings), text=text)


def _finding(finding: Finding) -> Finding:
	return finding._replace(
		message=redact(finding.message),
		place=_place(finding.place),
		fix=redact_fix(finding.fix) if finding.fix else None,
		related=tuple(_place(place) for place in finding.related),
	)


def _place(place: Place) -> Place:
	return place._replace(pointer=redact(place.pointer))


def redact_fix(fix: Fix) -> Fix:
	"""Mask a fix; one that would write masked text over a secret may be looked at, not applied."""
	edits = tuple(Edit(edit.start, edit.end, redact(edit.text)) for edit in fix.edits)
	applicability = fix.applicability if edits == fix.edits else Applicability.DISPLAY
	return Fix(applicability, redact(fix.title), edits)
