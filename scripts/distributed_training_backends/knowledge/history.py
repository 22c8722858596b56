"""Facts as spans of releases: a tree of names whose leaves are lists of [first, last or null, value].

A file of such facts has the list of its `releases`; null as the last release means that the newest one still has
the fact with that value.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ..resources import load_json


class Parameter(NamedTuple):
	"""A parameter of a class or function.

	`allowed` are the values, and `instance` the types (`None` among them), beside which the class raises when it is
	built; its own default always passes. Both are empty where it does not look.
	"""

	name: str
	type: str
	default: Any
	required: bool
	allowed: tuple[Any, ...] = ()
	instance: tuple[str, ...] = ()


@cache
def _positions(file: str) -> Mapping[str | None, int]:
	releases: list[str] = load_json(file)["releases"]
	return {**{name: place for place, name in enumerate(releases)}, None: len(releases) - 1}


def branch(file: str, path: tuple[str, ...]) -> Any:
	"""What lies under a path: a mapping of names, a list of spans, or an empty mapping where nothing is known."""
	found: Any = load_json(file)
	for name in path:
		found = found.get(name, {}) if isinstance(found, dict) else {}
	return found


@lru_cache(maxsize=64)
def at(file: str, path: tuple[str, ...], release: str) -> dict[str, Any]:
	"""The facts under a path as they are in one listed release; names that the release lacks are left out.

	The answer is shared: do not change it.
	"""
	return _at(branch(file, path), _positions(file), _positions(file)[release])


def _at(below: Mapping[str, Any], positions: Mapping[str | None, int], place: int) -> dict[str, Any]:
	found = {}
	for name, item in below.items():
		if isinstance(item, dict):
			inner = _at(item, positions, place)
			if inner:
				found[name] = inner
			continue
		for first, last, value in item:
			if positions[first] <= place <= positions[last]:
				found[name] = value
				break
	return found


def presence(file: str, path: tuple[str, ...]) -> list[tuple[str, str | None]]:
	"""The spans of releases that have a fact, whatever its value; none for a path that names no single fact."""
	positions = _positions(file)
	runs = branch(file, path)
	joined: list[tuple[str, str | None]] = []
	for first, last, _ in runs if isinstance(runs, list) else ():
		if joined and positions[joined[-1][1]] + 1 == positions[first]:
			joined[-1] = (joined[-1][0], last)
		else:
			joined.append((first, last))
	return joined


def parameter(name: str, record: Mapping[str, Any]) -> Parameter:
	return Parameter(
		name,
		record.get("type", "Any"),
		record.get("default"),
		"default" not in record and not name.startswith("*"),
		tuple(record.get("allowed", ())),
		tuple(record.get("instance", ())),
	)
