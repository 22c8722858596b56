"""Facts and setups that several tests of triage use."""

from typing import Any

from distributed_training_backends.triage.answer import Question, question
from distributed_training_backends.triage.facts import Facts
from distributed_training_backends.triage.setup import Setup


def asked(**groups: Any) -> Question:
	"""Complete facts: an 8B model on 8 A100 unless told otherwise."""
	base: dict[str, Any] = {"model": {"name": "llama-3-8b"}, "hardware": {"gpu": "A100-80GB", "gpus_per_node": 8}}
	return question({**base, **groups})


def facts(**groups: Any) -> Facts:
	return asked(**groups).facts


TWO_NODES = {"gpu": "A100-80GB", "gpus_per_node": 8, "nodes": 2}
CPUS = {"device": "cpu", "nodes": 4}
GAUDIS = {"gpu": "Gaudi2", "gpus_per_node": 8}
# A setup of every kind, by name, with facts that it is possible for.
SETUPS: dict[str, tuple[Setup, dict[str, Any]]] = {
	"single": (Setup("single"), {}),
	"ddp": (Setup("ddp", replicate=8), {}),
	"hook": (Setup("ddp", replicate=16, comm_hook="bf16"), {"hardware": TWO_NODES}),
	"local-sgd": (Setup("local_sgd", replicate=16), {"hardware": TWO_NODES}),
	"fsdp1": (Setup("fsdp1", shard=8, checkpointing="full", checkpointed_by="backend"), {}),
	"fsdp1-hybrid": (Setup("fsdp1", shard=8, replicate=2), {"hardware": TWO_NODES}),
	"fsdp2": (Setup("fsdp2", shard=8), {}),
	"fsdp2-no-reshard": (Setup("fsdp2", shard=8, reshard=False), {}),
	"fsdp2-offload": (Setup("fsdp2", shard=8, offload_params="cpu", offload_optimizer="cpu"), {}),
	"fsdp2-hybrid": (Setup("fsdp2", shard=8, replicate=2), {"hardware": TWO_NODES}),
	"fsdp2-tp2": (Setup("fsdp2", shard=4, tp=2), {"versions": {"transformers": "4.57.6"}}),
	"fsdp2-cp4": (Setup("fsdp2", shard=2, cp=4), {"batch": {"seq": 32768}}),
	"zero1": (Setup("zero1", shard=8), {}),
	"zero2-offload": (Setup("zero2", shard=8, offload_optimizer="cpu"), {}),
	"zero3-hpz": (Setup("zero3", shard=16, hpz=8), {"hardware": TWO_NODES}),
	"zero3-nvme": (
		Setup("zero3", shard=8, offload_optimizer="nvme", offload_params="nvme"),
		{"hardware": {"gpu": "A100-80GB", "gpus_per_node": 8, "nvme_gib": 2000}},
	),
	"zero3-sp4": (Setup("zero3", shard=2, sp=4), {"batch": {"seq": 32768}}),
	"megatron": (Setup("megatron", shard=2, tp=2, pp=2, checkpointing="selective"), {}),
	"xla": (Setup("xla", replicate=8), {"hardware": {"gpu": "v5e-8"}}),
	"gaudi": (Setup("gaudi", replicate=8), {"hardware": GAUDIS}),
	"cpu": (Setup("cpu", replicate=4), {"hardware": CPUS}),
}
