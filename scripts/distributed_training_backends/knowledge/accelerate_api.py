"""The Python surface of each Accelerate release: parameters of plugins, handlers, configs and entry points.

Every fact comes from `data/accelerate_api.json`, which is read only when this module is asked.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from . import history
from .accelerate import nearest
from .history import Parameter as Parameter
from .history import parameter

DATA = "accelerate_api.json"


class Source(NamedTuple):
	"""The environment variables that give a field its value where the caller gives none, and the value without them.

	`known` is false where only running code can tell that value.
	"""

	variables: tuple[str, ...]
	otherwise: Any
	known: bool


@lru_cache(maxsize=64)
def parameters(owner: str, release: str) -> Mapping[str, Parameter]:
	"""The parameters of `Accelerator`, `Accelerator.prepare`, `BnbQuantizationConfig`, `notebook_launcher` and so on.

	Inherited fields are included. Empty where the release has no such class or function.
	"""
	known = nearest(release)
	found: dict[str, Parameter] = {}
	for base in history.at(DATA, ("bases",), known).get(owner, ()):
		found.update(parameters(base, known))
	records = history.at(DATA, ("parameters", owner), known)
	return {**found, **{name: parameter(name, record) for name, record in records.items()}}


def sources(owner: str, release: str) -> Mapping[str, Source]:
	"""By field, the environment variables of a class, those of its bases included."""
	known = nearest(release)
	found: dict[str, Source] = {}
	for base in history.at(DATA, ("bases",), known).get(owner, ()):
		found.update(sources(base, known))
	for name, record in history.at(DATA, ("environment", owner), known).items():
		otherwise = record.get("otherwise")
		certain = "otherwise" in record and not isinstance(otherwise, dict)
		found[name] = Source(tuple(record["variables"]), otherwise, certain)
	return found


def owners(release: str) -> frozenset[str]:
	return frozenset(history.at(DATA, ("parameters",), nearest(release)))


def spans(owner: str, name: str) -> list[tuple[str, str | None]]:
	"""The releases in which a class or function has a parameter of its own (not an inherited one)."""
	return history.presence(DATA, ("parameters", owner, name))
