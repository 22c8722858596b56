"""The memory model: counts as the library builds models, activations as it saves them, releases, limits, measurements.

Expected values of activations were measured with Transformers 5.24.0 and PEFT 0.21.2 on fake tensors, bytes alive after
the forward pass and at the peak of the backward pass, per token and layer.
"""

import json
from contextlib import suppress
from operator import mul
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import packed
from check_models import configs
from distributed_training_backends.resources import load_json
from distributed_training_backends.triage.activations import counted_bytes, layer_of, loss_record
from distributed_training_backends.triage.assumptions import completed
from distributed_training_backends.triage.estimate import GIB, Estimate
from distributed_training_backends.triage.facts import ModelFacts, read_facts
from distributed_training_backends.triage.families import UnknownModelError, families
from distributed_training_backends.triage.memory import estimate
from distributed_training_backends.triage.phases import pieces_of
from distributed_training_backends.triage.run import Run, resolved
from distributed_training_backends.triage.setup import Backend, Setup
from distributed_training_backends.triage.shapes import shape_of
from distributed_training_backends.triage.states import states_of

ROOT = Path(__file__).resolve().parent.parent
COUNTS = json.loads(packed.unpacked(ROOT / "tests" / "cases" / "parameter_counts.json.gz"))
SHARED = ROOT.parent / "shared" / "measurements.jsonl"
QV, QKVO = ["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"]
ALL = ["all-linear"]


def facts_of(**data: Any) -> Any:
	facts, problems = read_facts({"model": {"name": "llama-3-8b"}, **data})
	assert problems == []
	return completed(facts)[0]


def run_of(setup: Setup, **data: Any) -> Run:
	facts = facts_of(**data)
	return resolved(facts, setup, shape_of(facts.model))


def answer(setup: Setup, **data: Any) -> Estimate:
	return estimate(facts_of(**data), setup)


def test_every_choice_of_the_schema_has_its_row() -> None:
	facts = load_json("schemas/facts.schema.json")["properties"]
	known = load_json("memory.json")
	assert set(facts["optimizer"]["enum"]) == set(known["optimizers"])
	assert set(facts["loss"]["enum"]) <= set(known["losses"])
	assert set(facts["task"]["properties"]["quantization"]["enum"]) == {*known["quantized"], "none"}


@pytest.mark.parametrize("kind", families())
def test_parameters_are_counted_as_the_library_builds_the_model(kind: str) -> None:
	assert [shape_of(ModelFacts(config=config)).params for config in configs(kind)] == COUNTS["models"][kind]


@pytest.mark.parametrize(
	("name", "params"),
	[
		# as the models' own pages and checkpoints say
		("llama-3-8b", 8030261248),
		("meta-llama/Meta-Llama-3.1-8B-Instruct", 8030261248),
		("llama-2-70b-hf", 68976648192),
		("mistral-7b", 7241732096),
		("mixtral-8x7b", 46702792704),
		("qwen2.5-7b", 7615616512),
		("Qwen/Qwen3-30B-A3B", 30532122624),
		("gemma-2-2b", 2614341888),
		("gpt2", 124439808),
		("falcon-7b", 6921720704),
		("deepseek-v3", 671026404352),
	],
)
def test_models_by_name(name: str, params: int) -> None:
	assert shape_of(ModelFacts(name=name)).params == params


def test_sizes_win_over_the_named_ones() -> None:
	half = shape_of(ModelFacts(name="llama-3-8b", layers=16))
	whole = shape_of(ModelFacts(name="llama-3-8b"))
	assert whole.params - half.params == 16 * whole.counts.layer
	assert half.layers == 16


@pytest.mark.parametrize(
	("model", "words"),
	[
		(ModelFacts(config={"model_type": "bert", "hidden_size": 768}), "is an encoder"),
		(ModelFacts(config={"model_type": "t5"}), "an encoder with a decoder"),
		(ModelFacts(config={"model_type": "vit", "image_size": 224}), "a vision model"),
		(ModelFacts(config={"model_type": "mamba"}), "state-space"),
		(ModelFacts(config={"model_type": "llava", "text_config": {}, "vision_config": {}}), "give its text_config"),
		(ModelFacts(config={"model_type": "no_such_model"}), "is not known here; give params, layers"),
		(ModelFacts(config={}), "no model_type"),
		(ModelFacts(config={"model_type": "llama", "hidden_size": 4096}), "has no num_attention_heads"),
		(ModelFacts(config={"model_type": "llama", "hidden_size": "big"}), "no whole number"),
		(ModelFacts(name="llama-3-9b"), "did you mean"),
		(ModelFacts(layers=32, heads=32), "hidden is missing"),
		(ModelFacts(params=70 * 10**9, layers=32, hidden=4096, heads=32, vocab=32000), "the sizes make"),
	],
)
def test_models_that_cannot_be_judged_are_refused_in_one_line(model: ModelFacts, words: str) -> None:
	with pytest.raises(UnknownModelError) as caught:
		shape_of(model)
	assert words in str(caught.value)
	assert "\n" not in str(caught.value)
	assert caught.value.pointer.startswith("/model")


