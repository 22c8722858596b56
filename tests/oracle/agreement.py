"""Does the validator agree with the libraries? Asks both about the same configs and prints where they differ.

    python -m tests.oracle.agreement            newest releases in full, older ones on a sample (what the gate runs)
    python -m tests.oracle.agreement --quick    newest releases on a sample
    python -m tests.oracle.agreement --wide     newest releases in full, older ones with 40 mutations of each kind

Mutations are drawn with a fixed seed and with a fresh one, which is printed; `--seed N` draws with N alone. Answers of
the libraries are kept beside their interpreter, so that a second run asks only what is new, and one that `--minutes`
has cut short is taken up by the next. The status is 1 where a promise (tables.py) is not kept.
"""

import argparse
import random
import secrets
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from tests.oracle import cases, environment, mutations, tables
from tests.oracle.cases import Case
from tests.oracle.client import Library, OracleError
from tests.oracle.comparison import LIBRARY_OF, Comparison, Row, grouped
from tests.oracle.environment import PINS, Environment
from tests.oracle.mutations import smallest

import releases
from reference_tables import keep_figures

RELEASES: dict[Library, tuple[str, ...]] = {
    "accelerate": (
        "0.20.3", "0.23.0", "0.26.1", "0.28.0", "0.30.1", "0.34.2", "1.0.1", "1.4.0", "1.6.0", "1.8.1", "1.10.1",
        "1.12.0", "1.15.0",
    ),
    "deepspeed": (
        "0.9.0", "0.10.3", "0.12.6", "0.14.5", "0.15.4", "0.16.9", "0.17.6", "0.18.9", "0.19.6", "0.19.7", "0.19.8",
    ),
}  # fmt: skip
FIXED_SEED = 20_260_701
WORKERS = 2
SHOWN = 40


class Amount(NamedTuple):
	"""How much of each source is compared; None is everything. `fresh` counts mutations by the fresh seed."""

	real: int | None
	own: int | None
	mutants: int
	fresh: int


EVERYTHING = Amount(None, None, 40, 40)
NEWEST = Amount(None, None, 40, 10)
SAMPLE = Amount(24, 12, 3, 1)
WIDE = Amount(48, 24, 40, 0)
AMOUNTS: dict[str, tuple[Amount, Amount]] = {
	"quick": (SAMPLE, Amount(0, 0, 0, 0)),
	"gate": (NEWEST, SAMPLE),
	"wide": (EVERYTHING, WIDE),
}


class Sources(NamedTuple):
	real: Sequence[Case]
	own: Sequence[Case]
	seed: int | None
	fresh_seed: int

	def draw(self, library: Library, newest: bool, amount: Amount) -> list[Case]:
		"""The cases for one release. Samples are the same in every run, mutations those of the seeds."""
		drawn: list[Case] = []
		for kind in (kind for kind, of in LIBRARY_OF.items() if of == library):
			if kind == "fsdp" and not newest:  # these files are read by Transformers, of which there is one release
				continue
			real = [case for case in self.real if case.kind == kind]
			own = [case for case in self.own if case.kind == kind]
			drawn += [*sample(real, amount.real), *sample(own, amount.own)]
			pool = mutations.Pool([*real, *own])
			for change in mutations.KINDS:
				drawn += mutations.mutants(pool, change, amount.mutants, FIXED_SEED if self.seed is None else self.seed)
				drawn += mutations.mutants(pool, change, amount.fresh, self.fresh_seed) if self.seed is None else []
		return drawn


def sample(items: Sequence[Case], count: int | None) -> Sequence[Case]:
	if count is None or count >= len(items):
		return items
	return random.Random(FIXED_SEED).sample(items, count)


# --- comparing ---


class Group(NamedTuple):
	"""Disagreements of one signature: the first one, its smallest form, and how many there are."""

	row: Row
	small: Row
	times: int


class Result(NamedTuple):
	"""What came of one release; `failure` says why it could not be asked to the end, apart from time."""

	rows: Sequence[Row] = ()
	groups: Sequence[Group] = ()
	failure: str = ""
	seeds: str = ""


def compare(home: Environment, library: Library, release: str, drawn: Sequence[Case], until: float) -> Result:
	"""Compare all cases for one release, as far as time allows, and shrink one disagreement of each kind."""
	rows: list[Row] = []
	with Comparison(home, library, release) as comparison:
		try:
			for number, case in enumerate(drawn):
				if time.monotonic() > until:
					left = f"no time for {len(drawn) - number} of {len(drawn)} cases"
					print(f"{library} {release}: {left}", file=sys.stderr)
					break
				rows += comparison.rows(case)
			print(f"{library} {release}: {len(rows)} comparisons, {comparison.oracle.asked} new", file=sys.stderr)
			return Result(rows, [shrunk(comparison, members, until) for members in by_signature(rows)])
		except (OracleError, environment.EnvironmentIncompleteError, releases.ReleaseError) as error:
			print(f"{library} {release}: {error}", file=sys.stderr)
			return Result(
				rows, [Group(members[0], members[0], len(members)) for members in by_signature(rows)], str(error)
			)


