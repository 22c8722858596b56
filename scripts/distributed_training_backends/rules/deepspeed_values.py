"""DSP rules about single values: wrong types and values, blocks that are no mapping, values that lose their meaning."""

from typing import Any

from ..flow.deepspeed import Reading
from ..flow.inputs import DeepSpeedFile
from ..knowledge.deepspeed import Key
from ..knowledge.pydantic_values import problem
from ..model import Applicability, Severity
from .deepspeed_batch import SIZES
from .deepspeed_conditions import by_key, holds, is_kind, same
from .deepspeed_walk import Entry, walk
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import rewriting
from .suggest import closest, did_you_mean, shown, unlike


@rule("DSP010", error="*")
def wrong_value(deepspeed: DeepSpeedFile) -> Hits:
	"""A value that the key does not take: another type, none of the values listed, or out of range.

	Blocks that are pydantic models convert what they can ("2" and 2.0 are taken for 2, "yes" for true) and refuse the
	rest; from 0.15.0 on (pydantic 2) 1.5 is no integer and 1 no text any more. Keys that are read from a plain
	dictionary are refused by whatever uses them first. Source: 0.19.8, the pydantic models below runtime/config.py, and
	the readers of the other blocks.
	"""
	for reading, entry in walk(deepspeed):
		if entry.key is None or entry.path in SIZES or entry.path in reading.filled or reading.section(entry.key.path):
			continue
		if reason := refusal(reading, entry, entry.key):
			yield about_value(reading, entry, entry.key, reason)


def refusal(reading: Reading, entry: Entry, key: Key) -> str | None:
	rows = (row["reason"] for row in by_key("values").get(entry.path, ()) if row_applies(reading, entry, row))
	return problem(entry.value, key, reading.facts.generation) or next(rows, None)


def row_applies(reading: Reading, entry: Entry, row: dict[str, Any]) -> bool:
	if not reading.covers(row.get("releases", "*")) or not holds(reading, row.get("when", {})):
		return False
	if "one_of" in row:
		folded = entry.value.lower() if isinstance(entry.value, str) and row.get("any_case") else entry.value
		return not any(same(folded, choice) for choice in row["one_of"])
	return any(is_kind(entry.value, kind) for kind in row["refuses"])


def about_value(reading: Reading, entry: Entry, key: Key, reason: str) -> Hit:
	at = reading.document.value(*entry.pointer)
	near = closest(entry.value, map(str, key.choices), 0.4) if isinstance(entry.value, str) else None
	message = unlike(entry.path, reason, entry.value) + did_you_mean(near)
	fix = None
	if near is not None:
		value = next(choice for choice in key.choices if str(choice) == near)
		fix = rewriting(at, value, Applicability.UNSAFE)
	return Hit(at, message, fix)


@rule("DSP011", error="*")
def block_is_no_mapping(deepspeed: DeepSpeedFile) -> Hits:
	"""A block that holds something else than a mapping: `"zero_optimization": null`, `"bf16": true`.

	DeepSpeed unpacks most blocks as keyword arguments or looks keys up in them, and fails on anything else.
	`"zero_optimization": true` is an old spelling of stage 1 that DeepSpeed still takes with a warning, while
	Accelerate and the Trainer fail on it. Write `{}` for a block without settings, or take it out. Source: deepspeed
	0.19.8, runtime/config.py; accelerate 1.15.0, utils/deepspeed.py, `find_config_node`.
	"""
	for reading, entry in walk(deepspeed):
		section = reading.section(entry.path)
		if section is None or isinstance(entry.value, dict) or is_passed_over(reading, entry):
			continue
		at = reading.document.value(*entry.pointer)
		if not section.takes(entry.value) or refused_by_reader(reading, entry):
			yield Hit(at, f"`{entry.path}` has to be a mapping, but is {shown(entry.value)}")
		elif entry.path == "zero_optimization" and isinstance(entry.value, bool):
			stage = int(entry.value)
			message = f"`zero_optimization: {shown(entry.value)}` is an old spelling of stage {stage}; write the stage"
			sure = Applicability.UNSAFE if reading.written("allgather_size") else Applicability.SAFE
			fix = Repair("write the stage", (Operation("replace", entry.pointer, value={"stage": stage}),), sure)
			yield Hit(at, message, fix, Severity.WARNING)


@rule("DSP012", error="*")
def block_lacks_key(deepspeed: DeepSpeedFile) -> Hits:
	"""A block without a key that DeepSpeed looks up in it without asking whether it is there.

	`amp`, `curriculum_learning` and `progressive_layer_drop` need `enabled`; each technique of `compression_training`
	needs `different_groups`, and each of its groups `params`. All of them are gone in 0.19.8. Source: 0.19.6,
	runtime/config.py, compression/config.py.
	"""
	for reading, entry in walk(deepspeed):
		section = reading.section(entry.path)
		if section is None or not isinstance(entry.value, dict) or entry.path in reading.facts.removed:
			continue
		for name in section.requires:
			if name not in entry.value:
				message = f"DeepSpeed {reading.release} fails on `{entry.path}` without `{name}`; add it"
				yield Hit(reading.document.key(*entry.pointer), message)


def is_passed_over(reading: Reading, entry: Entry) -> bool:
	"""Whether nobody looks at a block: `bfloat16` beside `bf16`, `params` without a `type`.

	The Trainer does look for the learning rate among the parameters before it knows the type.
	"""
	if entry.path in ("optimizer.params", "scheduler.params"):
		return reading.document.get(*entry.pointer[:-1], "type") is None and reading.file.consumer != "trainer"
	return entry.path == "bfloat16" and reading.document.get("bf16") is not None


def refused_by_reader(reading: Reading, entry: Entry) -> bool:
	return any(
		reading.file.consumer in row["readers"]
		and any(is_kind(entry.value, kind) for kind in row["refuses"])
		and holds(reading, row.get("when", {}))
		for row in by_key("reader_values").get(entry.path, ())
	)
