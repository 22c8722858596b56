"""Questions as a new user asks them, and what an answer has to say."""

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


def test_8b_full_fine_tune_on_4_a100_80_at_8k() -> None:
    """16 bytes a parameter are 120 GiB: too much for a GPU, well within four."""
    found = ask("llama-3-8b", batch={"seq": 8192}, hardware={"gpu": "A100-80GB", "gpus_per_node": 4})
    best = found.candidates[0]
    assert best.verdict == "fits"
    assert best.name.startswith("fsdp2")
    assert "num_processes: 4" in text(best, "accelerate.yaml")
    assert "fsdp_version: 2" in text(best, "accelerate.yaml")
    assert "ddp" in names(found, "does_not_fit")
    assert {"zero3", "fsdp2"} <= set(names(found, "fits"))


def test_70b_qlora_on_two_24_gb_cards() -> None:
    """The 4-bit weights are 36 GiB: a copy on each card cannot be, half of them can (answer.ai's FSDP with QLoRA)."""
    found = ask(
        "llama-2-70b",
        task={"kind": "qlora"},
        batch={"seq": 512},
        hardware={"gpu": "RTX-3090", "gpus_per_node": 2, "cpu_ram_gib": 128},
    )
    best = found.candidates[0]
    assert best.name.startswith("fsdp")
    assert best.verdict in ("fits", "tight")
    assert "bnb_4bit_quant_storage=torch.bfloat16" in text(best, "script_lines.py")
    assert "ddp" in names(found, "does_not_fit")
    assert "bitsandbytes" in reason(found, "zero3")


def test_70b_qlora_on_two_24_gb_cards_in_a_machine_that_nobody_described() -> None:
    """With the weights in CPU memory the cards are half empty: whether the machine has that much is what to tell."""
    found = ask("llama-2-70b", task={"kind": "qlora"}, hardware={"gpu": "RTX-4090", "gpus_per_node": 2})
    best = found.candidates[0]
    assert (best.name, best.verdict) == ("fsdp2-offload", "unknown")
    assert best.memory.smi.high < 23.5
    assert "of CPU memory a node, if it has them" in found.summary
    assert "hardware.cpu_ram_gib" in found.notes[0]


def test_pre_training_13b_on_8_nodes_over_100_gb_ethernet() -> None:
    """Weights should not cross the network in every pass: groups within the nodes, or a split model."""
    found = ask(
        "llama-2-13b",
        task={"kind": "continued"},
        batch={"seq": 4096, "micro_batch": 1, "accumulation": 8},
        hardware={"gpu": "A100-80GB", "gpus_per_node": 8, "nodes": 8, "inter_gbit": 100},
    )
    ranks = {one.name: one.rank for one in found.candidates}
    assert found.candidates[0].verdict == "fits"
    assert ranks["fsdp2-hybrid"] < ranks["fsdp2"]
    assert ranks["fsdp2-hybrid"] < ranks["zero3"]
    assert candidate(found, "fsdp2").speed.relative < 0.75 * candidate(found, "fsdp2-hybrid").speed.relative
    assert any("100 Gbit/s" in caution for caution in candidate(found, "zero3").cautions)
    assert "$MAIN_ADDRESS" in text(found.candidates[0], "launch.sh")
    assert "#SBATCH --nodes=8" in text(found.candidates[0], "slurm.sbatch")


def test_tpu_v5e_8() -> None:
    found = ask("llama-3.2-1b", task={"kind": "lora"}, hardware={"gpu": "v5e-8"})
    assert [one.name for one in found.candidates] == ["xla"]
    assert "distributed_type: XLA" in text(found.candidates[0], "accelerate.yaml")
    assert "DistributedType.XLA" in reason(found, "fsdp2")
    assert "def main():" in text(found.candidates[0], "script_lines.py")


def test_cpu_only() -> None:
    found = ask("llama-3.2-1b", task={"kind": "lora"}, hardware={"device": "cpu", "cpu_ram_gib": 128})
    best = found.candidates[0]
    assert best.name == "single"
    assert best.verdict == "fits"
    assert "use_cpu: true" in text(best, "accelerate.yaml")


def test_four_machines_without_gpus() -> None:
    found = ask("llama-3.2-1b", task={"kind": "lora"}, hardware={"device": "cpu", "nodes": 4, "cpu_ram_gib": 128})
    best = found.candidates[0]
    assert best.name == "cpu"
    assert "distributed_type: MULTI_CPU" in text(best, "accelerate.yaml")
    assert "unsharded" in reason(found, "fsdp2")


