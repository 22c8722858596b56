"""--fix and --diff: apply fixes until none is left, then write the files or show the difference."""

import argparse

from . import cli_common as common
from . import cli_run
from .fix import write_atomically
from .mending import Settled, settle
from .model import Applicability, Report
from .render.style import counted


def run_fixes(args: argparse.Namespace) -> int:
	if args.fix and not args.diff and "-" in args.paths:
		raise common.UsageError("--fix cannot change standard input; --diff shows what it would change")
	options, stdin = cli_run.options_from(args), cli_run.read_stdin(args.paths)
	report = cli_run.judge(args.paths, options, stdin)
	cli_run.check_output_file(args.output_file, report)
	allowed = {Applicability.SAFE, *([Applicability.UNSAFE] if args.unsafe_fixes else [])}
	settled = [settle(file, report, options, allowed, common.note) for file in report.files]
	changes = [change for change in settled if change is not None]
	if args.diff:
		return _show_diff(changes, report, args)
	written = [_write(change) for change in changes]
	left = cli_run.judge(args.paths, options, stdin) if any(written) else report
	cli_run.show(left, args)
	return left.exit_code if all(written) else common.CANNOT_JUDGE


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
	from .render.diff import render_diff

	diff = "".join(render_diff(change.before.path, change.before.text or "", change.text) for change in changes)
	common.emit(diff, args.output_file)
	count = sum(len(change.fixed) for change in changes)
	if count:
		common.note(f"{counted(count, 'finding')} would be fixed in {counted(len(changes), 'file')}")
	for file in report.files:
		if file.verdict == "unreadable":
			common.note("; ".join([f"{file.path}: could not be judged", *(item.message for item in file.findings)]))
	return common.CANNOT_JUDGE if report.exit_code == common.CANNOT_JUDGE else int(bool(changes))
