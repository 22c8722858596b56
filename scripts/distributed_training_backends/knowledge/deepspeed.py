"""What each DeepSpeed release reads in its JSON config: keys, sections, removed keys, optimizers, schedulers.

Every fact comes from `data/deepspeed.json`, as spans of releases. `for_release` gives the view of one release.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from .. import resources, versions
from . import history

DATA = "deepspeed.json"
Unknown = Literal["refused", "ignored", "stored", "kwargs"]
Reader = Literal["accelerate", "trainer"]
Found = TypeVar("Found")
Patterns = list[tuple[list[str], Found]]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Key(NamedTuple):
	"""A key as one release reads it. `path` is the documented spelling; `names` are all that are taken there."""

	path: str
	type: str = "any"
	default: Any = None
	choices: tuple[Any, ...] = ()
	bounds: Mapping[str, float] = _NOTHING
	read: Literal["model", "dict"] = "dict"
	accepts: str | None = None
	names: tuple[str, ...] = ()
	deprecated: bool = False
	replaced_by: str | None = None
	used: bool = True
	keeps_auto: bool = False

	@property
	def name(self) -> str:
		return self.path.rpartition(".")[2]

	@property
	def section(self) -> str:
		"""The path of the section that holds the key; "" is the top level."""
		return self.path.rpartition(".")[0]


class Section(NamedTuple):
	"""A block of keys: what becomes of one it does not know, the keys it cannot do without, what may replace it."""

	path: str
	unknown: Unknown
	model: str | None = None
	others: tuple[str, ...] = ()
	requires: tuple[str, ...] = ()
	keeps_auto: bool = False

	def takes(self, value: Any) -> bool:
		"""Whether DeepSpeed survives this value in the place of the block; keys are another matter."""
		return isinstance(value, dict) or any(kind in self.others for kind in _json_kinds(value))


class Removed(NamedTuple):
	"""A key whose mere presence is refused, since a release and with a message."""

	since: str
	message: str
	issue: int | None = None


class Constructor(NamedTuple):
	"""An optimizer or scheduler: the parameters that may be written, with defaults, and those that must be.

	`unknown` says what becomes of any other parameter; `open` that the class is of a package we do not know.
	"""

	name: str
	parameters: Mapping[str, Any]
	required: tuple[str, ...] = ()
	unknown: Literal["refused", "ignored"] = "refused"
	open: bool = False


def _json_kinds(value: Any) -> tuple[str, ...]:
	if value is None:
		return ("null",)
	if isinstance(value, bool):
		return ("bool", str(value).lower())
	if isinstance(value, (int, float)):
		return ("number", "number" if value else "zero")
	kind = "text" if isinstance(value, str) else "list"
	return (kind, "auto") if value == "auto" else (kind, f"empty {kind}") if not value else (kind,)


class DeepSpeedRelease:
	"""What one release reads. Built on first use, then kept; treat it as read-only."""

	def __init__(self, release: str) -> None:
		self.release = release

	def _facts(self, table: str) -> Iterable[tuple[str, Any]]:
		return history.at(DATA, (table,), self.release).items()

	@cached_property
	def generation(self) -> Literal[1, 2]:
		"""The pydantic whose rules convert values: 1 (also through the later shim for it) or 2."""
		runs = _data()["pydantic"]
		return next(value for first, last, value in runs if versions.in_span(self.release, first, last))

	@cached_property
	def keys(self) -> Mapping[str, Key]:
		"""Every spelling that is read, by dotted path; two spellings of one key share one Key."""
		found: dict[str, Key] = {}
		for path, record in self._facts("keys"):
			key = _key(path, record, self.sections)
			section = f"{key.section}." if key.section else ""
			found |= {section + name: key for name in key.names}
		return MappingProxyType(found)

	@cached_property
	def sections(self) -> Mapping[str, Section]:
		"""Blocks by dotted path; "" is the top level. A name part `*` stands for any key."""
		return MappingProxyType({path: _section(path, record) for path, record in self._facts("sections")})

	@cached_property
	def removed(self) -> Mapping[str, Removed]:
		since = {path: runs[0][0] for path, runs in _data()["removed"].items()}
		return MappingProxyType({path: Removed(since=since[path], **record) for path, record in self._facts("removed")})

	@cached_property
	def _children(self) -> Mapping[str, Mapping[str, Key]]:
		found: dict[str, dict[str, Key]] = {}
		for path, key in self.keys.items():
			section, _, name = path.rpartition(".")
			found.setdefault(section, {})[name] = key
		return MappingProxyType(found)

	def canonical(self, path: str) -> str:
		known = ""
		for part in path.split("."):
			known = f"{known}.{part}" if known else part
			known = self.keys[known].path if known in self.keys else known
		return known

	def children(self, section: str) -> Mapping[str, Key]:
		"""The keys of a block by the names that may be written there; empty for a block that is not read."""
		return self._children.get(section) or self._children.get(self.canonical(section), _NOTHING)

	def section_at(self, path: str) -> Section | None:
		"""The block at a path, `*` parts matched; None where no block is known."""
		return _matched(self.canonical(path), self.sections, self._section_patterns)

	def key_at(self, path: str) -> Key | None:
		return _matched(self.canonical(path), self.keys, self._key_patterns)

	@cached_property
	def _section_patterns(self) -> Patterns[Section]:
		return _patterns(self.sections)

	@cached_property
	def _key_patterns(self) -> Patterns[Key]:
		return _patterns(self.keys)

	@cached_property
	def optimizers(self) -> Mapping[str, Mapping[str, Constructor]]:
		"""DeepSpeed's own optimizers by lower-case type, each with its classes by the case that selects them."""
		made = {
			name: {case: _constructor(record) for case, record in cases.items()}
			for name, cases in self._facts("optimizers")
		}
		return MappingProxyType(made)

	@cached_property
	def schedulers(self) -> Mapping[str, Constructor]:
		return MappingProxyType({name: _constructor(record) for name, record in self._facts("schedulers")})

	def optimizer(self, kind: str, case: str = "default") -> Constructor | None:
		"""The class that a `type` selects; `case` is "default", "cpu" (offloaded), "zenflow" or "torch_adam"."""
		if cases := self.optimizers.get(kind.lower()):
			return cases.get(case) or cases["default"]
		return _of_torch("optimizers", kind)

	def scheduler(self, kind: str) -> Constructor | None:
		"""The scheduler class that a `type` selects: DeepSpeed's own first, then PyTorch's."""
		return self.schedulers.get(kind) or _of_torch("schedulers", kind)


