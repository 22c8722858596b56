"""Sizes and batches that the user insists on: had by every candidate, or refused with those that can be."""

from typing import Any

import pytest
from tests.triage_facts import TWO_NODES, asked

from distributed_training_backends import api
from distributed_training_backends.model_triage import BadFactsError
from distributed_training_backends.triage.answer import Ranked, answer

OLD = {"transformers": "4.57.6"}  # with which FSDP2 has tensor parallelism


def left(**groups: Any) -> tuple[Ranked, ...]:
	return answer(asked(**groups)).ranked


@pytest.mark.parametrize(
	("groups", "backends"),
	[
		({"parallel": {"tp": 4}, "versions": OLD}, {"fsdp2", "megatron"}),
		({"parallel": {"tp": 2, "cp": 2}, "versions": OLD, "batch": {"seq": 32768}}, {"fsdp2"}),
		({"parallel": {"pp": 4}}, {"megatron"}),
		({"parallel": {"sp": 8}, "batch": {"seq": 32768}}, {"zero3"}),
		({"parallel": {"cp": 16}, "hardware": TWO_NODES, "batch": {"seq": 131072}}, {"fsdp2"}),
	],
)
def test_every_candidate_has_the_sizes(groups: dict[str, Any], backends: set[str]) -> None:
	found = left(**groups)
	assert {one.setup.backend for one in found} == backends
	for size, value in groups["parallel"].items():
		assert {getattr(one.setup, size) for one in found} == {value}


def test_a_size_of_one_means_none_of_it() -> None:
	assert {one.setup.tp for one in left(parallel={"tp": 1})} == {1}
	assert {one.setup.tp for one in left()} > {1}


ONE_NODE = {"gpu": "A100-80GB", "gpus_per_node": 4}


@pytest.mark.parametrize(
	("groups", "pointer", "said"),
	[
		({"parallel": {"tp": 8}, "hardware": ONE_NODE}, "/parallel/tp", "8 is more than the 4 of a node"),
		({"parallel": {"tp": 0}}, "/parallel/tp", "0 is not a whole number from 1 to 1024"),
		({"parallel": {"tp": 3}}, "/parallel/tp", "tp 3 does not divide the 8 processes; write one of 1, 2, 4, 8"),
		# 32 heads and 8 key/value heads
		(
			{"parallel": {"tp": 16}, "hardware": {"gpu": "H100-80GB", "gpus_per_node": 16}},
			"/parallel/tp",
			"16 does not divide the 32 and 8 attention and key/value heads; write one of 1, 2, 4, 8",
		),
		(
			{"parallel": {"sp": 64}, "hardware": {**TWO_NODES, "nodes": 8}},
			"/parallel/sp",
			"64 does not divide the 32 attention heads; write one of 1, 2, 4, 8, 16, 32",
		),
		(
			{"parallel": {"pp": 3}, "hardware": {**TWO_NODES, "nodes": 3}},
			"/parallel/pp",
			"3 does not divide the 32 layers",
		),
		({"parallel": {"cp": 2, "sp": 2}}, "/parallel/sp", "write one of them"),
		({"parallel": {"tp": 2}, "wish": "ddp"}, "/wish", "it must be ddp and tp 2, but"),
		({"parallel": {"cp": 2, "pp": 2}}, "/parallel", "it must be cp 2 and pp 2, but no backend has that"),
		({"parallel": {"cp": 2}, "versions": {"accelerate": "1.12.0"}}, "/parallel", "skips context parallelism"),
		({"parallel": {"ep": 2}}, "/parallel/ep", "no fact is called"),
		({"precision": "fp8"}, "/precision", "nothing is possible: the A100-80GB has no FP8"),
		(
			{"hardware": {"gpu": "v4-32"}, "optimizer": "adamw_torch_fused"},
			"/optimizer",
			"nothing is possible: torch has no fused optimizers for XLA; write optimizer: adamw_torch",
		),
		(
			{"hardware": {**TWO_NODES, "nodes": 99_999}},
			"/hardware/nodes",
			"799992 accelerators in all; write nodes for",
		),
	],
)
def test_a_size_that_cannot_be_is_refused_with_those_that_can(groups: dict[str, Any], pointer: str, said: str) -> None:
	with pytest.raises(BadFactsError) as caught:
		left(**groups)
	((where, message), *_) = caught.value.problems
	assert (where, said in message) == (pointer, True), message


def test_accumulation_follows_from_the_global_batch() -> None:
	found = left(batch={"global_batch": 64, "micro_batch": 2})
	for one in found:
		facts, setup = one.made.facts, one.setup
		assert facts.batch.accumulation is not None
		assert facts.batch.accumulation * 2 * setup.shard * setup.replicate == 64
	assert {one.made.facts.batch.accumulation for one in found} >= {4, 8}  # 8 data parallel, 4 beside a size of 2


def test_the_answer_says_how_often_to_accumulate_and_assumes_nothing_about_it() -> None:
	facts = {"model": {"name": "llama-3-8b"}, "hardware": TWO_NODES, "batch": {"global_batch": 128}}
	found = api.triage(facts)
	assert not any(one.fact == "batch.accumulation" for one in found.assumptions)
	best = found.candidates[0]
	assert "gradient accumulation 8, for 128 sequences a step" in best.choices
	script = next(file.text for file in best.files if file.name == "plugins.py")
	assert "gradient_accumulation_steps=8" in script


@pytest.mark.parametrize(
	("batch", "pointer", "said"),
	[
		({"global_batch": 64, "accumulation": 4}, "/batch/accumulation", "leave one out"),
		({"global_batch": 64, "micro_batch": 3}, "/batch/global_batch", "write a micro batch that divides 64"),
		({"global_batch": 12}, "/wish", "micro batch 1 on 8 data-parallel processes makes 8 sequences a pass"),
		({"micro_batch": -1}, "/batch/micro_batch", "-1 is not a whole number from 1 to 65536"),
	],
)
def test_batches_that_do_not_divide(batch: dict[str, int], pointer: str, said: str) -> None:
	with pytest.raises(BadFactsError) as caught:
		left(batch=batch, wish="ddp")
	((where, message), *_) = caught.value.problems
	assert (where, said in message) == (pointer, True), message
