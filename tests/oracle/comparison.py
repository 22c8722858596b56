"""One case against one release: what the library does, what the validator says, and whether they agree."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias

from tests.oracle.cases import Case, Kind, Question, questions
from tests.oracle.client import Library, Oracle
from tests.oracle.environment import PINS, Environment
from tests.oracle.judge import Judgement, judge

Answer: TypeAlias = dict[str, Any]
Outcome: TypeAlias = Literal["agree", "false error", "missed", "left out"]
ANY_READER = "any reader"
LIBRARY_OF: dict[Kind, Library] = {
	"accelerate": "accelerate",
	"quantization": "accelerate",
	"deepspeed": "deepspeed",
	"fsdp": "deepspeed",
}
# Refusals that say nothing about the config, with the reason why they are left out of a comparison.
LEFT_OUT = (
	(re.compile(r"existing deepspeed config.*Received: /", re.DOTALL), "an absolute deepspeed_config_file is missing"),
	(
		re.compile(
			r"No module named|torch_xla|is not available|not installed|requires the library|make sure it is installed"
		),
		"a package is missing",
	),
	(re.compile(r"No such file or directory: b?'/"), "a folder of another machine is missing"),
	(re.compile(r"determine model policy automatically"), "the oracle's model is none that DeepSpeed can split"),
)
# A DeepSpeed file does not say how many processes there are, and may ask for more than the ones it is given.
TOO_FEW_PROCESSES = re.compile(r"bigger than default world size|must divide the stage size|_pycute/layout")
LINE_NUMBER = re.compile(r":\d+$")
JUDGING = Lock()


class Truth(NamedTuple):
	"""What the library does: accepted, rejected, or left out with a reason; and its refusal."""

	verdict: Literal["accepted", "rejected", "left out"]
	reason: str
	error: Mapping[str, str]

	@property
	def cause(self) -> str:
		where = LINE_NUMBER.sub("", self.error.get("where", ""))
		return f"{self.error['type']} in {where}" if self.error else ""


class Row(NamedTuple):
	library: Library
	release: str
	reader: str
	case: Case
	truth: Truth
	said: Judgement

	@property
	def outcome(self) -> Outcome:
		if self.truth.verdict == "left out":
			return "left out"
		refused = self.said.verdict != "accepted"
		if refused == (self.truth.verdict == "rejected"):
			return "agree"
		return "false error" if refused else "missed"

	@property
	def disagrees(self) -> bool:
		return self.outcome in ("false error", "missed")

	@property
	def signature(self) -> tuple[str, ...]:
		codes = sorted({finding.code for finding in self.said.errors})
		why = ", ".join(codes) if self.outcome == "false error" else self.truth.cause
		return (self.outcome, self.case.kind, self.reader, why)


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
	groups: dict[Any, list[Row]] = {}
	for row in rows:
		groups.setdefault(key(row), []).append(row)
	return groups


def truth_of(answer: Answer, kind: Kind = "accelerate") -> Truth:
	error = answer.get("error") or {}
	if answer["verdict"] == "accepted":
		return Truth("accepted", "", {})
	if answer["verdict"] == "rejected":
		reason = reason_to_leave_out(error, kind)
		return Truth("left out" if reason else "rejected", reason, error)
	return Truth("left out", "the oracle cannot tell" if answer["verdict"] == "undecided" else "no answer", error)


def reason_to_leave_out(error: Mapping[str, str], kind: Kind) -> str:
	message = error.get("message", "")
	if kind == "deepspeed" and TOO_FEW_PROCESSES.search(f"{message} {error.get('where', '')}"):
		return "it asks for more processes than the oracle gives"
	return next((reason for pattern, reason in LEFT_OUT if pattern.search(message)), "")


def truth_for_any(truths: Mapping[str, Truth]) -> Truth:
	"""A lone file is accepted if any reader accepts it, and rejected if all of them refuse it."""
	return min(truths.values(), key=lambda truth: ("accepted", "left out", "rejected").index(truth.verdict))


class Comparison(AbstractContextManager["Comparison"]):
	"""Compares cases for one release of Accelerate or DeepSpeed; the other libraries are the pinned ones."""

	def __init__(self, environment: Environment, library: Library, release: str) -> None:
		self.library, self.release = library, release
		self.oracle = Oracle(environment, library, release)

	def rows(self, case: Case) -> Iterator[Row]:
		"""One row for each reader of the case, and one for all of them together where there are several."""
		asked = questions(case)
		truths = dict(self.truths(case, asked))
		if len(asked) > 1:
			yield self._row(case, ANY_READER, truth_for_any(truths))
		if case.kind == "quantization":  # the validator cannot be told which of the two readers it is for
			return
		for reader, truth in truths.items():
			yield self._row(case, reader, truth)

	def truths(self, case: Case, asked: Mapping[str, Question]) -> Iterator[tuple[str, Truth]]:
		"""What each reader does; of an older release nobody else is asked once one of them takes the file."""
		order = sorted(asked, key=lambda reader: '"auto"' in case.text and reader == "deepspeed")
		for reader in order:
			truth = truth_of(self.oracle.ask(asked[reader]), case.kind)
			yield reader, truth
			if truth.verdict == "accepted" and PINS[self.library] != self.release:
				return

	def _row(self, case: Case, reader: str, truth: Truth) -> Row:
		consumer = reader if reader in ("deepspeed", "accelerate", "trainer") else "auto"
		with JUDGING:
			said = judge(case, {self.library: self.release}, consumer)
		return Row(self.library, self.release, reader, case, truth, said)

	def row(self, case: Case, reader: str) -> Row | None:
		"""The row of one reader; None where nobody needed to ask it."""
		return next((row for row in self.rows(case) if row.reader == reader), None)

	def __exit__(self, *_: object) -> None:
		self.oracle.__exit__()
