"""Checks what is told against the schema of facts, with messages that name the fact and the allowed range.

It reads only the few words of JSON Schema that the schema of facts uses, so that triage needs no package; a test holds
it against a full validator.
"""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ..model import Pointer, json_pointer
from ..resources import load_json
from ..rules.suggest import closest, did_you_mean, listing, shown

SCHEMA = "schemas/facts.schema.json"
MOST_PROBLEMS = 50
SCALES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)([kmbt]?)", re.IGNORECASE)
FROM_SCRATCH = "write full, which needs the same from scratch, or continued"
# What others call a kind of task.
HINTS = {
	**dict.fromkeys(("pretrain", "pretraining", "pre-train", "pre-training"), FROM_SCRATCH),
	**dict.fromkeys(("sft", "finetune", "finetuning", "fine-tune", "fine-tuning"), "write full, lora or qlora"),
}


class Problem(NamedTuple):
	"""A fact that cannot be used: where it stands, and what is wrong with it."""

	pointer: str
	message: str


def facts_schema() -> Mapping[str, Any]:
	schema: Mapping[str, Any] = load_json(SCHEMA)
	return schema


def check(data: object) -> list[Problem]:
	return list(islice(_value(data, facts_schema(), ()), MOST_PROBLEMS))


def _value(value: object, schema: Mapping[str, Any], at: Pointer) -> Iterator[Problem]:
	kind = schema["type"]
	if kind == "object":
		yield from _mapping(value, schema, at)
	elif kind in ("integer", "number"):
		yield from _number(value, schema, at)
	elif kind == "array":
		yield from _array(value, schema, at)
	elif kind == "boolean" and not isinstance(value, bool):
		yield _problem(at, f"{shown(value)} is neither true nor false")
	elif kind == "string":
		yield from _word(value, schema, at)


def _mapping(value: object, schema: Mapping[str, Any], at: Pointer) -> Iterator[Problem]:
	if not isinstance(value, Mapping):
		known = listing(schema["properties"]) if "properties" in schema else "the keys of a config.json"
		yield _problem(at, f"{shown(value)} is no mapping; write a mapping with {known}")
		return
	properties = schema.get("properties")
	if properties is None:
		return
	if not at and (said := no_facts(value)):
		yield _problem(at, said)
		return
	for name in schema.get("required", ()):
		if name not in value:
			said = f"there is no {name}: give its name (--{name}), its config.json (--config) or its sizes"
			yield _problem((*at, name), said)
	for key, item in value.items():
		if key in properties:
			yield from _value(item, properties[key], (*at, key))
		else:
			yield _problem((*at, str(key)), _unknown(str(key), properties))


def no_facts(value: Mapping[Any, Any]) -> str | None:
	known = facts_schema()["properties"]
	if not value or any(key in known for key in value):
		return None
	keys = ", ".join(str(shown(key)) for key in list(value)[:3])
	return f"no key of it is a fact ({keys}{' …' if len(value) > 3 else ''}); facts are {listing(known)}"


def _unknown(key: str, properties: Mapping[str, Any]) -> str:
	near = closest(key, properties)
	return f"no fact is called {shown(key)}" + (did_you_mean(near) if near else f"; known are {listing(properties)}")


def _number(value: object, schema: Mapping[str, Any], at: Pointer) -> Iterator[Problem]:
	whole = schema["type"] == "integer"
	usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
	least, most = schema.get("minimum", schema.get("exclusiveMinimum")), schema["maximum"]
	if usable and isinstance(value, (int, float)) and not (whole and value != int(value)):
		above = value > least if "exclusiveMinimum" in schema else value >= least
		if above and value <= most:
			return
	what = "a whole number" if whole else "a number"
	start = f"above {least}" if "exclusiveMinimum" in schema else f"from {least}"
	number = spelled_out(value, 1024 if at[-1:] == ("seq",) else 1000) if isinstance(value, str) else None
	instead = "" if number is None else f"; write {number}"
	yield _problem(at, f"{shown(value)} is not {what} {start} to {most}{instead}")


def spelled_out(text: str, thousand: int = 1000) -> float | int | None:
	"""A number as people write it (8k, 7b, 8e9); None for what is none."""
	found = NUMBER.fullmatch(text.strip().replace("_", ""))
	if not found:
		return None
	scale = found.group(2).lower()
	value = float(found.group(1)) * (thousand if scale == "k" else SCALES[scale])
	return int(value) if value.is_integer() else value


def _array(value: object, schema: Mapping[str, Any], at: Pointer) -> Iterator[Problem]:
	if not isinstance(value, list) or len(value) < schema.get("minItems", 0):
		yield _problem(at, f"{shown(value)} is no list with at least one entry")
		return
	for index, item in enumerate(value):
		yield from _value(item, schema["items"], (*at, index))


def _word(value: object, schema: Mapping[str, Any], at: Pointer) -> Iterator[Problem]:
	values = schema.get("enum")
	if values is not None and value not in values:
		near = closest(value, values) if isinstance(value, str) else None
		hint = HINTS.get(value.lower()) if at[-1:] == ("kind",) and isinstance(value, str) else None
		rest = f"; {hint}" if hint else did_you_mean(near)
		yield _problem(at, f"{shown(value)} is none of {listing(values)}{rest}")
	elif not isinstance(value, str) or not value:
		yield _problem(at, f"{shown(value)} is no text")


def _problem(at: Pointer, message: str) -> Problem:
	return Problem(json_pointer(at), message)
