"""DSP rules about settings that DeepSpeed takes, but that do nothing, do something else, or are known to do harm."""

from typing import Any

from ..flow.deepspeed import Reading, read
from ..flow.inputs import DeepSpeedFile
from ..knowledge import deepspeed as knowledge
from ..knowledge.pydantic_values import RefusedError, effective
from ..model import Severity
from .deepspeed_conditions import by_key, hits, holds, is_number, same
from .deepspeed_walk import Entry, walk
from .registry import Hit, Hits, rule
from .rewriting import removing, rewriting
from .suggest import shown


@rule("DSP060", warning="*")
def setting_without_effect(deepspeed: DeepSpeedFile) -> Hits:
	"""A setting that is read, but does nothing with the rest of the file as it is.

	Keys of ZeRO stage 3 in stage 2 (`stage3_*`, `offload_param`, `sub_group_size`, hpZ, quantized weights), keys of
	stages 1 and 2 in stage 3 (`round_robin_gradients`, `allgather_*`), offloading without ZeRO, NVMe below stage 3,
	keys that no code uses any more. Source: `runtime/engine.py` (`_configure_zero_optimizer`),
	`runtime/zero/stage_1_and_2.py`, `runtime/zero/stage3.py`.
	"""
	for reading, entry in walk(deepspeed):
		why = without_effect(reading, entry)
		if why and entry.value != "auto":
			message = f"`{entry.name}` has no effect here: {why}"
			severity = Severity.INFO if at_default(reading, entry) else None
			yield Hit(deepspeed.document.key(*entry.pointer), message, removing(entry.pointer), severity)


def without_effect(reading: Reading, entry: Entry) -> str | None:
	if entry.key is None:
		return None
	if not entry.key.used:
		return "DeepSpeed reads it, but nothing uses it"
	if "zero_optimization.stage" in reading.filled:
		return None
	for row in by_key("unused").get(entry.key.path, ()):
		if reading.covers(row.get("releases", "*")) and holds(reading, row["when"]):
			return str(row["why"])
	return None


def at_default(reading: Reading, entry: Entry) -> bool:
	becomes = effect(reading, entry)
	return entry.key is not None and (
		becomes is REFUSED or same(becomes, entry.key.default) or entry.value in ({}, None)
	)


@rule("DSP061", warning="*")
def converted_value(deepspeed: DeepSpeedFile) -> Hits:
	"""A value that DeepSpeed takes, but converts into another one than is written.

	true and false count as 1 and 0 where a number is wanted (`"stage": true` is stage 1). Before 0.15.0 (pydantic 1) a
	fraction is cut off: 1.7 becomes 1. A fraction for the accumulation steps goes into the calculation as it is. A
	quoted stage ("3") is a number for DeepSpeed alone: Accelerate and Transformers compare the text with 2 and 3, and
	see no ZeRO stage, so that the model is built without `zero.Init`. Source: pydantic 1.10 and 2, in lax mode;
	accelerate 1.15.0, utils/deepspeed.py, `HfDeepSpeedConfig.is_zero3`.
	"""
	for reading, entry in walk(deepspeed):
		if entry.key is None or entry.key.read != "model" or entry.path in reading.filled:
			continue
		becomes = converted(reading, entry)
		if becomes is not None:
			message = f"`{entry.path}` is {shown(entry.value)}, and DeepSpeed makes {shown(becomes)} of it; write that"
			at = deepspeed.document.value(*entry.pointer)
			yield Hit(at, message, rewriting(at, becomes))
	if (stage := quoted_stage(deepspeed)) is not None:
		at = deepspeed.document.value(*STAGE)
		message = f"the stage is a text: DeepSpeed makes {stage} of it, but Accelerate and Transformers take it for "
		yield Hit(at, f"{message}{MISSED[stage]}; write {stage}", rewriting(at, stage))


STAGE = ("zero_optimization", "stage")
REFUSED = object()
MISSED = {3: "another stage than 3, and build the model without zero.Init", 2: "another stage than 2"}


