"""The least that has to be given up so that a setup fits: first a loss without logits, then recomputed activations."""

from collections.abc import Container, Iterator
from typing import NamedTuple, get_args

from ..model_triage import Verdict
from .estimate import FIT, Estimate
from .facts import Facts
from .memory import estimate
from .ranking import threshold
from .run import MIXED, REPLICATED
from .setup import FSDP, Checkpointing, Setup

MOST_MICRO_BATCH = 64


class Fitted(NamedTuple):
	setup: Setup
	facts: Facts
	estimate: Estimate

	@property
	def verdict(self) -> Verdict:
		"""About the GPU and the memory of the CPU. That nobody said how much of it there is counts for offload only."""
		offloads = {self.setup.offload_optimizer, self.setup.offload_params} != {"none"}
		host = self.estimate.cpu_verdict
		if host == "unknown" and not offloads:
			return self.estimate.verdict
		return max(self.estimate.verdict, host, key=FIT.index)


def fitted(facts: Facts, setup: Setup, told: Container[str]) -> Fitted:
	"""The first variant that fits, else the first that may, else the smallest."""
	tried = []
	for variant in variants(facts, setup, told):
		known = settled(facts, variant, told)
		made = Fitted(variant, known, estimate(known, variant))
		if made.verdict in ("fits", "unknown"):
			return made
		tried.append(made)
	return next((made for made in tried if made.verdict == "tight"), tried[-1])


def variants(facts: Facts, setup: Setup, told: Container[str]) -> Iterator[Setup]:
	"""From the fastest to the smallest; what the user has told stays."""
	for checkpointing in checkpointings(facts, setup):
		for fused in losses(facts, setup, told):
			yield setup._replace(checkpointing=checkpointing, fused_loss=fused)


def checkpointings(facts: Facts, setup: Setup) -> tuple[Checkpointing, ...]:
	if not facts.task.trains:
		return ("none",)
	if facts.checkpointing is not None:
		return tuple(kind for kind in get_args(Checkpointing) if kind == facts.checkpointing)
	return ("none", "selective", "full") if setup.backend == "megatron" else ("none", "full")


def losses(facts: Facts, setup: Setup, told: Container[str]) -> tuple[bool | None, ...]:
	"""Whether the loss may change: where the vocabulary is large, and nobody said which one."""
	large = (facts.model.vocab or 0) >= threshold("fused_loss_vocabulary")
	free = "loss" not in told and facts.task.trains and setup.backend not in ("megatron", "xla")
	return (None, True) if large and free else (None,)


def settled(facts: Facts, setup: Setup, told: Container[str]) -> Facts:
	"""The facts as this setup runs, so that all setups train alike: with fp32 weights to step on, if nobody said else.

	Under FSDP 4-bit models are not prepared, because its groups want one dtype.
	"""
	if setup.backend in FSDP and facts.task.kbit_preparation:
		facts = facts._replace(task=facts.task._replace(kbit_preparation=False))
	mixed = facts.task.kind in ("full", "continued") and facts.precision in MIXED
	# backends that replicate leave weights in the dtype they are loaded in, the others keep fp32 ones to step on
	if mixed and setup.backend in REPLICATED and "weights" not in told:
		facts = facts._replace(weights="fp32")
	return stepped(facts, setup)


def stepped(facts: Facts, setup: Setup) -> Facts:
	batch = facts.batch
	if batch.global_batch is None:
		return facts
	passes = batch.global_batch // ((batch.micro_batch or 1) * setup.shard * setup.replicate)
	return facts._replace(batch=batch._replace(accumulation=max(1, passes)))


def largest_micro_batch(made: Fitted) -> int:
	"""How far the micro batch can be doubled; 0 where it is not sure to fit as it is."""
	size = made.facts.batch.micro_batch or 1
	if made.verdict != "fits":
		return 0
	while size < MOST_MICRO_BATCH:
		setup = made.setup._replace(micro_batch=2 * size)
		if Fitted(setup, made.facts, estimate(made.facts, setup)).verdict != made.verdict:
			break
		size *= 2
	return size
