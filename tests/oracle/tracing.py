"""Which keys of a DeepSpeed config does anything read? A mapping that notes every look-up by its path."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

# Sections that a pydantic model takes whole: the model answers for their keys, not the look-ups.
MODELLED = (
	"zero_optimization",
	"fp16",
	"bf16",
	"bfloat16",
	"comms_logger",
	"tensorboard",
	"wandb",
	"csv_monitor",
	"comet",
	"hybrid_engine",
	"compile",
	"timers.throughput",
	"tensor_parallel",
	"weight_quantization",
	"pipeline",
	"optimizer.params",
	"scheduler.params",
	"amp",
	"datastates_ckpt",
)


class Traced(dict[Any, Any]):
	"""A dict that notes each key asked for (by `get`, `[]`, `in` or `keys() in`); iterating is not asking."""

	def __init__(self, data: dict[Any, Any], path: str = "", asked: set[str] | None = None) -> None:
		self.path = path
		self.asked: set[str] = set() if asked is None else asked
		super().__init__({key: self._wrap(key, value) for key, value in data.items()})

	def _wrap(self, key: Any, value: Any) -> Any:
		return Traced(value, f"{self.path}{key}.", self.asked) if isinstance(value, dict) else value

	def _note(self, key: Any) -> None:
		self.asked.add(f"{self.path}{key}")

	def get(self, key: Any, default: Any = None) -> Any:
		self._note(key)
		return super().get(key, default)

	def __getitem__(self, key: Any) -> Any:
		self._note(key)
		return super().__getitem__(key)

	def __contains__(self, key: object) -> bool:
		self._note(key)
		return super().__contains__(key)

	def pop(self, key: Any, *default: Any) -> Any:
		self._note(key)
		return super().pop(key, *default)

	def keys(self) -> Any:
		return _Keys(self)

	def copy(self) -> Traced:
		clone = Traced({}, self.path, self.asked)
		clone.update(self)
		return clone

	__copy__ = copy

	def __deepcopy__(self, memo: dict[int, Any]) -> Traced:
		clone = Traced({}, self.path, self.asked)
		for key, value in self.items():
			clone[key] = copy.deepcopy(value, memo)
		return clone

	def __reduce__(self) -> Any:
		return dict, (dict(self),)


class _Keys(list[Any]):
	"""The keys of a traced mapping, which pass the question `in` on."""

	def __init__(self, mapping: Traced) -> None:
		super().__init__(dict.keys(mapping))
		self.mapping = mapping

	def __contains__(self, key: object) -> bool:
		return key in self.mapping


def paths(data: dict[Any, Any], path: str = "") -> Iterator[str]:
	for key, value in data.items():
		yield f"{path}{key}"
		if isinstance(value, dict):
			yield from paths(value, f"{path}{key}.")


def unread(data: dict[Any, Any], asked: set[str]) -> list[str]:
	"""Paths that nothing asked for, without those below an unread key and below modelled sections."""
	found: list[str] = []
	for path in paths(data):
		modelled = any(path == section or path.startswith(section + ".") for section in MODELLED)
		if not modelled and path not in asked and not any(path.startswith(above + ".") for above in found):
			found.append(path)
	return found
