"""The answer as a report: candidates with files, what is out, what was assumed and what would change it."""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any

from ..model_triage import Amount, Assumed, Candidate, Component, Memory, Removed, Speed, TriageReport, Verdict, unit_of
from .advice import WORDS, advice, effects
from .answer import Answer, Out, Question, Ranked
from .compatibility import Obstacle, addons, cautions
from .describe import choices, dtype_choice, name_of, title_of
from .emit import files
from .emit_checks import checks
from .estimate import GIB, Estimate
from .facts import GROUPS, Facts
from .ranking import simplicity
from .variants import largest_micro_batch

MAY_WORK = "The estimate is more than it has; may work, because estimates err to both sides."


def report(asked: Question, found: Answer, offered: int, names: Container[str] = ()) -> TriageReport:
	"""So many candidates that may fit, and those named, get files and checks."""
	with_files = {*offers(found.ranked, offered), *(one for one in map(named, found.ranked) if one in names)}
	best = found.ranked[0] if found.ranked else None
	fastest = best.pace.speed if best else 1.0
	made = [
		candidate(asked.facts, number, one, fastest, named(one) in with_files)
		for number, one in enumerate(found.ranked, 1)
	]
	return TriageReport(
		summary=summary(asked.facts, made, found.out),
		targets=asked.facts.versions,
		facts=facts_data(asked.facts),
		assumptions=tuple(assumed(asked, best)),
		candidates=tuple(made),
		removed=tuple(removed(found.out)),
		advice=tuple(advice(asked, found)),
		notes=tuple(notes(asked, found.ranked)),
	)


def named(one: Ranked) -> str:
	return name_of(one.setup)


def offers(ranked: Sequence[Ranked], count: int) -> list[str]:
	"""Those that come with their files: of what may fit the best of each backend, then the next best."""
	able = [one for one in ranked if one.made.verdict != "does_not_fit"]
	first = {one.setup.backend: named(one) for one in reversed(able)}
	ordered = [*(named(one) for one in able if first[one.setup.backend] == named(one)), *map(named, able)]
	return list(dict.fromkeys(ordered))[:count]


def candidate(asked: Facts, rank: int, one: Ranked, fastest: float, with_files: bool) -> Candidate:
	facts, setup, estimate = one.made.facts, one.setup, one.made.estimate
	return Candidate(
		name=name_of(setup),
		title=title_of(setup),
		rank=rank,
		verdict=one.made.verdict,
		memory=memory(facts, estimate),
		speed=speed(one, fastest),
		simplicity=simplicity(setup),
		choices=(*choices(facts, setup), *dtype_choice(asked, facts)),
		cautions=tuple(cautions(facts, setup)),
		largest_micro_batch=largest_micro_batch(one.made) if with_files else 0,
		addons=tuple(addons(facts, setup)) if with_files else (),
		files=tuple(files(facts, setup)) if with_files else (),
		checks=tuple(checks(facts, setup, estimate)) if with_files else (),
	)


def memory(facts: Facts, estimate: Estimate) -> Memory:
	at_peak = estimate.at_peak
	return Memory(
		allocated=amount(estimate.allocated),
		reserved=amount(estimate.reserved),
		smi=amount(estimate.smi),
		capacity=facts.hardware.gpu_memory_gib or 0.0,
		peak=at_peak.name,
		components=tuple(Component(part.name, gib(part.size)) for part in at_peak.parts if part.size > 0),
		cpu_ram=amount(estimate.cpu_ram),
		cpu_capacity=facts.hardware.cpu_ram_gib or 0.0,
		cpu_verdict=estimate.cpu_verdict,
		sentences=(*beyond(facts, estimate), *estimate.sentences),
	)


def beyond(facts: Facts, estimate: Estimate) -> Iterator[str]:
	if estimate.verdict == "tight" and estimate.smi.point > (facts.hardware.gpu_memory_gib or 0.0) * GIB:
		yield MAY_WORK


def amount(size: Amount) -> Amount:
	return Amount(*map(gib, size))


def gib(size: float) -> float:
	"""Bytes as GiB, as exactly as an estimate deserves."""
	return round(size / GIB, 2)


