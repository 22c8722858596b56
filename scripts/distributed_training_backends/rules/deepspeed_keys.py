"""DSP rules about keys: refused, unread, removed, of another release, in the wrong block, deprecated."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from ..flow.deepspeed import Reading
from ..flow.inputs import DeepSpeedFile
from ..knowledge import deepspeed as knowledge
from ..knowledge.pydantic_values import problem
from ..model import Applicability, Severity
from ..resources import load_json
from ..versions import Span, describe
from .deepspeed_walk import Entry, walk
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import removing, renaming
from .suggest import closest, shown

Case = Literal["unknown", "release", "misplaced"]
SUCCESSORS = {
	"cpu_offload": 'write `"offload_optimizer": {"device": "cpu"}`',
	"cpu_offload_param": 'write `"offload_param": {"device": "cpu"}`',
	"cpu_offload_use_pin_memory": "write `pin_memory` in `offload_optimizer` or `offload_param`",
	"stage3_gather_fp16_weights_on_model_save": "write `stage3_gather_16bit_weights_on_model_save`",
}
REMARKS = ("_", "//", "#", "comment")


class Finding(NamedTuple):
	case: Case
	advice: str
	repair: Repair | None = None


def unread(deepspeed: DeepSpeedFile) -> Iterator[tuple[Reading, Entry]]:
	"""The entries that the release has no key for, except those that it stores or hands on. What is stored is read by
	name all the same, so a slip of a name is told there too."""
	for reading, entry in walk(deepspeed):
		known = entry.key or entry.path in reading.facts.removed or (reading.file.huggingface and entry.path == "msamp")
		second_name = entry.path == "bfloat16" and reading.document.get("bf16") is None
		if known or second_name or entry.unknown == "kwargs":
			continue
		if entry.unknown != "stored" or is_slip(reading, entry):
			yield reading, entry


def is_slip(reading: Reading, entry: Entry) -> bool:
	near = closest(entry.name, reading.facts.children(entry.section))
	return near is not None and is_sure(entry.name, near) and not reading.document.has(*entry.pointer[:-1], near)


@lru_cache(maxsize=4)
def explained(deepspeed: DeepSpeedFile) -> tuple[tuple[Reading, Entry, Finding], ...]:
	return tuple((reading, entry, explain(reading, entry)) for reading, entry in unread(deepspeed))


def explain(reading: Reading, entry: Entry) -> Finding:
	spans = knowledge.spans(entry.path)
	if spans:
		return other_release(reading, entry, spans)
	near, home = closest(entry.name, reading.facts.children(entry.section)), home_of(reading, entry)
	if near and is_sure(entry.name, near) and (home is None or near.lower() == entry.name.lower()):
		return Finding("unknown", f"did you mean `{near}`?", rename(reading, entry, near))
	if home is not None:
		where = f"in `{home.rpartition('.')[0]}`" if "." in home else "at the top level"
		return Finding("misplaced", f"`{home.rpartition('.')[2]}` belongs {where}", move(reading, entry, home))
	foreign = load_json("deepspeed_rules.json")["foreign"].get(entry.name)
	if foreign is not None and entry.section == "":
		return Finding("misplaced", foreign)
	if near:
		return Finding("unknown", f"did you mean `{near}`?", rename(reading, entry, near))
	return Finding("unknown", "check the spelling, or take it out")


def is_sure(name: str, near: str) -> bool:
	return closest(name, (near,), 0.2) is not None


def other_release(reading: Reading, entry: Entry, spans: tuple[Span, ...]) -> Finding:
	when = " and ".join(describe(span.first, span.last) for span in spans)
	renamed = load_json("deepspeed_rules.json")["renamed"].get(entry.path)
	if renamed and renamed in reading.facts.keys:
		name = renamed.rpartition(".")[2]
		return Finding("release", f"its name is `{name}` now (this one was read {when})", rename(reading, entry, name))
	return Finding("release", f"releases that read it: {when}")


def home_of(reading: Reading, entry: Entry) -> str | None:
	places = [path for path in knowledge.known_elsewhere(entry.name) if path in reading.facts.keys and "*" not in path]
	if entry.name in load_json("deepspeed_rules.json")["common_names"]:
		places = [path for path in places if path.rpartition(".")[0] == "zero_optimization"]
	return places[0] if places and len(places) <= 2 else None


def rename(reading: Reading, entry: Entry, name: str) -> Repair | None:
	path = f"{entry.section}.{name}" if entry.section else name
	key = reading.key(path)
	block = entry.pointer[:-1]
	if reading.document.has(*block, name) or key is None or problem(entry.value, key, reading.facts.generation):
		return None
	return renaming(entry.pointer, name, Applicability.SAFE if entry.unknown == "refused" else Applicability.UNSAFE)


def move(reading: Reading, entry: Entry, home: str) -> Repair | None:
	target = tuple(home.split(".")[:-1])
	if not isinstance(reading.document.get(*target), dict) or reading.document.has(*target, entry.name):
		return None
	operation = Operation("move", entry.pointer, target=target)
	return Repair(f"move to {home.rpartition('.')[0] or 'the top level'}", (operation,), Applicability.UNSAFE)


def hit(reading: Reading, entry: Entry, finding: Finding) -> Hit:
	at = reading.document.key(*entry.pointer)
	where = f"in `{entry.section}`" if entry.section else "at the top level of a DeepSpeed config"
	refused = is_refused(reading, entry)
	what = "refuses the unknown key" if refused else "does not read"
	message = f"DeepSpeed {reading.release} {what} `{entry.name}` {where}; {finding.advice}"
	lighter = Severity.INFO if entry.name.lower().startswith(REMARKS) else Severity.WARNING
	return Hit(at, message, finding.repair, None if refused else lighter)


def is_refused(reading: Reading, entry: Entry) -> bool:
	"""Whether the block refuses the key. Models drop an "auto" first, and `strict` is an argument of theirs."""
	if entry.unknown != "refused" or entry.name == "strict":
		return False
	section = reading.section(entry.section)
	return entry.value != "auto" or (section is not None and section.keeps_auto)


def of_case(deepspeed: DeepSpeedFile, case: Case) -> Hits:
	for reading, entry, finding in explained(deepspeed):
		told_with_auto = deepspeed.huggingface and entry.value == "auto" and finding.repair
		if finding.case == case and not told_with_auto:
			yield hit(reading, entry, finding)


@rule("DSP004", error="*")
def unknown_key(deepspeed: DeepSpeedFile) -> Hits:
	"""A key that no release of DeepSpeed reads where it stands.

	Blocks that are pydantic models (`zero_optimization` and its parts, `fp16` and `bf16` since 0.17.1, the monitors,
	`comms_logger`, `hybrid_engine`, `compile`, `tensor_parallel`) refuse it. At the top level, and in the blocks that
	are read as plain dictionaries, it is ignored without a word. Source: 0.19.8, runtime/config_utils.py,
	`DeepSpeedConfigModel` (extra="forbid").
	"""
	yield from of_case(deepspeed, "unknown")


@rule("DSP005", error="*")
def key_of_another_release(deepspeed: DeepSpeedFile) -> Hits:
	"""A key that other releases of DeepSpeed read, but not the one that is asked about.

	It is too new, it is gone, or it has another name now. Refused where the block refuses unknown keys, else ignored.
	Source: every release from 0.9.0 to 0.19.8, runtime/config.py and the models that it builds.
	"""
	yield from of_case(deepspeed, "release")


@rule("DSP006", error="*")
def misplaced_key(deepspeed: DeepSpeedFile) -> Hits:
	"""A key that is read, but in another block, or by another program than DeepSpeed.

	The classic: a key of `zero_optimization` at the top level, where nothing reads it. Also keys of an Accelerate
	config, or of TrainingArguments. Refused where the block refuses unknown keys, else ignored. Source: 0.19.8,
	runtime/config.py, which reads its own names only.
	"""
	yield from of_case(deepspeed, "misplaced")


@rule("DSP007", error="0.19.7..")
def removed_feature(reading: Reading) -> Hits:
	"""A block or key whose feature was removed: its presence alone is refused, even `{"enabled": false}`.

	0.19.7 removed `nebula`, `compression_training`, `quantize_training`, `sparse_attention` and MiCS; 0.19.8 removed
	`amp`, `sparse_gradients`, `eigenvalue`, `elasticity`, `graph_harvesting`, `curriculum_learning`,
	`progressive_layer_drop` and LoCo. Take the key out. Source: 0.19.7 and 0.19.8, runtime/config.py,
	`_reject_removed_config_keys`.
	"""
	for path, removed in reading.facts.removed.items():
		steps = tuple(path.split("."))
		if not reading.document.has(*steps):
			continue
		value = reading.document.get(*steps)
		off = value in (False, None, {}) or (isinstance(value, dict) and value.get("enabled") is False)
		sure = Applicability.SAFE if off else Applicability.UNSAFE
		advice = load_json("deepspeed_rules.json")["instead"].get(path, "take it out")
		message = f"DeepSpeed refuses `{path}` since {removed.since}, whatever its value: its feature is gone; {advice}"
		yield Hit(reading.document.key(*steps), message, removing(steps, sure))


@rule("DSP008", error="*")
def deprecated_key(deepspeed: DeepSpeedFile) -> Hits:
	"""A key that still works, but has a successor; together with its successor it is refused.

	`cpu_offload` and `cpu_offload_param` became `offload_optimizer` and `offload_param`,
	`stage3_gather_fp16_weights_on_model_save` became `stage3_gather_16bit_weights_on_model_save`.
	`cpu_offload_use_pin_memory` has no effect. Source: 0.19.8, runtime/config_utils.py, `_process_deprecated_field`.
	"""
	for reading, entry in walk(deepspeed):
		if entry.key is None or not entry.key.deprecated:
			continue
		at, successor = deepspeed.document.key(*entry.pointer), entry.key.replaced_by or "its successor"
		both = f"{entry.section}.{successor}"
		if reading.written(both):
			message = f"`{entry.name}` and its successor `{successor}` are both given, which is refused; keep one"
			yield Hit(at, message, removing(entry.pointer, Applicability.SAFE))
		else:
			off = entry.value in (False, None) and entry.name.startswith("cpu_")
			advice = "take it out" if off else SUCCESSORS.get(entry.name, successor)
			message = f"`{entry.name}: {shown(entry.value)}` is deprecated; {advice}"
			yield Hit(at, message, modernized(entry), Severity.WARNING)


def modernized(entry: Entry) -> Repair | None:
	if entry.name == "stage3_gather_fp16_weights_on_model_save":
		return renaming(entry.pointer, "stage3_gather_16bit_weights_on_model_save")
	if entry.value in (False, None):
		return removing(entry.pointer, Applicability.SAFE)
	if entry.value is True and entry.name in ("cpu_offload", "cpu_offload_param"):
		name = "offload_param" if entry.name == "cpu_offload_param" else "offload_optimizer"
		replace = Operation("replace", entry.pointer, value={"device": "cpu"})
		return Repair(f"write {name}", (replace, Operation("rename", entry.pointer, name)), Applicability.UNSAFE)
	return None


@rule("DSP009", error="*")
def name_and_alias(deepspeed: DeepSpeedFile) -> Hits:
	"""A setting stands under both of its names, and the block refuses that.

	Most keys of stage 3 may be written with and without `stage3_`. A model takes one of the two names and finds the
	other to be an unknown key. Source: 0.19.8, runtime/zero/config.py, `DeepSpeedZeroConfig`, and
	runtime/config_utils.py, `DeepSpeedConfigModel` (populate_by_name, extra="forbid").
	"""
	for reading, entry in walk(deepspeed):
		alias = entry.key.name if entry.key else entry.name
		both = (*entry.pointer[:-1], alias)
		if alias == entry.name or not entry.section or not reading.document.has(*both):
			continue
		if "auto" not in (entry.value, reading.document.get(*both)):
			message = f"`{alias}` and `{entry.name}` are names of one setting, and DeepSpeed refuses both together"
			at = reading.document.key(*entry.pointer)
			yield Hit(at, f"{message}; keep one", removing(entry.pointer))
