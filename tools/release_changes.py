"""What one release changed against the one before it, in words: names that came and went, defaults and values."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from distributed_training_backends.knowledge import accelerate, accelerate_api
from distributed_training_backends.resources import load_json
from extraction import leaves
from reference_tables import code, codes, value

# By file, the branches that are worth telling, and what the names in them are.
TOLD: Mapping[str, Mapping[str, str]] = {
	"accelerate.json": {"options": "launch flag", "fields": "config key", "enums": "value", "constants": "constant"},
	"accelerate_api.json": {"parameters": "parameter"},
	"deepspeed.json": {"keys": "key", "removed": "refusal"},
	"transformers.json": {
		"training_arguments": "training argument",
		"fsdp_config": "key of `fsdp_config`",
		"accelerator_config": "key of `accelerator_config`",
		"bits_and_bytes": "parameter of `BitsAndBytesConfig`",
	},
}
# What names begin with that are written once for all of them, with the rest in braces.
SHARED = re.compile(r"--(?:deepspeed|fp8|fsdp|megatron_lm|mpirun|parallelism_config(?:_cp|_sp)?)_|(?:\w+\.)+")
# Constants of Accelerate that a user meets: minimum versions, and values of settings.
CONSTANTS = re.compile(r"(?:FSDP|DEEPSPEED)_\w+|\w+_VERSION")


class Change(NamedTuple):
	"""A name that came, went or changed; `before` and `after` are its records, None where there is none."""

	path: tuple[str, ...]
	before: Any
	after: Any


def changes(file: str, release: str) -> Iterator[str]:
	found = changes_by_release(file).get(release, [])
	for branch, noun in TOLD[file].items():
		mine = [change for change in found if change.path[0] == branch]
		if noun == "constant":
			yield from (constant_line(change) for change in mine if CONSTANTS.fullmatch(change.path[1]))
			continue
		yield from listed("new", noun, [change for change in mine if change.before is None], release)
		gone = [change for change in mine if change.after is None and is_gone(change, release)]
		yield from listed("gone", noun, gone, release)
		yield from defaults(mine)
		yield from (line for change in mine if (line := choices_line(change)))


@cache
def changes_by_release(file: str) -> Mapping[str, Sequence[Change]]:
	content = load_json(file)
	listing: list[str] = content["releases"]
	found: dict[str, list[Change]] = defaultdict(list)
	tree = {branch: content[branch] for branch in TOLD[file]}
	for path, spans in leaves(tree):
		ends = [*(listing.index(last) + 1 if last else len(listing) for _, last, _ in spans)]
		for number, (first, _, record) in enumerate(spans):
			before = spans[number - 1][2] if number and ends[number - 1] == listing.index(first) else None
			found[first].append(Change(path, before, record))
			goes_on = number + 1 < len(spans) and listing.index(spans[number + 1][0]) == ends[number]
			if ends[number] < len(listing) and not goes_on:
				found[listing[ends[number]]].append(Change(path, record, None))
	return found


def is_gone(change: Change, release: str) -> bool:
	branch, *owner, name = change.path
	return branch != "parameters" or name not in accelerate_api.parameters(owner[0], release)


def listed(verb: str, noun: str, found: Sequence[Change], release: str) -> Iterator[str]:
	"""Lines that list names; of a new class or function the name alone, and of a new block."""
	groups: dict[str, list[str]] = defaultdict(list)
	blocks = {change.path[1] for change in found} if noun == "key" else set()
	for change in found:
		owner = change.path[1]
		if noun == "parameter" and verb == "new" and first_seen(owner) == release:
			groups["class or function"].append(owner)
		elif not any(owner.startswith(f"{block}.") for block in blocks) and not has_flag(verb, change, release):
			of_sagemaker = " for SageMaker" if owner == "SageMakerConfig" else ""
			groups[noun + of_sagemaker].append(f"{owner}." * (noun in ("value", "parameter")) + name_of(change))
	yield from (f"{verb} {subject}: {braced(dict.fromkeys(names))}" for subject, names in groups.items())


def has_flag(verb: str, change: Change, release: str) -> bool:
	if verb != "new" or change.path[0] != "parameters":
		return False
	flags = [one for one in changes_by_release("accelerate.json").get(release, []) if one.path[0] == "options"]
	return any(
		one.before is None and name_of(one).endswith((f"_{change.path[-1]}", f"--{change.path[-1]}")) for one in flags
	)


def braced(names: Iterable[str]) -> str:
	groups: dict[str, list[str]] = defaultdict(list)
	for name in names:
		prefix = found[0] if (found := SHARED.match(name)) else ""
		groups[prefix or name].append(name.removeprefix(prefix))
	return codes(
		prefix if rest == [prefix] else f"{prefix}{rest[0] if len(rest) == 1 else '{' + ','.join(rest) + '}'}"
		for prefix, rest in groups.items()
	)


@cache
def first_seen(owner: str) -> str:
	return next(release for release in accelerate.RELEASES if owner in accelerate_api.owners(release))


def name_of(change: Change) -> str:
	branch, *_, name = change.path
	record = change.after if change.after is not None else change.before
	if branch == "options":
		return next(iter(record["flags"]), name) if isinstance(record, dict) else name
	return str(record) if branch == "enums" else name


def defaults(found: Sequence[Change]) -> Iterator[str]:
	groups: dict[str, list[str]] = defaultdict(list)
	for change in found:
		before, after = change.before, change.after
		if (
			isinstance(before, dict)
			and isinstance(after, dict)
			and before.get("default", ...) != after.get("default", ...)
		):
			owner = f" of {code(change.path[1])}" if change.path[0] == "parameters" else ""
			groups[owner].append(f"{code(name_of(change))} {shown(before)} → {shown(after)}")
	yield from (f"default{owner}: {', '.join(texts)}" for owner, texts in groups.items())


def choices_line(change: Change) -> str:
	old, new = (record.get("choices") if isinstance(record, dict) else None for record in change[1:])
	return f"choices of {code(name_of(change))}: {difference(old, new)}" if old != new and old and new else ""


def shown(record: Mapping[str, Any]) -> str:
	if "default" not in record:
		return "required"
	text = value(record["default"])
	return "unset" if re.fullmatch(r"_\w+", text) else text


def constant_line(change: Change) -> str:
	name = code(change.path[1])
	if isinstance(change.before, list) and isinstance(change.after, list):
		return f"{name}: {difference(change.before, change.after)}"
	if change.before is None:
		return f"new constant {name}: {value(change.after)}"
	return (
		f"{name}: {value(change.before)} → {value(change.after)}"
		if change.after is not None
		else f"gone constant {name}"
	)


def difference(old: Sequence[Any], new: Sequence[Any]) -> str:
	came, went = [item for item in new if item not in old], [item for item in old if item not in new]
	parts = [f"new {codes(map(str, came))}"] if came else []
	parts += [f"gone {codes(map(str, went))}"] if went else []
	return ", ".join(parts) or "another order"
