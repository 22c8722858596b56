"""Seeded changes to real configs: what people do to a file by accident, and what the tables must not miss.

A mutation works on parsed data and dumps it again, so that what is judged is always a well-formed file. The names of
other keys come from the files themselves: from the same place in other files of the pool.
"""

import copy
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import yaml
from tests.oracle.cases import Case

Path: TypeAlias = tuple[str, ...]
Neighbours: TypeAlias = dict[Path, list[str]]
ATTEMPTS = 200


class Pool:
	"""Cases of one kind to draw from, with the keys that stand at each place anywhere among them."""

	def __init__(self, cases: Sequence[Case]) -> None:
		self.cases = [case for case in cases if isinstance(case.data, dict) and keys(case.data)]
		seen: defaultdict[Path, set[str]] = defaultdict(set)
		for case in self.cases:
			for path in keys(case.data):
				seen[path[:-1]].add(path[-1])
		self.neighbours: Neighbours = {place: sorted(names) for place, names in sorted(seen.items())}


def keys(data: Any, above: Path = ()) -> list[Path]:
	"""The paths of all keys of nested mappings; keys that are no text are left out."""
	if not isinstance(data, dict):
		return []
	found: list[Path] = []
	for key, value in data.items():
		if isinstance(key, str):
			found += [(*above, key), *keys(value, (*above, key))]
	return found


def mapping_at(data: Any, path: Path) -> dict[str, Any]:
	for key in path:
		data = data[key]
	found: dict[str, Any] = data
	return found


def rename_key(mapping: dict[str, Any], old: str, new: str) -> None:
	entries = [(new if key == old else key, value) for key, value in mapping.items() if key != new]
	mapping.clear()
	mapping.update(entries)


# --- the kinds of mutation ---


def drop(data: dict[str, Any], pool: Pool, draw: random.Random) -> str:  # noqa: ARG001 (one signature for all)
	path = draw.choice(keys(data))
	del mapping_at(data, path[:-1])[path[-1]]
	return ".".join(path)


def rename(data: dict[str, Any], pool: Pool, draw: random.Random) -> str:
	path = draw.choice(keys(data))
	new = draw.choice([name for name in pool.neighbours[path[:-1]] if name != path[-1]])
	rename_key(mapping_at(data, path[:-1]), path[-1], new)
	return f"{'.'.join(path)} -> {new}"


def misspell(data: dict[str, Any], pool: Pool, draw: random.Random) -> str:  # noqa: ARG001
	"""Leave out, double, swap or replace a letter of a key, or write it with hyphens or in capitals."""
	path = draw.choice(keys(data))
	new = draw.choice(list(misspellings(path[-1], draw)))
	rename_key(mapping_at(data, path[:-1]), path[-1], new)
	return f"{'.'.join(path)} -> {new}"


def misspellings(word: str, draw: random.Random) -> Iterator[str]:
	at = draw.randrange(len(word))
	yield word[:at] + word[at + 1 :] or "x"
	yield word[: at + 1] + word[at:]
	yield word[:at] + draw.choice("aeinorst") + word[at + 1 :]
	yield word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
	yield word.replace("_", "-")
	yield word.replace("_", "")
	yield word.upper()


def retype(data: dict[str, Any], pool: Pool, draw: random.Random) -> str:  # noqa: ARG001
	path = draw.choice(keys(data))
	mapping = mapping_at(data, path[:-1])
	value = mapping[path[-1]]
	mapping[path[-1]] = new = draw.choice([other for other in other_types(value, draw) if other != value])
	return f"{'.'.join(path)}: {value!r} -> {new!r}"


def other_types(value: Any, draw: random.Random) -> list[Any]:
	number = draw.choice((0, 1, 2, 4, 64, -1))
	quoted = str(value).lower() if isinstance(value, bool) else str(value)
	return [
		draw.choice(("auto", "none", "cpu", "true", "two", "")),
		quoted if not isinstance(value, dict | list) else "x",
		number,
		number + 0.5,
		draw.choice((True, False)),
		None,
		[value],
		{"value": 1},
	]


def move(data: dict[str, Any], pool: Pool, draw: random.Random) -> str:  # noqa: ARG001
	paths = keys(data)
	downward = [
		(path, (*path[:-1], block[-1]))
		for path in paths
		for block in paths
		if block[:-1] == path[:-1] and block != path and isinstance(mapping_at(data, path[:-1])[block[-1]], dict)
	]
	upward = [(path, path[:-2]) for path in paths if len(path) > 1]
	path, target = draw.choice(draw.choice([some for some in (upward, downward) if some]))
	value = mapping_at(data, path[:-1]).pop(path[-1])
	mapping_at(data, target)[path[-1]] = value
	return f"{'.'.join(path)} -> {'.'.join((*target, path[-1]))}"


def combine(data: dict[str, Any], pool: Pool, draw: random.Random) -> str:
	"""Take over a block, or where there is none a setting, of another file."""
	donor = draw.choice(pool.cases)
	blocks = [key for key, value in donor.data.items() if isinstance(value, dict) and data.get(key) != value]
	key = draw.choice(blocks or list(donor.data))
	data[key] = copy.deepcopy(donor.data[key])
	return f"{key} of {donor.name}"


KINDS: dict[str, Callable[[dict[str, Any], Pool, random.Random], str]] = {
	"drop": drop,
	"rename": rename,
	"misspell": misspell,
	"retype": retype,
	"move": move,
	"combine": combine,
}


# --- drawing ---


def mutants(pool: Pool, kind: str, count: int, seed: int) -> list[Case]:
	"""As many different mutations of one kind as asked for; the same ones for the same seed and pool."""
	found: dict[str, Case] = {}
	for number in range(count * ATTEMPTS):
		if len(found) == count or not pool.cases:
			break
		mutant = mutated(pool, kind, random.Random(f"{seed}/{kind}/{number}"))
		if mutant is not None:
			found.setdefault(mutant.text, mutant)
	return list(found.values())


def mutated(pool: Pool, kind: str, draw: random.Random) -> Case | None:
	case = draw.choice(pool.cases)
	data = copy.deepcopy(case.data)
	before = dump(data, case.suffix)
	try:
		what = KINDS[kind](data, pool, draw)
	except IndexError:  # nothing to choose from
		return None
	text = dump(data, case.suffix)
	if text == before:
		return None
	return Case(f"{case.name} {kind} {what}", case.kind, text, case.suffix, kind, case.files)


def dump(data: Any, suffix: str) -> str:
	# `deepspeed_yaml` files hold JSON under another name, which is what their readers expect.
	if suffix == ".json" or (suffix == ".yml" and "zero_optimization" in data):
		return json.dumps(data, indent=2)
	return yaml.safe_dump(data, sort_keys=False)


# --- the smallest config that still shows a disagreement ---


def smallest(case: Case, shows: Callable[[Case], bool], budget: int = 60) -> Case:
	"""Leave out key after key, whole blocks first; `budget` bounds how often `shows` is asked."""
	if not isinstance(case.data, dict):
		return case
	best, asked, progress = case, 0, True
	while progress:
		progress = False
		for path in sorted(keys(best.data), key=len):
			smaller = without(best, path)
			if smaller is None:
				continue
			if asked == budget:
				return best
			asked += 1
			if shows(smaller):
				best, progress = smaller, True
	return best


def without(case: Case, path: Path) -> Case | None:
	"""The case without one key; None when the key is gone already."""
	data = copy.deepcopy(case.data)
	try:
		del mapping_at(data, path[:-1])[path[-1]]
	except (KeyError, TypeError):
		return None
	return replace(case, text=dump(data, case.suffix))
