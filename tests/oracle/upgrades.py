"""What an upgrade of Accelerate changes in ten runs, each line confirmed by both real releases.

    python -m tests.oracle.upgrades [--quick]

A line holds when each release gives the setting the value that its side of the line says, or does not have it. What
the releases do differently and no line says is printed too, and fails. A finding that appears or goes as an error holds
when the one release refuses the run and the other does not.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

from tests.oracle import environment
from tests.oracle.client import Answer, Oracle
from tests.oracle.effective import MISSING, NOT_SETTINGS, Drawn, documents, equal, question, tables, theirs

from distributed_training_backends import api, effects
from distributed_training_backends.model_effective import Change, Comparison
from distributed_training_backends.render.effective import change_line, finding_line
from distributed_training_backends.validate import Unit

LAUNCHED = ("argument.", "variable.", "torchrun.", "command.")
RELEASES = ("1.12.0", "1.13.0", "1.14.0", "1.15.0")


def compared(run: Drawn, before: str, after: str) -> Comparison:
	found = documents(run)
	units = [Unit(document) for document in found if document.kind == "accelerate"]
	options = api.Options(api.default_targets()._replace(accelerate=after), compare=before)
	report = effects.added(api.validate_text(found[0].text, options, "config.yaml"), units, options, ())
	assert report.comparison is not None
	return report.comparison


def holds(change: Change, before: dict[str, Any], after: dict[str, Any]) -> bool:
	name = change.name
	sides = (change.before, before.get(name, MISSING)), (change.after, after.get(name, MISSING))
	return all(
		real == MISSING if said is None else said.state == "open" or equal(said.value, real) for said, real in sides
	)


def as_number(value: Any) -> Any:
	"""A number that is only written in another way is no change."""
	with suppress(TypeError, ValueError):
		return value if isinstance(value, bool) else float(value)
	return value


def untold(before: dict[str, Any], after: dict[str, Any], told: set[str]) -> Iterator[str]:
	for name in sorted({*before, *after} - told - set(NOT_SETTINGS)):
		one, other = before.get(name, MISSING), after.get(name, MISSING)
		came = name.startswith("argument.") and MISSING in (one, other)
		if as_number(one) != as_number(other) and not came:
			yield f"{name}: {one!r} -> {other!r}"


def judged(comparison: Comparison, before: Answer, after: Answer) -> Iterator[tuple[str, bool]]:
	was, now = theirs(before), theirs(after)
	built = [answer["verdict"] == "accepted" for answer in (before, after)]
	for finding, wanted in [*((one, False) for one in comparison.appear), *((one, True) for one in comparison.go)]:
		if finding.severity.value == "error":
			yield f"finding {'goes' if wanted else 'appears'}: {finding_line(finding)}", built == [not wanted, wanted]
	if was is None or now is None:
		return
	both = all(built)
	for change in comparison.changes:
		if both or change.name.startswith(LAUNCHED):
			yield change_line(change), holds(change, was, now)
	ignored = {change.name for change in comparison.changes}
	ignored |= {name for name in {*was, *now} if not both and not name.startswith(LAUNCHED)}
	yield from ((f"not told: {line}", False) for line in untold(was, now, ignored))


def lines(oracles: dict[str, Oracle], steps: list[tuple[str, str]]) -> Iterator[tuple[str, str, str, bool]]:
	"""(run, upgrade, line, whether it holds) of everything."""
	for name, fields in tables()["upgrades"].items():
		run = Drawn(**fields)
		for before, after in steps:
			answers = [oracles[release].ask(question(run)) for release in (before, after)]
			for line, good in judged(compared(run, before, after), *answers):
				yield name, f"{before} -> {after}", line, good


def main() -> int:
	way = [(RELEASES[0], RELEASES[-1])]
	steps = way if "--quick" in sys.argv else [*pairwise(RELEASES), *way]
	asked = {release for step in steps for release in step}
	oracles = {release: Oracle(environment.default(), "accelerate", release) for release in asked}
	found = list(lines(oracles, steps))
	for name, upgrade, line, good in found:
		print(f"{'ok ' if good else 'BAD'} {name}, {upgrade}: {line}")
	bad = sum(not good for *_, good in found)
	print(f"{len(found)} lines on {len(tables()['upgrades'])} runs, {bad} of them not confirmed")
	for oracle in oracles.values():
		oracle.__exit__()
	return int(bool(bad))


if __name__ == "__main__":
	sys.exit(main())
