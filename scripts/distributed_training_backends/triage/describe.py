"""A setup in words: a short name for files and flags, a title, and what was chosen."""

from collections.abc import Iterator

from .facts import Facts
from .setup import FSDP, Setup

TITLES = {
	"single": "One process",
	"ddp": "DDP",
	"local_sgd": "Local SGD over DDP",
	"gaudi": "DDP on Gaudi",
	"xla": "XLA",
	"cpu": "DDP on CPUs",
	"fsdp1": "FSDP1",
	"fsdp2": "FSDP2",
	"zero1": "ZeRO-1",
	"zero2": "ZeRO-2",
	"zero3": "ZeRO-3",
	"megatron": "Megatron-LM",
}


def name_of(setup: Setup) -> str:
	"""Short and without blanks: `fsdp2-tp4`, `zero3-offload-nvme`."""
	return "-".join([setup.backend.replace("_", "-"), *name_parts(setup)])


def name_parts(setup: Setup) -> Iterator[str]:
	if setup.backend in FSDP:
		yield from () if setup.reshard else ("no-reshard",)
		yield from ("hybrid",) if setup.replicate > 1 else ()
	for size in ("tp", "pp", "cp", "sp"):
		if getattr(setup, size) > 1:
			yield f"{size}{getattr(setup, size)}"
	if setup.hpz > 1:
		yield f"hpz{setup.hpz}"
	if setup.comm_hook != "no":
		yield setup.comm_hook.replace("_", "-") + "-hook"
	devices = {"optimizer": setup.offload_optimizer, "params": setup.offload_params}
	moved = {what: device for what, device in devices.items() if device != "none"}
	if moved:
		what = "" if len(moved) == 2 else f"-{next(iter(moved))}"
		yield f"offload{what}" + ("-nvme" if "nvme" in moved.values() else "")


def title_of(setup: Setup) -> str:
	return ", ".join([TITLES[setup.backend], *title_parts(setup)])


def title_parts(setup: Setup) -> Iterator[str]:
	yield from layout(setup)
	for size, kind in (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("sp", "sequence")):
		if (count := getattr(setup, size)) > 1:
			yield f"{kind} parallel {count}{' (Ulysses)' if size == 'sp' else ''}"
	if setup.hpz > 1:
		yield f"secondary partition of {setup.hpz} (ZeRO++)"
	if setup.comm_hook != "no":
		yield f"gradients sent by the {setup.comm_hook} hook"
	if setup.backend in FSDP and setup.offload_params != "none":
		yield "weights, gradients and optimizer in CPU memory"
		return
	for what, device in (("optimizer", setup.offload_optimizer), ("parameters", setup.offload_params)):
		if device != "none":
			yield f"{what} in CPU memory" if device == "cpu" else f"{what} on NVMe"


def layout(setup: Setup) -> Iterator[str]:
	if setup.backend in FSDP:
		if setup.replicate > 1:
			yield f"{setup.replicate} replicas sharded over {setup.shard} GPUs"
		elif setup.shard > 1:
			yield f"sharded over {setup.shard} GPUs"
		if not setup.reshard:
			yield "weights kept from forward to backward"
	elif setup.backend.startswith("zero") and setup.shard > 1:
		yield f"sharded over {setup.shard} GPUs"
	elif setup.backend == "megatron":
		yield f"data parallel {setup.shard}"
	elif setup.world > 1:
		yield f"{setup.replicate} replicas"


def choices(facts: Facts, setup: Setup) -> Iterator[str]:
	if setup.checkpointing in ("full", "selective") and facts.checkpointing is None:
		yield f"{setup.checkpointing} activation checkpointing"
	if setup.fused_loss and facts.loss != "fused_linear":
		yield "a loss that never makes the logits (Liger)"
	if facts.batch.global_batch:
		yield f"gradient accumulation {facts.batch.accumulation}, for {facts.batch.global_batch} sequences a step"


def dtype_choice(asked: Facts, facts: Facts) -> Iterator[str]:
	if asked.weights != facts.weights:
		yield f"weights loaded in {facts.weights}, which this backend leaves as they are"
