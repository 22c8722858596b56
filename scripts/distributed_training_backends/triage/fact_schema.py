"""Checks what is told against the schema of facts, with messages that name the fact and the allowed range.

It reads only the few words of JSON Schema that the schema of facts uses, so that triage needs no package; a test holds
it against a full validator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from distributed_training_backends.model import Pointer, json_pointer
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules.suggest import closest, did_you_mean, listing, shown

SCHEMA = "schemas/facts.schema.json"
MOST_PROBLEMS = 50


class Problem(NamedTuple):
    """A fact that cannot be used: where it stands, and what is wrong with it."""

    pointer: str
    message: str


def facts_schema() -> Mapping[str, Any]:
    """The published schema of facts."""
    schema: Mapping[str, Any] = load_json(SCHEMA)
    return schema


def check(data: object) -> list[Problem]:
    """Every departure from the schema, in the order of the data."""
    found = []
    for problem in _value(data, facts_schema(), ()):
        found.append(problem)
        if len(found) == MOST_PROBLEMS:
            break
    return found


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
    for name in schema.get("required", ()):
        if name not in value:
            yield _problem((*at, name), f"there is no {name}: without it nothing can be said")
    for key, item in value.items():
        if key in properties:
            yield from _value(item, properties[key], (*at, key))
        else:
            yield _problem((*at, str(key)), _unknown(str(key), properties))


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
    yield _problem(at, f"{shown(value)} is not {what} {start} to {most}")


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
        yield _problem(at, f"{shown(value)} is none of {listing(values)}{did_you_mean(near)}")
    elif not isinstance(value, str) or not value:
        yield _problem(at, f"{shown(value)} is no text")


def _problem(at: Pointer, message: str) -> Problem:
    return Problem(json_pointer(at), message)
