"""What would make a run fit that does not (less to do, more accelerators or memory), or faster one that waits.

And what another value of an assumed fact would change.
"""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from .answer import Answer, Question, Ranked, that_fit
from .assumptions import Assumption, with_fact
from .describe import title_of
from .estimate import GIB
from .facts import Facts, TaskFacts
from .memory import estimate
from .ranking import Pace, network_gbit, pace
from .variants import Fitted
from .workload import work_of

TIMES = (1, 2, 4, 8, 16)
PASSES = (2, 4, 8, 16, 32, 64)
WORTH = 1.2  # times the speed from which on a larger batch is worth a word
NEARLY = 0.9  # of what the largest of them gives
ENOUGH = 1 << 20  # GiB of CPU memory: whatever it takes
NOTHING = 0.005  # the share from which on a difference is worth a word
WORDS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit", "unknown": "may fit"}


def advice(asked: Question, found: Answer) -> Iterator[str]:
	"""Changes of the facts after which something fits, where nothing does; else what the best setup waits for."""
	if not found.ranked:
		return
	if found.ranked[0].made.verdict in ("fits", "unknown"):
		yield from waiting(found.ranked[0])
		return
	for words, facts in smaller(asked.facts):
		yield from sizes(asked, words, facts)


def waiting(best: Ranked) -> Iterator[str]:
	"""That a step waits for others more than it works, and the accumulation that changes it."""
	now, facts = best.pace, best.made.facts
	if 2 * now.communication <= now.seconds:
		return
	hardware = facts.hardware
	link = f"{network_gbit(facts):g} Gbit/s" if (hardware.nodes or 1) > 1 else hardware.intra or "pcie"
	seconds = f"{now.compute:.2g} s of compute, {now.communication:.2g} s of communication that it does not hide"
	said = f"{100 * now.communication / now.seconds:.0f} % of a step waits for the {link} link ({seconds})"
	steps = facts.batch.accumulation or 1
	larger_batches = [] if facts.batch.global_batch else list(accumulated(best, steps))
	most = NEARLY * max((one.speed for _, one in larger_batches), default=0.0)
	enough = (one for one in larger_batches if one[1].communication <= one[1].compute or one[1].speed >= most)
	passes, then = next(enough, (steps, now))
	if then.speed >= WORTH * now.speed:
		said += f": --accumulation {passes} is {then.speed / now.speed:.2g} times faster, with a global batch "
		said += f"{passes / steps:g} times as large"
	yield said


def accumulated(best: Ranked, steps: int) -> Iterator[tuple[int, Pace]]:
	for times in PASSES:
		facts = with_fact(best.made.facts, "batch.accumulation", steps * times)
		if estimate(facts, best.setup).verdict != best.made.estimate.verdict:
			return
		yield steps * times, pace(facts, best.setup, work_of(facts))


def sizes(asked: Question, words: str, facts: Facts) -> Iterator[str]:
	"""How many accelerators it takes, and how many with more CPU memory where those are fewer."""
	with_more_memory = False
	for times in TIMES:
		more = larger(facts, times)
		if more is None:
			return
		if made := next(that_fit(asked._replace(facts=more)), None):
			yield sentence(words, more, times, made, asked)
			return
		if not with_more_memory and (made := least_memory(asked, more)) is not None:
			yield sentence(words, more, times, made, asked)
			with_more_memory = True


def least_memory(asked: Question, facts: Facts) -> Fitted | None:
	if facts.hardware.cpu_ram_gib is None:
		return None
	enough = facts._replace(hardware=facts.hardware._replace(cpu_ram_gib=ENOUGH))
	return min(that_fit(asked._replace(facts=enough)), key=lambda made: made.estimate.cpu_ram.high, default=None)


def sentence(words: str, facts: Facts, times: int, made: Fitted, asked: Question) -> str:
	hardware = facts.hardware
	nodes = f" in {hardware.nodes} nodes" if (hardware.nodes or 1) > 1 else ""
	larger_one = "" if times == 1 else f"{hardware.world} {hardware.gpu or 'GPUs'}{nodes}"
	changes = " on ".join(filter(None, (words, larger_one)))
	needs, has = made.estimate.cpu_ram.high / GIB, asked.facts.hardware.cpu_ram_gib
	if has is not None and needs > has:
		changes = f"{changes} with {ceil(needs)} GiB of CPU memory a node".strip()
	return f"{changes}: {title_of(made.setup)} fits"


