"""DSP rules about what Accelerate and the Trainer do with a DeepSpeed config before DeepSpeed gets it."""

from typing import Any

from ..flow.deepspeed import MISSING, PRECISIONS, Reading, block_at, is_on, mixed_precision
from ..flow.effect import normal
from ..flow.inputs import DeepSpeedFile
from ..model import Applicability, Severity
from ..sources.document import Document
from ..versions import covers
from .deepspeed_conditions import is_kind, is_number, rows
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import rewriting
from .suggest import shown


@rule("DSP050", error="*")
def no_zero_block(deepspeed: DeepSpeedFile) -> Hits:
	"""Accelerate and the Trainer refuse a file without a `zero_optimization` block; DeepSpeed itself does not need one.

	"Please specify the ZeRO optimization config in the DeepSpeed config.". Without ZeRO, write `"zero_optimization":
	{"stage": 0}`. Source: accelerate 1.15.0, utils/dataclasses.py, `DeepSpeedPlugin.__post_init__`.
	"""
	document = deepspeed.document
	if any(defect.name == "not-strict-json" for defect in document.defects):
		return  # json.load has stopped there (DSP001)
	if deepspeed.huggingface and isinstance(document.data, dict) and not document.has("zero_optimization"):
		message = 'Accelerate refuses a file without `zero_optimization`; for no ZeRO write {"stage": 0}'
		add = Operation("add", (), "zero_optimization", {"stage": 0})
		yield Hit(document.value(), message, Repair("add zero_optimization with stage 0", (add,), Applicability.SAFE))


