"""Questions as a new user asks them, and what an answer has to say."""

import re
from typing import Any

import pytest

from distributed_training_backends import api
from distributed_training_backends.model_triage import BadFactsError, Candidate, TriageReport
from distributed_training_backends.triage.answer import question


def ask(model: str, **groups: Any) -> TriageReport:
	return api.triage({"model": {"name": model}, **groups})


def names(found: TriageReport, *verdicts: str) -> list[str]:
	return [one.name for one in found.candidates if one.verdict in verdicts]


def candidate(found: TriageReport, name: str) -> Candidate:
	return next(one for one in found.candidates if one.name == name)


def reason(found: TriageReport, name: str) -> str:
	return next((one.reason for one in found.removed if name in one.names), "")


def text(one: Candidate, file: str) -> str:
	return next(each.text for each in one.files if each.name == file)


def near(name: str, gpus: int = 1, **more: Any) -> dict[str, Any]:
	return {"hardware": {"gpu": name, "gpus_per_node": gpus, **more}}


LORA, QLORA = {"task": {"kind": "lora"}}, {"task": {"kind": "qlora"}}
TPU = {"hardware": {"gpu": "v5e-8"}}
CPU = {"device": "cpu", "cpu_ram_gib": 128}
# (model, further facts, the first candidate and its verdict as patterns, what its files say, what does not fit, what is
# removed and why)
QUESTIONS: list[tuple[str, dict[str, Any], str, str, dict[str, str], str, dict[str, str]]] = [
	# 16 bytes a parameter are 120 GiB: too much for a GPU, well within four
	(
		*("llama-3-8b", {"batch": {"seq": 8192}, **near("A100-80GB", 4)}, "fsdp2.*", "fits"),
		*({"accelerate.yaml": "fsdp_version: 2.*num_processes: 4"}, "ddp", {}),
	),
	# the 4-bit weights are 36 GiB: a copy on each card cannot be, half of them can (answer.ai's FSDP with QLoRA)
	(
		*("llama-2-70b", {**QLORA, "batch": {"seq": 512}, **near("RTX-3090", 2, cpu_ram_gib=128)}, "fsdp.*"),
		*("fits|tight", {"script_lines.py": "bnb_4bit_quant_storage=torch.bfloat16"}, "ddp", {"zero3": "bitsandbytes"}),
	),
	(
		*("llama-3.2-1b", {**LORA, **TPU}, "xla", ".*"),
		*({"accelerate.yaml": "distributed_type: XLA", "script_lines.py": r"def main\(\):"}, ""),
		{"fsdp2": "DistributedType.XLA"},
	),
	("llama-3.2-1b", {**LORA, "hardware": CPU}, "single", "fits", {"accelerate.yaml": "use_cpu: true"}, "", {}),
	(
		*("llama-3.2-1b", {**LORA, "hardware": {**CPU, "nodes": 4}}, "cpu", ".*"),
		*({"accelerate.yaml": "distributed_type: MULTI_CPU"}, "", {"fsdp2": "unsharded"}),
	),
	# 13.5 GiB of weights and little else: one process, no launcher settings that could be wrong
	("mistral-7b", {**LORA, "batch": {"seq": 1024}, **near("RTX 4090")}, "single", "fits|tight", {}, "", {}),
	# the states do not fit on the card; in the memory of the machine they do
	(
		*("llama-2-7b", {"batch": {"seq": 1024}, **near("RTX-3090", cpu_ram_gib=256)}, "zero.*offload.*", ".*"),
		*({"ds_config.json": '"device": "cpu"'}, "single", {}),
	),
	# one sequence is too long for a GPU: it is split, by context parallelism or by Ulysses
	(
		*("llama-3-8b", {"batch": {"seq": 131072}, **near("H100", 8, cpu_ram_gib=1024)}, ".*-(cp|sp).*"),
		*("fits|tight", {}, "", {}),
	),
	# 34 billion parameters at 16 bytes are 63 GiB a GPU: more than 40, so something goes to the CPU
	(
		*("yi-34b", {"wish": "deepspeed", "batch": {"seq": 2048}, **near("A100-40GB", 8, cpu_ram_gib=1024)}),
		*("zero3-offload.*", ".*", {}, "", {}),
	),
	("llama-3-8b", near("Gaudi2", 8), ".*", "fits|tight", {}, "", {"ddp": "Gaudi"}),
	("mixtral-8x7b", {**LORA, **near("A100-80GB", 8)}, ".*", "fits", {}, "ddp", {}),  # 87 GiB of weights
	("llama-3.2-1b", near("V100-32GB", 4), ".*", ".*", {"accelerate.yaml": "mixed_precision: fp16"}, "", {}),
]