def test_7b_lora_on_one_4090() -> None:
    """13.5 GiB of weights and little else: one process, no launcher settings that could be wrong."""
    found = ask("mistral-7b", task={"kind": "lora"}, batch={"seq": 1024}, hardware={"gpu": "RTX 4090"})
    assert found.candidates[0].name == "single"
    assert found.candidates[0].verdict in ("fits", "tight")


def test_7b_full_fine_tune_on_one_24_gb_card() -> None:
    """The states do not fit on the card; in the memory of the machine they do."""
    hardware = {"gpu": "RTX-3090", "cpu_ram_gib": 256}
    found = ask("llama-2-7b", batch={"seq": 1024}, hardware=hardware)
    assert "single" in names(found, "does_not_fit")
    best = found.candidates[0]
    assert best.name.startswith("zero")
    assert "offload" in best.name
    assert '"device": "cpu"' in text(best, "ds_config.json")


def test_128k_tokens_on_8_h100() -> None:
    """One sequence is too long for a GPU: it is split, by context parallelism or by Ulysses."""
    found = ask("llama-3-8b", batch={"seq": 131072}, hardware={"gpu": "H100", "gpus_per_node": 8, "cpu_ram_gib": 1024})
    best = found.candidates[0]
    assert best.verdict in ("fits", "tight")
    assert "-cp" in best.name or "-sp" in best.name


def test_it_must_be_deepspeed_34b_on_8_a100_40() -> None:
    """34 billion parameters at 16 bytes are 63 GiB a GPU: more than 40, so something goes to the CPU."""
    hardware = {"gpu": "A100-40GB", "gpus_per_node": 8, "cpu_ram_gib": 1024}
    found = ask("yi-34b", wish="deepspeed", batch={"seq": 2048}, hardware=hardware)
    best = found.candidates[0]
    assert best.name.startswith("zero3-offload")
    assert {one.name[:4] for one in found.candidates} == {"zero"}


def test_8_gaudi_2() -> None:
    found = ask("llama-3-8b", hardware={"gpu": "Gaudi2", "gpus_per_node": 8})
    assert found.candidates[0].verdict in ("fits", "tight")
    assert "gaudi" in [one.name for one in found.candidates]
    assert "Gaudi" in reason(found, "ddp")


def test_mixtral_lora_on_8_a100() -> None:
    found = ask("mixtral-8x7b", task={"kind": "lora"}, hardware={"gpu": "A100-80GB", "gpus_per_node": 8})
    assert found.candidates[0].verdict == "fits"
    assert "ddp" in names(found, "does_not_fit")  # 87 GiB of weights
    assert any("deepspeed_moe_layer_cls_names" in caution for caution in candidate(found, "zero3").cautions)


def test_old_gpus_compute_in_fp16() -> None:
    found = ask("llama-3.2-1b", hardware={"gpu": "V100-32GB", "gpus_per_node": 4})
    assert found.facts["precision"] == "fp16"
    assert any(one.fact == "precision" and "does not compute in bf16" in one.why for one in found.assumptions)
    assert "mixed_precision: fp16" in text(found.candidates[0], "accelerate.yaml")


def test_a_70b_model_does_not_train_on_one_t4_and_the_answer_says_what_would_help() -> None:
    found = ask("llama-3-70b", hardware={"gpu": "T4", "cpu_ram_gib": 64})
    assert found.exit_code == 1
    assert names(found, "fits", "tight") == []
    assert "of CPU memory a node of 64" in found.summary
    assert any(one.startswith("LoRA (task.kind: lora) with ") for one in found.advice)
    assert any(one.startswith("QLoRA (task.kind: qlora) on ") and "T4" in one for one in found.advice)


def test_fp8_on_a_gpu_without_it() -> None:
    with pytest.raises(BadFactsError) as caught:
        ask("llama-3-8b", precision="fp8", hardware={"gpu": "A100-80GB", "gpus_per_node": 8})
    assert "the A100-80GB has no FP8" in str(caught.value)


KEPT = [("1.12.0", "fp32"), ("1.13.0", "bf16"), ("1.14.0", "fp32"), ("1.15.0", "fp32")]


@pytest.mark.parametrize(("release", "kept"), KEPT)
def test_the_same_question_under_four_releases(release: str, kept: str) -> None:
    """Accelerate 1.13.0 leaves bf16 weights as they are under FSDP2: half the memory, and a warning about it."""
    hardware = {"gpu": "A100-80GB", "gpus_per_node": 8}
    found = ask("llama-3-8b", weights="bf16", hardware=hardware, versions={"accelerate": release})
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
