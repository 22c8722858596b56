#!/usr/bin/env python3
"""Find what the reference says about a key, a flag, a class, a variable, a rule code, an error line, or in words.

Needs Python 3.10 and markdown-it-py. See --help.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - whoever has an older Python is told so
	sys.stderr.write(f"lookup-reference: needs Python 3.10 or newer, this is {sys.version.split()[0]}\n")
	sys.exit(2)

# A copy of this folder runs from anywhere, through a link, and with -P or -I, which leave the folder out of the path.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from distributed_training_backends.cli_common import leave
from distributed_training_backends.cli_lookup import main

if __name__ == "__main__":
	leave(main())
