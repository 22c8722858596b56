"""Measure look-up on written questions: how often a right section comes first, and within three.

    python tools/measure_lookup.py [--misses]

tests/cases/lookup_questions.tsv.gz (`gzip -cd` shows it) has a question and its right sections on each line, below a
line with the group and the kind of those that follow. "before": written before the ranking was tuned; "tuned": tuned
on as well, half of them titles of public issues; "untuned": nothing was tuned on these. A section is named by the code
of its rule, or by its anchor or the beginning of that up to a hyphen, behind the name of its page where other pages
have such a one.
"""

import argparse
from collections import defaultdict
from typing import NamedTuple

import packed
import project
from distributed_training_backends import api

QUESTIONS = project.CASES / "lookup_questions.tsv.gz"
GROUPS = {"tuned": "tuned on as well", "untuned": "written later, not tuned on"}
WITHIN = 3


class Question(NamedTuple):
	group: str
	kind: str
	query: str
	wanted: tuple[str, ...]


class Outcome(NamedTuple):
	question: Question
	found: tuple[str, ...]

	@property
	def place(self) -> int | None:
		"""Where the first right section stands (0 is first); None if it is not among those found."""
		places = enumerate(self.found)
		return next(
			(place for place, name in places if any(is_meant(name, short) for short in self.question.wanted)), None
		)


def questions() -> list[Question]:
	found = []
	group = kind = ""
	for line in packed.unpacked(QUESTIONS).splitlines():
		if line.startswith("# "):
			_, group, kind = line.split()
		else:
			query, wanted = line.split("\t")
			found.append(Question(group, kind, query, tuple(wanted.split())))
	return found


def outcomes() -> list[Outcome]:
	return [Outcome(question, found(question.query)) for question in questions()]


def is_meant(name: str, short: str) -> bool:
	"""Tell whether a section, by page and anchor, is the one that a short name stands for."""
	page, _, anchor = short.partition("#")
	its_page, _, its_anchor = name.partition("#")
	if not anchor:
		return its_anchor == short.lower()
	if page and its_page != f"{page}.md":
		return False
	return its_anchor.startswith(anchor) if anchor.endswith("-") else its_anchor == anchor


def found(query: str) -> tuple[str, ...]:
	return tuple(section.reference.removeprefix("references/") for section in api.look_up(query, limit=10).sections)


def shares(results: list[Outcome]) -> tuple[float, float]:
	"""How many of a hundred have a right section first, and within three."""
	places = [outcome.place for outcome in results]
	first = sum(place == 0 for place in places)
	close = sum(place is not None and place < WITHIN for place in places)
	return 100 * first / len(places), 100 * close / len(places)


def table(results: list[Outcome]) -> str:
	rows: dict[str, list[Outcome]] = defaultdict(list)
	first = [outcome for outcome in results if outcome.question.group == "before"]
	for outcome in sorted(first, key=lambda outcome: outcome.question.kind):
		rows[outcome.question.kind].append(outcome)
	rows["all"] = first
	for group, label in GROUPS.items():
		rows[label] = [outcome for outcome in results if outcome.question.group == group]
	lines = ["|query|questions|right section first|within three|", "|---|---:|---:|---:|"]
	for label, row in rows.items():
		lines.append("|{}|{}|{:.0f} %|{:.0f} %|".format(label, len(row), *shares(row)))
	return "\n".join(lines) + "\n"


def main() -> int:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--misses", action="store_true", help="show what is found where the first one is wrong")
	arguments = parser.parse_args()
	results = outcomes()
	print(table(results))
	for outcome in results if arguments.misses else ():
		if outcome.place != 0:
			print(f"\n{outcome.question.kind}: {outcome.question.query}\n  wanted {', '.join(outcome.question.wanted)}")
			print(f"  found at {outcome.place}", *(f"    {name}" for name in outcome.found[:4]), sep="\n")
	return 0


if __name__ == "__main__":
	raise SystemExit(main())
