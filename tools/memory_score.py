"""How far the memory model is off: errors, coverage of the intervals, verdicts, and published formulas on the rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from distributed_training_backends.model_triage import Amount
from distributed_training_backends.triage.estimate import GIB, Estimate
from distributed_training_backends.triage.memory import estimate
from distributed_training_backends.triage.shapes import Shape, shape_of
from memory_rows import Measured

SCORED = ("alloc", "reserved", "smi")
FIT_ONLY = ("fit",)  # not the largest sizes that ran, which are tight by what they are


class Outcome(NamedTuple):
	measured: Measured
	answer: Estimate
	others: tuple[float, float]

	@property
	def interval(self) -> Amount:
		return matching(self.answer, self.measured.metric)

	@property
	def error(self) -> float:
		return self.interval.point / GIB / self.measured.size - 1

	@property
	def covered(self) -> bool:
		return self.interval.low <= self.measured.size * GIB <= self.interval.high


def matching(answer: Estimate, metric: str) -> Amount:
	return {"alloc": answer.allocated, "reserved": answer.reserved}.get(metric, answer.smi)


def answer_to(one: Measured) -> Estimate:
	hardware = one.facts.hardware._replace(gpu_memory_gib=one.capacity)
	return estimate(one.facts._replace(hardware=hardware), one.setup)


def predicted(one: Measured) -> Iterator[tuple[float, float]]:
	"""The point and the measurement of a row in GiB, and of nvidia-smi where it gives that besides."""
	answer = answer_to(one)
	if one.metric in SCORED:
		yield matching(answer, one.metric).point / GIB, one.size
	if one.row.get("smi_mib"):
		yield answer.smi.point / GIB, one.row["smi_mib"] / 1024


def relative_errors(one: Measured) -> Iterator[tuple[float, float]]:
	"""By how much a row is off, and how wide its interval is, both relative to the point."""
	answer = answer_to(one)
	if one.metric in SCORED:
		interval = matching(answer, one.metric)
		own = (one.size * GIB - interval.point) / interval.point
		side = interval.high - interval.point if own > 0 else interval.point - interval.low
		yield abs(own), max(side / interval.point, 1e-6)


def judged(rows: Iterable[Measured]) -> list[Outcome]:
	return [Outcome(one, answer_to(one), published(one)) for one in rows]


def published(one: Measured) -> tuple[float, float]:
	"""What DeepSpeed's estimators and `accelerate estimate-memory` say, in GiB.

	deepspeed 0.19.8: stage3.py estimate_zero3_model_states_mem_needs for what is sharded, stage_1_and_2.py
	estimate_zero2_model_states_mem_needs else; accelerate 1.15.0: commands/estimate.py estimate_training_usage.
	"""
	shape, setup = shape_of(one.facts.model), one.setup
	sharded = setup.backend in ("fsdp1", "fsdp2", "zero3")
	return deepspeed_says(shape, setup.shard, sharded, setup.offload_optimizer != "none") / GIB, accelerate_says(
		shape, one.facts.precision == "fp32", one.facts.task.kind == "inference"
	) / GIB


def deepspeed_says(shape: Shape, gpus: int, sharded: bool, offloaded: bool) -> float:
	if sharded:
		largest = 4 * max(shape.counts.layer, shape.counts.embedding)
		return largest + (0 if offloaded else 18 * shape.params / gpus)
	return 2 * shape.params + (0 if offloaded else 18 * shape.params / gpus)


def accelerate_says(shape: Shape, fp32: bool, inference: bool) -> float:
	if inference:
		return shape.params * (4 if fp32 else 2)
	return shape.params * (16 if fp32 else 8)


def quantile(values: Sequence[float], share: float) -> float:
	ordered = sorted(values)
	return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(outcomes: Sequence[Outcome], title: str) -> str:
	scored = [one for one in outcomes if one.measured.metric in SCORED and one.measured.size]
	lines = [f"== {title}: {len(outcomes)} rows, {len(scored)} with a number =="]
	return "\n".join([*lines, *table(scored), *intervals(scored), *verdicts(outcomes), ""])


def table(scored: Sequence[Outcome]) -> list[str]:
	heads = f"{'':42} rows  median  9 in 10    worst | DeepSpeed median | accelerate median"
	lines = [heads, statistics("all", scored)]
	for name in ("backend", "source"):
		groups: dict[str, list[Outcome]] = defaultdict(list)
		for one in scored:
			groups[one.measured.setup.backend if name == "backend" else one.measured.row["source"]].append(one)
		lines += [statistics(f"{name} {key}", found) for key, found in sorted(groups.items())]
	return lines


def statistics(name: str, found: Sequence[Outcome]) -> str:
	errors = [abs(one.error) for one in found]
	others = [median(abs(one.others[place] / one.measured.size - 1) for one in found) for place in (0, 1)]
	numbers = f"{median(errors):7.1%} {quantile(errors, 0.9):8.1%} {max(errors):8.1%}"
	return f"{name[:42]:42} {len(found):4} {numbers} | {others[0]:16.0%} | {others[1]:17.0%}"


def intervals(scored: Sequence[Outcome]) -> Iterator[str]:
	inside = sum(one.covered for one in scored) / len(scored)
	widths = [(one.interval.high - one.interval.low) / one.interval.point for one in scored]
	yield f"intervals: {inside:.1%} of {len(scored)} inside, median width {median(widths):.1%} of the point"


def verdicts(outcomes: Sequence[Outcome]) -> Iterator[str]:
	judged_rows = [one for one in outcomes if one.measured.capacity]
	only = [one for one in judged_rows if one.measured.metric in FIT_ONLY or not one.measured.fits]
	for name, rows in (("fit and out-of-memory rows", only), ("all rows with a known GPU", judged_rows)):
		if not rows:
			continue
		ran = [one for one in rows if one.measured.fits]
		failed = [one for one in rows if not one.measured.fits]
		wrong_fit = sum(one.answer.verdict == "fits" for one in failed)
		wrong_not = sum(one.answer.verdict == "does_not_fit" for one in ran)
		tight = sum(one.answer.verdict == "tight" for one in rows)
		yield (
			f"{name}: {len(ran)} ran, {len(failed)} did not; false fits {wrong_fit} of {len(failed)}, "
			f"false does-not-fit {wrong_not} of {len(ran)}, tight {tight} of {len(rows)}"
		)
