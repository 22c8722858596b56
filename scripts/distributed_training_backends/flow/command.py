"""A command line of `accelerate launch`, read as that release's own argparse reads it.

The parser of a release takes its options (no abbreviations), then the training script; all that follows belongs to the
script, whatever it is called. An unknown option is refused, and takes no value: the word behind it becomes the script.
What the shell fills in (`OPEN`) is the value of an option, or else may hold any number of options. Nothing is raised:
what argparse refuses is a `Fault`, and reading goes on. Sources: Python 3.10 to 3.13, argparse; 1.15.0,
commands/launch.py, `launch_command_parser`, commands/utils.py.
"""

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate import Option
from ..sources.document import OPEN, At, Document
from .arguments import converted

Wrong = Literal["unknown", "no-value", "ignored-value", "wrong-type", "wrong-choice", "no-script"]
NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
SCRIPT = re.compile(r"""\.(?:py|sh|pyc|zip)["']?$|SCRIPT|TRAIN|MAIN|PROGRAM|ENTRY|_FILE|_PY\b""")


class Given(NamedTuple):
	"""What an option is set to: the value as argparse has it, and the tokens of the option and of its value."""

	value: Any
	flag: int
	where: int


class Fault(NamedTuple):
	"""Something that argparse refuses, and at which token. `sure` is false where an open token came before."""

	name: Wrong
	token: int
	option: Option | None = None
	text: str = ""
	sure: bool = True


class CommandLine:
	"""What the parser of a release makes of a command. `given` is keyed by the options' destinations."""

	def __init__(self, document: Document, release: str) -> None:
		self.document, self.release = document, release
		self.tokens: list[Any] = document.data["tokens"]
		self.given: dict[str, Given] = {}
		self.faults: list[Fault] = []
		self.repeated: list[tuple[str, Given]] = []  # what a later one of the same option overrides
		self.script: int | None = None
		self.open_at: int | None = None
		self.helped = False

	def at(self, token: int) -> At:
		"""Point at a token; one that is not there is the whole command."""
		known = 0 <= token < len(self.tokens)
		return self.document.value("tokens", token) if known else self.document.value("launcher")

	def value(self, name: str) -> Any:
		"""The value that an option is given, None without it."""
		found = self.given.get(name)
		return found.value if found else None

	def text(self, token: int) -> str:
		return self.document.raw("tokens", token) or str(self.tokens[token])

	@property
	def arguments(self) -> range:
		"""The tokens that go to the training script."""
		return range(len(self.tokens) if self.script is None else self.script + 1, len(self.tokens))

	@property
	def environment(self) -> Mapping[str, Any]:
		found: Mapping[str, Any] = self.document.data.get("environment", {})
		return found

	@cached_property
	def remembered(self) -> frozenset[str]:
		"""The options that the merge knows to be given (since 1.5.0): all but those that collect several values."""
		options = knowledge.for_release(self.release).options
		return frozenset(name for name in self.given if name in options and options[name].action != "append")


def command_line(document: Document, release: str) -> CommandLine:
	"""Read a document of the kind "launch" whose launcher is accelerate."""
	line = CommandLine(document, release)
	_Reader(line).read()
	return line


class _Reader:
	def __init__(self, line: CommandLine) -> None:
		self.line, self.tokens = line, line.tokens
		self.flags = flags_of(line.release)
		self.position = 0
		self.after_open: list[str] = []

	def read(self) -> None:
		while self.position < len(self.tokens) and self.line.script is None:
			self._step()
		line = self.line
		if line.script is None and line.open_at is not None:
			line.script = line.open_at
			for name in self.after_open:
				del line.given[name]
		if line.script is None and not line.helped:
			self._fault("no-script", -1)

	def _step(self) -> None:
		token, here = self.tokens[self.position], self.position
		self.position += 1
		if token is OPEN:
			if SCRIPT.search(self.line.text(here)):
				self.line.script = here
			elif self.line.open_at is None:
				self.line.open_at = here
		elif token == "--":
			self.line.script = here + 1 if here + 1 < len(self.tokens) else None
		elif not looks_optional(token, self.flags):
			self.line.script = here
		else:
			self._option(token, here)

	def _option(self, token: str, here: int) -> None:
		flag, explicit = split_flag(token, self.flags)
		found = self.flags.get(flag)
		if found is None:
			self._fault("unknown", here, text=flag)
			return
		option, constant = found
		if option.action == "help":
			self.line.helped = True
		elif option.action in ("store_true", "store_false") or constant is not None:
			self._constant(option, constant is not False, here, explicit, len(flag) == 2)
		elif explicit is not None:
			self._set(option, explicit, here, here)
		elif self.position < len(self.tokens) and self._is_value(self.tokens[self.position]):
			self.position += 1
			self._set(option, self.tokens[self.position - 1], here, self.position - 1)
		else:
			self._fault("no-value", here, option, flag)

	def _is_value(self, token: Any) -> bool:
		return token is OPEN or (token != "--" and not looks_optional(token, self.flags))

	def _constant(self, option: Option, value: bool, here: int, explicit: str | None, short: bool) -> None:
		self._put(option, Given(value, here, here))
		if explicit and short and "-" + explicit[0] in self.flags:
			self._option("-" + explicit, here)
		elif explicit is not None:
			self._fault("ignored-value", here, option, explicit)

	def _set(self, option: Option, text: Any, flag: int, where: int) -> None:
		value = text
		if text is not OPEN:
			try:
				value = converted(text, option.type)
			except ValueError:
				self._fault("wrong-type", where, option, text)
				value = OPEN
			else:
				if option.choices is not None and value not in option.choices:
					self._fault("wrong-choice", where, option, text)
		if option.action == "append":
			value = [*(self.line.value(option.dest) or ()), value]
		self._put(option, Given(value, flag, where))

	def _put(self, option: Option, given: Given) -> None:
		if self.line.open_at is not None and option.dest not in self.line.given:
			self.after_open.append(option.dest)
		elif option.dest in self.line.given and option.action != "append":
			self.line.repeated.append((option.dest, self.line.given[option.dest]))
		self.line.given[option.dest] = given

	def _fault(self, name: Wrong, token: int, option: Option | None = None, text: str = "") -> None:
		self.line.faults.append(Fault(name, token, option, text, self.line.open_at is None))


@lru_cache(maxsize=32)
def flags_of(release: str) -> Mapping[str, tuple[Option, bool | None]]:
	"""Every spelling of every option of a release; with it the value that it sets, where it takes none."""
	found: dict[str, tuple[Option, bool | None]] = {}
	for option in knowledge.for_release(release).options.values():
		constant = True if option.action == "store_true" else None
		found |= dict.fromkeys(option.flags, (option, constant))
		found |= dict.fromkeys(option.negated, (option, False))
	return found


def looks_optional(token: str, flags: Mapping[str, object]) -> bool:
	if not token.startswith("-") or len(token) == 1:
		return False
	return split_flag(token, flags)[0] in flags or not (NEGATIVE.fullmatch(token) or " " in token)


def split_flag(token: str, flags: Mapping[str, object]) -> tuple[str, str | None]:
	if token in flags:
		return token, None
	flag, mark, rest = token.partition("=")
	if mark and flag in flags:
		return flag, rest
	if not token.startswith("--") and token[:2] in flags:
		return token[:2], token[2:]
	return flag, rest if mark else None
