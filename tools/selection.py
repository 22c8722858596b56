"""Does triage rank setups as published measurements do? Prints rank and regret for each group of measurements.

    python tools/selection.py ROWS.jsonl

A row has `group`, `facts`, `config`, `value` and `higher_better`. Only what triage ranks is compared: the backend and
its sizes, micro batch, a loss without logits, quantization, FP8, offload. Rank is the place that triage gives to the
fastest member of a group; regret is how much slower the member is that triage puts first.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from distributed_training_backends.triage.answer import question
from distributed_training_backends.triage.ranking import pace
from distributed_training_backends.triage.setup import Setup
from distributed_training_backends.triage.workload import work_of

Row = Mapping[str, Any]
# BigScience's models by size in billions: layers, hidden, heads (its chronicle of tr11-176B).
BLOOMS = {
	"18B": (6, 14336, 64),
	"176B": (70, 14336, 64),
	"177B": (96, 12288, 64),
	"178B": (82, 13312, 64),
	"181B": (72, 14336, 64),
	"182B": (78, 13824, 96),
	"184B": (100, 12288, 64),
	"187B": (80, 13824, 64),
	"191B": (77, 14400, 64),
	"195B": (106, 12288, 64),
	"196B": (84, 13824, 64),
	"200B": (80, 14400, 64),
	"203B": (94, 13312, 128),
}
NAMES = {"mistral-7b-v0.1": "mistral-7b", "meta-llama-3-8b": "llama-3-8b", "gpt_bigcode-santacoder": "santacoder"}
# Why triage does not put the fastest first, by what a group's name begins with.
TIE = "as good as equal: runs of one setup differ as much"
REPLICAS = (
	"LoRA under FSDP1 is measured slower than its arithmetic and traffic explain, so that QLoRA, whose small copies "
	"run under DDP, wins; triage counts FSDP1 as 1.5 % slower only, which is what torchtitan found"
)
MISSES = {
	"bigscience-Choosing the fastest 3D Topology-40 200B": TIE,
	"bigscience-GBS Variations-48 181B 1568": (
		"with layers cut in eight, micro batches of 4 gain more over 2 than the half-rate of 400 tokens says, and more "
		"than the larger bubble costs"
	),
	"bigscience-GBS Variations-48 181B 2048": TIE,
	"bigscience-GBS Variations-48 181B 2016": TIE,
	"fms-a100_80gb-Mistral-7B-v0.1-lora-2gpu": REPLICAS,
	"fms-a100_80gb_granite-PowerLM-3b-lora-2gpu": REPLICAS,
	"fms-a100_80gb_liger-Meta-Llama-3-8B-lora-1gpu": (
		"QLoRA with twice the micro batch is measured faster than LoRA, whose weights need no unpacking: at 64,000 "
		"tokens a pass unpacking is hidden, and triage goes on counting it"
	),
	"answerai-34B": "twice the micro batch pays for offloading 4-bit weights; triage counts more for their way",
}
POWERLM = {"layers": 40, "hidden": 2304, "heads": 36, "kv_heads": 36, "vocab": 49152, "intermediate": 9216}


class Member(NamedTuple):
	"""A row that triage can judge: what tells it from others that it does not rank, its facts and its setup."""

	apart: tuple[Any, ...]
	facts: dict[str, Any]
	setup: Setup
	value: float
	label: str


class Outcome(NamedTuple):
	group: str
	members: int
	rank: int
	regret: float
	best: str
	chosen: str


def bigscience(row: Row) -> Iterator[Member]:
	"""Megatron-DeepSpeed: tensor, pipeline and data parallel sizes, micro batch."""
	config, size = row["config"], row["facts"]["size"]
	if size not in BLOOMS or "DP" not in config:
		return
	layers, hidden, heads = BLOOMS[size]
	dp, tp, pp, micro = (int(config[name]) for name in ("DP", "TP", "PP", "MBS"))
	model = {"layers": layers, "hidden": hidden, "heads": heads, "vocab": 250880, "gated": False}
	model["intermediate"] = 4 * hidden
	hardware = {"gpu": "A100-80GB", "gpus_per_node": 8, "nodes": int(row["facts"]["nodes"]), "inter_gbit": 400}
	facts = {"model": model, "hardware": hardware, "task": {"kind": "continued"}}
	facts["batch"] = {"seq": 2048, "micro_batch": micro, "accumulation": max(1, int(config["GBS"]) // (dp * micro))}
	apart = (size, config.get("NHEADS"), config.get("NHIDDEN"), config["GBS"], config.get("ZS"))
	setup = Setup("megatron", shard=dp, tp=tp, pp=pp, checkpointing="full")
	yield Member(apart, facts, setup, row["value"], f"dp {dp} tp {tp} pp {pp} mbs {micro}")


def acceleration(row: Row) -> Iterator[Member]:
	"""fms-acceleration: micro batch, quantization, a fused loss, on one GPU or under FSDP1."""
	told, config = row["facts"], row["config"]
	name = str(told["model"]).rsplit("/", 1)[-1].lower().removesuffix("-instruct-v0.1").removesuffix("-gptq")
	name = NAMES.get(name, name)
	framework = config["framework"]
	quantized = "bnb" in framework
	gpus = int(told.get("gpus", 1))
	kind = told.get("method", "full")
	facts = {
		"model": dict(POWERLM) if "powerlm" in name else {"name": name},
		"task": {"kind": "qlora" if quantized else kind},
		"hardware": {"gpu": "A100-80GB", "gpus_per_node": gpus},
		"batch": {"seq": int(told.get("seq", 4096)), "micro_batch": int(config["per_device_batch"])},
		"loss": "fused_linear" if "liger" in framework else "transformers",
	}
	kernels = "foak" in framework
	setup = Setup("fsdp1", shard=gpus) if gpus > 1 and not quantized else Setup("ddp", replicate=gpus)
	if gpus == 1:
		setup = Setup("single")
	setup = setup._replace(checkpointing="full", fused_loss="liger" in framework)
	if "gptq" not in framework and "GPTQ" not in str(told["model"]):
		yield Member((kernels,), facts, setup, row["value"], f"{framework} mbs {config['per_device_batch']}")


def answerai(row: Row) -> Iterator[Member]:
	"""answer.ai: FSDP or DDP, LoRA or QLoRA, offload, on two consumer GPUs."""
	words, told = str(row["config"]).split(), row["facts"]
	micro = int(words[-1].removeprefix("bs"))
	facts = {
		"model": {"name": told["model"]},
		"task": {"kind": words[1]},
		"hardware": {"gpu": "RTX-3090", "gpus_per_node": told["gpus"]},
		"batch": {"seq": told["seq"], "micro_batch": micro},
	}
	setup = Setup("fsdp1", shard=told["gpus"]) if words[0] == "fsdp" else Setup("ddp", replicate=told["gpus"])
	if "offload" in words:
		setup = setup._replace(offload_params="cpu", offload_optimizer="cpu")
	yield Member((), facts, setup._replace(checkpointing="full"), row["value"], str(row["config"]))


def float8(row: Row) -> Iterator[Member]:
	"""torchao: FP8 or not, FSDP2 on 8 H100."""
	hardware = {"gpu": "H100-80GB", "gpus_per_node": 8}
	facts = {"model": {"name": "llama-3-8b"}, "hardware": hardware, "batch": {"seq": 8192}, "compile": True}
	fp8 = "fp8" in str(row["config"])
	yield Member(
		(), facts, Setup("fsdp2", shard=8, fp8=fp8, checkpointing="selective"), row["value"], str(row["config"])
	)


READERS = {"bigscience": bigscience, "fms": acceleration, "answerai": answerai, "ao": float8}


def members(rows: Sequence[Row]) -> Iterator[Member]:
	for row in rows:
		reader = READERS.get(re.split(r"[-_]", row["group"])[0])
		if reader is not None:
			yield from reader(row)


def outcomes(rows: Sequence[Row]) -> Iterator[Outcome]:
	groups: dict[tuple[Any, ...], list[Member]] = {}
	better = {}
	for row in rows:
		for member in members([row]):
			key = (row["group"], *member.apart)
			groups.setdefault(key, []).append(member)
			better[key] = row["higher_better"]
	for key, them in groups.items():
		distinct = {(member.setup, json.dumps(member.facts, sort_keys=True)) for member in them}
		if len(distinct) > 1:
			yield outcome(" ".join(str(part) for part in key if part is not None), them, better[key])


def outcome(group: str, them: Sequence[Member], higher_better: bool) -> Outcome:
	"""Compare triage's order with the measured one."""
	measured = sorted(them, key=lambda member: member.value, reverse=higher_better)
	ranked = sorted(them, key=predicted, reverse=True)
	best, chosen = measured[0], ranked[0]
	rank = 1 + next(place for place, member in enumerate(ranked) if predicted(member) == predicted(best))
	regret = 1 - chosen.value / best.value if higher_better else 1 - best.value / chosen.value
	return Outcome(group, len(them), rank, regret, best.label, chosen.label)


def why(one: Outcome) -> str:
	"""Why the fastest is not first; nothing where it is."""
	if one.rank == 1:
		return ""
	return next((text for start, text in MISSES.items() if one.group.startswith(start)), "not looked at yet")


def predicted(member: Member) -> float:
	"""Tokens a second, as triage reckons."""
	facts = question(member.facts).facts
	return pace(facts, member.setup, work_of(facts)).speed


def main(arguments: Sequence[str] | None = None) -> int:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("rows", type=Path)
	options = parser.parse_args(arguments)
	rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
	found = list(outcomes(rows))
	print("| group | members | rank | regret | fastest | triage's first | why |\n|---|---:|---:|---:|---|---|---|")
	for one in found:
		places = f"{one.members} | {one.rank} | {one.regret:.1%}"
		print(f"| {one.group} | {places} | {one.best} | {one.chosen} | {why(one)} |")
	first = sum(one.rank == 1 for one in found)
	print(f"\n{first} of {len(found)} first; mean regret {sum(one.regret for one in found) / len(found):.1%}")
	return 0


if __name__ == "__main__":
	raise SystemExit(main())
