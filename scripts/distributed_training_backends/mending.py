"""What the fixes of a file come to: made in memory, round by round, because a fix may uncover another."""

from collections.abc import Callable, Iterable, Sequence
from os.path import normpath
from typing import NamedTuple

from . import api
from .fix import apply
from .model import Applicability, FileReport, Finding, Report, Severity

ROUNDS = 10
Identity = tuple[str, str, str]  # of a finding, wherever it has moved to
Judge = Callable[[str], FileReport]
Note = Callable[[str], None]  # takes what a person should know beside the result


class Settled(NamedTuple):
	before: FileReport
	text: str
	fixed: tuple[Finding, ...]


def settle(
	file: FileReport, report: Report, options: api.Options, allowed: Iterable[Applicability], note: Note
) -> Settled | None:
	"""Fix one file; None when there is nothing to fix."""
	if file.named_by is not None:
		if _fixable(file, allowed):
			note(f"{file.path}: not fixed, because only {file.named_by} was given, which names it")
		return None
	judge = _judge_of(file, report, options)
	fixed: list[Finding] = []
	current, refused = file, set[Identity]()
	for _ in range(ROUNDS):
		found = [finding for finding in _fixable(current, allowed) if _identity(finding) not in refused]
		if current.text is None or current.verdict == "unreadable" or not found:
			break
		step = _step(current, found, judge, note)
		refused.update(map(_identity, step.harmful))
		if not step.applied and not step.harmful:
			break
		fixed.extend(step.applied)
		current = step.after
	return Settled(file, current.text, tuple(fixed)) if fixed and current.text is not None else None


class Step(NamedTuple):
	"""A file after a round of fixes, which ones were made, and which ones were left out as harmful."""

	after: FileReport
	applied: Sequence[Finding]
	harmful: Sequence[Finding] = ()


def _step(current: FileReport, found: Sequence[Finding], judge: Judge, note: Note) -> Step:
	"""Make all fixes, or tell which ones would have the file refused, so that the others can be made."""
	together = _made(current, found, judge)
	if not _is_worse(current, together.after):
		return together
	alone = {finding: _made(current, [finding], judge).after for finding in found}
	harmful = [finding for finding, after in alone.items() if _is_worse(current, after)] or list(found[1:]) or found
	for finding in harmful:
		title, result = finding.fix.title if finding.fix else "", _errors(alone[finding]) or _errors(together.after)
		note(f"{current.path}:{finding.place.line}: {finding.code} not fixed: {title} would lead to {result}")
	return Step(current, (), harmful)


def _made(current: FileReport, found: Sequence[Finding], judge: Judge) -> Step:
	text, applied = apply(current.text or "", [finding.fix for finding in found if finding.fix])
	if text == current.text:
		return Step(current, ())
	return Step(judge(text), [finding for finding in found if finding.fix in applied])


def _is_worse(before: FileReport, after: FileReport) -> bool:
	"""Whether fixing made a readable file unreadable, or an accepted one refused.

	A refused file may well show another error after the fix: the libraries stop at the first one, too.
	"""
	return after.verdict == "unreadable" or (after.verdict == "rejected" and before.verdict == "accepted")


def _errors(file: FileReport) -> str:
	if file.verdict == "unreadable":
		return "a file that cannot be judged"
	return ", ".join(sorted({item.code for item in file.findings if item.severity is Severity.ERROR}))


def _identity(finding: Finding) -> Identity:
	return finding.code, finding.place.pointer, finding.fix.title if finding.fix else ""


def _judge_of(file: FileReport, report: Report, options: api.Options) -> Judge:
	companions = _companions(file, report)

	def judge(text: str) -> FileReport:
		again = api.validate_text(text, options, file.path, companions)
		return next((one for one in again.files if one.path == file.path), file)

	return judge


def _companions(file: FileReport, report: Report) -> dict[str, str]:
	others = [other for other in report.files if other is not file]
	return {path: other.text for other in others if other.text for path in (other.path, normpath(other.path))}


def _fixable(file: FileReport, allowed: Iterable[Applicability]) -> list[Finding]:
	return [finding for finding in file.findings if finding.fix and finding.fix.applicability in allowed]
