"""What decides the memory of a run, in words."""

from collections.abc import Iterator

from ..model_triage import Verdict
from ..versions import in_span
from .estimate import GIB, Phase
from .phases import Pieces
from .run import MIXED, Run
from .states import keeps_inputs_of_quantized, offloads_silently

PHASES = {
	"load": "while the weights are loaded",
	"forward": "at the end of the forward pass",
	"backward": "in the backward pass",
	"step": "in the optimizer step",
}
NAMES = {"optimizer": "optimizer states", "step": "temporaries of the optimizer", "gathered": "gathered weights"}
REMEDIES = {
	"activations": "activation checkpointing, a smaller micro batch or a shorter sequence lowers it",
	"logits": "a fused linear cross entropy (Liger, CCE) or a chunked loss lowers it",
	"optimizer": "sharding, an 8-bit optimizer or offloading lowers it",
	"weights": "sharding or quantization lowers it",
	"gradients": "sharding lowers it",
	"step": "a fused optimizer (adamw_torch_fused) leaves it out",
	"gathered": "resharding after the forward pass or smaller wrapped units lower it",
	"communication": "gradient_as_bucket_view=True leaves it out",
}


def sentences_of(pieces: Pieces, worst: Phase, verdict: Verdict) -> Iterator[str]:
	largest = max(worst.parts, key=lambda part: part.size)
	amounts = f"{largest.size / GIB:.1f} of {worst.size / GIB:.1f} GiB"
	yield f"The peak comes {PHASES[worst.name]}: {NAMES.get(largest.name, largest.name)} take most, {amounts}."
	if verdict in ("tight", "does_not_fit"):
		yield f"To need less: {REMEDIES[largest.name]}."
	yield from release_facts(pieces.run)


def release_facts(run: Run) -> Iterator[str]:
	facts, setup = run.facts, run.setup
	release = facts.versions.accelerate
	mixed = facts.precision in MIXED
	if setup.backend == "fsdp2" and mixed and facts.weights != "fp32" and facts.task.trains:
		if in_span(release, "1.13.0", "1.13.0"):
			yield (
				"Accelerate 1.13.0 means to keep fp32 weights under FSDP2 and does not: half the memory, and updates "
				"rounded to half precision; load fp32 weights or use 1.14.0."
			)
		elif in_span(release, "1.6.0", "1.12.0") and run.fixed:
			yield f"Accelerate {release} makes fp32 of frozen weights too under FSDP2; 1.14.0 leaves them as loaded."
	by_plugin = setup.checkpointed_by == "backend" and run.checkpointing == "full"
	if setup.backend == "fsdp2" and by_plugin and in_span(release, None, "1.14.0"):
		yield (
			f"Accelerate {release} checkpoints the parts of a layer under FSDP2, which keeps four inputs for one; "
			"use the model's gradient checkpointing, or 1.15.0."
		)
	if keeps_inputs_of_quantized(run):
		yield "bitsandbytes before 0.43.2 keeps the input of every 4-bit layer; a newer one does not."
	if offloads_silently(run):
		yield "ZeRO-1 and ZeRO-2 take nvme for cpu: the optimizer goes to the CPU's memory."
