"""How much memory a run needs per GPU and per node, as intervals, with a verdict and reasons."""

from math import sqrt
from typing import Any

from ..model_triage import Amount, Verdict
from ..resources import load_json
from .allocator import Points, context_bytes, points_of
from .estimate import GIB, Estimate, Phase
from .explain import sentences_of
from .facts import Facts
from .phases import Pieces, phases_of, pieces_of
from .run import BYTES, Run, coefficient
from .setup import FSDP, Setup


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


# --- how sure a number is, and whether it fits ---


def spreads() -> dict[str, Any]:
	known: dict[str, Any] = load_json("memory.json")["spread"]
	return known


def width_of(phase: Phase, run: Run) -> float:
	"""The relative half-width of the interval: parts err on their own, in proportion to their size."""
	known = spreads()
	parts = {**known["parts"], **(known["quantized"] if run.quantization != "none" else {})}
	parts = {**parts, **(known["loading"] if phase.name == "load" else {})}
	own = sum((part.size * parts[part.name]) ** 2 for part in phase.parts)
	relative = sqrt(own) / phase.size if phase.size else 0.0
	return float(known["scale"] * sqrt(relative**2 + known["base"] ** 2 + known["backends"][run.setup.backend] ** 2))


def around(point: float, width: float, inside: Amount | None = None) -> Amount:
	"""An interval around a point; what is reserved errs by what it adds to what is allocated, too.

	It may end above what a GPU has: so much would be wanted then.
	"""
	low, high = point * (1 - width), point * (1 + width)
	if inside is not None and point > inside.point:
		extra = (point - inside.point) * float(spreads()["allocator"])
		low, high = max(inside.low, low - extra), high + extra
	return Amount(low, point, high)


def needed(points: Points, run: Run) -> float:
	"""What must be free for it to run: what is allocated, the context, and what the cache cannot give back.

	Where only adapters have states, blocks of many sizes share segments; else those of the step come free as a whole.
	"""
	idle = float(spreads()["idle_with_adapters"]) * max(0.0, points.uncapped - points.allocated) if run.adapted else 0.0
	return points.allocated + idle + context_bytes(run)


def verdict_of(need: float, capacity_gib: float | None, phase: str) -> Verdict:
	"""Tight is where the truth may lie on either side; what loading takes is little more than arithmetic."""
	if not capacity_gib:
		return "unknown"
	known = spreads()
	share = need / (capacity_gib * GIB * known["usable"])
	if share <= known["fits_below"]:
		return "fits"
	most = known["loading_fails_above" if phase == "load" else "fails_above"]
	return "tight" if share <= most else "does_not_fit"


def cpu_verdict_of(need: Amount, capacity_gib: float | None) -> Verdict:
	if not capacity_gib:
		return "unknown"
	if need.high <= capacity_gib * GIB:
		return "fits"
	return "tight" if need.low <= capacity_gib * GIB else "does_not_fit"


# --- the memory of a node ---


def cpu_of(pieces: Pieces) -> Amount:
	"""The most that a node needs: while weights are loaded, or while it trains.

	Weights are read on every rank unless the loader of FSDP or ZeRO-3 reads them once for all.
	"""
	run = pieces.run
	ranks = min(run.facts.hardware.gpus_per_node or 8, run.setup.world)
	processes = ranks * coefficient("process_gib") * GIB
	once = run.setup.ram_efficient and run.setup.backend in (*FSDP, "zero3")
	copies = 1 if once or ranks == 1 else ranks
	weights = run.shape.params * BYTES[run.facts.weights or "fp32"] * copies
	offloaded = pieces.states.cpu * ranks
	training = offloaded * coefficient("pinned_share") + processes
	point = max(weights + processes, training)
	return Amount(max(processes, offloaded + processes) * 0.8, point, point * 1.3)
