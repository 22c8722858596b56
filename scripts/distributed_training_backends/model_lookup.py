"""The shapes of an answer of look-up."""

from typing import NamedTuple

from .model import Targets


class Section(NamedTuple):
	"""A section of the reference that answers a question: where it stands, and the text or the parts that matter."""

	reference: str
	title: str
	page: str
	text: str
	truncated: bool


class LookupReport(NamedTuple):
	"""The answer to a question to the reference: some of the `total` sections that fit, the best first.

	`suggestions` are names like those asked for that nothing is called; `notes` say what holds for the targets;
	`next_offset` asks for the sections that follow, and is -1 where none do.
	"""

	query: str
	targets: Targets
	total: int
	offset: int
	next_offset: int
	sections: tuple[Section, ...]
	suggestions: tuple[str, ...]
	notes: tuple[str, ...]
	summary: str

	@property
	def exit_code(self) -> int:
		"""0: something fits; 1: nothing does."""
		return 0 if self.total else 1
