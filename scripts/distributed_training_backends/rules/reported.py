"""Codes of findings that the pipeline itself makes, so that they are listed and explained like any other."""

from .registry import Hits, rule


@rule("DSP000", info="*")
def other_readers_refuse(reported_by_the_pipeline: None) -> Hits:
	"""A lone DeepSpeed file is taken by one of its readers, and would be refused by another.

	DeepSpeed itself, Accelerate and the Transformers Trainer read the same file differently. Choose the reader with
	`--consumer` to see the refusal as an error, or give the Accelerate config that names the file. Source: deepspeed
	0.19.8, runtime/config.py; accelerate 1.15.0, utils/dataclasses.py, `DeepSpeedPlugin`; transformers 5.24.0,
	integrations/deepspeed.py.
	"""
	yield from ()


@rule("XCF900", info="*")
def unreadable_input(reported_by_the_pipeline: None) -> Hits:
	"""An input that cannot be judged, and why.

	Missing, a directory, no text, larger than 2 MiB, nested more than 100 levels deep, more than 50,000 keys and
	values (aliases expanded), a number of more than 100 digits, or no config of a known kind (`--format` says which
	kind it is). The exit code is 2. Source: the limits of this program, not of a library.
	"""
	yield from ()
