"""The command line of the server."""

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec

from distributed_training_backends import cli_common as common
from distributed_training_backends import cli_parser
from distributed_training_backends.cli_common import CANNOT_JUDGE, UsageError

PROG = "distributed-training-backends-mcp"
SUMMARY = "Serve the validator, the reference and the skill over MCP: stdio, or streamable HTTP with --http."
EXAMPLES = """\
  server.py                                         a client starts this and talks to it over stdin and stdout
  server.py --http --port 8000                      http://127.0.0.1:8000/mcp, and /health

exit status: 0 the client has closed the connection, 2 the call was wrong or a package is missing"""
NEEDED = "mcp>=2.1,<3"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(argv: Sequence[str] | None = None) -> int:
	return common.guarded(PROG, _main, argv)


def _main(argv: Sequence[str] | None) -> int:
	args = build_parser().read(argv)
	if not args.http and (args.allow_host or args.port is not None or args.host is not None):
		raise UsageError("--host, --port and --allow-host are for --http; give that too")
	if not has_sdk():
		return CANNOT_JUDGE
	if args.http:
		return _serve_http(args)
	# Waiting for input cannot be interrupted otherwise, and the client has the connection, not the terminal
	signal.signal(signal.SIGINT, signal.SIG_DFL)
	from . import logs
	from .app import server

	logs.set_up()
	if sys.stdin.isatty():
		common.note(f"{PROG}: waits for an MCP client on standard input; see --help, or end with Ctrl-C")
	server().run()
	return 0


def _serve_http(args: argparse.Namespace) -> int:
	host = args.host or "127.0.0.1"
	if host not in LOOPBACK and not args.allow_host:
		raise UsageError(f"--host {host} opens the server to others; name it as they call it with --allow-host NAME")
	from . import http_app

	http_app.run(host, 8000 if args.port is None else args.port, args.allow_host)
	return 0


def build_parser() -> cli_parser.Parser:
	parser = cli_parser.Parser(PROG, SUMMARY, EXAMPLES, "%(prog)s [--http [options]]")
	parser.add_argument("--http", action="store_true", help="serve streamable HTTP at /mcp instead of stdio")
	parser.add_argument("--host", metavar="ADDRESS", help="where to listen (127.0.0.1)")
	parser.add_argument("--port", metavar="PORT", type=cli_parser.whole(1, 65535), help="the port to listen on (8000)")
	parser.add_argument(
		"--allow-host",
		action="append",
		default=[],
		metavar="NAME",
		help="a name under which others may call this server, as in their URL (repeatable)",
	)
	return parser


def has_sdk() -> bool:
	try:
		import mcp.server.mcpserver  # noqa: F401 - 1.x has no such module

		return True
	except ModuleNotFoundError as error:
		missing = str(error.name)
	if missing.split(".")[0] != "mcp":
		found = f"the package {missing} is missing"
	else:
		found = f"mcp {metadata.version('mcp')} does not fit" if find_spec("mcp") else "the MCP SDK is missing"
	common.note(f'{PROG}: {found}; run: {sys.executable} -m pip install "{NEEDED}" PyYAML markdown-it-py')
	return False


if __name__ == "__main__":
	raise SystemExit(main())
