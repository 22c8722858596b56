"""How sure a number is, and what follows for whether it fits."""

from __future__ import annotations

from math import sqrt
from typing import Any

from distributed_training_backends.resources import load_json
from distributed_training_backends.triage.allocator import context_bytes
from distributed_training_backends.triage.estimate import GIB, Interval, Phase, Verdict
from distributed_training_backends.triage.run import Run


def spreads() -> dict[str, Any]:
    """How far parts may be off, and where the verdicts change."""
    known: dict[str, Any] = load_json("memory.json")["spread"]
    return known


def width_of(phase: Phase, backend: str) -> float:
    """The relative half-width of the interval: parts err on their own, in proportion to their size."""
    known = spreads()
    own = sum((part.size * known["parts"][part.name]) ** 2 for part in phase.parts)
    relative = sqrt(own) / phase.size if phase.size else 0.0
    return float(known["scale"] * sqrt(relative**2 + known["base"] ** 2 + known["backends"].get(backend, 0.0) ** 2))


def around(point: float, width: float, inside: Interval | None = None) -> Interval:
    """An interval around a point; what is reserved errs by what it adds to what is allocated, too."""
    low, high = point * (1 - width), point * (1 + width)
    if inside is not None and point > inside.point:
        extra = (point - inside.point) * float(spreads()["allocator"])
        low, high = max(inside.low, low - extra), high + extra
    return Interval(low, point, high)


def needed(allocated: Interval, run: Run) -> Interval:
    """What must be free on the GPU for it to run: the cache gives way, the context does not."""
    context = context_bytes(run)
    scale = 1 + float(spreads()["fragmentation"])
    return Interval(*(size * scale + context for size in allocated))


def verdict_of(need: Interval, capacity_gib: float | None) -> Verdict:
    """Tight is where the truth may lie on either side."""
    if not capacity_gib:
        return "unknown"
    known, share = spreads(), need.point / (capacity_gib * GIB)
    if share <= known["fits_below"]:
        return "fits"
    return "tight" if share <= known["fails_above"] else "does_not_fit"


def cpu_verdict_of(need: Interval, capacity_gib: float | None) -> Verdict:
    """The same for the memory of a node."""
    if not capacity_gib:
        return "unknown"
    if need.high <= capacity_gib * GIB:
        return "fits"
    return "tight" if need.low <= capacity_gib * GIB else "does_not_fit"
