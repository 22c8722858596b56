"""Published memory measurements as facts and setups of triage.

The fields are those of measurements.jsonl: a row says what was run, where, and what was measured.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import packed
from distributed_training_backends.triage.assumptions import completed
from distributed_training_backends.triage.facts import Facts, read_facts
from distributed_training_backends.triage.families import UnknownModelError
from distributed_training_backends.triage.setup import Setup
from distributed_training_backends.triage.shapes import named

Row = Mapping[str, Any]
SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "intermediate", "experts", "tied", "gated")
PRECISION = {
	"bf16": ("pure_bf16", "bf16"),
	"bf16-true": ("pure_bf16", "bf16"),
	"bf16-mixed": ("bf16", "fp32"),
	"fp16-mixed": ("fp16", "fp32"),
	"fp32": ("fp32", "fp32"),
	"bf16-mixed+fp8": ("fp8", "fp32"),
	"fp8 current scaling": ("fp8", "fp32"),
}
OPTIMIZER = {
	"adamw_fused": "adamw_torch_fused",
	"fused_adam": "adamw_torch_fused",
	"cpu_adam": "adamw_torch_fused",
	"megatron distributed adam": "adamw_torch_fused",
	"adamw8bit": "adamw_8bit",
	"paged_adamw8bit": "paged_adamw_8bit",
	"galore_adamw8bit_per_layer": "galore_adamw_8bit_layerwise",
}
LOSS = {
	"hf": "transformers",
	"fused_ce": "fused",
	"chunked": "chunked",
	"compiled_ce": "compiled",
	"liger": "fused_linear",
}
ATTENTION = {"flash2": "flash_attention_2", "sdpa": "sdpa", "eager": "eager", "fused_softmax": "eager"}
QUANTIZATION = {"nf4": "nf4", "nf4-dq": "nf4_double", "int8": "int8"}
TARGETS = {
	"qv": ["q_proj", "v_proj"],
	"qkv": ["q_proj", "k_proj", "v_proj"],
	"qkvo": ["q_proj", "k_proj", "v_proj", "o_proj"],
	"all": ["all-linear"],
}
# Transformers at the time of a page that names no release: it decides how the loss and checkpointing work.
ERA = {
	"answerai/fsdp_qlora benchmarks_03_2024": "4.38.2",
	"philschmid/fsdp-qlora-llama3": "4.40.0",
	"unsloth/benchmarks HF+FA2 max context": "4.46.3",
	"llama-cookbook PRs 41/100/165": "4.31.0",
	"hf-blog/ulysses-sp": "4.57.1",
}
CHECKPOINTING: Mapping[str, Any] = {"none": "none", "full": "full", "selective(core_attn)": "none"}


class Measured(NamedTuple):
	"""One measurement: what was run, and which of the three numbers it gives; 0 where only whether it fits is known."""

	row: Row
	facts: Facts
	setup: Setup
	metric: str
	size: float
	fits: bool
	capacity: float | None


def read_rows(path: Path) -> list[Row]:
	"""The rows of a file: one JSON object a line, or by source with what its rows have in common."""
	text = packed.unpacked(path) if path.suffix == ".gz" else path.read_text("utf-8")
	if path.suffix == ".jsonl":
		return [json.loads(line) for line in text.splitlines() if line.strip()]
	return [{**shared, **row} for shared in json.loads(text)["sources"] for row in shared["rows"]]


def measured(rows: Iterable[Row]) -> Iterator[Measured]:
	for row in rows:
		if (row.get("quality") or "A") in "AB" and row.get("layers"):
			yield convert(row)


def convert(row: Row) -> Measured:
	facts, problems = read_facts(fact_data(row))
	assert not problems, (row.get("id"), problems)
	facts, _ = completed(facts)
	size = float(row.get("measured_gib") or 0)
	capacity = memory_of(str(row.get("gpu") or ""))
	return Measured(row, facts, setup_of(row), row["metric"], size, row.get("fits") != "oom", capacity)


def fact_data(row: Row) -> dict[str, Any]:
	precision, weights = PRECISION[row["precision"]]
	adapted = row["method"] in ("lora", "qlora", "inference")
	weights = "bf16" if adapted and weights == "fp32" and precision != "fp32" else weights
	data: dict[str, Any] = {
		"model": model_of(row),
		"task": task_of(row),
		"batch": {"seq": row.get("seq") or 2048, "micro_batch": row.get("micro_batch") or 1},
		"precision": precision,
		"weights": weights,
		"optimizer": OPTIMIZER.get(str(row.get("optimizer")), "adamw_torch"),
		"attention": ATTENTION.get(str(row.get("attn")), "sdpa"),
		"loss": LOSS.get(str(row.get("loss")), "transformers"),
		"hardware": {"nodes": row.get("nodes") or 1},
		"versions": releases_of(row),
	}
	data["batch"]["accumulation"] = row.get("grad_accum") or 1
	if row.get("compile"):
		data["compile"] = True
	return data


def model_of(row: Row) -> dict[str, Any]:
	name = str(row.get("arch") or row.get("model"))
	try:
		named(name)
	except UnknownModelError:
		sizes = {key: row[key] for key in SIZES if row.get(key) is not None}
		if row.get("topk"):
			sizes["experts_per_token"] = row["topk"]
		return {**sizes, "params": int(row["params"])} if row.get("params") else sizes
	return {"name": name}


def task_of(row: Row) -> dict[str, Any]:
	task: dict[str, Any] = {"kind": row["method"]}
	if row["method"] in ("lora", "qlora"):
		task["lora_rank"] = row.get("lora_r") or 16
		task["lora_targets"] = TARGETS.get(str(row.get("lora_targets")), ["all-linear"])
		task["lora_dropout"] = row.get("lora_dropout") or 0.0
	if row["method"] == "qlora":
		task["quantization"] = QUANTIZATION.get(str(row.get("quant")), "nf4")
		# recipes with Hugging Face's loss prepare the model unless a row says otherwise
		task["kbit_preparation"] = bool(row.get("loss") == "hf" if row.get("kbit_prep") is None else row["kbit_prep"])
	elif row["method"] == "inference" and row.get("quant"):
		task["quantization"] = QUANTIZATION[row["quant"]]
	return task


def releases_of(row: Row) -> dict[str, str]:
	found = dict(re.findall(r"(accelerate|torch|transformers|deepspeed) (\d[\d.x]*)", str(row.get("framework") or "")))
	releases = {name: text.replace("x", "5").rstrip(".") for name, text in found.items()}
	if row["source"] in ERA:
		releases.setdefault("transformers", ERA[row["source"]])
	if row.get("bnb_old"):
		releases["bitsandbytes"] = "0.43.1"
	return releases


def setup_of(row: Row) -> Setup:
	backend, world = str(row.get("backend") or "none"), int(row.get("gpus") or 1)
	tp, pp, sp = (int(row.get(name) or 1) for name in ("tp", "pp", "sp"))
	data = max(1, world // (tp * pp * sp))
	per_node = max(1, world // int(row.get("nodes") or 1))
	made = Setup(
		backend=kind_of(backend),
		tp=tp,
		pp=pp,
		sp=sp,
		checkpointing=CHECKPOINTING.get(str(row.get("ckpt") or "none"), "selective"),
		sync_each_batch=bool(row.get("sync_each_batch")),
		built_on_gpu=bool(row.get("init_on_gpu")),
	)
	if made.backend in ("single", "ddp"):
		return made._replace(replicate=data)
	if "hsdp" in backend:
		return made._replace(shard=per_node, replicate=world // per_node)
	made = made._replace(shard=data)
	return made._replace(offload_optimizer="cpu", offload_params="cpu") if "cpu_offload" in backend else made


def kind_of(backend: str) -> Any:
	for prefix, kind in (("fsdp1", "fsdp1"), ("fsdp2", "fsdp2"), ("ddp", "ddp"), ("megatron", "megatron")):
		if backend.startswith(prefix):
			return kind
	found = re.search(r"zero(\d)", backend)
	return f"zero{found.group(1)}" if found else "single"


def memory_of(gpu: str) -> float | None:
	found = re.search(r"(\d+)\s*GB", gpu)
	return float(found.group(1)) if found else None
