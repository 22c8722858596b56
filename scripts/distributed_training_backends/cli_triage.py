"""triage-backend: choose a training backend, say what it needs per GPU, and write a config that works."""

from __future__ import annotations

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from . import cli_common as common
from . import cli_parser
from .cli_triage_facts import add_fact_arguments, facts_from

if TYPE_CHECKING:
	from .model_triage import TriageReport

PROG = "triage-backend"
SUMMARY = "Choose a training backend for a model and a machine: what fits, how fast it is, and the config to start it."
USAGE = "%(prog)s [options]"
EXAMPLES = """\
  triage_backend.py --model llama-3-8b --seq 8192 --gpu A100-80GB --gpus-per-node 4 --write run/
  triage_backend.py --facts facts.yaml --wish deepspeed --report report.html --output-format json

exit status: 0 something fits or might, 1 nothing does, 2 the facts cannot be used or the call was wrong"""
MOST = 50


def main(argv: Sequence[str] | None = None) -> int:
	return common.guarded(PROG, _main, argv)


def _main(argv: Sequence[str] | None) -> int:
	from . import api
	from .model_triage import BadFactsError

	args = build_parser().read(argv)
	for name in ("candidate", "write", "report"):
		if getattr(args, name) == "":
			raise common.UsageError(f"--{name} is empty")
	names = (args.candidate,) if args.candidate else ()
	try:
		facts = facts_from(args)
		report = api.triage(facts, args.limit, names)
	except BadFactsError as error:
		for pointer, message in error.problems:
			common.note(f"{PROG}: {pointer or 'the facts'}: {message}")
		return common.CANNOT_JUDGE
	known = [candidate.name for candidate in report.candidates]
	if args.candidate and args.candidate not in known:
		raise common.UsageError(f"--candidate {args.candidate} is none of {', '.join(known)}")
	if args.trace:
		from .cli_trace import note_of

		note = note_of(facts, args.candidate or known[0], args.trace_limit)
		report = report._replace(notes=(note, *report.notes))
	write_out(report, args)
	common.emit(rendered(report, args), None, "; --write and --report name files")
	return report.exit_code


def rendered(report: TriageReport, args: Namespace) -> str:
	if args.output_format == "json":
		from .render.triage_json import render_triage_json

		return render_triage_json(report)
	from .render.triage_text import BLOCKS, PLAIN_BLOCKS, Choice, render_triage

	writes_blocks = str(getattr(sys.stdout, "encoding", "")).lower().startswith("utf")
	choice = Choice(args.candidate or "", args.detail == "full", BLOCKS if writes_blocks else PLAIN_BLOCKS)
	return render_triage(report, common.style_for(None), choice)


# --- files ---


def write_out(report: TriageReport, args: Namespace) -> None:
	"""Write the page and the configs. Nothing is written at all where a file would be replaced without leave."""
	planned = dict(planned_files(report, args)) if args.write else {}
	for path in planned:
		stay_within(args.write, path)
	there = [path for path in (*planned, *([args.report] if args.report else [])) if replaces(path)]
	if there and not args.force:
		raise common.UsageError(f"{there[0]} exists; --force replaces it, and nothing has been written")
	for path, text in planned.items():
		os.makedirs(os.path.dirname(path), exist_ok=True)
		common.emit(text, path)
	if args.report:
		from .render.triage_page import render_page

		common.emit(render_page(report), args.report)


def stay_within(folder: str, path: str) -> None:
	part = path
	while len(part) > len(folder):
		if os.path.islink(part):
			raise common.UsageError(f"{part} is a link; remove it, nothing is written through links")
		part = os.path.dirname(part)


def replaces(path: str) -> bool:
	"""Whether to write there would replace something. Refuses a pipe, which waits for a reader."""
	if not os.path.lexists(path):
		return False
	mode = os.lstat(path).st_mode if os.path.islink(path) and not os.path.exists(path) else os.stat(path).st_mode
	if stat.S_ISFIFO(mode):
		raise common.UsageError(f"{path} is a named pipe; name a file")
	return not stat.S_ISCHR(mode)


def planned_files(report: TriageReport, args: Namespace) -> Iterator[tuple[str, str]]:
	for candidate in report.candidates:
		if args.candidate in (None, candidate.name):
			folder = "" if args.candidate else f"{candidate.rank}-{candidate.name}"
			for file in candidate.files:
				yield os.path.join(args.write, folder, file.name), file.text


def build_parser() -> cli_parser.Parser:
	parser = cli_parser.Parser(PROG, SUMMARY, EXAMPLES, USAGE)
	add_fact_arguments(parser)
	group = cli_parser.add_output_arguments(parser)
	details = ("concise", "full")
	group.add_argument("--detail", choices=details, default="concise", help="all files and setups (concise)")
	count, told = cli_parser.whole(1, MOST), "candidates with files, the best of each backend first (3)"
	group.add_argument("--limit", metavar="N", type=count, default=3, help=told)
	group.add_argument("--candidate", metavar="NAME", help="show and write this one instead of the best")
	group.add_argument("--write", metavar="DIR", help="write configs, commands and code, a folder for each candidate")
	traced = "measure it on fake tensors too (needs torch, no GPU)"
	cli_parser.add_switches(group, {"--force": "let --write and --report replace files", "--trace": traced})
	group.add_argument("--trace-limit", metavar="SECONDS", type=cli_parser.whole(1, 3600), default=120, help="(120)")
	group.add_argument("--report", metavar="FILE.html", help="write one page with bars, configs and assumptions")
	return parser


if __name__ == "__main__":
	sys.exit(main())
