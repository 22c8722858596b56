"""The doors of an installed package to the MCP server: the console command, and the app for any ASGI server.

The server's own code is in mcp_server/, which stands inside this package in a wheel and in the root of a checkout.
Either way it is imported as distributed_training_backends.mcp_server.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from os.path import dirname, isfile, join, realpath
from typing import Any

PACKAGE = "distributed_training_backends"


def main(argv: Sequence[str] | None = None) -> int:
	status: int = part("command").main(argv)
	return status


def __getattr__(name: str) -> Any:
	"""Make the app when it is asked for: `uvicorn distributed_training_backends.serve:app`."""
	if name == "app":
		return part("http_app").app()
	raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def part(name: str) -> Any:
	root = dirname(dirname(dirname(realpath(__file__))))
	package = sys.modules[PACKAGE]
	if isfile(join(root, "mcp_server", "server.py")) and root not in package.__path__:
		# in front, because an editable install keeps a copy of mcp_server as it was on that day
		package.__path__ = [root, *package.__path__]
	return import_module(f"{PACKAGE}.mcp_server.{name}")


if __name__ == "__main__":
	raise SystemExit(main())