@pytest.mark.parametrize(("model", "told", "first", "verdict", "files", "unfit", "removed"), QUESTIONS)
def test_questions(
	model: str,
	told: dict[str, Any],
	first: str,
	verdict: str,
	files: dict[str, str],
	unfit: str,
	removed: dict[str, str],
) -> None:
	found = ask(model, **told)
	best = found.candidates[0]
	assert re.fullmatch(first, best.name)
	assert re.fullmatch(verdict, best.verdict)
	assert [name for name, words in files.items() if not re.search(words, text(best, name), re.DOTALL)] == []
	assert not unfit or unfit in names(found, "does_not_fit")
	assert [name for name, words in removed.items() if words not in reason(found, name)] == []


def test_what_the_candidates_are() -> None:
	four = ask("llama-3-8b", batch={"seq": 8192}, **near("A100-80GB", 4))
	assert {"zero3", "fsdp2"} <= set(names(four, "fits"))
	deepspeed = ask("yi-34b", wish="deepspeed", batch={"seq": 2048}, **near("A100-40GB", 8, cpu_ram_gib=1024))
	assert {one.name[:4] for one in deepspeed.candidates} == {"zero"}
	assert [one.name for one in ask("llama-3.2-1b", **LORA, **TPU).candidates] == ["xla"]
	assert "gaudi" in [one.name for one in ask("llama-3-8b", **near("Gaudi2", 8)).candidates]
	zero3 = candidate(ask("mixtral-8x7b", **LORA, **near("A100-80GB", 8)), "zero3")
	assert any("deepspeed_moe_layer_cls_names" in caution for caution in zero3.cautions)


def test_old_gpus_compute_in_fp16() -> None:
	found = ask("llama-3.2-1b", **near("V100-32GB", 4))
	assert found.facts["precision"] == "fp16"
	assert any(one.fact == "precision" and "does not compute in bf16" in one.why for one in found.assumptions)


def test_70b_qlora_on_two_24_gb_cards_in_a_machine_that_nobody_described() -> None:
	found = ask("llama-2-70b", **QLORA, **near("RTX-4090", 2))
	best = found.candidates[0]
	assert (best.name, best.verdict) == ("fsdp2-offload", "unknown")
	assert best.memory.smi.high < 23.5
	assert "of CPU memory a node, if it has them" in found.summary
	assert "hardware.cpu_ram_gib" in found.notes[0]


def test_pre_training_13b_on_8_nodes_over_100_gb_ethernet() -> None:
	batch = {"seq": 4096, "micro_batch": 1, "accumulation": 8}
	hardware = near("A100-80GB", 8, nodes=8, inter_gbit=100)
	found = ask("llama-2-13b", task={"kind": "continued"}, batch=batch, **hardware)
	ranks = {one.name: one.rank for one in found.candidates}
	assert found.candidates[0].verdict == "fits"
	assert ranks["fsdp2-hybrid"] < min(ranks["fsdp2"], ranks["zero3"])
	assert candidate(found, "fsdp2").speed.relative < 0.75 * candidate(found, "fsdp2-hybrid").speed.relative
	assert any("100 Gbit/s" in caution for caution in candidate(found, "zero3").cautions)
	assert "$MAIN_ADDRESS" in text(found.candidates[0], "launch.sh")
	assert "#SBATCH --nodes=8" in text(found.candidates[0], "slurm.sbatch")


