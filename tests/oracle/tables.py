"""Comparisons as text: the agreement table of the README, and disagreements as a person reads them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

from tests.oracle.cases import Kind
from tests.oracle.comparison import ANY_READER, Outcome, Row, grouped
from tests.oracle.environment import PINS
from tests.oracle.mutations import KINDS

from extraction import release_order

ABOUT = """Real configs, the rules' examples and mutations of both (drop, rename, misspell, retype, move, combine),
drawn with seed {seeds}. Left out are refusals that are not the config's: a package, a folder or a device that is
missing. A DeepSpeed or quantization file counts as refused where each of its readers refuses it; of older releases
nobody else is asked once one takes it.
"""
NAMES = {"accelerate": "Accelerate", "deepspeed": "DeepSpeed"}


def is_main(row: Row) -> bool:
	return row.case.kind != "deepspeed" or row.reader == ANY_READER


def markdown(rows: Sequence[Row], seeds: str) -> str:
	"""The page about a comparison. Up to the first heading it is what the README shows."""
	main = [row for row in rows if is_main(row)]
	readers = [row for row in rows if not is_main(row)]
	parts = [
		table("release", main, lambda row: (row.library, release_order(row.release)), release_name),
		ABOUT.format(seeds=seeds),
		"## By what was compared\n",
		table("what was compared", main, group_order, group_name),
		"## By who reads a DeepSpeed file\n" if readers else "",
		table("who reads the DeepSpeed file", readers, lambda row: row.reader, lambda row: row.reader),
		"## What is left\n",
		"\n".join(left(main)) or "Nothing.",
	]
	return "\n".join(part for part in parts if part)


def table(title: str, rows: Sequence[Row], key: Callable[[Row], Any], name: Callable[[Row], str]) -> str:
	groups = grouped(sorted(rows, key=key), name)
	if not groups:
		return ""
	head = f"|{title}|compared|agree|false errors|missed|left out|agreement|"
	lines = [line(label, members) for label, members in groups.items()]
	return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|", *lines]) + "\n"


def line(label: str, rows: Iterable[Row]) -> str:
	count: Counter[str] = Counter(row.outcome for row in rows)
	compared = sum(count.values()) - count["left out"]
	share = f"{100 * count['agree'] / compared:.1f} %" if compared else "n/a"
	numbers = [compared, *(count[outcome] for outcome in get_args(Outcome))]
	return f"|{label}|{'|'.join(map(str, numbers))}|{share}|"


def release_name(row: Row) -> str:
	return f"{NAMES[row.library]} {row.release}"


def group_order(row: Row) -> tuple[str, int, str]:
	group = row.case.group
	return (row.case.kind, list(KINDS).index(group) + 2 if group in KINDS else int(group != "corpus"), group)


def group_name(row: Row) -> str:
	group = {"corpus": "real files", "own": "the rules' examples"}.get(row.case.group, row.case.group)
	return f"{row.case.kind}: {group}"


# --- disagreements ---


def disagreement(row: Row, small: Row, count: int) -> str:
	times = "once" if count == 1 else f"{count} times"
	lines = [
		f"### {row.outcome}: {row.signature[-1] or 'nothing to refuse'} ({row.case.kind}, {row.reader}; {times})",
		"",
	]
	lines += [f"First seen in {row.case.name}, {NAMES[row.library]} {row.release}.", ""]
	lines += [f"```{row.case.suffix[1:]}", small.case.text.rstrip("\n"), "```", ""]
	lines += [f"- library: {library_says(small)}", *(f"- validator: {text}" for text in validator_says(small)), ""]
	return "\n".join(lines)


def library_says(row: Row) -> str:
	if row.truth.verdict != "rejected":
		return row.truth.verdict
	error = row.truth.error
	message = " ".join(error.get("message", "").split())[:300]
	return f"{error['type']}: {message} ({error.get('where', '')})"


def validator_says(row: Row) -> Iterator[str]:
	if not row.said.errors:
		yield row.said.verdict
	for finding in row.said.errors:
		yield f"{finding.code} at {finding.pointer or '/'}: {finding.message}"


# --- disagreements that stay: what no judgement of a file alone can know, or what nobody has mended yet ---


class Reason(NamedTuple):
	"""Why disagreements of one kind stay; `sign` is found in the cause, the refusal or the codes of the findings."""

	kind: Kind
	outcome: Outcome
	sign: str
	text: str


REASONS = (
	Reason(
		"accelerate",
		"missed",
		r"torchao with FSDP2 and cpu_ram_efficient_loading|`MS-AMP` \+ `FSDP` is not supported",
		"`mixed_precision: fp8` without a backend takes the first package that is installed; the oracle has all of "
		"them and gets one that FSDP refuses, others are taken",
	),
	Reason(
		"accelerate",
		"missed",
		r"rendezvous endpoint '\$\{?\w+",
		"a shell variable in `main_process_ip` is filled in by whatever writes the file (warning ACC009)",
	),
)


def sign_of(row: Row) -> str:
	codes = " ".join(finding.code for finding in row.said.errors)
	return f"{row.truth.cause} {row.truth.error.get('message', '')} {codes}"


def reason_for(row: Row) -> str:
	"""Why a disagreement stays, or an empty text where nobody has said so."""
	fitting = (reason for reason in REASONS if (reason.kind, reason.outcome) == (row.case.kind, row.outcome))
	return next((reason.text for reason in fitting if re.search(reason.sign, sign_of(row))), "")


def unexplained(row: Row) -> str:
	return f"not explained yet: {row.signature[-1]}"


def left(rows: Iterable[Row]) -> Iterator[str]:
	"""One line for each kind of disagreement: how often, in which releases, and why."""
	wrong = [row for row in rows if row.disagrees]
	groups = grouped(wrong, lambda row: (row.outcome, row.case.kind, reason_for(row) or unexplained(row)))
	for (outcome, kind, why), members in sorted(groups.items(), key=lambda group: -len(group[1])):
		releases = list(dict.fromkeys(row.release for row in members))
		where = releases[0] if len(releases) == 1 else f"{len(releases)} releases"
		yield f"- {outcome}, {kind}, {len(members)} in {where}: {why}"


# --- what a comparison must show, or else the gate fails ---

# Shares of comparisons that may disagree: of one release, and of one way to change a config.
RELEASE, CHANGE = 0.03, 0.05
# So few tell nothing about a share; a sample of an old release has some fifty comparisons.
FEW = 3


def broken(rows: Iterable[Row]) -> list[str]:
	main = [row for row in rows if is_main(row) and row.outcome != "left out"]
	real = [row for row in main if row.case.group == "corpus"]
	changed = [row for row in main if row.case.group in KINDS]
	return [*false_errors(real), *disagreeing(main, release_name, RELEASE), *disagreeing(changed, group_name, CHANGE)]


def false_errors(rows: Sequence[Row]) -> Iterator[str]:
	"""No real file that the newest release of a library accepts gets an error."""
	for row in rows:
		if row.outcome == "false error" and PINS[row.library] == row.release:
			yield f"{row.case.name}: {release_name(row)} accepts it, and it gets an error"


def disagreeing(rows: Sequence[Row], name: Callable[[Row], str], most: float) -> Iterator[str]:
	for label, members in grouped(rows, name).items():
		count = sum(row.outcome != "agree" for row in members)
		if count > max(FEW, most * len(members)):
			yield f"{label}: {count} of {len(members)} comparisons disagree, more than {most:.0%}"