def speed(one: Ranked, fastest: float) -> Speed:
	pace, world = one.pace, max(1, one.setup.world)
	return Speed(
		relative=round(pace.speed / fastest, 3),
		tokens_per_second=round(pace.speed / world, 1),
		compute=round(pace.compute, 4),
		communication=round(pace.communication, 4),
		offload=round(pace.offload, 4),
	)


def removed(out: Sequence[Out]) -> Iterator[Removed]:
	names: dict[Obstacle, dict[str, None]] = {}
	for one in out:
		names.setdefault(one.obstacle, {})[name_of(one.setup)] = None
	for obstacle, them in names.items():
		yield Removed(tuple(them), obstacle.reason, obstacle.source)


def assumed(asked: Question, best: Ranked | None) -> Iterator[Assumed]:
	return (Assumed(one.name, spelled(one.value), one.why, effect) for one, effect in effects(asked, best))


def spelled(value: Any) -> str:
	if isinstance(value, bool):
		return str(value).lower()
	return ", ".join(value) if isinstance(value, tuple) else str(value)


def facts_data(facts: Facts) -> dict[str, Any]:
	groups = {name: {k: v for k, v in getattr(facts, name)._asdict().items() if v is not None} for name in GROUPS}
	groups["model"].pop("config", None)
	single = {name: value for name, value in facts._asdict().items() if name not in (*GROUPS, "named_releases")}
	single["versions"] = dict(facts.versions.items())
	return {**groups, **{name: value for name, value in single.items() if value is not None}}


def summary(facts: Facts, made: Sequence[Candidate], out: Sequence[Out]) -> str:
	if not made:
		return "Nothing is left: every combination is out for these facts."
	best = made[0]
	counts = Counter(one.verdict for one in made)
	words: dict[Verdict, str] = {
		"fits": "fit",
		"tight": "are tight",
		"unknown": "may fit",
		"does_not_fit": "do not fit",
	}
	rest = [f"{n} {WORDS[verdict] if n == 1 else word}" for verdict, word in words.items() if (n := counts[verdict])]
	tail = f"Of {len(made)} possible setups {', '.join(rest)}; {len(out)} combinations are out."
	amounts = f"{best.memory.smi.point:.1f} GiB ({best.memory.smi.low:.0f} to {best.memory.smi.high:.0f})"
	waits = best.verdict == "unknown" and best.memory.capacity > 0
	amounts = f"{amounts} a {unit_of(facts.hardware.device)}{there_is(best.memory, waits)}"
	amounts += ", more than it has; may work" if MAY_WORK in best.memory.sentences else ""
	if best.verdict == "does_not_fit":
		return f"Nothing fits: the nearest, {best.title}, needs {amounts}. {tail}"
	word = WORDS[best.verdict]
	chosen = f" ({', '.join(best.choices)})" if best.choices else ""
	return f"{best.title}{chosen} {word}: {amounts}. {tail}"


def there_is(memory: Memory, waits_for_node: bool) -> str:
	of = f" of {memory.capacity:g} GiB" if memory.capacity else ""
	host = f"{memory.cpu_ram.low:.0f} to {memory.cpu_ram.high:.0f} GiB of CPU memory a node"
	if memory.cpu_verdict in ("tight", "does_not_fit"):
		return f"{of} and {host} of {memory.cpu_capacity:g}"
	return f"{of} and {host}, if it has them" if waits_for_node else of


def notes(asked: Question, ranked: Sequence[Ranked]) -> Iterator[str]:
	"""What holds for the whole answer: what nobody told and nothing can be assumed for comes first."""
	if asked.facts.hardware.gpu_memory_gib and (count := sum(one.made.verdict == "unknown" for one in ranked)):
		yield f"whether the node can hold what {count} of the setups offload is open: name hardware.cpu_ram_gib"
	hardware = asked.facts.hardware
	if not hardware.gpu_memory_gib and hardware.device != "cpu":
		which = "hardware.cpu_ram_gib" if hardware.device == "mps" else "hardware.gpu or hardware.gpu_memory_gib"
		yield f"whether it fits is open: name {which}"
	if (asked.facts.hardware.nodes or 1) > 1 and asked.facts.hardware.inter_gbit is None:
		yield "the network between the nodes is taken for 100 Gbit/s: name hardware.inter_gbit"
	yield "speeds are estimates that rank: rates of published measurements, not a measurement of this machine"
