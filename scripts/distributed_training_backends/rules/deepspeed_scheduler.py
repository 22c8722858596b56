"""DSP rules about the `scheduler` block: its type, and the parameters that the chosen class takes."""

from typing import Any

from ..flow.deepspeed import Reading
from ..model import Applicability, Severity
from .deepspeed_conditions import is_kind, is_number, rows
from .deepspeed_optimizer import parameter_meant
from .registry import Hit, Hits, rule
from .rewriting import rewriting
from .suggest import closest, listing, shown, unlike

PARAMS = ("scheduler", "params")


def kind_of(reading: Reading) -> Any:
	return reading.block("scheduler").get("type")


@rule("DSP034", error="*")
def unknown_scheduler(reading: Reading) -> Hits:
	"""The scheduler's `type` is neither one of DeepSpeed's own nor a class of `torch.optim.lr_scheduler` it can use.

	Names have to be exact. PyTorch's schedulers insist on a PyTorch optimizer, but with ZeRO, fp16 or bf16 DeepSpeed
	hands them a wrapper, which they refuse. Source: `runtime/engine.py`, `_scheduler_from_config`.
	"""
	kind = kind_of(reading)
	if kind is None:
		return
	at = reading.document.value("scheduler", "type")
	own = reading.facts.schedulers
	if not isinstance(kind, str):
		yield Hit(at, f'`scheduler.type` has to be a name such as "WarmupLR", but is {shown(kind)}')
	elif reading.facts.scheduler(kind) is None:
		near = closest(kind, own)
		advice = f"did you mean {near}?" if near else f"DeepSpeed {reading.release} has {listing(own)}"
		fix = rewriting(at, near, Applicability.UNSAFE) if near else None
		message = f'"{kind}" is no scheduler of DeepSpeed {reading.release}, and no class of PyTorch; {advice}'
		yield Hit(at, message, fix)
	elif kind not in own and (reading.stage != 0 or reading.fp16 or reading.bf16):
		message = f"PyTorch's {kind} refuses the wrapped optimizer that ZeRO, fp16 and bf16 make; use {listing(own)}"
		yield Hit(at, message)


@rule("DSP035", error="*")
def scheduler_parameter(reading: Reading) -> Hits:
	"""A parameter that the scheduler's class does not take, or one that it needs and does not get.

	`scheduler.params` become the keyword arguments of the class. A scheduler without `params` is refused, even where
	every parameter has a default. WarmupDecayLR and WarmupCosineLR need `total_num_steps`; WarmupCosineLR works with
	ratios and takes no `warmup_min_lr` or `warmup_max_lr`. Source: 0.19.8, runtime/lr_schedules.py.
	"""
	kind = kind_of(reading)
	known = reading.facts.scheduler(kind) if isinstance(kind, str) else None
	if known is None:
		return
	params = reading.block("scheduler").get("params")
	if not isinstance(params, dict):
		where = PARAMS if reading.document.has(*PARAMS) else ("scheduler",)
		message = f"{known.name} needs `scheduler.params` as a mapping; write {{}} for its defaults"
		yield Hit(reading.document.value(*where), message)
		return
	for name in params:
		if not known.open and name not in known.parameters:
			advice, fix = parameter_meant(known, params, (*PARAMS, name))
			message = f"{known.name} takes no parameter `{name}`; {advice}"
			yield Hit(reading.document.key(*PARAMS, name), message, fix)
	for name in known.required:
		if name not in params:
			yield Hit(reading.document.key(*PARAMS), f"{known.name} needs the parameter `{name}`")


@rule("DSP036", error="*")
def scheduler_value(reading: Reading) -> Hits:
	"""A value that the scheduler's class refuses, or puts another one in the place of.

	Since 0.19.3 `warmup_num_steps` has to be an integer above 0 (before, anything below 2 counted as 2); since 0.19.4
	step sizes have to be above 0. A `warmup_type` other than "log" and "linear" counts as "log", and a warm-up should
	not be longer than the whole run. Source: 0.19.8, runtime/lr_schedules.py.
	"""
	kind, params, document = kind_of(reading), reading.block("scheduler.params"), reading.document
	for row in rows("scheduler_values"):
		if kind not in row["types"] or not reading.covers(row.get("releases", "*")):
			continue
		for name in row["names"]:
			if name in params and not passes(params[name], row) and not is_for_reader(reading, name):
				severity = Severity(row["severity"]) if "severity" in row else None
				message = unlike(name, row["reason"], params[name])
				yield Hit(document.value(*PARAMS, name), message, None, severity)
	total, warmup = (document.get(*PARAMS, f"{name}_num_steps") for name in ("total", "warmup"))
	if kind in ("WarmupDecayLR", "WarmupCosineLR") and is_number(total) and is_number(warmup) and total < warmup:
		text = f"the warm-up of {warmup} steps is longer than the whole run of {total}, so that the rate never decays"
		yield Hit(document.value(*PARAMS, "warmup_num_steps"), text, None, Severity.WARNING)


def is_for_reader(reading: Reading, name: str) -> bool:
	given = reading.document.get(*PARAMS, name)
	return f"scheduler.params.{name}" in reading.filled or (given == "auto" and reading.file.huggingface)


def passes(value: Any, row: dict[str, Any]) -> bool:
	if "one_of" in row:
		return value in row["one_of"]
	if not any(is_kind(value, kind) for kind in row["takes"]):
		return False
	if not isinstance(value, (int, float)):
		return True
	return not ("gt" in row and value <= row["gt"]) and not ("ge" in row and value < row["ge"])
