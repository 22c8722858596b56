"""What lies in memory all the time, and what the optimizer step adds: weights, gradients, states, temporaries."""

from typing import Any, NamedTuple

from ..resources import load_json
from ..versions import in_span
from .run import REPLICATED, Run
from .setup import FSDP, ZERO


class States(NamedTuple):
	"""Bytes on one GPU, and on the CPU of a node for one rank."""

	weights: float
	gradients: float
	optimizer: float
	buckets: float
	step: float
	cpu: float = 0.0


def states_of(run: Run) -> States:
	if run.setup.backend in ZERO:
		return zero_states(run)
	if run.setup.backend == "megatron":
		return megatron_states(run)
	divided = run.shard if run.setup.backend not in REPLICATED else 1
	weights = (run.trainable * run.kept + frozen_bytes(run)) / divided
	gradients = run.trainable * run.kept / divided
	optimizer = optimizer_bytes(run, run.kept) / divided
	temporary = step_bytes(run, run.kept) / divided
	buckets = run.trainable * run.kept if run.setup.backend in ("ddp", "gaudi") and run.trains else 0.0
	if run.setup.backend in FSDP and run.setup.offload_params != "none":
		return States(0.0, 0.0, 0.0, 0.0, 0.0, cpu=weights + gradients + optimizer)
	return States(weights, gradients, optimizer, buckets, temporary)


def frozen_bytes(run: Run) -> float:
	size = quantized_size(run.quantization)
	if not size:
		return run.fixed * run.frozen
	linear = run.shape.counts.linear / run.model_parallel
	# prepare_model_for_kbit_training makes fp32 of all that is left in half precision
	return linear * size + (run.fixed - linear) * (4 if run.kbit else run.frozen)


def quantized_size(quantization: str) -> float:
	"""Bytes per parameter of a quantized linear layer; 0 where nothing is quantized."""
	sizes: dict[str, float] = load_json("memory.json")["quantized"]
	return sizes.get(quantization, 0.0)


def optimizer_record(run: Run) -> dict[str, Any]:
	record: dict[str, Any] = load_json("memory.json")["optimizers"][run.optimizer]
	return record


def optimizer_bytes(run: Run, dtype: int) -> float:
	if not run.trains:
		return 0.0
	record = optimizer_record(run)
	small: float = run.trainable * (record["states"] * dtype + record["bytes"])
	if record.get("embeddings") and not run.adapted:
		# the Trainer keeps 32-bit states for embeddings with bitsandbytes' optimizers
		small += run.shape.counts.embedding / run.model_parallel * (8 - record["bytes"])
	return small


def step_bytes(run: Run, dtype: int) -> float:
	if not run.trains:
		return 0.0
	record = optimizer_record(run)
	largest = max(run.shape.counts.embedding, run.shape.counts.layer / 4) / run.model_parallel
	whole = run.trainable if record["step"] == "list" else min(run.trainable, largest)
	return whole * dtype * float(record["temporaries"])


def zero_states(run: Run) -> States:
	"""ZeRO: half-precision weights, and an fp32 copy of them with both moments in the optimizer.

	The step makes fp32 gradients of a rank's part. With a CPU optimizer that happens on the CPU.
	"""
	setup, shard, half = run.setup, run.shard, run.kept == 2 or run.adapted
	size, stage = run.compute, int(setup.backend[-1])
	weights = (run.trainable * size + frozen_bytes(run)) / (shard if stage == 3 else 1)
	gradients = run.trainable * size / (shard if stage >= 2 else 1) if run.trains else 0.0
	own = run.trainable / shard
	master = own * 4 if half and size == 2 else 0.0
	optimizer = master + optimizer_bytes(run, 4) / shard if run.trains else 0.0
	step = own * 4 if size == 2 and run.trains else 0.0
	step += step_bytes(run, 4) / shard
	cpu = 0.0
	if setup.offload_optimizer != "none" or offloads_silently(run):
		cpu += optimizer + own * 4 + (gradients if stage >= 2 else 0.0)
		optimizer = step = 0.0
		gradients = gradients if stage == 1 else 0.0
	if setup.offload_params != "none" and stage == 3:
		cpu += weights
		weights = 0.0
	if setup.hpz > 1 and stage == 3:
		weights += (run.trainable + run.fixed) * size / setup.hpz
	return States(weights, gradients, optimizer, 0.0, step, cpu)


def offloads_silently(run: Run) -> bool:
	"""ZeRO-1 and 2 take any device but none for the CPU, NVMe too."""
	return run.setup.backend in ("zero1", "zero2") and run.setup.offload_optimizer == "nvme"


def megatron_states(run: Run) -> States:
	weights, optimizer = run.trainable * 2 + run.fixed * 2, run.trainable * 12 / max(run.shard, 1)
	return States(weights, run.trainable * 4, optimizer, buckets=0.0, step=0.0)


def keeps_inputs_of_quantized(run: Run) -> bool:
	"""Before 0.43.2 bitsandbytes kept the input of every 4-bit layer for the backward pass."""
	release = run.facts.bitsandbytes
	return run.quantization in ("nf4", "nf4_double") and release is not None and in_span(release, None, "0.43.1")
