"""The shapes of a diagnosis: evidence, causes, what failed first, the report."""

from typing import Literal, NamedTuple

from .model import Fix, Targets

DiagnoseVerdict = Literal["cause", "suspicion", "unknown", "no-failure", "unreadable"]
SYMPTOMS = ("hang", "slow", "nan", "loss-wrong", "oom", "ignored")


class Evidence(NamedTuple):
	"""What speaks for a cause: where it was found (log, symptom, run or a config's path), and the text itself.

	`line` counts from 1, 0 where there are no lines; `times` says how often, `ranks` by which processes.
	"""

	source: str
	line: int
	text: str
	times: int = 1
	ranks: tuple[int, ...] = ()


class ConfigFix(NamedTuple):
	"""A repair of a config that was given, as the validator proposes it, and the rule that found the place."""

	path: str
	code: str
	line: int
	fix: Fix


class Cause(NamedTuple):
	"""Something that may have made the run fail. `code` and `family` place it in the taxonomy of causes."""

	id: str
	code: str
	family: str
	title: str
	confidence: float
	level: Literal["high", "medium", "low"]
	why: str
	evidence: tuple[Evidence, ...]
	fix: str
	fixes: tuple[ConfigFix, ...]
	verify: str
	rules: tuple[str, ...]
	reference: str


class Failure(NamedTuple):
	"""What failed first, as far as the log tells; None, and "" for texts, is what it does not tell."""

	exception: str = ""
	raised_as: str = ""
	line: int | None = None
	rank: int | None = None
	host: str = ""
	exit_code: int | None = None


class DiagnoseReport(NamedTuple):
	"""The answer to a diagnosis: causes, the likeliest first; `run` is what was understood of the run."""

	verdict: DiagnoseVerdict
	summary: str
	failure: Failure | None
	causes: tuple[Cause, ...]
	notes: tuple[str, ...]
	collect: tuple[str, ...]
	run: tuple[tuple[str, str], ...]
	targets: Targets
	lines: int

	@property
	def exit_code(self) -> int:
		"""0: a cause is named; 1: none is; 2: the input cannot be read."""
		return 2 if self.verdict == "unreadable" else int(not self.causes)
