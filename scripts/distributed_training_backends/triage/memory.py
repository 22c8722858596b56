"""How much memory a run needs per GPU and per node, as intervals, with a verdict and reasons."""

from .allocator import points_of
from .cpu_memory import cpu_of
from .estimate import GIB, Estimate
from .explain import sentences_of
from .facts import Facts
from .intervals import around, cpu_verdict_of, needed, verdict_of, width_of
from .phases import phases_of, pieces_of
from .setup import Setup


def estimate(facts: Facts, setup: Setup) -> Estimate:
	"""What one way to run it takes. The facts are completed; raises UnknownModelError where the model is not known.

	Without the memory of a GPU or a node the verdict on it is `unknown`.
	"""
	pieces = pieces_of(facts, setup)
	phases = phases_of(pieces)
	worst = max(phases, key=lambda phase: phase.size)
	capacity = facts.hardware.gpu_memory_gib
	most = capacity * GIB if capacity else float("inf")
	points = points_of(pieces, phases, most)
	width = width_of(worst, pieces.run)
	allocated = around(points.allocated, width)
	cpu = cpu_of(pieces)
	verdict = verdict_of(needed(points, pieces.run), capacity, worst.name)
	return Estimate(
		phases=phases,
		peak=worst.name,
		allocated=allocated,
		reserved=around(points.reserved, width, allocated),
		smi=around(points.smi, width, allocated),
		cpu_ram=cpu,
		verdict=verdict,
		cpu_verdict=cpu_verdict_of(cpu, facts.hardware.cpu_ram_gib),
		sentences=tuple(sentences_of(pieces, worst, verdict)),
	)
