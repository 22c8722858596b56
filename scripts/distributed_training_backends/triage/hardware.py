"""What the name of an accelerator says (device, memory, links, the shape of a slice, precision), and a config.json."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..rules.suggest import did_you_mean, shown
from .accelerators import Accelerator, Slice, find, find_slice, nearest_name
from .assumptions import Assumption
from .fact_schema import Problem
from .facts import Facts, HardwareFacts

WITHOUT_MEMORY = ("cpu", "mps")  # what they have is the memory of the machine


class Identified(NamedTuple):
	"""Facts with what the accelerator's name adds, what was assumed on the way, and what contradicts it."""

	facts: Facts
	assumptions: tuple[Assumption, ...] = ()
	problems: tuple[Problem, ...] = ()


def identified(facts: Facts) -> Identified:
	found = looked_up(facts)
	if found.facts.precision == "fp8" and found.facts.weights is None:
		whole = Assumption("weights", "fp32", "FP8 layers under FSDP2 want all weights in fp32", ("bf16",))
		return found._replace(facts=found.facts._replace(weights="fp32"), assumptions=(*found.assumptions, whole))
	return found


def looked_up(facts: Facts) -> Identified:
	hardware = facts.hardware
	if hardware.gpu is None:
		return Identified(facts._replace(hardware=with_host_memory(hardware)))
	part = find_slice(hardware.gpu)
	found = part.accelerator if part else find(hardware.gpu)
	if found is None:
		return Identified(facts, problems=() if hardware.gpu_memory_gib else (unknown(hardware.gpu),))
	problems = (*against(hardware, found), *(against_slice(hardware, part) if part else ()))
	filled = facts._replace(
		hardware=hardware._replace(
			gpu=found.name,
			device=hardware.device or found.device,
			gpu_memory_gib=hardware.gpu_memory_gib or found.memory_gib,
			intra=hardware.intra or found.link,
			**({"nodes": part.nodes, "gpus_per_node": part.per_node} if part else {}),
		)
	)
	if filled.precision is None and not found.bf16:
		half = Assumption("precision", "fp16", f"the {found.name} does not compute in bf16", ("fp32",))
		return Identified(filled._replace(precision="fp16"), (half,), problems)
	return Identified(filled, (), problems)


def with_host_memory(hardware: HardwareFacts) -> HardwareFacts:
	if hardware.device not in WITHOUT_MEMORY or hardware.gpu_memory_gib or not hardware.cpu_ram_gib:
		return hardware
	return hardware._replace(gpu_memory_gib=hardware.cpu_ram_gib / (hardware.gpus_per_node or 1))


def unknown(name: str) -> Problem:
	near = nearest_name(name)
	ask = "give hardware.gpu_memory_gib, the memory of one as torch reports it"
	return Problem("/hardware/gpu", f"{shown(name)} is not known here; {ask}{did_you_mean(near)}")


def against(hardware: HardwareFacts, found: Accelerator) -> Iterator[Problem]:
	if hardware.device not in (None, found.device):
		yield Problem("/hardware/device", f"{found.name} is a {found.device} device, not {hardware.device}")
	if hardware.gpu_memory_gib and hardware.gpu_memory_gib > found.memory_gb:
		message = f"{hardware.gpu_memory_gib:g} GiB is more than the {found.memory_gb:g} GB of a {found.name}"
		yield Problem("/hardware/gpu_memory_gib", f"{message}; write at most {found.memory_gib:g}")


def against_slice(hardware: HardwareFacts, part: Slice) -> Iterator[Problem]:
	for name, have in (("nodes", part.nodes), ("gpus_per_node", part.per_node)):
		if (count := getattr(hardware, name)) not in (None, have):
			yield Problem(f"/hardware/{name}", f"{shown(hardware.gpu)} has {have}, not {count}; leave it out")


# --- quantized checkpoints ---


def unpacked(facts: Facts) -> Identified:
	"""The facts with the quantization of the checkpoint, or why it cannot be trained so."""
	config = (facts.model.config or {}).get("quantization_config")
	if not isinstance(config, Mapping):
		return Identified(facts)
	task, packed = facts.task, packing(config)
	if task.kind in (None, "full", "continued"):
		rest = "write task.kind: qlora" if packed else "give the config.json of the checkpoint that is not quantized"
		said = f"the checkpoint is quantized ({method(config)}), which cannot be trained in full; {rest}"
		return Identified(facts, (), (Problem("/model/config", said),))
	if packed is None:
		said = f"checkpoints quantized with {method(config)} are not counted here"
		rest = "take quantization_config out of it to count the weights that are not quantized"
		return Identified(facts, (), (Problem("/model/config", f"{said}; {rest}"),))
	why = "from config.json, quantization_config"
	made = [Assumption("task.quantization", packed, why)] if task.quantization in (None, "none") else []
	task = task._replace(quantization=made[0].value if made else task.quantization)
	if task.kind == "lora":
		made.append(Assumption("task.kind", "qlora", f"adapters on quantized weights, {why}"))
		task = task._replace(kind="qlora")
	return Identified(facts._replace(task=task), tuple(made))


def packing(config: Mapping[str, Any]) -> str | None:
	"""The name that facts have for it: bitsandbytes' only."""
	if config.get("load_in_8bit") is True:
		return "int8"
	if config.get("load_in_4bit") is True:
		return "nf4_double" if config.get("bnb_4bit_use_double_quant") is True else "nf4"
	return None


def method(config: Mapping[str, Any]) -> str:
	return shown(config.get("quant_method") or ("bitsandbytes" if packing(config) else "an unnamed method"))
