"""Conditions on a DeepSpeed config, as the rows of `data/deepspeed_rules.json` state them.

A row applies when all of its `when` hold: the subject is a setting by its dotted path (the value that takes effect),
a fact about the whole ("@stage", "@optimizer"), a path with "?" (whether the file has it), or one with "!" (whether
its reader fills it in). What is wanted is a value, a list of values, or an object of tests ({"gt": 0}, {"not": "cpu"},
{"is": "int"}).
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter, ge, gt, le, lt
from typing import Any

from ..flow.deepspeed import Reading
from ..model import Applicability, Severity
from ..resources import load_json
from ..versions import covers
from .deepspeed_batch import SIZES
from .registry import Hit, Hits, Operation, Repair
from .rewriting import removing
from .suggest import shown

TESTED = {"adam": "*", "adamw": "*", "adagrad": "0.9.2..", "lion": "0.11.0..", "muon": "0.17.6.."}


def overlap_comm(reading: Reading) -> bool:
	"""Whether communication overlaps: where nothing is said, in stage 3 only."""
	given = reading.value("zero_optimization.overlap_comm")
	return reading.stage == 3 if given is None else bool(given)


def interval_below_update(reading: Reading) -> bool:
	block = "zero_optimization.zenflow."
	select, update = reading.value(block + "select_interval"), reading.value(block + "update_interval")
	return is_number(select) and is_number(update) and 0 != select < update


def more_limited_groups(reading: Reading) -> bool:
	limited, groups = (reading.value(f"expert_parallel.num_{kind}_groups") for kind in ("limited", "expert"))
	return isinstance(limited, (int, float)) and isinstance(groups, (int, float)) and limited > groups >= 1


def is_tested(reading: Reading) -> bool:
	if reading.optimizer is None or reading.facts.optimizer(reading.optimizer) is None:
		return True
	if reading.zenflow and reading.cpu_optimizer and reading.optimizer in ("adam", "adamw"):
		return reading.covers("0.19.3..")
	return reading.covers(TESTED[reading.optimizer]) if reading.optimizer in TESTED else False


FACTS: Mapping[str, Callable[[Reading], Any]] = {
	**{
		f"@{name}": attrgetter(name)
		for name in ("stage", "fp16", "bf16", "dtype", "optimizer", "cpu_optimizer", "zenflow")
	},
	"@accumulation": attrgetter("accumulation_dtype"),
	"@offload_optimizer": lambda reading: reading.offload_device("offload_optimizer"),
	"@offload_param": lambda reading: reading.offload_device("offload_param"),
	"@nvme": lambda reading: (
		"nvme" in (reading.offload_device("offload_param"), reading.offload_device("offload_optimizer"))
	),
	"@reader": attrgetter("file.consumer"),
	"@accelerate": attrgetter("file.huggingface"),
	"@overlap_comm": overlap_comm,
	"@dynamic_scale": lambda reading: reading.value("fp16.loss_scale") == 0,
	"@w_mode": lambda reading: "adam_w_mode" in reading.block("optimizer.params"),
	"@more_limited_groups": more_limited_groups,
	"@interval_below_update": interval_below_update,
	# Accelerate, and with it the Trainer, writes batch sizes into every config that has none
	"@any_batch_size": lambda reading: reading.file.huggingface or any(name in reading.document.data for name in SIZES),
	"@tested": is_tested,
	"@tp_sizes_differ": lambda reading: (
		reading.value("tensor_parallel.tp.tp_size") != reading.value("tensor_parallel.autotp_size")
	),
}


def subject(reading: Reading, name: str) -> Any:
	"""What a condition is about; many conditions are about the same."""
	if name not in reading.subjects:
		reading.subjects[name] = found_subject(reading, name)
	return reading.subjects[name]


def found_subject(reading: Reading, name: str) -> Any:
	if name.startswith("@"):
		return FACTS[name](reading)
	if name.endswith("?"):
		return reading.written(name[:-1])
	if name.endswith("!"):
		return name[:-1] in reading.filled
	return reading.value(name)


def is_number(value: object) -> bool:
	return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_numeral(text: str) -> bool:
	try:
		float(text)
	except ValueError:
		return False
	return True


def is_kind(value: object, kind: str) -> bool:
	"""Whether a value is of a JSON kind; "number" and "int" leave out true and false.

	"items" is a list that is not empty, "numeral" a text that is a number, "fraction" a float (4.0 too), "no name" a
	text that is empty or holds a dot.
	"""
	kinds: dict[str, bool] = {
		"number": is_number(value),
		"int": isinstance(value, int) and not isinstance(value, bool),
		"text": isinstance(value, str),
		"null": value is None,
		"mapping": isinstance(value, dict),
		"list": isinstance(value, list),
		"items": isinstance(value, list) and bool(value),
		"numeral": isinstance(value, str) and is_numeral(value),
		"bool": isinstance(value, bool),
		"fraction": isinstance(value, float),
		"no name": isinstance(value, str) and (not value or "." in value),
	}
	return kinds[kind]


def of_numbers(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
	return lambda value, operand: isinstance(value, (int, float)) and bool(compare(value, operand))


TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
	"not": lambda value, operand: value not in operand if isinstance(operand, list) else value != operand,
	**{compare.__name__: of_numbers(compare) for compare in (gt, ge, lt, le)},
	"is": is_kind,
	"is_not": lambda value, operand: not is_kind(value, operand),
	"odd": lambda value, operand: is_number(value) and (value % 2 != 0) is operand,
	"off_8": lambda value, operand: is_number(value) and (value % 8 != 0) is operand,
	"truthy": lambda value, operand: bool(value) is operand,
}


def holds(reading: Reading, conditions: Mapping[str, Any]) -> bool:
	return all(satisfied(subject(reading, name), wanted) for name, wanted in conditions.items())


def satisfied(value: Any, wanted: Any) -> bool:
	if isinstance(wanted, dict):
		return all(TESTS[test](value, operand) for test, operand in wanted.items())
	if isinstance(wanted, list):
		return any(same(value, choice) for choice in wanted)
	return same(value, wanted)


def same(value: Any, wanted: Any) -> bool:
	"""Compare as JSON does: true is not 1."""
	return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def rows(table: str) -> list[dict[str, Any]]:
	found: list[dict[str, Any]] = load_json("deepspeed_rules.json")[table]
	return found


@lru_cache(maxsize=8)
def by_key(table: str) -> Mapping[str, list[dict[str, Any]]]:
	found: dict[str, list[dict[str, Any]]] = {}
	for row in rows(table):
		for key in row["keys"]:
			found.setdefault(key, []).append(row)
	return found


@lru_cache(maxsize=1024)
def rows_for(code: str, release: str, accelerate: str) -> tuple[dict[str, Any], ...]:
	return tuple(
		row
		for row in rows("conflicts")
		if row["rule"] == code
		and covers(row.get("releases", "*"), release)
		and covers(row.get("accelerate", "*"), accelerate)
	)


def hits(reading: Reading, code: str) -> Hits:
	for row in rows_for(code, reading.release, reading.file.targets.accelerate):
		if holds(reading, row["when"]):
			yield hit(reading, row)


def hit(reading: Reading, row: Mapping[str, Any]) -> Hit:
	"""Make the hit of a row. Its message may name {value}, the value at the place, and {release}."""
	place = row["at"]
	message = row["message"].format(value=shown(reading.value(place)), release=reading.release)
	severity = Severity(row["severity"]) if "severity" in row else None
	return Hit(reading.at(place, row.get("part", "value")), message, repair(reading, row), severity)


def repair(reading: Reading, row: Mapping[str, Any]) -> Repair | None:
	"""The fix of a row: `set` gives a value to the setting at the place, `remove` takes it out."""
	pointer = reading.pointer(row["at"])
	if pointer is None or ("set" not in row and not row.get("remove")):
		return None
	applicability = Applicability(row.get("fix", "unsafe"))
	if row.get("remove"):
		return removing(pointer, applicability)
	title = f"set {pointer[-1]} to {shown(row['set'])}"
	return Repair(title, (Operation("replace", pointer, value=row["set"]),), applicability)
