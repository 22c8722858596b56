"""The shapes of a conversion: the result, and what is said about each setting on the way."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from .model import Finding, Kind, Targets

TARGETS = ("fsdp2", "fsdp", "deepspeed", "launch", "python", "trainer", "accelerate")
Status = Literal["same", "changed", "lost", "added", "open", "check"]
# In the order in which they matter to a reader.
STATUSES: dict[Status, str] = {
    "check": "what the validator says of the result",
    "lost": "has no counterpart",
    "changed": "the nearest counterpart does something else",
    "open": "to be given elsewhere",
    "added": "said now, because the default is another one",
    "same": "means the same",
}


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
        """Tell whether the result claims to be the same run, once what is open is given as it was."""
        differs = (note.status in ("lost", "changed", "check") and note.setting != "comment" for note in self.notes)
        return bool(self.text) and not any(differs)


class BadConversionError(ValueError):
    """A conversion that cannot be made; the text is the one line that says why."""


def ordered(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Each note once, what matters most first, then by line."""
    ranks = list(STATUSES)
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: (ranks.index(note.status), note.line or 0)))
