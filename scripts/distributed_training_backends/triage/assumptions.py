"""What is assumed where a fact is missing, and why: the answer states each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..model_triage import unit_of
from ..versions import in_span
from .facts import Facts

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class Assumption(NamedTuple):
	"""A fact that nobody told: its name as in the facts, the value taken, why, and values it might have instead."""

	name: str
	value: Any
	why: str
	instead: tuple[Any, ...] = ()


def completed(facts: Facts) -> tuple[Facts, list[Assumption]]:
	"""Fill in what is missing. The model and what there is to run on cannot be assumed and stay open."""
	made: list[Assumption] = []
	for assumption in _assumptions(facts):
		if value_of(facts, assumption.name) is None:
			facts = with_fact(facts, assumption.name, assumption.value)
			made.append(assumption)
	return facts, made


def value_of(facts: Facts, name: str) -> Any:
	group, _, inner = name.rpartition(".")
	return getattr(getattr(facts, group) if group else facts, inner)


def with_fact(facts: Facts, name: str, value: Any) -> Facts:
	group, _, inner = name.rpartition(".")
	return facts._replace(**{group: getattr(facts, group)._replace(**{inner: value})} if group else {inner: value})


def _assumptions(facts: Facts) -> Iterator[Assumption]:
	kind = facts.task.kind or "full"
	device = facts.hardware.device or "cuda"
	arithmetic = _precision(device)
	yield Assumption("task.kind", "full", "fine-tuning of all weights needs most", ("lora", "qlora"))
	yield from _adapters(kind)
	yield Assumption("batch.seq", 2048, "a common length for fine-tuning", (1024, 4096, 8192))
	yield Assumption("batch.micro_batch", 1, "the least that runs", (2, 4))
	yield Assumption("batch.accumulation", 1, "no gradient accumulation", (8,))
	yield Assumption("hardware.device", "cuda", "NVIDIA GPUs")
	yield Assumption("hardware.nodes", 1, "a single node")
	yield Assumption("hardware.gpus_per_node", 1, f"a single {unit_of(device)}")
	yield Assumption("precision", *arithmetic)
	yield _weights(facts._replace(precision=facts.precision or arithmetic[0]), kind)
	yield Assumption("optimizer", *_optimizer(facts))
	yield Assumption("attention", "sdpa", "the default of Transformers", ("flash_attention_2", "eager"))
	yield Assumption("loss", "transformers", "the model's own loss, over all logits", ("fused_linear", "chunked"))
	yield Assumption("compile", False, "no torch.compile", (True,))


def _adapters(kind: str) -> Iterator[Assumption]:
	if kind in ("lora", "qlora"):
		yield Assumption("task.lora_rank", 16, "a common rank", (8, 64))
		every = "adapters on every linear layer"
		yield Assumption("task.lora_targets", ("all-linear",), every, (("q_proj", "v_proj"),))
		yield Assumption("task.lora_dropout", 0.05, "dropout in the adapters, as most recipes have it", (0.0,))
	if kind == "qlora":
		yield Assumption("task.quantization", "nf4_double", "QLoRA's own format", ("nf4", "int8"))
		why = "prepare_model_for_kbit_training is called, but under FSDP, whose groups want one dtype"
		yield Assumption("task.kbit_preparation", True, why, (False,))
	else:
		yield Assumption("task.quantization", "none", "the weights are not quantized")


def _precision(device: str) -> tuple[str, str, tuple[str, ...]]:
	if device in ("cpu", "mps"):
		return "fp32", f"no mixed precision on {device}", ("bf16",)
	return "bf16", "mixed precision in bf16", ("pure_bf16", "fp32")


def _weights(facts: Facts, kind: str) -> Assumption:
	if facts.precision == "fp32":
		return Assumption("weights", "fp32", "no mixed precision, so the weights are fp32")
	if facts.precision == "pure_bf16":
		return Assumption("weights", "bf16", "pure bf16 training")
	if kind in ("lora", "qlora", "inference"):
		half = "fp16" if facts.precision == "fp16" else "bf16"
		return Assumption("weights", half, "frozen weights need no more than half precision", ("fp32",))
	if facts.precision == "fp16":
		return Assumption("weights", "fp32", "fp16 mixed precision scales the loss, and unscales fp32 gradients only")
	if in_span(facts.versions.transformers, "5.0.0", None):
		why = "since 5.0.0 Transformers loads weights in the dtype of the checkpoint"
		config = facts.model.config or {}
		if dtype := DTYPES.get(str(config.get("dtype") or config.get("torch_dtype")).removeprefix("torch.")):
			return Assumption("weights", dtype, f"{why}, from config.json", ("bf16" if dtype == "fp32" else "fp32",))
		return Assumption("weights", "bf16", f"{why}, mostly bf16", ("fp32",))
	return Assumption("weights", "fp32", "before 5.0.0 Transformers loads weights in fp32", ("bf16",))


def _optimizer(facts: Facts) -> tuple[str, str, tuple[str, ...]]:
	if facts.hardware.device == "tpu":
		return "adamw_torch", "torch has no fused optimizers for XLA", ("adafactor",)
	releases = facts.versions
	fused = in_span(releases.transformers, "4.54.0", None) and in_span(releases.torch, "2.8.0", None)
	default, other = ("adamw_torch_fused", "adamw_torch") if fused else ("adamw_torch", "adamw_torch_fused")
	return default, "the default of TrainingArguments in these releases", (other, "adamw_8bit")
