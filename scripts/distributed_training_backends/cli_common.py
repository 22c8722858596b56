"""What the command lines share: targets and context, output, and the way out of trouble."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from .model import Context, Targets

if TYPE_CHECKING:
	import argparse

	from .render.style import Style

LIBRARIES = Targets._fields
WIDTH = 120
CANNOT_JUDGE = 2
INTERRUPTED = 130
# By module, what a part of the program cannot do without: the distribution, and what needs it.
NEEDED = {"yaml": ("PyYAML", "YAML files need"), "markdown_it": ("markdown-it-py", "look-up needs")}


class UsageError(Exception):
	"""A call that cannot be carried out; the text is the one line that says why."""


def targets_from(args: argparse.Namespace, default: Targets) -> Targets:
	"""Choose the releases: a flag beats what is installed, which beats the newest one known."""
	chosen = dict(default.items())
	if args.installed:
		from .installed import releases

		for library, found in releases(LIBRARIES).items():
			if found is None:
				note(f"{library} is not installed here: judged against {library} {chosen[library]}")
			chosen[library] = found or chosen[library]
	chosen |= {library: given for library in LIBRARIES if (given := getattr(args, f"{library}_version"))}
	return Targets(**chosen)


def context_from(args: argparse.Namespace) -> Context:
	given = {name: getattr(args, name) for name in Context._fields if hasattr(args, name)}
	return Context(**given, launched=args.launch_complete)


def note(text: str) -> None:
	"""Tell a person something beside the result, on standard error and without its secrets or control characters."""
	from .render.characters import visible
	from .render.redact import redact

	if sys.stderr is None:  # print would take standard output instead
		return
	with suppress(OSError):  # it is full or closed; the exit status still tells
		print(visible(redact(text)), file=sys.stderr, flush=True)


OTHER_PLACE = "; --output-file names another place"


def check_output_name(args: argparse.Namespace) -> None:
	if args.output_file in ("", "-"):
		raise UsageError("--output-file wants the name of a file; without it the result goes to standard output")


def emit(text: str, output_file: str | None = None, instead: str = OTHER_PLACE) -> None:
	"""Write a result to standard output, or to a file as a whole; `instead` says what to do where output is closed."""
	if output_file is not None:
		_write(output_file, text)
		return
	if sys.stdout is None:
		raise UsageError(f"standard output is closed{instead}")
	try:
		sys.stdout.write(text)
		sys.stdout.flush()
	except BrokenPipeError:  # nobody reads on; the exit status still tells the verdict
		os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(path: str, text: str) -> None:
	from .fix import write_atomically

	if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device is written to, never replaced
		with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
			stream.write(text)
		return
	failure = write_atomically(path, text)
	if failure is not None:
		raise UsageError(f"{failure.path}: {failure.message}")


def wants_color(stream: Any) -> bool:
	"""Decide about colours: NO_COLOR beats FORCE_COLOR, which beats being a terminal."""
	if os.environ.get("NO_COLOR"):
		return False
	if os.environ.get("FORCE_COLOR", "0") not in ("", "0", "false"):
		return True
	return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def style_for(output_file: str | None, **choices: Any) -> Style:
	from .render.style import Style

	to_terminal = output_file is None and sys.stdout is not None and sys.stdout.isatty()
	color = output_file is None and sys.stdout is not None and wants_color(sys.stdout)
	return Style(color=color, width=_columns() if to_terminal else WIDTH, base=_working_directory(), **choices)


def _working_directory() -> str:
	try:
		return os.getcwd()
	except FileNotFoundError:  # it was removed while we stand in it
		return os.path.sep


def _columns() -> int:
	try:
		return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
	except (OSError, ValueError):
		return WIDTH


def guarded(prog: str, body: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None) -> int:
	"""Run a command line; whatever goes wrong ends in one line and an exit code, never in a traceback."""
	_let_everything_print()
	try:
		return body(argv)
	except SystemExit as done:  # argparse, after --help and --version
		return done.code if isinstance(done.code, int) else 0
	except KeyboardInterrupt:
		return INTERRUPTED
	except Exception as error:
		note(f"{prog}: {_explained(error)}")
		if os.environ.get("DTB_DEBUG"):
			raise
		return CANNOT_JUDGE


def leave(status: int) -> NoReturn:
	"""End the process at once: to take apart what it has in memory would cost a tenth of a run."""
	for stream in (sys.stdout, sys.stderr):
		try:
			if stream is not None:
				stream.flush()
		except OSError:
			status = status or CANNOT_JUDGE
	os._exit(status)


def _explained(error: Exception) -> str:
	if isinstance(error, UsageError):
		return str(error)
	if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
		package, purpose = NEEDED[error.name]
		return f"{package} is missing, which {purpose}; run: {sys.executable} -m pip install {package}"
	if isinstance(error, OSError) and error.strerror:
		return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
	return internal(error)


def internal(error: Exception) -> str:
	what = f"{type(error).__name__}: {str(error)[:200]}"
	return f"internal error, please report it with the file: {what} (DTB_DEBUG=1 shows where)"


def _let_everything_print() -> None:
	for stream in (sys.stdout, sys.stderr):
		reconfigure = getattr(stream, "reconfigure", None)
		if reconfigure is not None:
			reconfigure(errors="backslashreplace")
