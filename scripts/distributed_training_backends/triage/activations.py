"""Activations: what a layer keeps for its backward pass, what recomputing it takes, and the loss over the logits.

Bytes per token, read off the operations of Transformers' layers and measured with the model on fake tensors; see
references/memory.md for the terms.
"""

from typing import Any, NamedTuple

from ..resources import load_json
from ..versions import covers, in_span
from .run import MIXED, Run, coefficient
from .shapes import sites
from .states import keeps_inputs_of_quantized


class Layer(NamedTuple):
	"""Bytes per token of one layer: kept in full, kept with checkpointing, and the most while it is recomputed."""

	kept: float
	retained: float
	recomputed: float


def layer_of(run: Run) -> Layer:
	kept = counted_bytes(run) * fusion(run)
	backward = kept + backward_bytes(run)
	if run.checkpointing == "none":
		return Layer(kept, kept, backward - kept)
	inputs = residual(run) * run.shape.hidden / sequence_parallel(run)
	if run.checkpointing == "selective":
		share = coefficient("selective_compiled_kept" if run.compiled else "selective_kept")
		return Layer(kept, inputs + share * (kept - inputs), backward - share * (kept - inputs))
	children = wrapped_children(run)
	return Layer(kept, inputs * children, backward if children == 1 else backward - attention_bytes(run))


def sequence_parallel(run: Run) -> int:
	"""Megatron's sequence parallelism divides what tensor parallelism alone leaves whole."""
	return run.setup.tp if run.setup.backend == "megatron" else 1


def residual(run: Run) -> int:
	return 4 if run.autocast or run.kbit else run.compute


def wrapped_children(run: Run) -> int:
	"""How many inputs of hidden size a checkpointed layer keeps.

	Until 1.14.0 Accelerate wraps the four children of a layer under FSDP2, not the layer.
	"""
	by_plugin = run.setup.checkpointed_by == "backend" and run.setup.backend == "fsdp2"
	return 4 if by_plugin and in_span(run.facts.versions.accelerate, None, "1.14.0") else 1


def counted_bytes(run: Run) -> float:
	"""What the operations of a layer save for the backward pass, counted one by one."""
	shape = run.shape
	whole = norm_bytes(run) * (shape.norms * shape.hidden) / sequence_parallel(run)
	whole += run.compute * shape.hidden * (shape.dropout and run.trains)
	return whole + (attention_bytes(run) + mlp_bytes(run) + adapter_bytes(run)) / run.setup.tp


def fusion(run: Run) -> float:
	if run.setup.backend == "megatron":
		return coefficient("megatron_kept")
	if run.checkpointing != "none":
		return 1.0
	return coefficient("compiled_kept" if run.compiled else "unfused_kept")


def norm_bytes(run: Run) -> float:
	size = run.compute
	trained = not run.adapted
	if not run.shape.rms_norm:
		own = 4.0 if run.autocast or run.kbit else float(size)
		return own + (size * (2.5 if run.autocast else 1) if trained else 0)
	if run.autocast:
		return 8.0 + 2.5 * size
	return 4.0 + (2 * size if trained else 0)


def attention_bytes(run: Run) -> float:
	size, shape = run.compute, run.shape
	out, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
	normalized = (4 + (0 if run.adapted else size)) * (out + keys) if shape.qk_norm else 0
	if run.facts.attention == "eager":
		scores = (4 + (size if size == 2 else 0)) * shape.heads * run.sequence
		return 4 * size * out + scores / run.setup.sp + normalized
	return 2 * size * (out + keys) + 4 * shape.heads + normalized


def mlp_bytes(run: Run) -> float:
	size, shape = run.compute, run.shape
	inside = ((3 if shape.gated else 1) + (not run.adapted)) * size * shape.intermediate
	if shape.experts == 1:
		return inside
	return inside + (1 if run.adapted else 2) * size * shape.hidden * shape.experts_per_token


def adapter_bytes(run: Run) -> float:
	task = run.facts.task
	if not run.adapted:
		return 0.0
	cast = 2 if run.facts.precision in MIXED else 4
	each = cast + (1 if task.lora_dropout else 0)
	found = sites(run.shape, task.lora_targets or ())
	total: float = sum(site.active * (each * site.width_in + cast * (task.lora_rank or 0)) for site in found)
	if keeps_inputs_of_quantized(run):
		total += sum(site.active * run.compute * site.width_in for site in sites(run.shape, ("all-linear",)))
	return total


def backward_bytes(run: Run) -> float:
	shape, tp = run.shape, run.setup.tp
	stream = residual(run) * shape.hidden * (1.5 if run.autocast else 1)
	branches = (3 if shape.gated else 1) - (not run.adapted)  # the last one is saved
	return stream + branches * run.compute * shape.intermediate / tp + adapter_backward(run) / tp


def adapter_backward(run: Run) -> float:
	task = run.facts.task
	found = {site.role for site in sites(run.shape, task.lora_targets or ())} if run.adapted else set()
	if not found & {"gate", "up", "down"}:
		return 0.0
	mixed = run.facts.precision in MIXED
	dropped = 3 * run.shape.intermediate if task.lora_dropout and mixed and "down" in found else 0
	return 10.0 * run.shape.hidden + dropped


class Logits(NamedTuple):
	"""Bytes per token of the end of the model, at the end of the forward pass and in the backward pass."""

	forward: float
	backward: float


def logits_of(run: Run) -> Logits:
	"""The logits, their copies and gradients, as the loss makes them, with the last norm."""
	record: dict[str, Any] = load_json("memory.json")["losses"][loss_record(run)]
	vocab = run.shape.vocab / run.setup.tp
	tail = (norm_bytes(run) + run.adapted * run.compute) * run.shape.hidden
	scale = 1.0 if run.compute == 2 or record["fixed"] else record["fp32"]
	return Logits(record["forward"] * scale * vocab + tail, record["backward"] * scale * vocab + tail)


def loss_record(run: Run) -> str:
	"""Which row of the table of losses holds; Transformers' own changed over the releases."""
	if run.setup.backend == "megatron":
		return "megatron"
	if run.loss not in ("transformers", "fused"):
		return run.loss
	release = run.facts.versions.transformers
	table: dict[str, Any] = load_json("memory.json")["half_precision_loss"]
	if run.shape.family in table["families"] and covers(table["transformers"], release):
		return "half" if run.loss == "transformers" else "fused_half"
	# since 4.49.0 the labels are shifted instead of the logits, which saves a copy
	return run.loss if in_span(release, "4.49.0", None) else f"{run.loss}_shifted"
