"""Facts and a setup put together: what one GPU holds, and in which number formats."""

from typing import Any, NamedTuple

from ..resources import load_json
from ..versions import covers
from .facts import Facts
from .setup import FSDP, ZERO, Setup
from .shapes import Shape, adapter_params

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
# Backends whose every rank holds all parameters.
REPLICATED = ("single", "ddp", "gaudi", "cpu", "local_sgd", "xla")
MIXED = ("bf16", "fp16", "fp8")


class Run(NamedTuple):
	"""One way to run it, resolved. Numbers of parameters are those of one model-parallel rank.

	`compute` is the size of a number in the forward pass, `kept` and `frozen` those of trainable and of other
	weights as they are stored, `adapters` that of LoRA weights. `autocast` says that weights are kept in fp32 and
	cast on the way.
	"""

	facts: Facts
	setup: Setup
	shape: Shape
	tokens: float
	sequence: float
	trainable: float
	fixed: float
	shard: int
	model_parallel: int
	compute: int
	kept: int
	frozen: int
	autocast: bool
	checkpointing: str
	loss: str
	optimizer: str
	compiled: bool
	accumulation: int
	quantization: str
	kbit: bool

	@property
	def adapted(self) -> bool:
		return self.facts.task.adapts

	@property
	def trains(self) -> bool:
		return self.facts.task.trains

	@property
	def layers(self) -> float:
		return self.shape.layers / self.setup.pp


def resolved(facts: Facts, setup: Setup, shape: Shape) -> Run:
	quantization = facts.task.quantization or "none"
	micro = setup.micro_batch or facts.batch.micro_batch or 1
	sequence = facts.batch.seq or 1
	model_parallel = setup.tp * setup.pp
	trainable, fixed = trained(facts, shape)
	kept, frozen = stored(facts, setup)
	return Run(
		facts=facts,
		setup=setup,
		shape=shape,
		tokens=sequence * micro / (setup.cp * setup.sp),
		sequence=sequence,
		trainable=trainable / model_parallel,
		fixed=fixed / model_parallel,
		shard=shards(setup),
		model_parallel=model_parallel,
		compute=4 if facts.precision == "fp32" else 2,
		kept=kept,
		frozen=frozen,
		autocast=kept == 4 and facts.precision in MIXED and setup.backend in REPLICATED and not facts.task.adapts,
		checkpointing=setup.checkpointing or facts.checkpointing or "none",
		loss="fused_linear" if setup.fused_loss else (facts.loss or "transformers"),
		optimizer=facts.optimizer or "adamw_torch",
		compiled=bool(facts.compile if setup.compile is None else setup.compile),
		accumulation=setup.accumulation or facts.batch.accumulation or 1,
		quantization=quantization,
		kbit=quantization != "none" and bool(facts.task.kbit_preparation) and setup.backend not in FSDP,
	)


def trained(facts: Facts, shape: Shape) -> tuple[int, int]:
	if facts.task.adapts:
		return adapter_params(shape, facts.task.lora_targets or (), facts.task.lora_rank or 1), shape.params
	return (shape.params, 0) if facts.task.trains else (0, shape.params)


def shards(setup: Setup) -> int:
	"""Over how many ranks what the backend shards is divided. Ranks that share a sequence also share weights."""
	if setup.backend in (*FSDP, *ZERO):
		return setup.shard * setup.cp * setup.sp
	return setup.shard


def stored(facts: Facts, setup: Setup) -> tuple[int, int]:
	"""Bytes of a trainable and of a frozen weight as the backend keeps them in this release."""
	loaded = BYTES[facts.weights or "fp32"]
	mixed = facts.precision in MIXED
	if setup.backend in (*ZERO, "megatron"):
		size = 4 if facts.precision == "fp32" else 2
		return size, size
	kept = frozen = loaded
	for fact in upcasts():
		if mixed and fact["backend"] == setup.backend and covers(fact["releases"], facts.versions.accelerate):
			kept = 4 if fact["trainable"] else kept
			frozen = 4 if fact["frozen"] and facts.task.kind != "qlora" else frozen
	# PEFT keeps adapters in fp32 whatever the dtype of the model
	return (4 if facts.task.adapts else kept), frozen


def coefficient(name: str) -> float:
	"""One of the few numbers that were fitted to published measurements."""
	known: dict[str, Any] = load_json("memory.json")["coefficients"]
	return float(known[name]["value"])


def upcasts() -> list[dict[str, Any]]:
	facts: list[dict[str, Any]] = load_json("memory.json")["upcasts"]
	return facts
