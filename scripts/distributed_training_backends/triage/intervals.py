"""How sure a number is, and what follows for whether it fits."""

from math import sqrt
from typing import Any

from ..model_triage import Amount, Verdict
from ..resources import load_json
from .allocator import Points, context_bytes
from .estimate import GIB, Phase
from .run import Run


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
