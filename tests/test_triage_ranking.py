"""Speed for ranking: it moves the way that physics and published measurements say."""

import json
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tests.triage_facts import facts

import packed
from distributed_training_backends.triage.ranking import Pace, band, pace, simplicity, threshold, traffic
from distributed_training_backends.triage.setup import Setup
from distributed_training_backends.triage.workload import work_of

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "tests" / "cases" / "selection.json.gz"
NODES = {"gpu": "A100-80GB", "gpus_per_node": 8, "nodes": 4, "inter_gbit": 400}


def of(setup: Setup, **groups: Any) -> Pace:
	told = facts(**groups)
	return pace(told, setup, work_of(told))


def test_a_slow_network_slows_what_crosses_it() -> None:
	slow = {"hardware": {**NODES, "inter_gbit": 50}}
	sharded, grouped = Setup("fsdp2", shard=32), Setup("fsdp2", shard=8, replicate=4)
	assert of(sharded, **slow).speed < 0.7 * of(sharded, hardware=NODES).speed
	assert of(grouped, **slow).speed > of(sharded, **slow).speed
	assert of(Setup("fsdp2", shard=8), hardware={"gpu": "A100", "gpus_per_node": 8}).seconds == pytest.approx(
		of(Setup("fsdp2", shard=8), hardware={"gpu": "A100", "gpus_per_node": 8, "inter_gbit": 10}).seconds
	)


def test_sharding_sends_half_as_much_again_as_replicas() -> None:
	told = facts(hardware=NODES)
	work = work_of(told)
	sharded = traffic(told, Setup("fsdp2", shard=32), work, 1).network
	replicated = traffic(told, Setup("ddp", replicate=32), work, 1).network
	assert sharded == pytest.approx(1.5 * replicated)


def test_accumulation_saves_replicas_their_sums_but_not_sharded_weights_their_gathers() -> None:
	told = facts(hardware=NODES)
	work = work_of(told)
	for setup, grows in ((Setup("ddp", replicate=32), False), (Setup("fsdp2", shard=32), True)):
		once, often = (traffic(told, setup, work, passes).network for passes in (1, 8))
		assert (often > 2 * once) == grows


@pytest.mark.parametrize(
	("slower", "faster"),
	[
		(Setup("fsdp2", shard=8, checkpointing="full"), Setup("fsdp2", shard=8)),
		(Setup("fsdp2", shard=8, offload_params="cpu", offload_optimizer="cpu"), Setup("fsdp2", shard=8)),
		(Setup("zero3", shard=8, offload_optimizer="nvme"), Setup("zero3", shard=8, offload_optimizer="cpu")),
		(Setup("fsdp2", shard=8), Setup("fsdp2", shard=8, reshard=False)),
		(Setup("fsdp2", shard=8), Setup("fsdp2", shard=8, compile=True)),
		(Setup("single"), Setup("ddp", replicate=8)),
		(Setup("megatron", pp=8), Setup("megatron", shard=8)),
	],
)
def test_what_costs_time_is_slower(slower: Setup, faster: Setup) -> None:
	assert of(slower).speed < of(faster).speed


def test_fp8_is_faster_where_there_is_fp8() -> None:
	hardware = {"gpu": "H100", "gpus_per_node": 8}
	plain, fp8 = (of(Setup("fsdp2", shard=8, fp8=on), hardware=hardware).speed for on in (None, True))
	assert fp8 > plain


def test_adapters_cost_less_than_all_weights_and_inference_least() -> None:
	speeds = [of(Setup("ddp", replicate=8), task={"kind": kind}).speed for kind in ("full", "lora", "inference")]
	assert speeds == sorted(speeds)


def test_an_8b_model_on_8_a100_is_as_fast_as_such_models_are() -> None:
	"""llm-foundry's table: 7B on 8 A100-80 at 4096 tokens, about 0.5 of 312 TFLOPS with recomputation."""
	told = facts(batch={"seq": 4096, "micro_batch": 4})
	made = pace(told, Setup("fsdp2", shard=8, checkpointing="full"), work_of(told))
	share = 6 * 8.03e9 * made.speed / 8 / 312e12
	assert 0.35 < share < 0.6


def test_equal_speeds_share_a_band() -> None:
	assert band(100.0, 95.0) == band(100.0, 100.0) == 0
	assert band(100.0, 70.0) > band(100.0, 85.0) > 0


def test_fewer_things_to_understand_are_simpler() -> None:
	order = [
		Setup("single"),
		Setup("ddp", replicate=8),
		Setup("fsdp2", shard=8),
		Setup("fsdp2", shard=4, tp=2),
		Setup("megatron", shard=2, tp=2, pp=2),
	]
	costs = [simplicity(setup) for setup in order]
	assert costs == sorted(set(costs))


def test_thresholds_have_sources() -> None:
	from distributed_training_backends.resources import load_json

	for name, row in load_json("planner.json")["thresholds"].items():
		assert row["source"], name
		assert threshold(name) == row["value"]


def rank_and_regret(group: Mapping[str, Any]) -> tuple[int, float]:
	"""The place that triage gives to the fastest run of a group, and how much slower its own first one is."""
	runs = [(value, of(Setup(**setup), **group["facts"], **given).speed) for value, setup, given in group["runs"]]
	fastest = (min if "lower_is_better" in group else max)(runs, key=itemgetter(0))
	chosen = max(runs, key=itemgetter(1))
	rank = 1 + sum(speed > fastest[1] for _, speed in runs)
	return rank, 1 - min(chosen[0] / fastest[0], fastest[0] / chosen[0])


def test_the_page_says_how_right_the_order_is() -> None:
	"""Only what triage ranks differs in a group: sizes, micro batch, a fused loss, quantization, FP8, offload."""
	groups = json.loads(packed.unpacked(PUBLISHED))["groups"]
	found = {group["group"]: rank_and_regret(group) for group in groups}
	assert [name for name, (rank, _) in found.items() if rank > 1] == [it["group"] for it in groups if "why" in it]
	page = " ".join((ROOT / "references" / "choosing.md").read_text("utf-8").split())
	first, regret = sum(rank == 1 for rank, _ in found.values()), fmean(regret for _, regret in found.values())
	assert f"({len(groups)} groups of runs" in page
	assert f"puts the fastest first in {first}, and its first choice is {regret:.1%}".replace("%", " %") in page