def _key(path: str, record: Mapping[str, Any], sections: Mapping[str, Section]) -> Key:
	section, _, name = path.rpartition(".")
	block, names = sections[section], (name, *record.get("names", ()))
	tuples = {"choices": tuple(record.get("choices", ())), "names": names}
	return Key(path, read="model" if block.model else "dict", keeps_auto=block.keeps_auto, **{**record, **tuples})


def _section(path: str, record: Mapping[str, Any]) -> Section:
	fields: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in record.items()}
	return Section(path, **fields)


def _constructor(record: Mapping[str, Any]) -> Constructor:
	"""Parameters of a PyTorch class are kept once, apart; those of another package are not known."""
	name: str = record["class"]
	module, _, short = name.rpartition(".")
	base = _data()["torch"]["optimizers"].get(short, {}) if module == "torch" else {}
	parameters = MappingProxyType({**base.get("parameters", {}), **record["parameters"]})
	required = (*base.get("required", ()), *record.get("required", ()))
	return Constructor(name, parameters, required, record.get("unknown", "refused"), module not in ("", "torch"))


def _of_torch(table: str, kind: str) -> Constructor | None:
	record = _data()["torch"][table].get(kind)
	return _constructor({"class": f"torch.{kind}", **record}) if record else None


def _patterns(known: Mapping[str, Found]) -> Patterns[Found]:
	"""The paths with a part `*`, which stands for any name, taken apart."""
	return [(path.split("."), value) for path, value in known.items() if "*" in path]


def _matched(path: str, known: Mapping[str, Found], patterns: Patterns[Found]) -> Found | None:
	if path in known:
		return known[path]
	parts = path.split(".")
	for wanted, value in patterns:
		if len(wanted) == len(parts) and all(w in ("*", p) for w, p in zip(wanted, parts, strict=True)):
			return value
	return None


def _data() -> Mapping[str, Any]:
	data: Mapping[str, Any] = resources.load_json(DATA)
	return data


def releases() -> tuple[str, ...]:
	return tuple(_data()["releases"])


@lru_cache(maxsize=16)
def for_release(release: str) -> DeepSpeedRelease:
	"""The view of a release; one that is not known is judged as the newest known release before it."""
	return DeepSpeedRelease(nearest(release))


def nearest(release: str) -> str:
	return versions.nearest(release, releases())


def spans(path: str) -> tuple[versions.Span, ...]:
	"""The releases that read a key, under any of its spellings; adjoining spans are joined."""
	return tuple(versions.Span(*span) for span in history.presence(DATA, ("keys", _canonical().get(path, path))))


@lru_cache(maxsize=1)
def _canonical() -> Mapping[str, str]:
	found: dict[str, str] = {}
	for path, runs in _data()["keys"].items():
		section = path[: len(path) - len(path.rpartition(".")[2])]
		found |= {section + name: path for run in runs for name in run[2].get("names", ())}
	return found


@lru_cache(maxsize=1)
def _places() -> Mapping[str, tuple[str, ...]]:
	found: dict[str, list[str]] = {}
	for path in [*_data()["keys"], *_canonical()]:
		found.setdefault(path.rpartition(".")[2], []).append(path)
	return {name: tuple(sorted(paths, key=lambda path: (path.count("."), path))) for name, paths in found.items()}


def known_elsewhere(name: str) -> tuple[str, ...]:
	"""Every path, in any release, at which a key of this name is read: the places a misplaced key may belong."""
	return _places().get(name, ())


def auto_fillers(path: str, consumer: Reader, accelerate: str, transformers: str) -> tuple[str, ...]:
	"""What replaces an "auto" at this path when Accelerate or the Trainer reads the file; empty when nothing does.

	The Trainer fills first, from TrainingArguments, and then hands the file to Accelerate, which fills the rest.
	"""
	fillers = resources.load_json("deepspeed_auto.json")
	found = []
	for reader, release in (("trainer", transformers), ("accelerate", accelerate)):
		if reader == "accelerate" or consumer == "trainer":
			runs = fillers[reader].get(path, ())
			found += [source for first, last, source in runs if versions.in_span(release, first, last)]
	return tuple(found)
