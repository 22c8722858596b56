"""What a config.json says about its checkpoint: the dtype of the weights, and whether they are quantized."""

from collections.abc import Mapping
from typing import Any

from ..rules.suggest import shown
from .assumptions import Assumption
from .fact_schema import Problem
from .facts import Facts
from .hardware import Identified


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