@given(st.dictionaries(st.text(max_size=20), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=4))
def test_any_config_is_counted_or_refused(extra: dict[str, Any]) -> None:
	for kind in ("llama", "gpt2", "deepseek_v3", "falcon"):
		with suppress(UnknownModelError):
			assert shape_of(ModelFacts(config={"model_type": kind, **extra})).params > 0


# What was measured, see the top of this file: precision, the adapters' targets and dropout, and bytes per hidden size,
# MLP width, key/value width and head: alive after the forward pass, and at the peak where the layer is recomputed.
LAYERS: list[tuple[str, list[str], float, tuple[int, ...], tuple[int, ...]]] = [
	("pure_bf16", [], 0, (20, 8, 4, 4), (22, 12, 4, 4)),
	("fp32", [], 0, (32, 16, 8, 4), ()),
	("pure_bf16", QV, 0, (20, 6, 4, 4), (22, 12, 4, 4)),
	("pure_bf16", QV, 0.1, (22, 6, 4, 4), ()),
	("pure_bf16", QKVO, 0.1, (32, 6, 4, 4), (34, 12, 4, 4)),
	("pure_bf16", ALL, 0, (36, 10, 4, 4), (48, 14, 4, 4)),
	("pure_bf16", ALL, 0.1, (42, 11, 4, 4), (56, 17, 4, 4)),
	("bf16", QKVO, 0.1, (24, 6, 4, 4), (26, 12, 4, 4)),
	("bf16", ALL, 0.1, (30, 9, 4, 4), (40, 19, 4, 4)),
]


@pytest.mark.parametrize(("precision", "targets", "dropout", "saved", "recomputed"), LAYERS)
def test_layers_save_and_recompute_what_was_measured(
	precision: str, targets: list[str], dropout: float, saved: tuple[int, ...], recomputed: tuple[int, ...]
) -> None:
	task = {"kind": "lora", "lora_targets": targets, "lora_dropout": float(dropout)} if targets else {"kind": "full"}
	given = {"batch": {"seq": 1024}, "precision": precision, "task": task}
	run = run_of(Setup("single"), **given)
	shape = run.shape
	sizes = (shape.hidden, shape.intermediate, shape.kv_heads * shape.head_dim, shape.heads)
	# adapters save their low-rank products besides, and norms a number for each token
	assert counted_bytes(run) == pytest.approx(sum(map(mul, saved, sizes)), rel=0.01)
	peak = layer_of(run_of(Setup("single", checkpointing="full"), **given)).recomputed
	assert not recomputed or peak == pytest.approx(sum(map(mul, recomputed, sizes)), rel=0.08)


def test_eager_attention_keeps_the_scores() -> None:
	run = run_of(Setup("single"), precision="pure_bf16", attention="eager", batch={"seq": 1024})
	scores = 6 * run.shape.heads * 1024
	assert counted_bytes(run) == pytest.approx(24 * run.shape.hidden + 8 * run.shape.intermediate + scores, rel=0.01)


@pytest.mark.parametrize(
	("setup", "data", "gigabytes"),
	[
		# published: Mistral-7B, pure bf16, AdamW on lists: 10 bytes a parameter; Llama-3-8B under FSDP1: 20 over N
		(Setup("single", checkpointing="full"), {"model": {"name": "mistral-7b"}, "precision": "pure_bf16"}, 72.43),
		(Setup("fsdp1", shard=2, checkpointing="full"), {"weights": "bf16", "precision": "bf16"}, 80.32),
		(Setup("fsdp1", shard=4, checkpointing="full"), {"weights": "bf16", "precision": "bf16"}, 40.17),
	],
)
def test_the_optimizer_step_takes_what_was_published(setup: Setup, data: dict[str, Any], gigabytes: float) -> None:
	found = answer(setup, optimizer="adamw_torch", batch={"seq": 512}, **data)
	assert found.peak == "step"
	assert found.allocated.point == pytest.approx(gigabytes * 1e9, rel=0.01)


