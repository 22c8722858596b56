"""The parser of the command lines, and the flags that they share. A call with paths alone does without it."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, get_args

from .about import VERSION
from .cli_common import LIBRARIES, UsageError
from .model import Consumer
from .versions import InvalidReleaseError, parse

# Help is English, as all of our texts are: looking for translations would import the locale and its patterns.
setattr(argparse, "_", str)  # noqa: B010 - not among the names that a type checker knows
FILES = "%(prog)s [options] PATH [PATH ...]"


class Parser(argparse.ArgumentParser):
	"""A parser that reports a wrong call in one line and knows options with underscores, as Accelerate's are."""

	def __init__(self, prog: str, summary: str, examples: str, usage: str = FILES) -> None:
		told = f"examples:\n{examples}"
		super().__init__(prog, usage, summary, told, formatter_class=formatter, allow_abbrev=False)
		self.add_argument("--version", action="version", version=f"{prog} {VERSION}")

	def error(self, message: str) -> NoReturn:
		"""End with one line; the usage is what --help is for."""
		raise UsageError(f"{message} (see --help)")

	def read(self, argv: Sequence[str] | None) -> argparse.Namespace:
		return self.parse_args([dashed(word) for word in (sys.argv[1:] if argv is None else argv)])


def formatter(prog: str) -> argparse.HelpFormatter:
	return argparse.RawDescriptionHelpFormatter(prog, width=110, max_help_position=28)


def dashed(word: str) -> str:
	"""Write --num_processes=8 as --num-processes=8; what follows the first "=" stays."""
	if not word.startswith("--"):
		return word
	name, equals, value = word.partition("=")
	return name.replace("_", "-") + equals + value


def release(text: str) -> str:
	try:
		parse(text)
	except InvalidReleaseError as error:
		raise argparse.ArgumentTypeError(str(error)) from None
	return text.strip().removeprefix("v")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:

	def check(text: str) -> int:
		try:
			number = int(text)
		except ValueError:
			raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
		if number < least or (most is not None and number > most):
			span = f"from {least} to {most}" if most is not None else f"of at least {least}"
			raise argparse.ArgumentTypeError(f"{number} is not a number {span}")
		return number

	return check


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
	group = parser.add_argument_group("releases to judge against (default: the newest ones known)")
	for library in LIBRARIES:
		group.add_argument(f"--{library}-version", metavar="X.Y.Z", type=release)
	add_switches(group, {"--installed": "those that this Python has installed (read from metadata, not imported)"})


def add_switches(group: Any, switches: Mapping[str, str]) -> None:
	for flag, told in switches.items():
		group.add_argument(flag, action="store_true", help=told)


def add_output_arguments(parser: argparse.ArgumentParser) -> Any:
	group = parser.add_argument_group("output")
	group.add_argument("--output-format", choices=("text", "json"), default="text")
	return group


def add_context_arguments(parser: argparse.ArgumentParser) -> None:
	group = parser.add_argument_group("what else is known about the run")
	group.add_argument("--num-processes", metavar="N", type=whole(1), help="processes over all machines")
	group.add_argument("--num-machines", metavar="N", type=whole(1))
	group.add_argument("--machine-rank", metavar="N", type=whole(0))
	group.add_argument("--main-process-ip", metavar="ADDRESS")
	group.add_argument("--main-process-port", metavar="PORT", type=whole(0, 65535))
	group.add_argument("--mixed-precision", choices=("no", "fp16", "bf16", "fp8"))
	told = "nothing more is given at launch: what the files and these flags leave open is an error, not a hint"
	group.add_argument("--launch-complete", action="store_true", help=told)
	told = "who reads a DeepSpeed file: deepspeed.initialize, Accelerate, or the Transformers Trainer"
	group.add_argument("--consumer", choices=get_args(Consumer), default="auto", help=told)
