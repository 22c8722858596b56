"""How `fsdp_config` of the Transformers Trainer is read, in a file of its own or inside TrainingArguments.

`data/transformers.json` knows which keys a release reads, `data/trainer_fsdp.json` how it reads their values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from ..flow.arguments import FALSE
from ..knowledge import transformers
from ..model import Pointer, Targets
from ..resources import load_json
from ..sources.document import At, Document
from ..versions import covers, describe, parse
from . import readings
from .readings import Outcome, repair_of
from .registry import Repair
from .rewriting import removing, renaming
from .suggest import closest

DATA = "trainer_fsdp.json"
PREFIX = "fsdp_"
# All of these go to XLA's own FSDP class; with xla, the TPU module also wraps by size or by class.
SETTINGS = "xla_fsdp_settings."
READ_WITH_XLA = ("min_num_params", "transformer_layer_cls_to_wrap")
# The settings that decide which rows apply, and what the rows call them.
CONTROLS = {"version": "version", "auto_wrap_policy": "policy"}
Row = Mapping[str, Any]


class FsdpConfig:
	"""The `fsdp_config` of a release: its entries under the names that the Trainer knows, and where they stand.

	`minor` is the minor version, which is what the tables know: 4.57 for 4.57.6.
	"""

	def __init__(self, document: Document, base: Pointer, targets: Targets) -> None:
		self.document, self.base = document, base
		self.release, self.accelerate = targets.transformers, targets.accelerate
		self.facts = transformers.for_release(self.release)
		self.minor = self.facts.release

	@cached_property
	def entries(self) -> dict[str, tuple[Any, Pointer]]:
		"""(value, pointer) by name. A name with the prefix fsdp_ takes the place of the one without."""
		found: dict[str, tuple[Any, Pointer]] = {}
		data = self.document.get(*self.base) if self.base else self.document.data
		for key, value in data.items() if isinstance(data, dict) else ():
			name = str(key)
			if self.strips and name.startswith(PREFIX):
				found[name.removeprefix(PREFIX)] = (value, (*self.base, key))
			else:
				found.setdefault(name, (value, (*self.base, key)))
		settings = found.get("xla_fsdp_settings", (None, ()))
		for key, value in settings[0].items() if isinstance(settings[0], dict) else ():
			found[f"xla_fsdp_settings.{key}"] = (value, (*settings[1], key))
		return found

	@cached_property
	def strips(self) -> bool:
		"""Tell whether the prefix fsdp_ is taken off keys: up to 4.51 only in a JSON file that the argument names."""
		return self.facts.strips_prefix == "always" or (not self.base and self.document.syntax == "json")

	def value(self, name: str, default: Any = None) -> Any:
		return self.entries[name][0] if name in self.entries else default

	def at(self, name: str) -> At:
		return self.document.value(*self.entries[name][1])

	def key(self, name: str) -> At:
		return self.document.key(*self.entries[name][1])

	@cached_property
	def version(self) -> int:
		if not covers("5.0..", self.minor):
			return 1
		meaning = read_whole({}, self.value("version", self.facts.fsdp_default_version), "").meaning
		return 2 if meaning == 2 else 1

	@cached_property
	def policy(self) -> str:
		return str(self.value("auto_wrap_policy", "TRANSFORMER_BASED_WRAP"))

	@cached_property
	def undecided(self) -> frozenset[str]:
		"""The settings by which others are read, where their own value is refused: version and policy."""
		return frozenset(name for name, outcome in refused(self, CONTROLS) if outcome.expected)

	@cached_property
	def xla(self) -> bool:
		return bool(self.value("xla"))


def rows(config: FsdpConfig, name: str) -> Iterator[Row]:
	for row in load_json(DATA)["rows"]:
		if row["key"] == name and covers(row["releases"], config.minor):
			yield row


def holds(config: FsdpConfig, row: Row) -> bool:
	when = row.get("when", {})
	if row.get("xla_only", False) is not config.xla and not row.get("xla"):
		return False
	return when.get("version", str(config.version)) == str(config.version) and when.get("policy") in (
		None,
		config.policy,
	)


def refused(config: FsdpConfig, names: Iterable[str] | None = None) -> Iterator[tuple[str, Outcome]]:
	"""The values that TrainingArguments, or the plugin that the Trainer makes, refuses or takes for another."""
	for name in config.entries if names is None else [name for name in names if name in config.entries]:
		value = config.value(name)
		for row in rows(config, name):
			if (
				not holds(config, row)
				or (names is None and is_open(config, row))
				or (row.get("texts_only") and not isinstance(value, str))
			):
				continue
			outcome = read(row, value, config.accelerate)
			if outcome.expected or outcome.slip:
				yield name, outcome
				break


def is_open(config: FsdpConfig, row: Row) -> bool:
	"""Tell whether a row depends on a setting that is refused itself: it is open until that is mended."""
	return any(CONTROLS[name] in row.get("when", {}) for name in config.undecided)


def read(row: Row, value: Any, accelerate: str) -> Outcome:
	own = READERS.get(row["read"])
	if own is None:
		return readings.read(row, value, accelerate)
	return Outcome() if value is None and row.get("null") == "unset" else own(row, value, accelerate)


def read_whole(_how: Row, value: Any, _release: str) -> Outcome:
	"""int() of the value itself: 2, "2" and 2.0, but not "2.0"."""
	try:
		return Outcome(int(value))
	except (TypeError, ValueError, OverflowError):
		better = readings.whole(value)
		return Outcome(None, "an integer", better=better, sure=better is not None)


def read_truthy(_how: Row, value: Any, _release: str) -> Outcome:
	"""Python's own truth: any text but the empty one is true."""
	if isinstance(value, str) and value.lower() in FALSE:
		slip = "the text is not converted and counts as true; write false without quotation marks"
		return Outcome(True, slip=slip, better=False, sure=True)
	return Outcome(bool(value))


