#!/usr/bin/env python3
"""Say what a backend config says for another backend or surface: FSDP2, DeepSpeed, flags, Python, TrainingArguments.

Needs Python 3.10, and PyYAML for YAML configs. See --help.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - whoever has an older Python is told so
	sys.stderr.write(f"convert-backend-config: needs Python 3.10 or newer, this is {sys.version.split()[0]}\n")
	sys.exit(2)

# A copy of this folder runs from anywhere, through a link, and with -P or -I, which leave the folder out of the path.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from distributed_training_backends.cli_convert import main

if __name__ == "__main__":
	sys.exit(main())
