"""Do safe fixes keep their promise? Applies each one to the configs it is offered for, and asks the library again.

    python -m tests.oracle.fixes [--mutants 20 --seed N]

A safe fix must leave a file that the library takes, where it took the file before; one that the validator itself sees
refused is not made by --fix. The finding must be gone, what is removed must have changed nothing, and the validator
must agree with the library about the mended file. The status is 1 where one of these does not hold.
"""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tests.oracle import cases, environment, mutations
from tests.oracle.cases import Case, questions
from tests.oracle.client import Library, Oracle
from tests.oracle.comparison import LIBRARY_OF, Truth, truth_for_any, truth_of
from tests.oracle.environment import PINS
from tests.oracle.liveness import fingerprint

from distributed_training_backends import api
from distributed_training_backends.fix import apply
from distributed_training_backends.model import Applicability, FileReport, Finding

# These kinds have one reader; a lone DeepSpeed file is judged for the reader that takes it.
ONE_READER = ("accelerate", "fsdp")


class Outcome(NamedTuple):
	"""What came of one safe fix; no complaint means that it kept its promise."""

	case: Case
	finding: Finding
	complaint: str

	def __str__(self) -> str:
		title = self.finding.fix.title if self.finding.fix else ""
		return f"{self.case.name}:{self.finding.place.line}: {self.finding.code} {title}: {self.complaint or 'kept'}"


def reported(case: Case) -> FileReport:
	report = api.validate_text(case.text, api.Options(api.Targets(**PINS), kind=case.kind), case.file, case.companions)
	return next(file for file in report.files if file.path == case.file)


def outcomes(oracle: Oracle, case: Case) -> Iterator[Outcome]:
	before = reported(case)
	for finding in before.findings:
		if finding.fix is not None and finding.fix.applicability is Applicability.SAFE:
			mended = replace(case, text=apply(case.text, [finding.fix]).text, files=case.companions)
			yield Outcome(case, finding, complaint(oracle, case, mended, finding))


def complaint(oracle: Oracle, case: Case, mended: Case, finding: Finding) -> str:
	"""Say how a fix breaks its promise; an empty text if it does not."""
	was, now = answers(oracle, case), answers(oracle, mended)
	first, then = truth(was, case), truth(now, mended)
	if "left out" in (first.verdict, then.verdict):
		return ""
	after, said = reported(mended), then.error.get("message", "")[:200]
	if first.verdict == "accepted" and then.verdict == "rejected" and after.verdict == "accepted":
		return f"the library took the file, and refuses the mended one: {said}"
	if (after.verdict == "accepted") != (then.verdict == "accepted"):
		return f"the library: {then.verdict} ({said}), the validator: {after.verdict}"
	if any((again.code, again.place.pointer) == (finding.code, finding.place.pointer) for again in after.findings):
		return "the finding stays"
	removes = finding.fix is not None and finding.fix.title.startswith("remove ")
	if removes and case.kind in ONE_READER and [*map(fingerprint, was.values())] != [*map(fingerprint, now.values())]:
		return "what was removed made a difference" if first.verdict == "accepted" else ""
	return ""


def answers(oracle: Oracle, case: Case) -> dict[str, dict[str, Any]]:
	return {reader: oracle.ask(question) for reader, question in questions(case).items()}


def truth(given: dict[str, dict[str, Any]], case: Case) -> Truth:
	return truth_for_any({reader: truth_of(answer, case.kind) for reader, answer in given.items()})


def drawn(real: Sequence[Case], count: int, seed: int) -> Iterator[Case]:
	for kind in ("accelerate", "deepspeed", "fsdp"):
		pool = mutations.Pool([case for case in real if case.kind == kind])
		for change in mutations.KINDS:
			yield from mutations.mutants(pool, change, count, seed)


def run(judged: Sequence[Case]) -> list[Outcome]:
	home = environment.default()
	found: list[Outcome] = []
	libraries: tuple[Library, ...] = ("accelerate", "deepspeed")
	for library in libraries:
		with Oracle(home, library, PINS[library]) as oracle:
			for case in judged:
				if LIBRARY_OF[case.kind] == library:
					found += outcomes(oracle, case)
	return found


def main() -> int:
	parser = argparse.ArgumentParser(description="Apply the safe fixes, and ask the library about the mended files.")
	parser.add_argument("--mutants", type=int, default=0, help="so many mutations of each kind and file format, too")
	parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
	arguments = parser.parse_args()
	print(f"seed {arguments.seed}", file=sys.stderr)
	real = [*cases.own(), *cases.corpus()]
	found = run([*real, *drawn(real, arguments.mutants, arguments.seed)])
	broken = [outcome for outcome in found if outcome.complaint]
	print(*broken, sep="\n")
	print(f"{len(found)} safe fixes, {len(broken)} did not keep their promise", file=sys.stderr)
	return int(bool(broken))


if __name__ == "__main__":
	raise SystemExit(main())