@rule("DSP051", error="*")
def trainer_mismatch(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""The Trainer compares the file with TrainingArguments, and refuses it where they differ.

	`HfTrainerDeepSpeedConfig` compares batch sizes, clipping, learning rate, betas, eps, weight decay, warm-up, total
	steps and `fp16.enabled`/`bf16.enabled` with `!=`. So a text never passes for a number, `optimizer.params.lr` and
	`scheduler.params.warmup_max_lr` have to be the same, and 0 warm-up steps are never the same as the Trainer's, which
	counts at least 1. Write "auto", which the Trainer fills in. A mapping below `deepspeed` in a file of arguments is
	compared with the arguments beside it. Source: transformers 5.24.0, integrations/deepspeed.py,
	`HfTrainerDeepSpeedConfig`.
	"""
	if deepspeed.consumer != "trainer":
		return
	arguments = dict(deepspeed.context.arguments)
	for row in rows("trainer_compares"):
		value = literal(reading, row["path"])
		if value is MISSING or value is None:
			continue
		if reason := unlike(value, row, arguments, deepspeed):
			message = f'{reason}; the Trainer refuses that, write "auto"'
			yield Hit(reading.at(row["path"]), message, to_auto(reading, row["path"]))
	yield from two_learning_rates(reading)


def literal(reading: Reading, path: str) -> Any:
	section, _, name = path.rpartition(".")
	value = block_at(reading.document.data, section).get(name, MISSING)
	return MISSING if value == "auto" else value


def unlike(value: Any, row: dict[str, Any], arguments: dict[str, object], file: DeepSpeedFile) -> str | None:
	"""Why no argument, or not the one that is given, can be the same as the value."""
	name, argument = row["path"], row["argument"]
	if argument in arguments and value != arguments[argument]:
		return f"`{name}` is {shown(value)}, but `{argument}` is {shown(arguments[argument])}"
	if not any(is_kind(value, kind) for kind in row["takes"]):
		return f"`{name}` is {shown(value)}, which is never the same as the number `{argument}`"
	if row.get("integral") and isinstance(value, float) and not value.is_integer():
		return f"`{name}` is {shown(value)}, but `{argument}` is an integer"
	if "length" in row and isinstance(value, list) and (len(value) != row["length"] or not all(map(is_number, value))):
		return f"`{name}` is {shown(value)}, but TrainingArguments has {row['length']} numbers for it"
	if "least" in row and covers(row["since"], file.targets.transformers) and value < row["least"]:
		return f"`{name}` is {shown(value)}, but the Trainer takes at least {row['least']}"
	return None


def two_learning_rates(reading: Reading) -> Hits:
	one, other = (literal(reading, path) for path in ("optimizer.params.lr", "scheduler.params.warmup_max_lr"))
	if is_number(one) and is_number(other) and one != other:
		values = f"`warmup_max_lr` is {shown(other)} and `lr` is {shown(one)}"
		message = f'{values}, but the Trainer wants both equal to learning_rate; write "auto"'
		path = "scheduler.params.warmup_max_lr"
		yield Hit(reading.at(path), message, to_auto(reading, path), None, (reading.at("optimizer.params.lr"),))


def to_auto(reading: Reading, path: str) -> Repair | None:
	return rewriting(reading.at(path), "auto", Applicability.UNSAFE) if reading.pointer(path) else None


@rule("DSP052", error="*")
def precision_against_launch(deepspeed: DeepSpeedFile) -> Hits:
	"""`--mixed_precision` of the launch and the file's fp16 or bf16 block disagree.

	The file decides. If it turns on the other precision, Accelerate refuses ("`--mixed_precision` arg cannot be set to
	`fp16` when `bf16` is set in the DeepSpeed config file"). If it turns the asked one off, training silently goes on
	in fp32. With "auto" for `enabled` the launch decides: without `--mixed_precision`, and where the script asks for
	none either, it becomes false. Source: accelerate 1.15.0, utils/dataclasses.py,
	`DeepSpeedPlugin.set_mixed_precision`.
	"""
	precision = mixed_precision(deepspeed)
	if deepspeed.consumer == "accelerate" and precision in ("fp16", "bf16", "fp8"):
		yield from disagreements(deepspeed.document, str(precision))
	elif deepspeed.launch is not None and precision in (None, "no"):
		yield from left_to_script(deepspeed.document)


def disagreements(document: Document, precision: str) -> Hits:
	mine, other = ("fp16", "bf16") if precision == "fp16" else ("bf16", "fp16")
	if is_on(document.get(other)):
		message = f"--mixed_precision {precision} is refused, because the file turns {other} on"
		yield Hit(document.value(other, "enabled"), f'{message}; write "auto" here, or drop the flag')
	elif document.get(mine, "enabled") is False:
		message = f'mixed_precision is {precision}, but the file turns {mine} off, and the file wins; write "auto"'
		yield Hit(document.value(mine, "enabled"), message, None, Severity.WARNING)


def left_to_script(document: Document) -> Hits:
	for name in PRECISIONS:
		other = "bf16" if name == "fp16" else "fp16"
		if document.get(name, "enabled") == "auto" and not is_on(document.get(other)):
			message = 'the launch asks for no mixed_precision: this "auto" becomes false, unless the script asks for'
			at = document.value(name, "enabled")
			yield Hit(at, f"{message} {name}; write true, or pass --mixed_precision {name}", None, Severity.INFO)


@rule("DSP053", error="*")
def cpu_offload_needs_cpu_optimizer(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""The optimizer is offloaded, and the file has no `optimizer` block: the script's own optimizer has to fit.

	DeepSpeed refuses any optimizer but DeepSpeedCPUAdam then, unless `"zero_force_ds_cpu_optimizer": false`. Accelerate
	replaces the script's optimizer where `offload_optimizer.device` says so, but does not know the old `cpu_offload`;
	with that, the Trainer's own optimizer is always refused. Source: deepspeed 0.19.8, runtime/engine.py,
	`_configure_optimizer`; accelerate 1.15.0, `_prepare_deepspeed`.
	"""
	offloaded = reading.cpu_optimizer and reading.value("zero_force_ds_cpu_optimizer")
	old = reading.written("zero_optimization.cpu_offload")
	if reading.written("optimizer") or not offloaded or (deepspeed.huggingface and not old):
		return
	at = reading.at("zero_optimization.cpu_offload" if old else "zero_optimization.offload_optimizer.device")
	message = "with an offloaded optimizer DeepSpeed takes no other optimizer from the script than DeepSpeedCPUAdam"
	severity = None if deepspeed.consumer == "trainer" else Severity.INFO
	yield Hit(at, f'{message}; add an `optimizer` block, or "zero_force_ds_cpu_optimizer": false', None, severity)


@rule("DSP054", error="..0.23.0", of="accelerate")
def stage_3_without_batch_size(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""A stage 3 file without `train_batch_size`, in releases of Accelerate that look it up without asking.

	They take a copy of the file for `zero3_init_flag`, which is on at stage 3 unless the launch says otherwise, and
	end with `KeyError: 'train_batch_size'`; "auto" is filled in. Source: accelerate 0.23.0, utils/dataclasses.py,
	`DeepSpeedPlugin.set_deepspeed_weakref`.
	"""
	launch = deepspeed.launch
	if deepspeed.consumer != "accelerate" or reading.stage != 3:
		return
	off = launch is not None and launch.given("zero3_init_flag") and normal(launch.value("zero3_init_flag")) is None
	if not off and not reading.written("train_batch_size"):
		release = deepspeed.targets.accelerate
		message = f"accelerate {release} looks `train_batch_size` up for a stage 3 file, and fails without it"
		yield Hit(reading.at("zero_optimization.stage"), f'{message}; add "train_batch_size": "auto"')
