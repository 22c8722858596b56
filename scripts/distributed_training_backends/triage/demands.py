"""Sizes that the user insists on: whether they can be, and whether a setup has them."""

from collections.abc import Iterator
from math import gcd, prod

from .fact_schema import Problem
from .facts import Facts, ParallelFacts
from .setup import Setup

SIZES = ParallelFacts._fields
MOST_LISTED = 12
MOST_PROCESSES = 250_000  # more than any cluster has


def demanded(facts: Facts) -> dict[str, int]:
	return {name: size for name, size in facts.parallel._asdict().items() if size is not None}


def has_them(facts: Facts, setup: Setup) -> bool:
	return all(getattr(setup, name) == size for name, size in demanded(facts).items())


def in_words(facts: Facts) -> str:
	sizes = (f"{name} {size}" for name, size in demanded(facts).items())
	return " and ".join(filter(None, (facts.wish, *sizes)))


def impossible(facts: Facts) -> Iterator[Problem]:
	"""What no backend can have here, with what it can. The sizes of model and hardware are known."""
	sizes, per_node = demanded(facts), facts.hardware.gpus_per_node or 1
	world = facts.hardware.world
	if world > MOST_PROCESSES:
		said = f"{world} accelerators in all; write nodes for at most {MOST_PROCESSES} of them"
		yield Problem("/hardware/nodes", said)
	if (sizes.get("tp") or 1) > per_node:
		message = f"{sizes['tp']} is more than the {per_node} of a node, which tensor parallelism does not leave"
		yield Problem("/parallel/tp", f"{message}; write {listed(per_node)}")
	elif world % prod(sizes.values()):
		named = " x ".join(f"{name} {size}" for name, size in sizes.items())
		last = list(sizes)[-1]
		yield Problem(f"/parallel/{last}", f"{named} does not divide the {world} processes; write {listed(world)}")
	if (sizes.get("cp") or 1) > 1 and (sizes.get("sp") or 1) > 1:
		yield Problem("/parallel/sp", "cp splits sequences under FSDP2 and sp under DeepSpeed; write one of them")
	for name, size in sizes.items():
		yield from indivisible(facts, name, size)


def indivisible(facts: Facts, name: str, size: int) -> Iterator[Problem]:
	model = facts.model
	heads = gcd(model.heads or 0, model.kv_heads or 0)
	parts = {
		"tp": ("attention and key/value heads", f"{model.heads} and {model.kv_heads}", heads),
		"sp": ("attention heads", f"{model.heads}", model.heads or 0),
		"pp": ("layers", f"{model.layers}", model.layers or 0),
	}
	what, count, amount = parts.get(name, ("", "", 0))
	if amount % size:
		yield Problem(f"/parallel/{name}", f"{size} does not divide the {count} {what}; write {listed(amount)}")


def listed(amount: int) -> str:
	sizes = [str(size) for size in range(1, min(amount, 1024) + 1) if amount % size == 0]
	shown = sizes if len(sizes) <= MOST_LISTED else [*sizes[:MOST_LISTED], "…"]
	return f"one of {', '.join(shown)}" if len(sizes) > 1 else "1"