def by_signature(rows: Iterable[Row]) -> list[list[Row]]:
	return list(grouped((row for row in rows if row.disagrees), attrgetter("signature")).values())


def shrunk(comparison: Comparison, members: list[Row], until: float) -> Group:
	row = min(members, key=lambda member: len(member.case.text))

	def shows(case: Case) -> bool:
		found = comparison.row(case, row.reader) if time.monotonic() < until else None
		return found is not None and found.signature == row.signature

	small = comparison.row(smallest(row.case, shows), row.reader)
	return Group(row, small or row, len(members))


def merged(groups: Iterable[Group]) -> Sequence[Group]:
	"""One group for each signature over all releases, smallest config first."""
	found: dict[tuple[str, ...], Group] = {}
	for group in groups:
		known = found.get(group.row.signature)
		best = min((group, known or group), key=lambda one: len(one.small.case.text))
		found[group.row.signature] = best._replace(times=group.times + (known.times if known else 0))
	return sorted(found.values(), key=lambda group: len(group.small.case.text))


# --- the command line ---


def command_line() -> argparse.ArgumentParser:
	parser = argparse.ArgumentParser(description="Compare the validator with the real libraries.")
	size = parser.add_mutually_exclusive_group()
	for name in ("quick", "wide"):
		size.add_argument(f"--{name}", dest="size", action="store_const", const=name, default="gate")
	parser.add_argument("--seed", type=int, help="draw all mutations with this seed")
	for library in RELEASES:
		parser.add_argument(f"--{library}", metavar="RELEASES", help="compare these releases only, joined with commas")
	parser.add_argument("--minutes", type=float, default=float("inf"), help="ask for so long at most")
	parser.add_argument("--write", action="store_true", help="keep the figures in README.md and agreement.md")
	return parser


def chosen(options: argparse.Namespace) -> list[tuple[Library, str]]:
	"""The releases to compare, the newest first, because they take longest."""
	asked = {library: getattr(options, library) for library in RELEASES}
	if not any(asked.values()):
		pairs = [(library, release) for library, known in RELEASES.items() for release in known]
	else:
		pairs = [(library, release) for library in RELEASES for release in (asked[library] or "").split(",") if release]
	if options.size == "quick":
		pairs = [(library, release) for library, release in pairs if any(asked.values()) or PINS[library] == release]
	return sorted(pairs, key=lambda pair: PINS[pair[0]] != pair[1])


def run(options: argparse.Namespace, home: Environment, until: float) -> Result:
	fresh = secrets.randbelow(10**6)
	seeds = f"{FIXED_SEED} and {fresh}" if options.seed is None else str(options.seed)
	print(f"seed {seeds}", file=sys.stderr)
	sources = Sources(cases.corpus(), list(cases.own()), options.seed, fresh)
	newest_amount, older_amount = AMOUNTS[options.size]

	def job(pair: tuple[Library, str]) -> Result:
		library, release = pair
		newest = PINS[library] == release
		amount = newest_amount if newest or options.size == "quick" else older_amount
		return compare(home, library, release, sources.draw(library, newest, amount), until)

	with ThreadPoolExecutor(WORKERS) as pool:
		results = list(pool.map(job, chosen(options)))
	return Result(
		[row for result in results for row in result.rows],
		merged(group for result in results for group in result.groups),
		"\n".join(result.failure for result in results if result.failure),
		seeds,
	)


def write(folder: Path, result: Result) -> None:
	folder.mkdir(parents=True, exist_ok=True)
	texts = {
		"agreement.md": tables.markdown(result.rows, result.seeds),
		"disagreements.md": "\n".join(tables.disagreement(*group) for group in result.groups),
	}
	for name, text in texts.items():
		(folder / name).write_text(text + "\n", encoding="utf-8", errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
	options = command_line().parse_args(arguments)
	until = time.monotonic() + 60 * options.minutes
	home = environment.default()
	try:
		home.build()
	except environment.EnvironmentIncompleteError as error:
		print(error, file=sys.stderr)
		return 2
	result = run(options, home, until)
	folder = home.home / "agreement"
	write(folder, result)
	print(page := tables.markdown(result.rows, result.seeds))
	if options.write:
		figures, _, more = page.partition("\n## ")
		keep_figures("agreement", figures)
		Path(__file__).with_name("agreement.md").write_text(f"## {more}\n", encoding="utf-8")
	for group in result.groups[:SHOWN]:
		print(tables.disagreement(*group))
	print(f"{len(result.groups)} kinds of disagreement; everything is in {folder}", file=sys.stderr)
	broken = tables.broken(result.rows) if result.rows else ["nothing was compared"]
	not_kept = [*broken, *result.failure.splitlines()]
	print("\n".join(not_kept), file=sys.stderr)
	return int(bool(not_kept))


if __name__ == "__main__":
	sys.exit(main())
