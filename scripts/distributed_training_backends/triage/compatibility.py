"""Combinations that are impossible or pointless, and why: the rows of data/compatibility.json."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..model_triage import Addon
from ..resources import load_json
from ..versions import covers
from .accelerators import find
from .facts import Facts
from .setup import Setup
from .shapes import named

Fields = Mapping[str, Any]
DATA = "compatibility.json"
HARDWARE = ("device", "nodes", "gpus_per_node", "nvme_gib", "intra", "inter_gbit")
MODEL = ("params", "layers", "heads", "kv_heads", "tied", "experts")
OWN = ("precision", "weights", "optimizer", "attention", "bitsandbytes")


class Obstacle(NamedTuple):
	"""Why a setup is out: the row, the reason with its numbers, and where that can be read."""

	row: str
	reason: str
	source: str


def obstacles(facts: Facts, setup: Setup) -> Iterator[Obstacle]:
	fields = fields_of(facts, setup)
	rows = (row for row in load_json(DATA)["rows"] if fits(fields, row))
	return (Obstacle(row["id"], row["reason"].format_map(fields), row["source"]) for row in rows)


# Facts that a condition is about, the ones that a user may change first.
POINTERS = {
	"precision": "/precision",
	"quantization": "/task/quantization",
	"optimizer": "/optimizer",
	"attention": "/attention",
	"kind": "/task/kind",
	"device": "/hardware/device",
	"accelerate": "/versions/accelerate",
	"sequences": "/batch/global_batch",
}


def fact_behind(identifier: str) -> str:
	"""Where in the facts that stands which a row is about; nowhere if it is about the setup only."""
	row: Fields = next((row for row in load_json(DATA)["rows"] if row["id"] == identifier), {"when": {}})
	return next((pointer for field, pointer in POINTERS.items() if field in row["when"]), "")


def cautions(facts: Facts, setup: Setup) -> Iterator[str]:
	"""What the user of a setup has to know."""
	fields, data = fields_of(facts, setup), load_json(DATA)
	rows = (row for row in (*data["later"], *data["cautions"]) if fits(fields, row))
	return (f"{row['text'].format_map(fields)} ({row['source']})" for row in rows)


def comes_later(facts: Facts, setup: Setup) -> bool:
	fields = fields_of(facts, setup)
	return any(fits(fields, row) for row in load_json(DATA)["later"])


def addons(facts: Facts, setup: Setup) -> Iterator[Addon]:
	fields = fields_of(facts, setup)
	for row in load_json(DATA)["addons"]:
		if fits(fields, row):
			against = next((one for one in row.get("against", ()) if fits(fields, one)), None)
			said = against or row
			yield Addon(row["name"], against is None, said["text"].format_map(fields), said["source"])


def fits(fields: Fields, row: Fields) -> bool:
	return all(holds(fields, name, condition) for name, condition in row["when"].items())


def fields_of(facts: Facts, setup: Setup) -> Fields:
	"""Everything that a condition may ask about; None is unknown."""
	hardware, model, batch = facts.hardware, facts.model, facts.batch
	accelerator = find(hardware.gpu)
	config = model.config or (named(model.name) if model.name else {})
	return {
		**{name: row["value"] for name, row in load_json("planner.json")["thresholds"].items()},
		**setup._asdict(),
		**{name: getattr(model, name) for name in MODEL},
		**{name: getattr(hardware, name) for name in HARDWARE},
		**{name: getattr(facts, name) for name in OWN},
		**dict(facts.versions.items()),
		"world": setup.world,
		"all_gpus": hardware.world,
		"kind": facts.task.kind,
		"quantization": facts.task.quantization or "none",
		"seq": batch.seq,
		"global_batch": batch.global_batch,
		"micro_batch": batch.micro_batch,
		"data_parallel": setup.shard * setup.replicate,
		"sequences": (batch.micro_batch or 1) * setup.shard * setup.replicate,
		"half_seq": batch.seq // 2 if batch.seq and batch.seq % 2 == 0 else 1,
		"gpu": accelerator.name if accelerator else "accelerator",
		"bf16": accelerator.bf16 if accelerator else None,
		"capability": accelerator.capability if accelerator else None,
		"family": config.get("model_type"),
		"sliding": slides(config),
	}


def slides(config: Mapping[str, Any]) -> bool | None:
	kinds = config.get("layer_types")
	if isinstance(kinds, list):
		return "sliding_attention" in kinds or "chunked_attention" in kinds
	if "sliding_window" not in config:
		return None
	return bool(config["sliding_window"]) and config.get("use_sliding_window", True) is not False


def holds(fields: Fields, name: str, condition: Any) -> bool:
	value = fields[name]
	if isinstance(condition, list):
		return value in condition
	if value is None:
		return False
	if isinstance(condition, str):
		return covers(condition, value)
	((word, wanted),) = condition.items()
	if word == "not":
		return value not in wanted
	return compared(value, word, fields[wanted] if isinstance(wanted, str) else wanted)


def compared(value: float, word: str, other: float | None) -> bool:
	"""Compare two numbers as a row says; nothing holds where one is unknown."""
	if other is None:
		return False
	if word in ("above", "below"):
		return value > other if word == "above" else value < other
	divides = other % value == 0
	if word == "neither_dividing":
		divides = divides or value % other == 0
	return value > 1 and not divides
