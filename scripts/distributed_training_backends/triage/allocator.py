"""From what is allocated to what PyTorch's allocator holds and what nvidia-smi shows."""

from typing import NamedTuple

from .estimate import GIB, Phase
from .phases import Pieces
from .run import Run, coefficient


class Points(NamedTuple):
	"""The three numbers without their intervals; `uncapped` is what the allocator would hold on a larger GPU."""

	allocated: float
	reserved: float
	smi: float
	uncapped: float


def points_of(pieces: Pieces, phases: tuple[Phase, ...], capacity: float) -> Points:
	"""The three numbers.

	Blocks that one phase has used serve the next one only in part: activations, logits, gathered layers, gradients
	and temporaries of the step differ in size. The cache gives way where the GPU is full.
	"""
	allocated = max(phase.size for phase in phases)
	reserved = allocated * coefficient("reserved_ratio") + unused_bytes(pieces, allocated)
	context = context_bytes(pieces.run)
	room = max(capacity - context, allocated)
	return Points(allocated, min(reserved, room), min(reserved, room) + context, reserved)


def unused_bytes(pieces: Pieces, allocated: float) -> float:
	if not pieces.run.trains:
		return 0.0
	share = coefficient("unused_with_adapters" if pieces.run.adapted else "unused_with_states")
	return share * max(0.0, apart(pieces) - allocated)


def apart(pieces: Pieces) -> float:
	states, buffers = pieces.states, pieces.buffers
	whole = states.weights + states.optimizer + states.buckets + states.gradients + states.step
	whole += pieces.retained + max(pieces.loss) + pieces.recomputed + pieces.frozen_inputs
	return whole + buffers.backward + buffers.gradients


def context_bytes(run: Run) -> float:
	"""What lies outside the allocator: the context, communicators, and Megatron's own buffers."""
	size = coefficient("context_gib")
	size += coefficient("nccl_gib") if run.setup.world > 1 else 0.0
	size += coefficient("megatron_gib") if run.setup.backend == "megatron" else 0.0
	return size * GIB
