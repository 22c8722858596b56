"""validate-backend-config: judge configs of training backends without running anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import cli_common as common
from .model import KINDS, Context

if TYPE_CHECKING:
	import argparse

	from .cli_parser import Parser

PROG = "validate-backend-config"
SUMMARY = "Tell what Accelerate, DeepSpeed and the Transformers Trainer will make of a config, before they run."
EXAMPLES = """\
  validate_backend_config.py fsdp.yaml --accelerate-version 1.10.1 --num-processes 8
  validate_backend_config.py accelerate.yaml ds_zero3.json --output-format json --installed

exit status: 0 no errors, 1 at least one error, 2 some input could not be judged or the call was wrong"""

SCHEMAS = ("accelerate", "deepspeed", "fsdp")
# What the parser makes of no option at all
PLAIN: dict[str, Any] = {"format": "auto", "consumer": "auto", "output_format": "text", "select": [], "ignore": []}
UNSET = ["launch", "compare_accelerate", "explain", "schema", "output_file", *Context._fields[:6]]
UNSET += [f"{library}_version" for library in common.LIBRARIES]
OFF = ["skip_unknown", "installed", "launch_complete", "explain_effective", "check_imports", "list_rules", "fix"]
OFF += ["unsafe_fixes", "diff", "quiet", "verbose", "statistics"]


def main(argv: Sequence[str] | None = None) -> int:
	return common.guarded(PROG, _main, argv)


def _main(argv: Sequence[str] | None) -> int:
	words = sys.argv[1:] if argv is None else argv
	args = read(words)
	if args.list_rules or args.explain:
		return _about_rules(args)
	if args.schema:
		return _print_schema(args)
	_check_together(args)
	if args.diff or args.fix:
		from .cli_fix import run_fixes

		return run_fixes(args)
	from . import cli_run

	report = cli_run.judge(args.paths, cli_run.options_from(args), cli_run.read_stdin(args.paths), args.launch)
	cli_run.show(report, args)
	return report.exit_code


def read(words: Sequence[str]) -> Any:
	"""The arguments. argparse takes as long to import as all of our modules, and paths alone do not need it."""
	if not words or any(word.startswith("-") and word != "-" for word in words):
		return build_parser().read(words)
	return SimpleNamespace(**dict.fromkeys(UNSET), **dict.fromkeys(OFF, False), **PLAIN, paths=[*words])


def _check_together(args: argparse.Namespace) -> None:
	if not args.paths and args.launch is None:
		raise common.UsageError("give a file, a directory, or - for standard input (see --help)")
	common.check_output_name(args)
	if args.output_format in ("sarif", "github") and (args.explain_effective or args.compare_accelerate):
		raise common.UsageError("what takes effect is told as text or json")
	if args.unsafe_fixes and not (args.fix or args.diff):
		raise common.UsageError("--unsafe-fixes says what --fix and --diff may do; give one of them too")
	if args.output_format != "text" and (args.diff or args.statistics):
		option = "--diff" if args.diff else "--statistics"
		raise common.UsageError(f"{option} writes text; leave out --output-format {args.output_format}")


def build_parser() -> Parser:
	from . import cli_parser

	parser = cli_parser.Parser(PROG, SUMMARY, EXAMPLES)
	parser.add_argument("paths", nargs="*", metavar="PATH", help="a file, a directory to walk, or - for standard input")
	parser.add_argument(
		"--format", choices=("auto", *KINDS), default="auto", help="the kind of the files (auto: by content)"
	)
	parser.add_argument("--launch", metavar="COMMAND", help="the command that starts the run: 'accelerate launch …'")
	parser.add_argument("--skip-unknown", action="store_true", help="pass over files that are no config of these kinds")
	cli_parser.add_target_arguments(parser)
	cli_parser.add_context_arguments(parser)
	_add_effect_arguments(parser)
	_add_rule_arguments(parser)
	_add_fix_arguments(parser)
	_add_output_arguments(parser)
	return parser


def _add_effect_arguments(parser: argparse.ArgumentParser) -> None:
	from . import cli_parser

	group = parser.add_argument_group("what takes effect in runs of accelerate launch")
	group.add_argument(
		"--explain-effective", action="store_true", help="each setting, who set it, who lost (--verbose: all)"
	)
	group.add_argument(
		"--compare-accelerate", metavar="X.Y.Z", type=cli_parser.release, help="what going on from that release changes"
	)


def _add_rule_arguments(parser: argparse.ArgumentParser) -> None:
	group = parser.add_argument_group("rules")
	group.add_argument("--select", action="append", default=[], metavar="CODES", help="only these (FSD, DSP012,ACC)")
	group.add_argument(
		"--ignore", action="append", default=[], metavar="CODES", help="all but these; the longer prefix wins"
	)
	group.add_argument(
		"--check-imports", action="store_true", help="hint at packages that a config needs and this Python lacks"
	)
	group.add_argument("--explain", metavar="CODE", help="say what a rule is about")
	group.add_argument("--list-rules", action="store_true", help="list all rules (as text or json)")
	group.add_argument("--schema", choices=SCHEMAS, help="print a JSON Schema for editors, for the releases chosen")


def _add_fix_arguments(parser: argparse.ArgumentParser) -> None:
	from . import cli_parser

	switches = {
		"--fix": "apply the safe fixes to the files",
		"--unsafe-fixes": "with --fix or --diff: also those that may change the run",
		"--diff": "show what --fix would change; write nothing; exit 1 if anything",
	}
	cli_parser.add_switches(parser.add_argument_group("fixes"), switches)


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
	group = parser.add_argument_group("output")
	group.add_argument("--output-format", choices=("text", "json", "sarif", "github"), default="text")
	group.add_argument("--output-file", metavar="FILE", help="write the result there instead of to standard output")
	volume = group.add_mutually_exclusive_group()
	volume.add_argument("--quiet", "-q", action="store_true", help="show errors only")
	volume.add_argument("--verbose", "-v", action="store_true", help="show hints too")
	group.add_argument("--statistics", action="store_true", help="count by code instead of showing each finding")


def _print_schema(args: argparse.Namespace) -> int:
	from . import api

	schema = api.editor_schema(args.schema, common.targets_from(args, api.default_targets()))
	common.emit(json.dumps(schema, indent=2) + "\n", args.output_file)
	return 0


def _about_rules(args: argparse.Namespace) -> int:
	from . import api, cli_rules

	if args.output_format not in ("text", "json"):
		raise common.UsageError(f"rules are listed as text or json, not as {args.output_format}")
	rules = api.rules()
	if args.explain:
		text = api.explain(cli_rules.find_code(args.explain, rules))
		common.emit(f"{text}\n".replace("\n\n\n", "\n\n"), args.output_file)
	else:
		common.emit(cli_rules.rules_listing(rules, args.output_format), args.output_file)
	return 0


if __name__ == "__main__":
	raise SystemExit(main())