def read_size(how: Row, value: Any, _release: str) -> Outcome:
	whole = readings.whole(value)
	if not isinstance(value, (int, float)):
		return Outcome(None, "an integer without quotation marks", better=whole, sure=whole is not None)
	if value > 0 and (isinstance(value, float) or (how.get("strict") and isinstance(value, bool))):
		return Outcome(None, "an integer", better=whole, sure=whole is not None)
	return Outcome(value)


def read_classes(_how: Row, value: Any, _release: str) -> Outcome:
	if isinstance(value, str):
		return Outcome([value])
	names = list(value) if isinstance(value, (list, dict)) else None
	if names is None or not all(isinstance(name, str) for name in names):
		return Outcome(None, "a class name or a list of class names")
	return Outcome(names)


def read_mapping(_how: Row, value: Any, _release: str) -> Outcome:
	return Outcome(value) if isinstance(value, (dict, list)) else Outcome(None, "a mapping")


def read_dtype(_how: Row, value: Any, _release: str) -> Outcome:
	facts = load_json("quantization.json")
	if value in facts["dtypes"]:
		return Outcome(value)
	better = facts["same_dtype"].get(value) if isinstance(value, str) else None
	return Outcome(None, "the name of a dtype as PyTorch has it, such as bfloat16", better=better, sure=bool(better))


READERS: Mapping[str, Callable[[Row, Any, str], Outcome]] = {
	one.__name__.removeprefix("read_"): one
	for one in (read_whole, read_truthy, read_size, read_classes, read_mapping, read_dtype)
}


def fix(config: FsdpConfig, name: str, outcome: Outcome) -> Repair | None:
	return repair_of(config.at(name), config.value(name), outcome)


def unread(config: FsdpConfig) -> Iterator[tuple[str, str, Repair | None]]:
	"""(name, reason, fix) for the entries that a release does not look at with these settings."""
	for name, (_, pointer) in config.entries.items():
		if name.startswith(SETTINGS) and config.xla:
			continue
		if name not in config.facts.fsdp_keys:
			yield name, *explanation(config, name, pointer)
		elif reason := not_with_these(config, name):
			yield name, reason, removing(pointer)


def not_with_these(config: FsdpConfig, name: str) -> str:
	found = list(rows(config, name))
	if not found or any(holds(config, row) or is_open(config, row) for row in found) or name == "version":
		return ""
	if any(row.get("xla_only") for row in found):
		return "" if name.startswith("xla_fsdp_settings.") else "it is read with xla: true only"
	if config.xla:
		return "" if name in READ_WITH_XLA else "with xla: true it is not read"
	if any("policy" in row.get("when", {}) for row in found):
		wanted = next(row["when"]["policy"] for row in found if "policy" in row.get("when", {}))
		return f"it is read with auto_wrap_policy: {wanted} only, here it is {config.policy}"
	other = next(row["when"]["version"] for row in found if "version" in row.get("when", {}))
	return f"it is read with FSDP{other} only, and the version in effect is {config.version}"


def explanation(config: FsdpConfig, name: str, pointer: Pointer) -> tuple[str, Repair | None]:
	known = config.facts.fsdp_keys
	bare = name.removeprefix(PREFIX)
	if name.startswith(PREFIX) and bare in known and not config.strips:
		return f"the prefix is not taken off here: the name is {bare}", rename(config, pointer, bare)
	for hint in load_json(DATA)["hints"]:
		if hint["key"] == name and covers(hint["releases"], config.minor):
			return hint["text"], rename(config, pointer, hint.get("name"))
	spans = transformers.spans("fsdp_config", name)
	if spans and parse(spans[0][0]) > parse(config.minor):
		return f"it is read {describe(spans[0][0], None)}", None
	near = closest(name, known)
	return (f"did you mean {near}?" if near else "remove it"), rename(config, pointer, near)


def rename(config: FsdpConfig, pointer: Pointer, name: str | None) -> Repair | None:
	return renaming(pointer, name) if name and name not in config.entries and "." not in name else None
