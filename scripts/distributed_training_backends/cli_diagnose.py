"""diagnose-failure: from a log, a traceback or a symptom to the cause, the proof and the fix."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from . import cli_common as common
from . import cli_parser
from .model_diagnose import SYMPTOMS

PROG = "diagnose-failure"
SUMMARY = "Find why a training run failed, hangs, is slow or computes wrongly: causes with evidence, fixes and checks."
USAGE = "%(prog)s [options] [LOG]"
EXAMPLES = """\
  diagnose_failure.py train.log --config accelerate.yaml --config ds_zero3.json --versions env.txt
  diagnose_failure.py --symptom hang --symptom "stuck while saving" --launch "accelerate launch --num_processes 8 t.py"

exit status: 0 a cause is named, 1 none is, 2 the input cannot be read or the call was wrong"""
CHUNK = 1 << 18
LIMIT = 64 * 1024 * 1024  # bytes of a log that are read
TEXT_LIMIT = 1024 * 1024  # bytes of a file of releases, or of a launch script


def main(argv: Sequence[str] | None = None) -> int:
	return common.guarded(PROG, _main, argv)


def _main(argv: Sequence[str] | None) -> int:
	args = build_parser().read(argv)
	check(args)
	from . import api
	from .render.diagnose import render_diagnose

	report = api.diagnose(
		chunks(args.log) if args.log is not None else "",
		args.symptom,
		{path: text_of(path) for path in args.config},
		text_or_file(args.launch),
		"\n".join(text_or_file(given) for given in args.versions),
		common.targets_from(args, api.default_targets()),
	)
	full = args.detail == "full"
	common.emit(render_diagnose(report, args.output_format, common.style_for(args.output_file), full), args.output_file)
	return report.exit_code


def check(args: argparse.Namespace) -> None:
	"""Refuse a call that asks nothing, and one that would write over what it reads."""
	if args.log is None and not any(symptom.strip() for symptom in args.symptom):
		raise common.UsageError("give a log (or - for standard input), or --symptom (see --help)")
	common.check_output_name(args)
	read = (args.log or "", *args.config, args.launch, *args.versions)
	if args.output_file and any(same_file(path, args.output_file) for path in read):
		raise common.UsageError(f"--output-file {args.output_file} is one of the inputs, and would be overwritten")
	if args.log == "-" and args.output_file and is_standard_input(args.output_file):
		raise common.UsageError(f"--output-file {args.output_file} is standard input, and would be overwritten")


def same_file(one: str, other: str) -> bool:
	return len(one) < 4096 and os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def is_standard_input(path: str) -> bool:
	try:
		return os.path.samestat(os.fstat(0), os.stat(path))
	except OSError:
		return False


def build_parser() -> cli_parser.Parser:
	parser = cli_parser.Parser(PROG, SUMMARY, EXAMPLES, USAGE)
	parser.add_argument("log", nargs="?", metavar="LOG", help="the log of the run, or - for standard input")
	many: dict[str, Any] = {"action": "append", "default": []}
	words = f"{', '.join(SYMPTOMS)}, or in words; may be repeated"
	parser.add_argument("--symptom", **many, metavar="WORDS", help=words)
	group = parser.add_argument_group("what is known about the run")
	group.add_argument("--config", **many, metavar="PATH", help="a config file; may be repeated")
	group.add_argument("--launch", default="", metavar="COMMAND", help="the launch command, or a file that holds it")
	told = 'releases ("accelerate 1.10.1"), or a file with what accelerate env, ds_report or pip list print'
	group.add_argument("--versions", **many, metavar="TEXT", help=told)
	cli_parser.add_target_arguments(parser)
	group = cli_parser.add_output_arguments(parser)
	group.add_argument("--output-file", metavar="PATH", help="write there instead of to standard output")
	told = "three causes, or all (concise)"
	group.add_argument("--detail", choices=("concise", "full"), default="concise", help=told)
	return parser


def chunks(path: str) -> Iterator[bytes]:
	left = LIMIT
	if path == "-" and sys.stdin is None:
		raise common.UsageError("standard input is closed; give the log as a file")
	with sys.stdin.buffer if path == "-" else open(path, "rb") as stream:
		while left > 0 and (chunk := stream.read(min(CHUNK, left))):
			yield chunk
			left -= len(chunk)
		if left <= 0 and stream.read(1):
			common.note(f"{path}: only the first {LIMIT // (1024 * 1024)} MiB were read")


def text_or_file(given: str) -> str:
	return text_of(given) if given and len(given) < 4096 and os.path.isfile(given) else given


def text_of(path: str) -> str:
	if not os.path.isfile(path):
		raise common.UsageError(f"{path or 'an empty name'}: there is no such file, or it is no regular one")
	with open(path, "rb") as stream:
		return stream.read(TEXT_LIMIT).decode("utf-8", "replace")


if __name__ == "__main__":
	sys.exit(main())
