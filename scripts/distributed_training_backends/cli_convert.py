"""convert-backend-config: the same run, spelled for another backend or surface."""

import argparse
import gc
import os
from collections.abc import Sequence

from . import cli_common as common
from . import cli_parser, cli_run
from .model_convert import TARGETS, BadConversionError, ConvertReport

PROG = "convert-backend-config"
SUMMARY = "Say what a training backend config says for another backend or surface, and what gets lost on the way."
USAGE = "%(prog)s --to TARGET [options] PATH [DEEPSPEED_JSON]"
EXAMPLES = """\
  convert_backend_config.py --to fsdp2 fsdp1.yaml -o fsdp2.yaml
  convert_backend_config.py --to fsdp accelerate.yaml ds_zero3.json --diff
  convert_backend_config.py --to accelerate train.py
  convert_backend_config.py --to accelerate --launch "accelerate launch --use_fsdp --num_processes 8 train.py"

The result goes to standard output, what is said about it to standard error.
exit status: 0 converted, 1 the input is refused as it is, 2 it cannot be read or the call was wrong"""
TO = """fsdp2: from FSDP1; fsdp: from DeepSpeed; deepspeed: from FSDP; launch: flags of accelerate launch;
python: plugin objects; trainer: TrainingArguments; accelerate: a config file"""


def main(argv: Sequence[str] | None = None) -> int:
	return common.guarded(PROG, _main, argv)


def _main(argv: Sequence[str] | None) -> int:
	gc.disable()  # of a large file it takes as long as reading it, and the process ends soon
	args = build_parser().read(argv)
	from . import api

	targets = common.targets_from(args, api.default_targets())
	for text in api.about_targets(targets):
		common.note(text)
	context = api.Context(num_processes=args.num_processes, num_machines=args.num_machines)
	options = api.Options(targets, context, None if args.format == "auto" else args.format)
	check(args)
	stdin = cli_run.read_stdin(args.paths)
	try:
		report = api.convert_paths(args.paths, args.to, options, stdin, args.launch, args.script)
	except BadConversionError as error:
		raise common.UsageError(str(error)) from None
	show(report, args)
	return report.exit_code


def check(args: argparse.Namespace) -> None:
	if not args.paths and args.launch is None:
		raise common.UsageError("give a config, or --launch (see --help)")
	common.check_output_name(args)
	if args.output_file and cli_run.real(args.output_file) in map(cli_run.real, args.paths):
		raise common.UsageError(f"--output-file {args.output_file} is one of the inputs, and would be overwritten")
	if args.output_file and os.path.isfile(args.output_file) and not args.overwrite:
		raise common.UsageError(f"{args.output_file} exists: --overwrite replaces it")


def show(report: ConvertReport, args: argparse.Namespace) -> None:
	from .render.convert import convert_json, note_lines
	from .render.diff import render_diff

	if args.output_format == "json":
		common.emit(convert_json(report), args.output_file)
		return
	if args.diff and report.text and not report.same_format:
		raise common.UsageError(f"--diff shows changes of a file, and {report.to} is another format")
	text = render_diff(report.path, report.before, report.text) if args.diff and report.text else report.text
	if report.text and args.output_file:
		common.emit(text, args.output_file)  # before anything is said of success
	for line in note_lines(report):
		common.note(line)
	if report.text and not args.output_file:
		common.emit(text)


def build_parser() -> cli_parser.Parser:
	parser = cli_parser.Parser(PROG, SUMMARY, EXAMPLES, USAGE)
	told = "a config, command, script or file of TrainingArguments, and the file that it names; - is standard input"
	parser.add_argument("paths", nargs="*", metavar="PATH", help=told)
	parser.add_argument("--to", required=True, choices=TARGETS, metavar="TARGET", help=TO.replace("\n", " "))
	kinds = ("auto", "accelerate", "deepspeed", "fsdp", "launch", "python", "trainer")
	parser.add_argument("--format", choices=kinds, default="auto", help="the kind of PATH")
	told = "the command that starts the run, instead of PATH or with it"
	parser.add_argument("--launch", metavar="COMMAND", help=told)
	parser.add_argument("--script", default="", metavar="NAME", help="the script in commands (train.py)")
	parser.add_argument("--num-processes", metavar="N", type=cli_parser.whole(1), help="processes over all machines")
	parser.add_argument("--num-machines", metavar="N", type=cli_parser.whole(1))
	cli_parser.add_target_arguments(parser)
	group = cli_parser.add_output_arguments(parser)
	group.add_argument("-o", "--output-file", metavar="PATH", help="write there instead of to standard output")
	switches = {"--overwrite": "replace a file that is there", "--diff": "show what changes in the file"}
	cli_parser.add_switches(group, switches)
	return parser


if __name__ == "__main__":
	import sys

	sys.exit(main())
