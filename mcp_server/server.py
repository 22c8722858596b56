#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["mcp>=2.1,<3", "PyYAML>=5.4", "markdown-it-py>=2.2"]
# ///
"""The MCP server as a file: stdio by default, streamable HTTP with --http.

Needs Python 3.10 and `pip install "mcp>=2.1,<3" PyYAML markdown-it-py`. See --help.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - whoever has an older Python is told so
	sys.stderr.write(f"the MCP server needs Python 3.10 or newer, this is {sys.version.split()[0]}\n")
	sys.exit(2)

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(HERE)
# This folder holds parts of a package; on the path they would pass for modules of their own.
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != HERE]
# The core is in scripts/ of a checkout; in a wheel it is the folder above this one.
SCRIPTS = os.path.join(ROOT, "scripts")
IN_CHECKOUT = os.path.isdir(os.path.join(SCRIPTS, "distributed_training_backends"))
sys.path.insert(0, SCRIPTS if IN_CHECKOUT else os.path.dirname(ROOT))

from distributed_training_backends.serve import main

if __name__ == "__main__":
	sys.exit(main())
