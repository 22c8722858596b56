#!/usr/bin/env python3
"""Tell what Accelerate, DeepSpeed and the Transformers Trainer will make of a config, before they run.

Needs Python 3.10 and, for YAML, PyYAML. See --help.
"""

import gc
import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - whoever has an older Python is told so
	sys.stderr.write(f"validate-backend-config: needs Python 3.10 or newer, this is {sys.version.split()[0]}\n")
	sys.exit(2)

# What a start makes, it keeps: to look through it for garbage again and again takes a fifteenth of a run.
gc.set_threshold(50_000)
# A copy of this folder runs from anywhere, through a link, and with -P or -I, which leave the folder out of the path.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from distributed_training_backends.cli import main
from distributed_training_backends.cli_common import leave

if __name__ == "__main__":
	leave(main())
