"""The shapes of a conversion: the result, and what is said about each setting on the way."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from .model import Finding, Kind, Targets

TARGETS = ("fsdp2", "fsdp", "deepspeed", "launch", "python", "trainer", "accelerate")
# As they matter to a reader: what a validator says of the result; no counterpart; the nearest one does something else;
# to be given elsewhere; said now, because the default is another one; means the same.
Status = Literal["check", "lost", "changed", "open", "added", "same"]


class Note(NamedTuple):
	"""What became of one setting; `line` is where it stood."""

	status: Status
	setting: str
	message: str
	line: int | None = None


class ConvertReport(NamedTuple):
	"""The answer to one conversion. `findings` say why the input is rejected or unreadable; then there is no text.

	`kind` and `before` are about the input, `result` is the kind of `text`, `same_format` says that comments survived.
	"""

	targets: Targets
	path: str
	kind: Kind | None
	to: str
	verdict: Literal["converted", "unchanged", "rejected", "unreadable"]
	text: str = ""
	before: str = ""
	result: str = ""
	same_format: bool = False
	notes: tuple[Note, ...] = ()
	findings: tuple[tuple[str, Finding], ...] = ()

	@property
	def exit_code(self) -> int:
		"""0: there is a result; 1: the input is rejected; 2: it cannot be judged."""
		return {"rejected": 1, "unreadable": 2}.get(self.verdict, 0)

	@property
	def equivalent(self) -> bool:
		"""Whether the result claims to be the same run, once what is open is given as it was."""
		differs = (note.status in ("lost", "changed", "check") and note.setting != "comment" for note in self.notes)
		return bool(self.text) and not any(differs)


class BadConversionError(ValueError):
	"""A conversion that cannot be made; the text is the one line that says why."""


def ordered(notes: Iterable[Note]) -> tuple[Note, ...]:
	"""Each note once, what matters most first, then by line."""
	ranks = get_args(Status)
	return tuple(sorted(dict.fromkeys(notes), key=lambda note: (ranks.index(note.status), note.line or 0)))