FSDP2 = Setup("fsdp2", shard=8, checkpointing="full", checkpointed_by="backend")


@pytest.mark.parametrize(
	("release", "trainable", "frozen", "inputs"),
	[("1.12.0", 4, 4, 4), ("1.13.0", 2, 2, 4), ("1.14.0", 4, 2, 4), ("1.15.0", 4, 2, 1)],
)
def test_fsdp2_by_release(release: str, trainable: int, frozen: int, inputs: int) -> None:
	"""Bytes of a weight, and inputs that a checkpointed layer keeps, as each release's fsdp_utils.py has it."""
	given = {"precision": "bf16", "weights": "bf16", "versions": {"accelerate": release}, "batch": {"seq": 4096}}
	full = run_of(FSDP2, **given)
	assert full.kept == trainable
	assert states_of(full).weights == pytest.approx(full.shape.params * trainable / 8)
	assert states_of(full).optimizer == pytest.approx(full.shape.params * trainable * 2 / 8)
	assert layer_of(full).retained == inputs * 2 * full.shape.hidden
	lora = run_of(FSDP2, task={"kind": "lora", "lora_targets": QV}, **given)
	assert (lora.kept, lora.frozen) == (4, frozen)


def test_what_a_release_does_is_said() -> None:
	given = {"precision": "bf16", "weights": "bf16"}
	old = answer(FSDP2, versions={"accelerate": "1.13.0"}, **given)
	new = answer(FSDP2, versions={"accelerate": "1.15.0"}, **given)
	assert any("1.13.0" in sentence for sentence in old.sentences)
	assert not any("Accelerate" in sentence for sentence in new.sentences)
	assert old.allocated.point < new.allocated.point


def test_old_bitsandbytes_keeps_inputs() -> None:
	task = {"kind": "qlora", "quantization": "nf4", "lora_targets": QV, "lora_dropout": 0.0}
	old = run_of(Setup("single"), task=task, versions={"bitsandbytes": "0.43.1"})
	new = run_of(Setup("single"), task=task, versions={"bitsandbytes": "0.43.2"})
	inputs = 2 * (6 * new.shape.hidden + new.shape.intermediate)
	assert counted_bytes(old) - counted_bytes(new) == pytest.approx(inputs)


def test_losses_by_release() -> None:
	def record(release: str, name: str = "llama-3-8b") -> str:
		return loss_record(run_of(Setup("single"), model={"name": name}, versions={"transformers": release}))

	assert record("5.24.0") == record("4.49.0") == "transformers"
	assert record("4.48.3") == "transformers_shifted"
	assert record("4.45.2", "gpt2") == "half"
	assert record("4.46.3", "gpt2") == "transformers_shifted"


def test_zero_states() -> None:
	"""deepspeed 0.19.8, stage_1_and_2.py and stage3.py: 2 + 2 + 12, divided as the stage says, and fp32 gradients."""
	params = 8030261248

	def states(backend: Any, **more: Any) -> Any:
		return states_of(run_of(Setup(backend, shard=8, **more), precision="bf16", optimizer="adamw_torch_fused"))

	assert states("zero1").gradients == 2 * params
	assert states("zero2").gradients == 2 * params / 8
	assert states("zero2").weights == 2 * params
	assert states("zero3").weights == 2 * params / 8
	for backend in ("zero1", "zero2", "zero3"):
		assert states(backend).optimizer == pytest.approx(12 * params / 8)
		assert states(backend).step == pytest.approx(4 * params / 8)
	away = states("zero3", offload_optimizer="cpu", offload_params="cpu")
	assert (away.weights, away.optimizer, away.step) == (0, 0, 0)
	assert away.cpu >= 16 * params / 8


def test_zero_2_takes_nvme_for_cpu() -> None:
	nvme = answer(Setup("zero2", shard=8, offload_optimizer="nvme"))
	cpu = answer(Setup("zero2", shard=8, offload_optimizer="cpu"))
	assert nvme.cpu_ram == cpu.cpu_ram
	assert any("nvme" in sentence for sentence in nvme.sentences)


