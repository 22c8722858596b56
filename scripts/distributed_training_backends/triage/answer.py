"""From facts to candidates: what is possible, what it needs, how fast it is, in the order of the answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import validate
from ..model import Severity
from ..model_triage import BadFactsError
from ..sources.load import read
from .assumptions import Assumption, completed
from .candidates import considered, insisted, wanted
from .compatibility import POINTERS, Obstacle, comes_later, fact_behind, obstacles
from .demands import demanded, impossible, in_words
from .emit_accelerate import DEEPSPEED_FILE, accelerate_yaml
from .emit_deepspeed import deepspeed_json
from .emit_launch import CONFIG
from .estimate import FIT, GIB
from .fact_schema import Problem
from .facts import Facts, read_facts
from .families import UnknownModelError
from .hardware import identified, unpacked
from .ranking import Pace, band, pace, simplicity
from .setup import Setup
from .variants import Fitted, fitted
from .workload import with_sizes, work_of


class Question(NamedTuple):
	"""Complete facts, and what was assumed to make them so."""

	facts: Facts
	assumptions: tuple[Assumption, ...]

	@property
	def told(self) -> frozenset[str]:
		"""Facts that must not be changed for a better fit: those that were not assumed."""
		return frozenset({"loss", "weights"} - {assumption.name for assumption in self.assumptions})


class Ranked(NamedTuple):
	made: Fitted
	pace: Pace

	@property
	def setup(self) -> Setup:
		return self.made.setup


class Out(NamedTuple):
	setup: Setup
	obstacle: Obstacle


class Answer(NamedTuple):
	ranked: tuple[Ranked, ...]
	out: tuple[Out, ...]


def question(data: Mapping[str, Any]) -> Question:
	"""Read facts and complete them. Raises BadFactsError for facts that cannot be used."""
	facts, problems = read_facts(data)
	refuse(problems)
	try:
		facts = with_sizes(facts)
	except UnknownModelError as error:
		refuse([Problem(error.pointer, str(error))])
	checkpoint = unpacked(facts)
	found = identified(checkpoint.facts)
	refuse([*checkpoint.problems, *found.problems])
	facts, assumptions = completed(stepping(found.facts))
	refuse(list(impossible(facts)))
	return Question(facts, (*checkpoint.assumptions, *found.assumptions, *assumptions))


def stepping(facts: Facts) -> Facts:
	"""With a global batch nothing is assumed about accumulation: each setup gets what makes that batch."""
	batch = facts.batch
	return facts if batch.global_batch is None else facts._replace(batch=batch._replace(accumulation=1))


def refuse(problems: Sequence[Problem]) -> None:
	if problems:
		raise BadFactsError(tuple((problem.pointer, problem.message) for problem in problems))


def answer(asked: Question) -> Answer:
	"""Look at every setup. Raises BadFactsError where none is left, or none of those that the user insists on."""
	facts = asked.facts
	looked_at = considered(facts)
	mine = [one for one in looked_at if wanted(facts, one.setup)]
	out = [Out(one.setup, one.obstacles[0]) for one in mine if one.obstacles]
	left = [one.setup for one in mine if not one.obstacles]
	fitting = [fitted(facts, setup, asked.told) for setup in left]
	ranked, flawed = checked([Ranked(made, pace(made.facts, made.setup, work_of(made.facts))) for made in fitting])
	if not ranked:
		against = telling([one.obstacles for one in mine])
		refuse([nothing_left(facts, [*against, *(one.obstacle for one in flawed)])])
	out += flawed
	others = {one.setup.backend for one in looked_at} - {one.setup.backend for one in mine}
	unwanted = Obstacle("wish", f"you insist on {in_words(facts)}", "your facts")
	out += [Out(Setup(backend), unwanted) for backend in sorted(others)]
	return Answer(tuple(in_order(ranked)), tuple(out))


def checked(ranked: Sequence[Ranked]) -> tuple[list[Ranked], list[Out]]:
	"""Part those whose config is clean from those about which the validator has something to say."""
	judged = [(one, flaw(one.made.facts, one.setup)) for one in ranked]
	return [one for one, found in judged if not found], [Out(one.setup, found) for one, found in judged if found]


def flaw(facts: Facts, setup: Setup) -> Obstacle | None:
	"""The first error or warning that the project's own validator has about the files of a setup."""
	config = read(CONFIG, accelerate_yaml(facts, setup), "accelerate", "yaml")
	text = deepspeed_json(facts, setup)
	companion = None if text is None else read(DEEPSPEED_FILE, text, "deepspeed", "json")
	reports = validate.judge([validate.Unit(config, companion)], validate.Options(facts.versions))
	found = (one for report in reports for one in report.findings if one.severity is not Severity.INFO)
	return next((Obstacle(one.code, one.message, one.reference) for one in found), None)


def telling(obstacles_of: Sequence[Sequence[Obstacle]]) -> list[Obstacle]:
	"""What stands against the setups for this device, or against all where it has none."""
	device = POINTERS["device"]
	own = [found for found in obstacles_of if not any(fact_behind(one.row) == device for one in found)]
	return [one for found in own or obstacles_of for one in found]


def nothing_left(facts: Facts, against: Sequence[Obstacle]) -> Problem:
	against = against or [one for backend in insisted(facts) for one in obstacles(facts, Setup(backend))]
	reasons = [one.reason for one in against]
	reason = max(reasons, key=reasons.count, default="")
	if told := in_words(facts):
		without = "no backend has that" if demanded(facts) else "that needs more than one process"
		return Problem("/wish" if facts.wish else "/parallel", f"it must be {told}, but {reason or without}")
	row = next(one.row for one in against if one.reason == reason)
	return Problem(fact_behind(row), f"nothing is possible: {reason}")


def that_fit(asked: Question) -> Iterator[Fitted]:
	able = [one.setup for one in considered(asked.facts) if not one.obstacles and wanted(asked.facts, one.setup)]
	tried = (fitted(asked.facts, setup, asked.told) for setup in able)
	return (made for made in tried if made.verdict == "fits")


def tier(one: Ranked) -> tuple[str, bool]:
	"""What is compared with each other: the same verdict, and for or against by rules of thumb."""
	return one.made.verdict, comes_later(one.made.facts, one.setup)


def narrow(one: Ranked) -> bool:
	capacity = one.made.facts.hardware.gpu_memory_gib
	return capacity is not None and one.made.estimate.allocated.high > capacity * GIB


def in_order(ranked: Sequence[Ranked]) -> Iterator[Ranked]:
	"""By fit, then by rules of thumb, by speed as far as it differs, by simplicity, by room to spare."""
	fastest: dict[tuple[str, bool], float] = {}
	for one in ranked:
		fastest[tier(one)] = max(fastest.get(tier(one), 0.0), one.pace.speed)

	def key(one: Ranked) -> tuple[int, bool, int, int, bool, float]:
		verdict, later = tier(one)
		if verdict == "does_not_fit":  # the nearest miss first
			return FIT.index(verdict), False, 0, 0, False, one.made.estimate.smi.point
		group = band(fastest[tier(one)], one.pace.speed)
		return FIT.index(verdict), later, group, simplicity(one.setup), narrow(one), -one.pace.speed

	yield from sorted(ranked, key=key)
