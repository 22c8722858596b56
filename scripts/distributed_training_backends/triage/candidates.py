"""The setups that are looked at: every backend, in the sizes that the hardware has room for."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from ..versions import in_span
from .compatibility import Obstacle, obstacles
from .demands import has_them
from .facts import Facts
from .setup import FSDP, ZERO, Backend, Setup

WISHES = {"fsdp": FSDP, "deepspeed": ZERO}
SPLITS = (2, 4, 8)
LONG_SPLITS = (2, 4, 8, 16, 32)
STAGES = (1, 2, 4, 8, 16)


class Considered(NamedTuple):
	setup: Setup
	obstacles: tuple[Obstacle, ...]


def considered(facts: Facts) -> Sequence[Considered]:
	"""Every setup for these facts, the simple ones first."""
	return [Considered(setup, tuple(obstacles(facts, setup))) for setup in proposed(facts)]


def insisted(facts: Facts) -> tuple[Backend, ...]:
	"""The backends that are what the user insists on; none where anything will do."""
	wish: Any = facts.wish
	return () if wish is None else WISHES.get(wish, (wish,))


def wanted(facts: Facts, setup: Setup) -> bool:
	return (facts.wish is None or setup.backend in insisted(facts)) and has_them(facts, setup)


def proposed(facts: Facts) -> Iterator[Setup]:
	"""Setups in general; what cannot be is left to the obstacles."""
	return (setup._replace(fp8=True if facts.precision == "fp8" else None) for setup in layouts(facts))


def layouts(facts: Facts) -> Iterator[Setup]:
	world = facts.hardware.world
	yield Setup("single")
	if world > 1:
		yield from replicated(world, facts)
		yield from fsdp2(world, facts)
		yield from fsdp1(world, facts)
	elif facts.hardware.device == "tpu":
		yield Setup("xla")
	yield from zero(world, facts)
	if world > 1:
		yield from megatron(world, facts)


def replicated(world: int, facts: Facts) -> Iterator[Setup]:
	yield Setup("ddp", replicate=world)
	yield Setup("ddp", replicate=world, comm_hook="fp16" if facts.precision == "fp16" else "bf16")
	yield Setup("ddp", replicate=world, comm_hook="power_sgd")
	others: tuple[Backend, ...] = ("local_sgd", "gaudi", "xla", "cpu")
	yield from (Setup(backend, replicate=world) for backend in others)


def fsdp2(world: int, facts: Facts) -> Iterator[Setup]:
	nodes = facts.hardware.nodes or 1
	# before 1.15 the plugin wrapped parts of layers, which keeps four times as much
	own = in_span(facts.versions.accelerate, "1.15.0", None)
	checkpointed_by: Literal["model", "backend"] = "backend" if own else "model"
	base = Setup("fsdp2", shard=world, ram_efficient=facts.precision != "fp8", checkpointed_by=checkpointed_by)
	yield base._replace(reshard=False)
	yield base
	if nodes > 1 and world > nodes:
		yield base._replace(shard=world // nodes, replicate=nodes)
	sizes = facts.parallel
	for size in dividing(with_told(SPLITS, sizes.tp), world):
		yield base._replace(shard=world // size, tp=size)
	for size in dividing(with_told(LONG_SPLITS, sizes.cp), world):
		yield base._replace(shard=world // size, cp=size)
	if (sizes.tp or 1) > 1 and (sizes.cp or 1) > 1:
		both = (sizes.tp or 1) * (sizes.cp or 1)
		yield base._replace(shard=world // both, tp=sizes.tp or 1, cp=sizes.cp or 1)
	# before 1.13 weights that rank 0 loads end up on the GPU, where offload does not look for them
	loading = in_span(facts.versions.accelerate, "1.13.0", None)
	yield base._replace(offload_params="cpu", offload_optimizer="cpu", ram_efficient=loading)


def fsdp1(world: int, facts: Facts) -> Iterator[Setup]:
	nodes = facts.hardware.nodes or 1
	# before 0.31 the plugin's own checkpointing did not reach the workers
	own = in_span(facts.versions.accelerate, "0.31.0", None)
	base = Setup("fsdp1", shard=world, checkpointed_by="backend" if own else "model")
	yield base._replace(reshard=False)
	yield base
	if nodes > 1 and world > nodes:
		yield base._replace(shard=world // nodes, replicate=nodes)
	yield base._replace(offload_params="cpu", offload_optimizer="cpu")


def zero(world: int, facts: Facts) -> Iterator[Setup]:
	first, second, third = (Setup(name, shard=world) for name in ZERO)
	if world > 1:
		yield from (first, second, third)
	yield second._replace(offload_optimizer="cpu")
	yield second._replace(offload_optimizer="nvme")
	yield third._replace(offload_optimizer="cpu")
	yield third._replace(offload_params="cpu")
	yield third._replace(offload_optimizer="cpu", offload_params="cpu")
	yield third._replace(offload_optimizer="nvme", offload_params="nvme")
	if world > 1:
		yield third._replace(hpz=facts.hardware.gpus_per_node or 1)
	for size in dividing(with_told(LONG_SPLITS, facts.parallel.sp), world):
		yield third._replace(shard=world // size, sp=size)


def megatron(world: int, facts: Facts) -> Iterator[Setup]:
	for tp in dividing(with_told((1, *SPLITS), facts.parallel.tp), world):
		for pp in dividing(with_told(STAGES, facts.parallel.pp), world // tp):
			yield Setup("megatron", shard=world // (tp * pp), tp=tp, pp=pp)


def with_told(sizes: Sequence[int], told: int | None) -> Sequence[int]:
	return sizes if told in (None, 1) else sorted({*sizes, told or 1})


def dividing(sizes: Sequence[int], world: int) -> Iterator[int]:
	return (size for size in sizes if size <= world and world % size == 0)
