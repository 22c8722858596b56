"""The shapes that everything shares: severities, places in a text, edits, findings and reports."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
	from .model_effective import Comparison, Effective
else:  # a name in quotes in a named tuple takes as long as all else here
	Comparison = Effective = object

Pointer = tuple[str | int, ...]
Kind = Literal[
	"accelerate",
	"deepspeed",
	"fsdp",
	"parallelism",
	"fp8",
	"quantization",
	"trainer",
	"launch",
	"environment",
	"python",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Consumer = Literal["auto", "deepspeed", "accelerate", "trainer"]
Verdict = Literal["accepted", "rejected", "unreadable"]


class Severity(str, Enum):
	"""What a finding promises: refused, accepted but not as written, or for the reader to know."""

	ERROR = "error"
	WARNING = "warning"
	INFO = "info"

	@property
	def rank(self) -> int:
		return ("error", "warning", "info").index(self.value)


class Applicability(str, Enum):
	"""Whether a fix may be applied unseen (safe), only when asked for (unsafe), or is shown only (display)."""

	SAFE = "safe"
	UNSAFE = "unsafe"
	DISPLAY = "display"


class Extent(NamedTuple):
	"""A stretch of a text in code points from 0; the end is not part of it."""

	start: int
	end: int


class Place(NamedTuple):
	"""Where something stands: a JSON pointer, the extent, and lines and columns from 1 (ends are exclusive)."""

	path: str
	pointer: str
	extent: Extent
	line: int
	column: int
	end_line: int
	end_column: int


class Edit(NamedTuple):
	"""Replace the code points start..end of the decoded text by another text."""

	start: int
	end: int
	text: str


class Fix(NamedTuple):
	"""Edits that belong together, with the promise that they carry."""

	applicability: Applicability
	title: str
	edits: tuple[Edit, ...]


class Finding(NamedTuple):
	"""One thing that a rule says about one place."""

	code: str
	name: str
	severity: Severity
	message: str
	place: Place
	fix: Fix | None = None
	reference: str = ""
	related: tuple[Place, ...] = ()

	@property
	def order(self) -> tuple[int, int, str, str]:
		return (self.place.extent.start, self.severity.rank, self.code, self.message)


class Targets(NamedTuple):
	"""The releases that a verdict is about."""

	accelerate: str
	deepspeed: str
	transformers: str
	torch: str

	def items(self) -> Iterator[tuple[str, str]]:
		"""Give (library, release) pairs in the order of the report."""
		return zip(self._fields, self, strict=True)

	def of(self, library: str) -> str:
		return dict(self.items())[library]


class Context(NamedTuple):
	"""What the config leaves open and the caller knows; None is an open question.

	`launched` says that the launch command is known in full, so that what it leaves open is an error.
	`arguments` are values of TrainingArguments or Accelerator that a DeepSpeed file is compared with.
	"""

	num_processes: int | None = None
	num_machines: int | None = None
	machine_rank: int | None = None
	main_process_ip: str | None = None
	main_process_port: int | None = None
	mixed_precision: str | None = None
	consumer: Consumer = "auto"
	launched: bool = False
	arguments: tuple[tuple[str, object], ...] = ()


class FileReport(NamedTuple):
	"""What is said about one file. `text` is kept for renderers that show source lines; None if unread.

	`named_by` is the file that refers to it, where it was not given itself.
	"""

	path: str
	kind: Kind | None
	verdict: Verdict
	findings: tuple[Finding, ...]
	text: str | None = None
	named_by: str | None = None


class Report(NamedTuple):
	"""The answer to one call: the targets, a report for each file, and what takes effect, if that was asked for."""

	targets: Targets
	files: tuple[FileReport, ...]
	effective: Effective | None = None
	comparison: Comparison | None = None

	def total(self, severity: Severity) -> int:
		return sum(finding.severity is severity for file in self.files for finding in file.findings)

	@property
	def exit_code(self) -> int:
		"""0: no errors; 1: at least one error; 2: some input could not be judged (2 beats 1)."""
		verdicts = {file.verdict for file in self.files}
		return 2 if "unreadable" in verdicts else int("rejected" in verdicts)


def json_pointer(pointer: Pointer) -> str:
	"""Write a pointer as RFC 6901 does: ("a", "b/c", 0) is "/a/b~1c/0"."""
	return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in pointer)


def verdict_of(findings: Iterable[Finding]) -> Verdict:
	"""A file with an error is rejected, any other accepted."""
	return "rejected" if any(finding.severity is Severity.ERROR for finding in findings) else "accepted"


class RuleInfo(NamedTuple):
	code: str
	name: str
	summary: str
	severities: tuple[tuple[str, str], ...]
	library: str
	page: str


class BadQueryError(ValueError):
	"""A question that cannot be looked up; the text is the one line that says why."""