def quoted_stage(file: DeepSpeedFile) -> int | None:
	reading, value = read(file), file.document.get(*STAGE)
	if reading is None or not file.huggingface or not isinstance(value, str) or reading.stage not in MISSED:
		return None
	return None if value == "auto" else int(reading.stage)


def converted(reading: Reading, entry: Entry) -> Any:
	"""The number that takes the place of a bool or of a fraction; None when the meaning stays."""
	becomes = effect(reading, entry)
	changed = isinstance(entry.value, bool) or (is_number(entry.value) and entry.value != becomes)
	return becomes if changed and is_number(becomes) else None


def effect(reading: Reading, entry: Entry) -> Any:
	try:
		return effective(entry.value, entry.key, reading.facts.generation) if entry.key else REFUSED
	except RefusedError:
		return REFUSED


@rule("DSP062", warning="*")
def release_trains_wrongly(reading: Reading) -> Hits:
	"""A combination of settings that this release of DeepSpeed is known to train wrongly with, without an error.

	0.17.6 to 0.18.2: ZeRO 2 keeps only the last micro batch of an accumulation (issue 7718, fixed in 0.18.3). 0.12.4 to
	0.16.5: `overlap_comm` in ZeRO 1 and 2 can turn the gradient norm to NaN (issue 5242, fixed by 7171 in 0.16.6).
	Before 0.15.2: ZeRO 2 with an offloaded optimizer accumulates wrongly (fixed by 6550). Take another release, or
	change the setting that is named. Source: runtime/zero/stage_1_and_2.py of the releases named.
	"""
	yield from hits(reading, "DSP062")


@rule("DSP063", warning="*")
def not_as_it_seems(reading: Reading) -> Hits:
	"""A setting that is taken, but does not do what it seems to, or does harm.

	`autotuning.enabled` ends the run after a few steps; `torch_autocast` without a dtype takes PyTorch's default;
	`tensor_parallel.tp.tp_size` alone switches no tensor parallelism on; gradients accumulated in int8 are lost;
	`elastic_checkpoint` is refused when a stage-3 checkpoint is saved or loaded. Source: 0.19.8, runtime/engine.py,
	`_autotuning_exit`; runtime/config.py, `get_torch_autocast_dtype`.
	"""
	yield from hits(reading, "DSP063")


@rule("DSP064", info="*")
def worth_knowing(reading: Reading) -> Hits:
	"""What the file leaves to defaults, to the script or to the machine, and what follows from it.

	Defaults that changed between releases (`gradient_clipping`, `pin_memory`), blocks that make the Trainer ignore its
	own arguments, packages that a monitor needs, measuring that costs time. Source: 0.19.8, runtime/config.py;
	transformers 5.24.0, integrations/deepspeed.py.
	"""
	yield from hits(reading, "DSP064")


@rule("DSP065", info="*")
def removed_later(reading: Reading) -> Hits:
	"""A block that this release still reads, and a later one refuses by its presence alone.

	Source: 0.19.8, runtime/config.py, `_reject_removed_config_keys`.
	"""
	newest = knowledge.for_release(knowledge.releases()[-1])
	for path, removed in newest.removed.items():
		steps = tuple(path.split("."))
		if reading.document.has(*steps) and path not in reading.facts.removed:
			message = f"DeepSpeed refuses `{path}` from {removed.since} on, whatever its value"
			yield Hit(reading.document.key(*steps), message)


@rule("DSP066", warning="*")
def releases_do_not_go_together(reading: Reading) -> Hits:
	"""A setting that this pair of DeepSpeed and Accelerate releases trips over.

	Accelerate before 0.31.0 fills in a fraction for `stage3_prefetch_bucket_size`, refused by DeepSpeed since 0.15.0;
	Accelerate before 1.9.0 enters `no_sync` while it accumulates, refused in ZeRO 2 and 3 by DeepSpeed since 0.16.0.
	Source: accelerate 0.30.1 and 1.8.1, accelerator.py, `_prepare_deepspeed`, `no_sync`; deepspeed 0.16.0,
	runtime/engine.py, `no_sync`.
	"""
	yield from hits(reading, "DSP066")
