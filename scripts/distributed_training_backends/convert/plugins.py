"""Plugin objects in Python: which argument of which class says what an option of the launcher says."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..flow.effect import normal, same
from ..knowledge.accelerate_api import parameters
from .source import strategy_named, table

Row = Mapping[str, Any]
OLDEST = "0.34.0"  # before it FSDP's plugin took torch's own objects instead of names


class Name(str):
	"""A text that is code already."""


def call(owner: str, arguments: Mapping[str, Any], *first: Name) -> str:
	words = [*first, *(f"{name}={code(value)}" for name, value in arguments.items())]
	short = f"{owner}({', '.join(words)})"
	if len(short) <= 80:
		return short
	return "\n".join([f"{owner}(", *(f"    {word}," for word in words), ")"])


def code(value: Any) -> str:
	if isinstance(value, Name):
		return value
	return json.dumps(value) if isinstance(value, (str, list)) else repr(value)


def rows() -> Iterator[tuple[str, Row]]:
	yield from table("plugins").items()


def option_of(row: Row, field: str) -> str:
	found: str = row["fields"].get(field, row["prefix"] + field)
	return found


def class_arguments(row: Row, options: Mapping[str, Any], release: str, owner: str = "") -> dict[str, Any]:
	"""The arguments of a class that options come to; what the class of this release does not have is left out."""
	wanted = ((field, option_of(row, field)) for field in parameters(owner or row["class"], release))
	found = {field: argument(row, field, options[option]) for field, option in wanted if option in options}
	return {field: value for field, value in found.items() if value is not None}


def argument(row: Row, field: str, value: Any) -> Any:
	if field == "sharding_strategy":
		strategy = strategy_named(value)
		return strategy.name if strategy else value
	if field in row.get("lists", ()) and isinstance(value, str):
		return value.split(",")
	if field == "override_linear_precision" and isinstance(value, list):
		return tuple(value)
	if isinstance(value, str) and normal(value) in (None, True) and value.lower() in ("true", "false"):
		return normal(value) is True
	return value.lower() if field in row.get("lower", ()) and isinstance(value, str) else value


def applies(row: Row, field: str, options: Mapping[str, Any], version: int) -> bool:
	only, condition = row.get("only", {}).get(field), row.get("when", {}).get(field)
	return only in (None, version) and (condition is None or same(options.get(condition[0]), condition[1]))