def smaller(facts: Facts) -> Iterator[tuple[str, Facts]]:
	batch, task = facts.batch, facts.task
	frozen = "fp16" if facts.precision == "fp16" else "bf16"
	yield "", facts
	if facts.wish is not None:
		yield f"without insisting on {facts.wish}", facts._replace(wish=None)
	micro = batch.micro_batch or 1
	if micro > 1:
		split = batch._replace(micro_batch=1, accumulation=(batch.accumulation or 1) * micro)
		steps = "" if batch.global_batch else f" with accumulation {split.accumulation}"
		yield f"micro batch 1{steps}, the same batch", facts._replace(batch=split)
	if facts.checkpointing == "none":
		yield "activation checkpointing", facts._replace(checkpointing="full")
	if (batch.seq or 1) > 4096:
		half = batch._replace(seq=(batch.seq or 1) // 2)
		yield f"sequences of {half.seq}", facts._replace(batch=half)
	if task.kind in ("full", "continued"):
		yield "LoRA (task.kind: lora)", facts._replace(task=adapters(facts, "lora"), weights=frozen)
	if task.kind in ("full", "lora"):
		yield "QLoRA (task.kind: qlora)", facts._replace(task=adapters(facts, "qlora"), weights=frozen)


def larger(facts: Facts, times: int) -> Facts | None:
	"""The same on so many times the accelerators: in the node up to eight, then in more nodes."""
	hardware = facts.hardware
	if times == 1:
		return facts
	if hardware.device in ("cpu", "mps"):
		return None
	per_node = hardware.gpus_per_node or 1
	local = max(min(8, per_node * times), per_node)
	nodes = hardware.world * times // local
	return facts._replace(hardware=hardware._replace(gpus_per_node=local, nodes=max(nodes, hardware.nodes or 1)))


def adapters(facts: Facts, kind: str) -> TaskFacts:
	return facts.task._replace(
		kind=kind,
		lora_rank=facts.task.lora_rank or 16,
		lora_targets=facts.task.lora_targets or ("all-linear",),
		lora_dropout=facts.task.lora_dropout or 0.05,
		quantization="nf4_double" if kind == "qlora" else "none",
		kbit_preparation=kind == "qlora",
	)


# --- assumed facts ---


class Effect(NamedTuple):
	"""What a value changes: another verdict counts most, then the amount."""

	changes_verdict: bool
	share: float
	text: str


def effects(asked: Question, best: Ranked | None) -> list[tuple[Assumption, str]]:
	rated = [(assumption, strongest(assumption, best)) for assumption in asked.assumptions]
	rated.sort(key=lambda item: (item[1].changes_verdict, item[1].share), reverse=True)
	return [(assumption, effect.text) for assumption, effect in rated]


def strongest(assumption: Assumption, best: Ranked | None) -> Effect:
	if best is None or not assumption.instead:
		return Effect(False, 0.0, "")
	return max((effect(assumption, value, best) for value in assumption.instead), key=lambda one: one[:2])


def effect(assumption: Assumption, value: object, best: Ranked) -> Effect:
	was = best.made.estimate
	now = estimate(with_fact(best.made.facts, assumption.name, value), best.setup)
	share = abs(now.smi.point - was.smi.point) / max(was.smi.point, 1.0)
	shown = ", ".join(value) if isinstance(value, tuple) else str(value).lower()
	text = f"with {shown}: {now.smi.point / GIB:.1f} GiB instead of {was.smi.point / GIB:.1f}"
	if now.verdict == was.verdict and share < NOTHING:
		return Effect(False, share, "")
	if now.verdict != was.verdict:
		text += f", and this setup then {WORDS[now.verdict]}"
	return Effect(now.verdict != was.verdict, share, text)
