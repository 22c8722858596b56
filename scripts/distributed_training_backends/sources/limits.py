"""What this program refuses to read, whatever the libraries would do with it, and how that is told."""

from typing import NamedTuple

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 50_000
MAX_DIGITS = 100


class Unreadable(NamedTuple):
	"""A source that cannot be judged: a slug for the reason, and a sentence that says what is wrong.

	Slugs: missing, directory, special-file, no-permission, io-error, too-large, binary, utf-16, not-utf-8,
	too-deep, too-many-nodes, too-many-blocks, alias-expansion, number-too-long, unknown-kind.
	"""

	path: str
	reason: str
	message: str


class LimitError(Exception):
	"""Raised inside a parser; it leaves the sources as an `Unreadable`."""

	def __init__(self, reason: str, message: str) -> None:
		super().__init__(message)
		self.reason = reason
		self.message = message

	def of(self, path: str) -> Unreadable:
		return Unreadable(path, self.reason, self.message)


def too_deep() -> LimitError:
	return LimitError("too-deep", f"it is nested more than {MAX_DEPTH} levels deep, which is the limit")


def too_many_nodes() -> LimitError:
	return LimitError("too-many-nodes", f"it has more than {MAX_NODES:,} keys and values, which is the limit")


def alias_expansion() -> LimitError:
	"""The refusal of a text whose aliases multiply, or lead into themselves."""
	said = f"its aliases expand to more than {MAX_NODES:,} keys and values, which is the limit"
	return LimitError("alias-expansion", said)


def check_number(text: str) -> None:
	"""Refuse a number longer than any setting: to convert, to multiply or to print it could take minutes, or fail."""
	if len(text) > MAX_DIGITS:
		raise LimitError("number-too-long", f"it has a number of more than {MAX_DIGITS} digits, which is the limit")
