"""--fix and --diff: apply fixes until none is left, then write the files or show the difference."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from os.path import normpath
from typing import NamedTuple

from distributed_training_backends import api, cli_run
from distributed_training_backends import cli_common as common
from distributed_training_backends.fix import apply, write_atomically
from distributed_training_backends.model import Applicability, FileReport, Finding, Report, Severity
from distributed_training_backends.render.style import counted

ROUNDS = 10


class Settled(NamedTuple):
    """A file before and after its fixes, and what was fixed."""

    before: FileReport
    text: str
    fixed: tuple[Finding, ...]


def run_fixes(args: argparse.Namespace) -> int:
    """Carry out --fix or --diff."""
    if args.fix and not args.diff and "-" in args.paths:
        raise common.UsageError("--fix cannot change standard input; --diff shows what it would change")
    options, stdin = cli_run.options_from(args), cli_run.read_stdin(args.paths)
    report = cli_run.judge(args.paths, options, stdin)
    allowed = {Applicability.SAFE, *([Applicability.UNSAFE] if args.unsafe_fixes else [])}
    changes = [change for file in report.files if (change := settle(file, report, options, allowed))]
    if args.diff:
        return _show_diff(changes, report, args)
    written = [_write(change) for change in changes]
    left = cli_run.judge(args.paths, options, stdin) if any(written) else report
    cli_run.show(left, args)
    return left.exit_code if all(written) else common.CANNOT_JUDGE


def settle(file: FileReport, report: Report, options: api.Options, allowed: set[Applicability]) -> Settled | None:
    """Fix one file in memory, round by round, because a fix may uncover another; None when there is nothing to fix."""
    companions = _companions(file, report)
    fixed: list[Finding] = []
    current = file
    for _ in range(ROUNDS):
        found = _fixable(current, allowed)
        if current.text is None or current.verdict == "unreadable" or not found:
            break
        text, applied = apply(current.text, [finding.fix for finding in found if finding.fix])
        if text == current.text:
            break
        fixed.extend(finding for finding in found if finding.fix in applied)
        current = _judged_again(file, text, options, companions)
    if not fixed or _is_worse(file, current) or current.text is None:
        return None
    return Settled(file, current.text, tuple(fixed))


def _companions(file: FileReport, report: Report) -> dict[str, str]:
    """The other texts of the run, under their paths as given and as normalised, since a config may name either."""
    others = [other for other in report.files if other is not file]
    return {path: other.text for other in others if other.text for path in (other.path, normpath(other.path))}


def _fixable(file: FileReport, allowed: Iterable[Applicability]) -> list[Finding]:
    return [finding for finding in file.findings if finding.fix and finding.fix.applicability in allowed]


def _judged_again(file: FileReport, text: str, options: api.Options, companions: Mapping[str, str]) -> FileReport:
    report = api.validate_text(text, options, file.path, companions)
    return next((again for again in report.files if again.path == file.path), file)


def _is_worse(before: FileReport, after: FileReport) -> bool:
    """Tell whether fixing made a readable file unreadable, or an accepted one refused.

    A refused file may well show another error after the fix: the libraries stop at the first one, too.
    """
    worse = after.verdict == "unreadable" or (after.verdict == "rejected" and before.verdict == "accepted")
    if worse:
        errors = {finding.code for finding in after.findings if finding.severity is Severity.ERROR}
        result = ", ".join(sorted(errors)) or "an unreadable file"
        common.note(f"{before.path}: not fixed, because the fixes together would lead to {result}; please report it")
    return worse


def _write(change: Settled) -> bool:
    """Write one file and tell what was fixed, or why it could not be; the other files are written all the same."""
    failure = write_atomically(change.before.path, change.text)
    if failure is not None:
        common.note(f"{failure.path}: not fixed: {failure.message}")
        return False
    common.note(f"{change.before.path}: {counted(len(change.fixed), 'finding')} fixed")
    for finding in change.fixed:
        title = finding.fix.title if finding.fix else ""
        common.note(f"  {finding.place.line}: {finding.code} {title}")
    return True


def _show_diff(changes: list[Settled], report: Report, args: argparse.Namespace) -> int:
    from distributed_training_backends.render.diff import render_diff

    diff = "".join(render_diff(change.before.path, change.before.text or "", change.text) for change in changes)
    common.emit(diff, args.output_file)
    count = sum(len(change.fixed) for change in changes)
    if count:
        common.note(f"{counted(count, 'finding')} would be fixed in {counted(len(changes), 'file')}")
    for file in report.files:
        if file.verdict == "unreadable":
            common.note("; ".join([f"{file.path}: could not be judged", *(item.message for item in file.findings)]))
    return common.CANNOT_JUDGE if report.exit_code == common.CANNOT_JUDGE else int(bool(changes))
