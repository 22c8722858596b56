#!/usr/bin/env python3
"""Choose a training backend for a model and a machine, say what it needs per GPU, and write a config that works.

Needs Python 3.10 and PyYAML. See --help.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - whoever has an older Python is told so
	sys.stderr.write(f"triage-backend: needs Python 3.10 or newer, this is {sys.version.split()[0]}\n")
	sys.exit(2)

# A copy of this folder runs from anywhere, through a link, and with -P or -I, which leave the folder out of the path.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from distributed_training_backends.cli_common import leave
from distributed_training_backends.cli_triage import main

if __name__ == "__main__":
	leave(main())
