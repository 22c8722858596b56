"""From arguments to a report and its output, and what to do when our own code fails on a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import api
from . import cli_common as common
from .model import FileReport, Report, Severity

if TYPE_CHECKING:
	import argparse

STDIN_LIMIT = 4 * 1024 * 1024  # beyond the limit for files, so that larger input is refused as such


def options_from(args: argparse.Namespace) -> api.Options:
	select: tuple[str, ...] = ()
	ignore: tuple[str, ...] = ()
	if args.select or args.ignore:
		from .cli_rules import selection

		rules = api.rules()
		select, ignore = selection(args.select, rules), selection(args.ignore, rules)
	targets = common.targets_from(args, api.default_targets())
	compared = targets._replace(accelerate=args.compare_accelerate or targets.accelerate)
	for text in dict.fromkeys((*api.about_targets(targets), *api.about_targets(compared))):
		common.note(text)
	return api.Options(
		targets=targets,
		context=common.context_from(args),
		kind=None if args.format == "auto" else args.format,
		select=select,
		ignore=ignore,
		check_imports=args.check_imports,
		skip_unknown=args.skip_unknown,
		effective=args.explain_effective,
		compare=args.compare_accelerate,
	)


def judge(paths: Sequence[str], options: api.Options, stdin: bytes | None, launch: str | None = None) -> Report:
	"""Judge files together; when that fails, one by one, so that one file cannot take the others with it."""
	paths = list({path if path == "-" else real(path): path for path in reversed(paths)}.values())[::-1]
	try:
		if launch is not None:
			return api.validate_paths(paths, options, stdin, launch)
		return api.validate_paths(paths, options, stdin)
	except ModuleNotFoundError:
		raise
	except Exception:
		if os.environ.get("DTB_DEBUG"):
			raise
	names = [name for path in paths for name in _files_of(path, options)]
	files = [file for name in names for file in _judge_alone(name, options, stdin)]
	return Report(options.targets, tuple(files))


def _files_of(path: str, options: api.Options) -> list[str]:
	try:
		return [found.path for found in api.read_all(path, None, options.kind)] if os.path.isdir(path) else [path]
	except Exception:
		return [path]


def _judge_alone(path: str, options: api.Options, stdin: bytes | None) -> tuple[FileReport, ...]:
	try:
		return api.validate_paths([path], options, stdin).files
	except Exception as error:
		common.note(f"{path}: {common.internal(error)}")
		return (FileReport(path, None, "unreadable", ()),)


def read_stdin(paths: Sequence[str]) -> bytes | None:
	"""Read standard input where the paths ask for it, and no more of it than is needed to refuse it."""
	if "-" not in paths:
		return None
	if sys.stdin is None:
		raise common.UsageError("standard input is closed, so that there is nothing to read for -")
	return sys.stdin.buffer.read(STDIN_LIMIT)


def real(path: str) -> str:
	try:
		return os.path.realpath(path)
	except OSError:  # the working directory is gone
		return path


def check_output_file(path: str | None, report: Report) -> None:
	if path is not None and real(path) in {real(file.path) for file in report.files}:
		raise common.UsageError(f"--output-file {path} is one of the configs, and would be overwritten")


def show(report: Report, args: argparse.Namespace) -> None:
	from .render.dispatch import render

	least = Severity.ERROR if args.quiet else Severity.INFO if args.verbose else Severity.WARNING
	check_output_file(args.output_file, report)
	if (args.explain_effective or args.compare_accelerate) and not (report.effective or report.comparison):
		from .render.effective import NOTHING

		common.note(NOTHING)
	if not report.files:
		common.note(f"no config found in {', '.join(args.paths)}")
	style = common.style_for(args.output_file, least=least, statistics=args.statistics)
	rules = api.rules() if args.output_format == "sarif" else ()
	common.emit(render(report, args.output_format, style, rules), args.output_file)
