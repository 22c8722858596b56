"""lookup-reference: find the sections of the reference that answer a question."""

import argparse
import sys
from collections.abc import Sequence

from . import cli_common as common
from . import cli_parser

PROG = "lookup-reference"
SUMMARY = (
	"Find what the reference says about a key, a flag, a class, a variable, a rule code, an error line or a topic."
)
USAGE = "%(prog)s [options] QUERY [QUERY ...]"
EXAMPLES = """\
  lookup_reference.py fsdp_reshard_after_forward
  lookup_reference.py "loss scale is already at minimum" --limit 3 --detail full --output-format json

exit status: 0 something fits, 1 nothing does, 2 the query cannot be looked up or the call was wrong"""
STDIN_LIMIT = 64 * 1024  # beyond the longest query, so that a longer one is refused as such
MOST = 20


def main(argv: Sequence[str] | None = None) -> int:
	return common.guarded(PROG, _main, argv)


def _main(argv: Sequence[str] | None) -> int:
	from . import api
	from .render.lookup import render_lookup

	args = read(argv)
	targets = common.targets_from(args, api.default_targets())
	try:
		report = api.look_up(args.query, args.detail, args.limit, args.offset, targets)
	except api.BadQueryError as error:
		raise common.UsageError(str(error)) from None
	common.emit(render_lookup(report, args.output_format, common.style_for(None)))
	return report.exit_code


def read(argv: Sequence[str] | None) -> argparse.Namespace:
	"""Parse the arguments. A lone word that starts with dashes, and is no option here, is a flag to look up."""
	parser = build_parser()
	words = list(sys.argv[1:] if argv is None else argv)
	args, unknown = parser.parse_known_args([cli_parser.dashed(word) for word in words])
	if unknown and (args.query or len(unknown) > 1):
		parser.error(f"unrecognized arguments: {' '.join(unknown)}")
	query = " ".join(unknown or args.query)
	args.query = sys.stdin.buffer.read(STDIN_LIMIT).decode("utf-8", "replace") if query == "-" else query
	return args


def build_parser() -> cli_parser.Parser:
	parser = cli_parser.Parser(PROG, SUMMARY, EXAMPLES, USAGE)
	parser.add_argument("query", nargs="*", metavar="QUERY", help="what to look up, or - for standard input")
	parser.add_argument("--limit", metavar="N", type=cli_parser.whole(1, MOST), default=5, help="sections to show (5)")
	parser.add_argument("--offset", metavar="N", type=cli_parser.whole(0), default=0, help="leave out the first N (0)")
	told = "the parts of a section that fit, or all of it (concise)"
	parser.add_argument("--detail", choices=("concise", "full"), default="concise", help=told)
	cli_parser.add_target_arguments(parser)
	cli_parser.add_output_arguments(parser)
	return parser


if __name__ == "__main__":
	sys.exit(main())
