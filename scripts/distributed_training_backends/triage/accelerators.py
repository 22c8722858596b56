"""The accelerators that are known by name (data/gpus.json), and TPU slices such as v5e-8."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from ..resources import load_json
from ..rules.suggest import closest

DATA = "gpus.json"
VENDORS = re.compile(r"^(?:nvidia|tesla|geforce|quadro|amd|instinct|intel|habana|google|cloud|huawei|ascend)-+")
SLICE = re.compile(r"(?:tpu-)?(v\d+[a-z]*)-(\d+)")


class Accelerator(NamedTuple):
	"""One kind of accelerator; rates are dense peaks, `link_gb_per_s` is one direction between those of a node."""

	name: str
	device: str
	memory_gb: float
	memory_gib: float
	tflops: float
	fp8_tflops: float | None
	bf16: bool
	capability: float | None
	link: str
	link_gb_per_s: float
	source: str


class Slice(NamedTuple):
	"""Accelerators that are rented together: so many hosts with so many devices each."""

	accelerator: Accelerator
	nodes: int
	per_node: int


def find(name: str | None) -> Accelerator | None:
	"""The accelerator of that name, however it is spelled: `A100-SXM4-80GB`, `NVIDIA A100 80GB`, `rtx4090`."""
	return _by_name().get(_plain(name)) if name else None


def find_slice(name: str) -> Slice | None:
	"""The slice of that name, as Google names them: `v5e-8`, `v4-32`. None too where the number makes no sense."""
	found = SLICE.fullmatch(_plain(name))
	accelerator = find(found.group(1)) if found else None
	if found is None or accelerator is None:
		return None
	shape = load_json(DATA)["slices"][accelerator.name]
	devices, rest = divmod(int(found.group(2)), shape["per_device"])
	if rest or not devices:
		return None
	if devices <= shape["per_host"]:
		return Slice(accelerator, 1, devices)
	per_host = shape.get("per_host_in_pod", shape["per_host"])
	return None if devices % per_host else Slice(accelerator, devices // per_host, per_host)


def nearest_name(name: str) -> str | None:
	near = closest(_plain(name), _by_name())
	return _by_name()[near].name if near else None


def names() -> tuple[str, ...]:
	return tuple(row["name"] for row in rows())


def rows() -> list[dict[str, Any]]:
	data = load_json(DATA)
	return [dict(zip(data["columns"], row, strict=True)) for row in data["gpus"]]


def default_link(kind: str) -> float:
	speed: float = load_json(DATA)["links"][kind]["gb_per_s"]
	return speed


def _plain(name: str) -> str:
	text = re.sub(r"[\s_/()]+", "-", name.strip().lower()).strip("-")
	while (shorter := VENDORS.sub("", text)) != text:
		text = shorter
	text = re.sub(r"(?<=\d)(?:gib|g)\b", "gb", text)
	return re.sub(r"-(?=gb\b)", "", text)


@cache
def _by_name() -> dict[str, Accelerator]:
	return {_plain(name): made for row in rows() for made in [_made(row)] for name in _spellings(row)}


def _spellings(row: dict[str, Any]) -> Iterator[str]:
	for name in (row["name"], *row["aliases"]):
		yield name
		yield name.replace("-", "")


def _made(row: dict[str, Any]) -> Accelerator:
	made = Accelerator(**{name: row[name] for name in Accelerator._fields})
	return made._replace(
		capability=float(row["capability"]) if row["capability"] else None,
		link_gb_per_s=made.link_gb_per_s or default_link(made.link),
		source=load_json(DATA)["sources"][made.source],
	)
