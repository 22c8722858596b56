"""What a backend gathers, copies and keeps in buffers while it works, and what the first pass over the model loads."""

from typing import NamedTuple

from ..versions import in_span
from .run import REPLICATED, Run, coefficient
from .setup import FSDP, ZERO
from .states import quantized_size


class Buffers(NamedTuple):
	"""Bytes in the forward and in the backward pass, and gradients that are not yet divided."""

	forward: float
	backward: float
	gradients: float


def buffers_of(run: Run) -> Buffers:
	if run.setup.backend in FSDP:
		return fsdp_buffers(run)
	if run.setup.backend in ZERO:
		return zero_buffers(run)
	return cast_weights(run)


def cast_weights(run: Run) -> Buffers:
	"""Autocast casts weights kept in fp32, and holds on to the copies until the forward pass is over.

	The backward pass needs them too, but with checkpointing only those of the layer at work and of the head.
	"""
	if not run.autocast:
		return Buffers(0.0, 0.0, 0.0)
	every = run.trainable * run.compute
	part = layer_bytes(run) + run.shape.counts.head * run.compute / run.model_parallel
	return Buffers(every, part if run.checkpointing == "full" else every, 0.0)


def layer_bytes(run: Run) -> float:
	size = quantized_size(run.quantization)
	linear = run.shape.counts.linear / run.shape.layers
	rest = run.shape.counts.layer - linear
	whole = (linear * size + rest * run.compute) if size else run.shape.counts.layer * run.compute
	return whole / run.setup.tp


def fsdp_buffers(run: Run) -> Buffers:
	"""FSDP gathers a layer ahead; embeddings and head stay gathered from the forward to the backward pass.

	Since 1.14.0 Accelerate shards the input embeddings on their own under FSDP2, so that only the head stays.
	"""
	if run.shard == 1:
		return Buffers(0.0, 0.0, 0.0)
	layer, counts = layer_bytes(run), run.shape.counts
	embedding, head = (size * run.compute / run.model_parallel for size in (counts.embedding, counts.head))
	gathered = embedding + head + layer * run.layers
	apart = run.setup.backend == "fsdp2" and in_span(run.facts.versions.accelerate, "1.14.0", None)
	ends = head if apart and head else embedding + head
	if run.setup.reshard:
		gathered = ends + coefficient("gathered_units") * layer
	undivided = 0.0 if run.adapted or not run.trains else layer + ends
	if run.accumulation > 1 and not run.setup.sync_each_batch and run.trains:
		undivided = run.trainable * run.compute
	return Buffers(gathered, gathered, undivided)


def zero_buffers(run: Run) -> Buffers:
	if run.setup.backend != "zero3":
		bucket = 2 * run.compute * min(5e8, run.trainable) if run.trains else 0.0
		return Buffers(0.0, bucket, 0.0)
	every = run.trainable + run.fixed
	live = min(every, coefficient("zero3_live") * 1e9) * run.compute
	bucket = run.compute * run.shape.hidden**2
	return Buffers(live, live + bucket, layer_bytes(run) if not run.adapted and run.trains else 0.0)


def loading_bytes(run: Run) -> float:
	"""What loading the weights takes where the whole model is put on each GPU before it is divided."""
	if run.setup.backend in REPLICATED or not run.setup.built_on_gpu:
		return 0.0
	return (run.trainable + run.fixed) * run.frozen * (1 + 1 / run.shard + coefficient("loading_share"))
