"""Which setups are looked at, which are removed and why, and in what order the rest comes."""

from typing import Any

import pytest
from tests.triage_facts import TWO_NODES, asked, facts

from distributed_training_backends.model_triage import BadFactsError
from distributed_training_backends.triage.answer import answer
from distributed_training_backends.triage.candidates import considered, proposed
from distributed_training_backends.triage.describe import name_of, title_of
from distributed_training_backends.triage.setup import Setup


def names(groups: dict[str, Any]) -> set[str]:
	return {name_of(one.setup) for one in considered(facts(**groups)) if not one.obstacles}


def reasons(groups: dict[str, Any], name: str) -> list[str]:
	return [o.row for one in considered(facts(**groups)) if name_of(one.setup) == name for o in one.obstacles]


def test_every_setup_uses_all_accelerators_or_one() -> None:
	for setup in proposed(facts(hardware=TWO_NODES)):
		assert setup.world in (1, 16), setup


def test_names_and_titles_tell_setups_apart() -> None:
	for groups in ({}, {"hardware": TWO_NODES}, {"hardware": {"gpu": "T4", "gpus_per_node": 1}}):
		setups = list(proposed(facts(**groups)))
		assert len({name_of(setup) for setup in setups}) == len(setups)
		assert len({title_of(setup) for setup in setups}) == len(setups)


def test_every_backend_of_the_issue_is_looked_at() -> None:
	looked_at = {setup.backend for setup in proposed(facts(hardware=TWO_NODES))}
	assert looked_at == {
		*("single", "ddp", "local_sgd", "fsdp1", "fsdp2", "zero1", "zero2", "zero3"),
		*("megatron", "xla", "gaudi", "cpu"),
	}


@pytest.mark.parametrize(
	("groups", "name", "row"),
	[
		({"hardware": {"gpu": "v5e-8"}}, "fsdp2", "tpu-is-xla"),
		({"hardware": {"device": "cpu", "nodes": 4}}, "fsdp2", "cpu-does-not-shard"),
		({"hardware": {"device": "cpu", "nodes": 4}}, "zero3", "cpu-does-not-shard"),
		({"hardware": {"device": "mps", "gpus_per_node": 2}}, "ddp", "mps-is-one"),
		({"versions": {"accelerate": "1.5.2"}}, "fsdp2", "fsdp2-accelerate"),
		({"versions": {"torch": "2.5.1"}}, "fsdp2", "fsdp2-torch"),
		({"versions": {"accelerate": "1.9.0"}, "hardware": TWO_NODES}, "fsdp2-hybrid", "hsdp-accelerate"),
		({"versions": {"accelerate": "1.11.0"}, "batch": {"seq": 32768}}, "zero3-sp2", "sp-accelerate"),
		({"versions": {"deepspeed": "0.18.1"}, "batch": {"seq": 32768}}, "zero3-sp2", "sp-deepspeed"),
		({"versions": {"accelerate": "1.12.0"}, "batch": {"seq": 32768}}, "fsdp2-cp2", "cp-release"),
		({"batch": {"seq": 1000}}, "fsdp2-cp8", "cp-length"),
		({"batch": {"seq": 16384}, "attention": "eager"}, "fsdp2-cp2", "cp-attention"),
		({"task": {"kind": "qlora"}}, "zero3", "zero3-quantized"),
		({"task": {"kind": "qlora", "quantization": "int8"}}, "fsdp2", "fsdp-int8"),
		({"task": {"kind": "qlora"}, "hardware": {"gpu": "v5e-8"}}, "xla", "xla-quantized"),
		({"task": {"kind": "lora"}}, "megatron", "megatron-adapters"),
		({"task": {"kind": "inference"}}, "fsdp2", "fsdp2-inference"),
		({"task": {"kind": "inference"}}, "zero2", "zero-inference"),
		({"precision": "fp8"}, "ddp", "fp8-capability"),
		({"precision": "fp8", "hardware": {"gpu": "H100", "gpus_per_node": 8}}, "zero2", "zero-fp8"),
		({"precision": "pure_bf16"}, "zero2", "zero-pure-bf16"),
		({"model": {"name": "mistral-7b"}}, "megatron", "megatron-family"),
		({"optimizer": "adafactor"}, "zero2-offload-optimizer", "offload-optimizer-kind"),
		({}, "zero3-offload-nvme", "nvme-optimizer"),
		({}, "zero2-offload-optimizer-nvme", "zero-nvme"),
	],
)
def test_what_cannot_be_is_removed_with_its_reason(groups: dict[str, Any], name: str, row: str) -> None:
	assert row in reasons(groups, name)


def test_heads_limit_how_far_a_model_is_split() -> None:
	few = {"layers": 24, "hidden": 1536, "heads": 12, "kv_heads": 2, "vocab": 32000, "intermediate": 4096}
	split = {"model": few, "batch": {"seq": 32768}, "versions": {"transformers": "4.57.6"}}
	possible = names(split)
	assert "fsdp2-tp2" in possible
	assert "tp-kv-heads" in reasons(split, "fsdp2-tp4")
	assert "sp-heads" in reasons(split, "zero3-sp8")
	assert "zero3-sp4" in possible


def test_tensor_parallelism_stays_in_a_node() -> None:
	small_nodes = {"gpu": "A100-80GB", "gpus_per_node": 2, "nodes": 4}
	assert "tp-node" in reasons({"hardware": small_nodes}, "megatron-tp4")


def test_wishes_leave_only_what_is_wished_for() -> None:
	found = answer(asked(wish="deepspeed"))
	assert {one.setup.backend for one in found.ranked} == {"zero1", "zero2", "zero3"}
	assert all(one.obstacle.reason == "you insist on deepspeed" for one in found.out if one.obstacle.row == "wish")


@pytest.mark.parametrize(
	("groups", "said"),
	[
		({"wish": "xla"}, "there is no TPU"),
		({"wish": "megatron", "task": {"kind": "lora"}}, "PEFT"),
		({"wish": "fsdp2", "versions": {"torch": "2.5.1"}}, "FSDP2 needs torch 2.6.0"),
		({"wish": "ddp", "hardware": {"gpu": "T4", "gpus_per_node": 1}}, "more than one process"),
		({"wish": "zero3", "hardware": {"gpu": "v5e-8"}}, "DistributedType.XLA"),
	],
)
def test_impossible_wishes_are_refused_with_the_reason(groups: dict[str, Any], said: str) -> None:
	with pytest.raises(BadFactsError) as caught:
		answer(asked(**groups))
	((pointer, message),) = caught.value.problems
	assert pointer == "/wish"
	assert said in message


def test_what_fits_comes_first_then_speed_then_simplicity() -> None:
	order = ("fits", "tight", "unknown", "does_not_fit")
	verdicts = [order.index(one.made.verdict) for one in answer(asked(hardware=TWO_NODES)).ranked]
	assert verdicts == sorted(verdicts)


def test_a_setup_that_the_validator_objects_to_is_out() -> None:
	found = answer(asked(versions={"accelerate": "0.34.2"}))
	out = {one.setup.backend: one.obstacle for one in found.out}
	assert out["fsdp1"].row == "FSD026"
	assert out["fsdp1"].source == "references/rules/fsdp.md#fsd026"
	assert Setup("single") not in [one.setup for one in found.out]