def test_gradient_accumulation_under_fsdp_keeps_whole_gradients() -> None:
	given: dict[str, Any] = {"batch": {"seq": 512, "accumulation": 8}}
	held = pieces_of(facts_of(**given), Setup("fsdp2", shard=8))
	synced = pieces_of(facts_of(**given), Setup("fsdp2", shard=8, sync_each_batch=True))
	assert held.buffers.gradients == pytest.approx(2 * held.run.trainable)
	assert synced.buffers.gradients < held.buffers.gradients


def test_verdicts_follow_the_capacity() -> None:
	def verdict(gib: float) -> str:
		hardware = {"gpu_memory_gib": gib, "cpu_ram_gib": 1024}
		return answer(Setup("fsdp2", shard=4, checkpointing="full"), hardware=hardware).verdict

	need = answer(Setup("fsdp2", shard=4, checkpointing="full")).allocated.point / GIB
	assert verdict(need * 2) == "fits"
	assert verdict(need * 1.08) == "tight"
	assert verdict(need * 0.8) == "does_not_fit"
	assert answer(Setup("single")).verdict == "unknown"


BACKENDS: tuple[Backend, ...] = get_args(Backend)


@given(
	backend=st.sampled_from(BACKENDS),
	ranks=st.sampled_from([1, 2, 8, 64]),
	task=st.sampled_from(["full", "lora", "qlora", "inference"]),
	checkpointing=st.sampled_from(["none", "selective", "full"]),
	seq=st.sampled_from([128, 2048, 65536]),
	precision=st.sampled_from(["bf16", "fp16", "fp32", "pure_bf16", "fp8"]),
)
def test_estimates_make_sense(
	backend: Any, ranks: int, task: str, checkpointing: Any, seq: int, precision: str
) -> None:
	replicated = backend in ("single", "ddp", "local_sgd", "cpu", "gaudi", "xla")
	plain = Setup(backend, checkpointing=checkpointing)
	setup = plain._replace(replicate=ranks) if replicated else plain._replace(shard=ranks)
	given = {"task": {"kind": task}, "precision": precision, "hardware": {"gpu_memory_gib": 80, "cpu_ram_gib": 512}}
	found = answer(setup, batch={"seq": seq}, **given)
	for interval in (found.allocated, found.reserved, found.smi, found.cpu_ram):
		assert 0 <= interval.low <= interval.point <= interval.high
	assert found.allocated.point <= found.reserved.point <= found.smi.point or found.smi.point >= found.allocated.point
	assert all(part.size >= 0 for phase in found.phases for part in phase.parts)
	assert found.at_peak.size == pytest.approx(found.allocated.point)
	assert found.sentences
	longer = answer(setup, batch={"seq": seq * 2}, **given)
	assert longer.allocated.point >= found.allocated.point


@pytest.mark.parametrize("backend", ["fsdp1", "fsdp2", "zero1", "zero2", "zero3"])
def test_more_ranks_never_need_more(backend: Any) -> None:
	sizes = [answer(Setup(backend, shard=ranks)).allocated.point for ranks in (2, 4, 8, 16, 64)]
	assert sizes == sorted(sizes, reverse=True)


@pytest.mark.skipif(not SHARED.is_file(), reason="no collection of measurements beside the project")
def test_published_measurements() -> None:
	"""What the estimate promises, on published runs, with the committed coefficients."""
	from memory_rows import measured, read_rows
	from memory_score import SCORED, judged, quantile

	outcomes = judged(measured(read_rows(SHARED)))
	scored = [one for one in outcomes if one.measured.metric in SCORED and one.measured.size]
	errors = [abs(one.error) for one in scored]
	assert len(errors) > 140
	assert quantile(errors, 0.5) <= 0.10
	assert quantile(errors, 0.9) <= 0.25
	assert sum(one.covered for one in scored) / len(scored) >= 0.90
	widths = [(one.interval.high - one.interval.low) / one.interval.point for one in scored]
	assert quantile(widths, 0.5) <= 0.40
	known = [
		one for one in outcomes if one.measured.capacity and (one.measured.metric == "fit" or not one.measured.fits)
	]
	failed = [one for one in known if not one.measured.fits]
	ran = [one for one in known if one.measured.fits]
	assert sum(one.answer.verdict == "fits" for one in failed) <= 0.05 * len(failed)
	assert sum(one.answer.verdict == "does_not_fit" for one in ran) <= 0.02 * len(ran)
	# three of these six rows ran out of memory by fragmentation, far below the capacity
	assert sum(one.answer.verdict == "tight" for one in known) <= 0.12 * len(known)
