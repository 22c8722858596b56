"""What the Trainer of each Transformers release reads: `fsdp_config`, its own arguments, bitsandbytes fields.

Every fact comes from `data/transformers.json`. Releases are minor versions there ("4.57"): the facts of one patch
release stand for all of its minor version.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from .. import versions
from ..resources import load_json
from . import history
from .history import Parameter, parameter

DATA = "transformers.json"
RELEASES: tuple[str, ...] = tuple(load_json(DATA)["releases"])


class FsdpKey(NamedTuple):
	"""A key of `fsdp_config`; `xla_fsdp_settings.compute_dtype` is one inside the block of that name.

	`readers` are the modules that read it (`training_args`, `trainer`, `tpu`), `only_version` the one FSDP version
	that does. `default` is what the Trainer takes without the key; where that depends on the FSDP version, on other
	settings or on Accelerate, it is None and `default_by_version` has what is known ("1", "2").
	"""

	name: str
	readers: tuple[str, ...]
	only_version: int | None
	default: Any
	default_by_version: Mapping[str, Any]


class TransformersRelease:
	"""The knowledge about one minor version. Mappings are built on first use and shared: do not change them."""

	def __init__(self, release: str) -> None:
		self.release = release

	@cached_property
	def fsdp_keys(self) -> Mapping[str, FsdpKey]:
		"""The keys of `fsdp_config` that anything reads; every other key is ignored without a word."""
		return {name: _fsdp_key(name, record) for name, record in self._section("fsdp_config").items()}

	@cached_property
	def fsdp_default_version(self) -> int:
		"""The FSDP version without `fsdp_config["version"]`: 2 since 5.10; before 5.0 the key is not read."""
		return self.fsdp_keys["version"].default if "version" in self.fsdp_keys else 1

	def enum(self, name: str) -> tuple[str, ...]:
		"""The values that an enumeration such as `SchedulerType` takes, letter by letter."""
		return tuple(self._section("enums", name).values())

	@cached_property
	def strips_prefix(self) -> Literal["always", "in files"]:
		"""Where `fsdp_` is taken off keys: until 4.51 only in a file that `fsdp_config` names, not in a mapping."""
		found: Literal["always", "in files"] = self._section("fsdp")["prefix_stripped"]
		return found

	@cached_property
	def training_arguments(self) -> Mapping[str, Parameter]:
		return {name: item for name, item in self._arguments("training_arguments").items() if name[0] != "_"}

	@cached_property
	def accelerator_config(self) -> Mapping[str, Parameter]:
		"""The keys of the `accelerator_config` argument; an unknown one is refused."""
		return self._arguments("accelerator_config")

	@cached_property
	def bits_and_bytes(self) -> Mapping[str, Parameter]:
		"""The arguments of `BitsAndBytesConfig`; an unknown one is ignored with a log line."""
		return {name: item for name, item in self._arguments("bits_and_bytes").items() if not name.startswith("*")}

	@cached_property
	def needs(self) -> Mapping[str, str]:
		return self._section("packages")

	def _section(self, *path: str) -> dict[str, Any]:
		return history.at(DATA, path, self.release)

	def _arguments(self, kind: str) -> dict[str, Parameter]:
		return {name: parameter(name, record) for name, record in self._section(kind).items()}


@lru_cache(maxsize=16)
def for_release(release: str) -> TransformersRelease:
	known = nearest(release)
	return TransformersRelease(known) if known == release else for_release(known)


def nearest(release: str) -> str:
	return versions.nearest(release, RELEASES)


def spans(*path: str) -> list[tuple[str, str | None]]:
	"""The minor versions that have a fact: `spans("fsdp_config", "version")` is `[("5.0", None)]`."""
	return history.presence(DATA, path)


def _fsdp_key(name: str, record: Mapping[str, Any]) -> FsdpKey:
	only = record.get("only_version")
	defaults = record.get("default"), record.get("default_by_version", {})
	return FsdpKey(name, tuple(record["readers"]), int(only) if only else None, *defaults)
