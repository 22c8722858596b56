"""PYS rules about the values in plugin calls, and about arguments that do not go together."""

from collections.abc import Iterator
from typing import Any

from ..flow.script import Call, Script
from ..knowledge import accelerate_api as api
from ..model import Severity
from ..sources.document import OPEN
from ..sources.python_values import Made, Symbol
from ..versions import covers
from .python_tables import TYPES, Reading, Row, assumptions, read, rows, weighed
from .registry import Hit, rule
from .suggest import did_you_mean, listing, misfit, shown

QUANTIZATION = "BnbQuantizationConfig"


def written(value: Any) -> str:
	if isinstance(value, Made):
		return f"{value.name}(…)"
	if isinstance(value, str):
		return shown(str(value))
	if isinstance(value, (dict, list)):
		return "a mapping" if isinstance(value, dict) else "a list"
	return repr(value)


@rule("PYS010", error="*")
def argument_value(script: Script) -> Iterator[Hit]:
	"""A value that a class of Accelerate refuses.

	`mixed_precision` is compared letter by letter ("bf16", not "BF16" or "bfloat16"), backends of torch.compile and
	strategies of FSDP in any case. Sizes are integers of at least 1. Texts, mappings and numbers where an object of
	torch is meant are refused. Source: 1.15.0, utils/dataclasses.py, `__post_init__` of each class; accelerator.py,
	`Accelerator.__init__`.
	"""
	for row, call in rows("values", script):
		if "late" not in row and "slip" not in row:
			yield from refusals(row, call, f"accelerate {script.release} refuses it")
	for call in script.of(QUANTIZATION):
		yield from misfits(call)


def refusals(row: Row, call: Call, refusal: str) -> Iterator[Hit]:
	name = row["name"]
	unless = assumptions(call, row.get("when", {}))
	if name not in call.given or unless is None:
		return
	found = read(row, call.given[name], call)
	if found.expected:
		if row.get("null") == "refused":
			# the variables that beat the argument, where it is not known that none is set
			source = api.sources(call.name, call.script.release).get(name)
			unless += source.variables if source and not call.script.launched else ()
		yield weighed(call, misread(call, name, found, refusal), unless)


def misread(call: Call, name: str, found: Reading, refusal: str) -> Hit:
	text = misfit(f"{name}={written(call.given[name])}", found.expected, refusal)
	return Hit(call.at(name), text + did_you_mean(found.near))


def misfits(call: Call) -> Iterator[Hit]:
	"""The fields of a quantization config whose type or value is refused; both are extracted from the source."""
	for name, item in call.parameters.items():
		value = call.given.get(name, OPEN)
		if value is OPEN or isinstance(value, (Symbol, Made)) or not item.instance:
			continue
		kinds = tuple(TYPES[kind] for kind in item.instance if kind in TYPES)
		fits = isinstance(value, kinds) or (value is None and (name == "torch_dtype" or "None" in item.instance))
		known = not item.allowed or value in item.allowed or not isinstance(value, str)
		if not fits or not known:
			expected = listing(item.allowed) if item.allowed else f"of type {listing(item.instance)}"
			yield weighed(call, misread(call, name, Reading(expected), f"accelerate {call.script.release} refuses it"))


@rule("PYS011", error="*")
def not_the_object(script: Script) -> Iterator[Hit]:
	"""A mapping, a text or another object where a plugin is meant.

	Plugins are objects: `deepspeed_plugin=DeepSpeedPlugin(hf_ds_config="ds.json")`, not the path or the settings
	themselves. Several DeepSpeed plugins come as a mapping of names to plugins (since 1.0.0). Source: 1.15.0,
	accelerator.py, `Accelerator.__init__`; parallelism_config.py, `ParallelismConfig.__post_init__`.
	"""
	for row, call in rows("objects", script):
		name = row["name"]
		value = call.given.get(name)
		unless = assumptions(call, row.get("when", {}))
		if value in (None, OPEN, False) or unless is None or fits(row, value, script):
			continue
		late = covers(row["late"], script.release) if "late" in row else False
		then = "using it fails" if late else f"accelerate {script.release} refuses it"
		text = f"{name} is {written(value)}; {then}: it wants {row['class']}(…)"
		hit = weighed(call, Hit(call.at(name), text), unless)
		yield hit._replace(severity=Severity.WARNING) if late and hit.severity is None else hit


def fits(row: Row, value: Any, script: Script) -> bool:
	if isinstance(value, dict) and value and "mapping" in row and covers(row["mapping"], script.release):
		return all(one is OPEN or fits({"class": row["class"]}, one, script) for one in value.values())
	if isinstance(value, Made):
		return bool(value.name == row["class"])
	return isinstance(value, Symbol)


@rule("PYS012", error="*")
def refused_together(script: Script) -> Iterator[Hit]:
	"""Arguments that a class of Accelerate refuses together.

	Each of them would be taken alone. An argument that is left out may come from the launcher: with `fsdp_version: 2`
	in the config file, a plugin without `fsdp_version` is one of FSDP2. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`; parallelism_config.py, `ParallelismConfig.__post_init__`;
	accelerator.py, `Accelerator.__init__`.
	"""
	for row, call in rows("together", script):
		if (unless := met(call, row)) is not None:
			yield weighed(call, Hit(call.at(row["at"]), row["says"]), unless)


def met(call: Call, row: Row) -> list[str] | None:
	return assumptions(call, row["when"]) if all(name in call.parameters for name in row["when"]) else None


@rule("PYS020", warning="*")
def argument_without_effect(script: Script) -> Iterator[Hit]:
	"""An argument that Accelerate overrules, or does not look at.

	FSDP2 knows no `backward_prefetch`, `use_orig_params` and `sync_module_states`; a wrap policy reads only its own
	setting. Source: 1.15.0, utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`.
	"""
	for row, call in rows("unread", script):
		if (unless := met(call, row)) is not None:
			doubt = f" (unless the launcher sets {' or '.join(dict.fromkeys(unless))})" if unless else ""
			yield Hit(call.at(row["at"], "key"), f"{row['at']} has no effect: {row['says']}{doubt}")
	for row, call in rows("values", script):
		if "slip" in row and (name := row["name"]) in call.given and read(row, call.given[name], call).expected:
			text = f"{name}={written(call.given[name])} {row['slip']}; write {row['what']}"
			yield Hit(call.at(name), text)


@rule("PYS021", warning="*")
def refused_later(script: Script) -> Iterator[Hit]:
	"""A value that the class takes and that is refused when it is used.

	DeepSpeed knows ZeRO stages 0 to 3 and the devices none, cpu and nvme, and looks at them in `prepare`; torch wants a
	`timedelta` in `init_process_group`, and its own modes in `torch.compile`. Source: deepspeed 0.19.8,
	runtime/zero/config.py; torch 2.13.0, distributed/distributed_c10d.py.
	"""
	for row, call in rows("values", script):
		if "late" in row:
			for hit in refusals(row, call, row["late"]):
				yield hit if hit.severity else hit._replace(severity=Severity.WARNING)


@rule("PYS022", info="*")
def deprecated_argument(script: Script) -> Iterator[Hit]:
	"""A class or an argument that still works and has a successor.

	Accelerate warns of it. Source: 1.15.0, utils/dataclasses.py, `FP8RecipeKwargs`; accelerator.py,
	`Accelerator.__init__`.
	"""
	for row, call in rows("deprecated", script):
		if call.parameters and (not row["at"] or row["at"] in call.given):
			yield Hit(call.at(row["at"], "key"), f"{row['at'] or call.name} is deprecated; {row['says']}")