def test_a_70b_model_does_not_train_on_one_t4_and_the_answer_says_what_would_help() -> None:
	found = ask("llama-3-70b", **near("T4", cpu_ram_gib=64))
	assert found.exit_code == 1
	assert names(found, "fits", "tight") == []
	assert "of CPU memory a node of 64" in found.summary
	assert any(one.startswith("LoRA (task.kind: lora) with ") for one in found.advice)
	assert any(one.startswith("QLoRA (task.kind: qlora) on ") and "T4" in one for one in found.advice)


KEPT = [("1.12.0", "fp32"), ("1.13.0", "bf16"), ("1.14.0", "fp32"), ("1.15.0", "fp32")]


@pytest.mark.parametrize(("release", "kept"), KEPT)
def test_the_same_question_under_four_releases(release: str, kept: str) -> None:
	found = ask("llama-3-8b", weights="bf16", versions={"accelerate": release}, **near("A100-80GB", 8))
	one = candidate(found, "fsdp2")
	weights = next(part.gib for part in one.memory.components if part.name == "weights")
	size = {"fp32": 4, "bf16": 2}[kept]
	assert weights == pytest.approx(8.03e9 * size / 8 / 2**30, rel=0.02)
	assert any("leaves weights in the dtype" in caution for caution in one.cautions) == (release == "1.13.0")


SIZES = {"hidden_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 32, "vocab_size": 32000}
CONFIG = {"model_type": "llama", "intermediate_size": 11008, **SIZES}
MIXTURE = {**CONFIG, "model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 4}


def refused(model: dict[str, Any], **groups: Any) -> str:
	with pytest.raises(BadFactsError) as caught:
		question({"model": model, "hardware": {"gpu": "A100"}, **groups})
	return str(caught.value)


def test_a_config_tells_the_dtype_of_its_checkpoint() -> None:
	asked = question({"model": {"config": {**CONFIG, "torch_dtype": "float32"}}, "hardware": {"gpu": "A100"}})
	assert asked.facts.weights == "fp32"
	assert any("from config.json" in one.why for one in asked.assumptions if one.name == "weights")


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8"])
def test_quantized_checkpoints_are_not_trained_in_full(method: str) -> None:
	model = {"config": {**CONFIG, "quantization_config": {"quant_method": method}}}
	assert f"quantized ({method!r}), which cannot be trained in full" in refused(model).replace('"', "'")
	assert "are not counted here" in refused(model, task={"kind": "lora"})


@pytest.mark.parametrize("kind", ["lora", "qlora"])
def test_4_bit_checkpoints_of_bitsandbytes_are_trained_by_qlora(kind: str) -> None:
	model = {"config": {**CONFIG, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}}
	asked = question({"model": model, "hardware": {"gpu": "A100"}, "task": {"kind": kind}})
	assert (asked.facts.task.kind, asked.facts.task.quantization) == ("qlora", "nf4")
	assert "write task.kind: qlora" in refused(model)


@pytest.mark.parametrize(
	("model", "said"),
	[
		({"name": "llama-3-8b", "experts": 8}, "has no experts"),
		({"name": "mixtral-8x7b", "experts_per_token": 9}, "more than the number of experts, 8"),
		({"config": MIXTURE}, "is 4, more"),
		({"config": {**CONFIG, "num_attention_heads": 33}}, "33 heads do not divide the hidden size 4096"),
		({"layers": 2, "hidden": 64, "heads": 2}, "vocab is missing"),
	],
)
def test_models_that_contradict_themselves(model: dict[str, Any], said: str) -> None:
	assert said in refused(model)
