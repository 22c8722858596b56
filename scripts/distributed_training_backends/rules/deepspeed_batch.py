"""DSP rules about batch sizes: `train_batch_size = micro batch x accumulation steps x processes` has to come out."""

from collections.abc import Callable, Iterator
from math import inf, isfinite
from typing import Any, NamedTuple

from ..flow.deepspeed import Reading
from ..flow.inputs import DeepSpeedFile
from .registry import Hit, Hits, rule
from .suggest import shown

TOTAL, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
SIZES = (TOTAL, MICRO, STEPS)


class Batch(NamedTuple):
	"""The three sizes as DeepSpeed gets them (None: not given), which of them the run may still choose, and the
	number of processes if it is known."""

	total: Any
	micro: Any
	steps: Any
	free: frozenset[str]
	world: int | None

	@property
	def numeric(self) -> bool:
		return all(isinstance(size, (int, float)) for size in (self.total, self.micro, self.steps) if size is not None)


def world_of(file: DeepSpeedFile) -> int | None:
	count = file.context.num_processes
	return file.launch.world if count is None and file.launch is not None else count


def elastic(reading: Reading) -> bool:
	"""Whether elasticity takes the batch sizes over (until 0.19.7)."""
	block = reading.data.get("elasticity")
	return isinstance(block, dict) and bool(block.get("enabled")) and reading.covers("..0.19.7")


@rule("DSP020", error="*")
def batch_size_is_no_number(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""A batch size or the number of accumulation steps is a text or a list where DeepSpeed calculates with it.

	DeepSpeed itself fills in nothing: "auto" is for files that Accelerate or the Trainer read. It does not convert "16"
	either, and fails with a TypeError. Write a number. Source: 0.19.8, runtime/config.py, `_batch_assertion`.
	"""
	if elastic(reading):
		return
	null_steps = STEPS in deepspeed.document.data and reading.data[STEPS] is None
	if deepspeed.huggingface and null_steps and reading.data.get(MICRO):
		message = f'Accelerate calculates with `{STEPS}`, and fails on null; write "auto" or a number'
		yield Hit(deepspeed.document.value(STEPS), message)
	for name in SIZES:
		value = reading.data.get(name)
		if value is None or isinstance(value, (int, float)):
			continue
		if value != "auto":
			yield Hit(deepspeed.document.value(name), f"`{name}` has to be a number, but is {shown(value)}")
		elif not deepspeed.huggingface:
			message = f'DeepSpeed itself fills in no "auto", and fails with a TypeError; give `{name}` a number'
			yield Hit(deepspeed.document.value(name), message)


@rule("DSP021", error="*")
def no_batch_size(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""Neither `train_batch_size` nor `train_micro_batch_size_per_gpu` is given.

	DeepSpeed needs one of them. Accelerate and the Trainer replace an "auto", but do not add a key that is missing:
	write `"train_micro_batch_size_per_gpu": "auto"` for them. Source: 0.19.8, runtime/config.py,
	`_set_batch_related_parameters`.
	"""
	if elastic(reading):
		return
	if reading.data.get(TOTAL) is None and reading.data.get(MICRO) is None:
		value = '"auto"' if deepspeed.huggingface else "a number"
		message = f"DeepSpeed needs `{TOTAL}` or `{MICRO}`, and has neither; give `{MICRO}` {value}"
		yield Hit(deepspeed.document.key(MICRO), message)


@rule("DSP022", error="*")
def batch_arithmetic(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""The batch sizes do not come out, whatever the number of processes.

	DeepSpeed works out what is missing and then insists on `train_batch_size = train_micro_batch_size_per_gpu x
	gradient_accumulation_steps x processes`, all of them above 0. Accelerate and the Trainer take 1 for missing
	accumulation steps, DeepSpeed works them out. Leave one of the three out, or correct them. Source: 0.19.8,
	runtime/config.py, `_batch_assertion`.
	"""
	if elastic(reading):
		return
	free = frozenset(name for name in SIZES if name in reading.filled)
	total, micro, steps = (reading.data.get(name) for name in SIZES)
	batch = Batch(total, micro, steps, free, world_of(reading.file))
	if not batch.numeric or (batch.total is None and batch.micro is None):
		return
	given = [name for name in SIZES if reading.data.get(name) is not None]
	wrong = [name for name in given if not 0 < reading.data[name] < inf]
	for name in wrong:
		message = f"`{name}` has to be greater than 0, but is {shown(reading.data[name])}"
		yield Hit(deepspeed.document.value(name), message)
	if not wrong and not comes_out(batch):
		related = tuple(reading.at(name) for name in (MICRO, STEPS) if reading.written(name))
		yield Hit(deepspeed.document.value(TOTAL), arithmetic_message(batch), related=related)


def arithmetic_message(batch: Batch) -> str:
	known = {"micro batch": None if MICRO in batch.free else batch.micro, "accumulation steps": batch.steps}
	parts = " x ".join(f"{value:g} ({name})" for name, value in known.items() if value is not None)
	count = f"{batch.world} processes" if batch.world else "any number of processes"
	return f"`{TOTAL}` is {batch.total:g}, which is not {parts} x {count}; correct one of them, or leave one out"


def comes_out(batch: Batch) -> bool:
	"""Whether some number of processes, and some choice of what is free, makes the sizes come out."""
	if TOTAL in batch.free or batch.total is None:
		return True
	micro = None if MICRO in batch.free else batch.micro
	steps = None if STEPS in batch.free else batch.steps
	if MICRO in batch.free or STEPS in batch.free:
		return bool(batch.total % ((micro or 1) * (steps or 1) * (batch.world or 1)) == 0)
	if batch.world is not None:
		return holds(batch.total, micro, steps, batch.world)
	share = batch.total // ((micro or 1) * (steps or 1))
	if not isfinite(share):
		return False
	worlds = {1, int(share)}
	return any(holds(batch.total, micro, steps, world) for world in worlds if world > 0)


def holds(total: Any, micro: Any, steps: Any, world: int) -> bool:
	if micro is None and steps is None:
		micro, steps = total // world, 1
	elif steps is None:
		steps = total // micro // world
	elif micro is None:
		micro = total // world // steps
	return bool(micro > 0 and steps > 0 and total == micro * steps * world)


@rule("DSP049", error="0.10.0..")
def processes_do_not_divide(reading: Reading) -> Hits:
	"""A size of a group of processes that does not fit the number of processes, where that is known.

	`zero_hpz_partition_size` and `autoep_size` have to divide it; `autotp_size` may not be above it, because Accelerate
	makes a device mesh of that size. Source: 0.19.8, utils/groups.py, `_create_zero_param_parallel_group`;
	module_inject/auto_ep_folding.py, `build_folding_spec`; accelerate 1.15.0, `_prepare_deepspeed`.
	"""
	world = world_of(reading.file)
	for path, fits, wanted in group_sizes(reading, world) if world else ():
		size = reading.value(path)
		if isinstance(size, int) and size > 0 and not fits(size):
			message = f"`{path}` is {size}, which {wanted} the number of processes ({world})"
			yield Hit(reading.at(path), message)


def group_sizes(reading: Reading, world: int) -> Iterator[tuple[str, Callable[[int], bool], str]]:
	if reading.stage == 3:
		yield "zero_optimization.zero_hpz_partition_size", lambda size: world % min(size, world) == 0, "does not divide"
	if reading.value("expert_parallel.enabled"):
		yield "expert_parallel.autoep_size", lambda size: world % size == 0, "does not divide"
	if reading.file.huggingface:
		yield "tensor_parallel.autotp_size", lambda size: size <= world, "is above"
