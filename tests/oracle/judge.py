"""The validator's side of a comparison: one call, in process, without any of the oracle's answers."""

from typing import NamedTuple

from tests.oracle.cases import Case
from tests.oracle.environment import PINS


class Said(NamedTuple):
	code: str
	severity: str
	pointer: str
	message: str


class Judgement(NamedTuple):
	verdict: str
	findings: tuple[Said, ...]

	@property
	def errors(self) -> tuple[Said, ...]:
		return tuple(finding for finding in self.findings if finding.severity == "error")


def judge(case: Case, releases: dict[str, str], reader: str = "auto") -> Judgement:
	"""Judge a case for these releases (the pinned ones where none is given) and this reader of a DeepSpeed file."""
	from distributed_training_backends import api

	targets = api.Targets(**{**PINS, **releases})
	context = api.Context(consumer=reader)  # type: ignore[arg-type]
	options = api.Options(targets, context, case.kind)
	report = api.validate_text(case.text, options, case.file, case.companions)
	verdicts = {file.verdict for file in report.files}
	verdict = next((name for name in ("unreadable", "rejected") if name in verdicts), "accepted")
	findings = tuple(
		Said(finding.code, finding.severity.value, finding.place.pointer, finding.message)
		for file in report.files
		for finding in file.findings
	)
	return Judgement(verdict, findings)
