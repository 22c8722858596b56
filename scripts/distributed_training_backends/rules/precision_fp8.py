"""PRC rules about FP8: what becomes of `mixed_precision: fp8` and of the keys in `fp8_config`."""

from collections.abc import Mapping
from typing import Any

from ..flow.inputs import DeepSpeedFile
from ..flow.launch import Launch, merged_blocks
from ..flow.placement import block_keys
from ..knowledge import accelerate as knowledge
from ..model import Severity
from ..resources import load_json
from ..sources.document import Document
from ..versions import covers, describe, parse
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import renaming
from .suggest import closest, named, shown
from .values import holds, meaning, rows_of, unread_hits, value_hits

DATA = "precision.json"
BLOCK = "fp8_config"
PREFIX = "fp8_"
OVERRIDE = "fp8_override_linear_precision"


def uses_fp8(launch: Launch) -> bool:
	return launch.route != "tpu" and str(launch.value("mixed_precision")).lower() == "fp8"


def backend_is_refused(launch: Launch) -> bool:
	given = launch.since("1.9.0") and launch.value("fp8_backend") is not None
	return given and meaning(launch, "fp8_backend") is None


def entries(launch: Launch) -> Mapping[Any, Any]:
	found = launch.document.get(BLOCK)
	return found if isinstance(found, dict) else {}


def option_of(key: object) -> str:
	"""The launch option that a key of the block sets (since 1.4.0; before, the block goes nowhere)."""
	return str(key) if str(key).startswith("fp8") else f"{PREFIX}{key}"


def bare(option: object) -> str:
	return str(option).removeprefix(PREFIX)


@rule("PRC010", error="1.5.0..")
def fp8_value(launch: Launch) -> Hits:
	"""A value in `fp8_config` that is refused.

	The backend is TE, AO or MSAMP, letter by letter (the command line offers te, ao and msamp, which are refused
	later). What else is read depends on it: TE reads `margin`, `interval`, `amax_history_len` (integers),
	`fp8_format`, `amax_compute_algo`, and truth values; MSAMP reads `opt_level` (O1 or O2); AO reads truth values.
	`override_linear_precision` has to be a list of three truth values whatever the backend. Source: 1.15.0,
	utils/dataclasses.py, `TERecipeKwargs.__post_init__`; utils/launch.py, `setup_fp8_env`.
	"""
	if uses_fp8(launch):
		yield from refused_values(launch)


def refused_values(launch: Launch) -> Hits:
	hits = list(value_hits(launch, (PREFIX,)))
	yield from hits
	value = launch.value(OVERRIDE)
	told = any(hit.at.pointer == launch.at(OVERRIDE).pointer for hit in hits)
	if launch.given(OVERRIDE) and value is not None and not told and three_items(value) is None:
		text = f"override_linear_precision is {shown(value)}, and the launcher takes three items of it"
		yield Hit(launch.at(OVERRIDE), f"{text}; write a list such as [false, false, false]")


def three_items(value: object) -> list[Any] | None:
	return list(value)[:3] if isinstance(value, (list, str)) and len(value) >= 3 else None


@rule("PRC011", error="*")
def fp8_refused(launch: Launch) -> Hits:
	"""FP8 with a launcher, a backend or a release that refuses it.

	FSDP knows no fp8 before 0.34.0. With AO (torchao) it needs `fsdp_cpu_ram_efficient_loading: false`, which is
	true by default; MSAMP goes neither with FSDP nor with ZeRO stage 3. In 1.8.0 and 1.8.1 fp8 from a config file
	fails outside FSDP and DeepSpeed. Source: 1.15.0, accelerator.py, `Accelerator.__init__`; utils/dataclasses.py,
	`DeepSpeedPlugin.__post_init__`.
	"""
	yield from by_release(launch, "error")


@rule("PRC012", warning="..1.10.1,1.9.0..")
def fp8_without_effect(launch: Launch) -> Hits:
	"""FP8 with a launcher and a release that train in another precision, or fail unless the script helps.

	Up to 1.10.1 DeepSpeed makes bf16 of it (up to 0.33 even fp32), from 1.5.0 to 1.7.0 nothing is converted to FP8
	on the word of a config file alone, and without a `backend` it depends on the packages that are installed what is
	taken. Source: 1.7.0, accelerator.py, `Accelerator.__init__` and `fp8_backend`; 1.10.1, state.py.
	"""
	yield from by_release(launch, "warning")


def by_release(launch: Launch, severity: str) -> Hits:
	if not uses_fp8(launch) or backend_is_refused(launch):
		return
	for row in load_json(DATA)["fp8"]:
		fits = row["severity"] == severity and launch.route in row["routes"] and covers(row["releases"], launch.release)
		if fits and all(holds(launch, option, condition) for option, condition in row.get("when", {}).items()):
			text = row["text"].format(release=launch.release)
			name = next((option for option in row.get("when", {}) if launch.given(option)), "mixed_precision")
			yield Hit(launch.at(name), f"{text}; {row['instead']}", mend(launch, row.get("add")))


def mend(launch: Launch, option: str | None) -> Repair | None:
	block = launch.document.get("fsdp_config")
	if option is None or not isinstance(block, dict):
		return None
	given = launch.arguments[option].pointer
	step = Operation("replace", given, value=False) if given else Operation("add", ("fsdp_config",), option, False)
	return Repair(f"write {option}: false", (step,))


@rule("PRC013", error="1.4.0..1.8.1")
def fp8_override_fails(launch: Launch) -> Hits:
	"""FP8 in releases that fail on their own `override_linear_precision`.

	In 1.4.0 it is split as a text although it is a list by default, so every FP8 launch ends in `AttributeError: …
	has no attribute 'strip'`. From 1.5.0 to 1.8.1 its booleans go into the environment of a process that is started
	directly (NO, MULTI_CPU, and several machines through the `deepspeed` program), which takes texts only. Use 1.9.0
	or newer. Source: 1.4.0 and 1.8.1, utils/launch.py, `setup_fp8_env`.
	"""
	value = launch.value(OVERRIDE)
	if not uses_fp8(launch) or value is None:
		return
	at = launch.at(OVERRIDE if launch.given(OVERRIDE) else "mixed_precision")
	if launch.before("1.5.0"):
		if not isinstance(value, str) or value.count(",") < 2:
			text = f"accelerate {launch.release} fails on override_linear_precision ({shown(value)}), given or not"
			yield Hit(at, f"{text}; use 1.9.0 or newer, or write it as a text: 'false,false,false'")
	elif (launch.route == "simple" or launch.deepspeed_runner) and not all_texts(value):
		text = f"accelerate {launch.release} cannot start a process with the booleans of override_linear_precision"
		yield Hit(at, f'{text}, given or not; use 1.9.0 or newer, or write ["false", "false", "false"]')


def all_texts(value: object) -> bool:
	items = list(value)[:3] if isinstance(value, tuple) else three_items(value)
	return items is None or all(isinstance(item, str) for item in items)


@rule("PRC014", warning="0.34.0..")
def fp8_config_without_fp8(launch: Launch) -> Hits:
	"""`fp8_config` where `mixed_precision` is not fp8.

	The launcher looks at the block only if the precision is fp8. Source: 1.15.0, utils/launch.py,
	`prepare_multi_gpu_env` and its siblings.
	"""
	if entries(launch) and not uses_fp8(launch):
		mode = shown(launch.value("mixed_precision"))
		text = f"fp8_config is ignored: mixed_precision is {mode}; write mixed_precision: fp8, or remove the block"
		yield Hit(launch.document.key(BLOCK), text)


@rule("PRC015", warning="0.34.0..")
def fp8_key_unread(launch: Launch) -> Hits:
	"""A key of `fp8_config` that nothing reads.

	Each backend reads its own keys and passes over the others'. `accelerate config` itself writes names that are
	not read: `amax_history_length`, `amax_compute_algorithm` and `optimization_level` in the place of
	`amax_history_len`, `amax_compute_algo` and `opt_level`. From 0.34.0 to 1.3.0 the launcher does not pass the block
	on at all, and up to 1.8.1 no recipe is made of it: there the packages that are installed decide. Source: 1.15.0
	and 1.3.0, commands/launch.py, `_validate_launch_command`; commands/config/cluster.py, `get_cluster_input`.
	"""
	if uses_fp8(launch):
		yield from unread_keys(launch)


def unread_keys(launch: Launch) -> Hits:
	if launch.since("1.9.0") and not backend_is_refused(launch):
		yield from unread_hits(launch, (PREFIX,))
	for key, value in entries(launch).items():
		option = option_of(key)
		if launch.since("1.9.0") and not rows_of(option, launch.release):
			yield unknown_key(launch.document, (BLOCK, key), launch.release)
		if launch.before("1.9.0") and not arrives(launch, option):
			yield lost(launch, key, value)


def arrives(launch: Launch, option: str) -> bool:
	if option == OVERRIDE:
		return BLOCK in merged_blocks(launch.release)
	msamp = launch.route == "deepspeed" and launch.since("1.5.0") and launch.value("fp8_backend") == "MSAMP"
	return msamp and option in ("fp8_backend", "fp8_opt_level")


def lost(launch: Launch, key: str, value: object) -> Hit:
	known = knowledge.for_release(launch.release).options.get(option_of(key))
	moot = known is not None and (value is None or value == known.default)
	how = "makes no recipe of fp8_config" if BLOCK in merged_blocks(launch.release) else "does not pass fp8_config on"
	text = f"{named(key)} has no effect: accelerate {launch.release} {how}; use 1.9.0 or newer"
	return Hit(launch.document.key(BLOCK, key), text, severity=Severity.INFO if moot else None)


def unknown_key(document: Document, pointer: tuple[Any, ...], release: str) -> Hit:
	key, name = str(pointer[-1]), bare(pointer[-1])
	near = load_json(DATA)["fp8_misnamed"].get(name)
	why = f"the name that is read is {near}" if near else ""
	spans = knowledge.spans("options", PREFIX + name)
	if not near and spans and spans[0][0] and parse(spans[0][0]) > parse(release):
		why = f"it is read {describe(spans[0][0], None)}"
	elif not near:
		near = closest(name, {bare(option) for option in block_keys(BLOCK, release)})
		why = f"did you mean {near}?" if near else "remove it"
	siblings = document.get(*pointer[:-1]) or {}
	free = near and not any(bare(other) == near for other in siblings)
	repair = renaming(pointer, near) if free else None
	return Hit(document.key(*pointer), f"nothing reads {named(key)} (accelerate {release}); {why}", repair)


@rule("PRC016", error="1.5.0..")
def msamp_with_stage_3_file(deepspeed: DeepSpeedFile, launch: Launch) -> Hits:
	"""MSAMP with a DeepSpeed file of ZeRO stage 3.

	It is refused as `zero_stage: 3` is in the block itself (PRC011). Source: 1.15.0, utils/dataclasses.py,
	`DeepSpeedPlugin.__post_init__`.
	"""
	stage = deepspeed.document.get("zero_optimization", "stage")
	own = deepspeed.document.has("msamp")
	if uses_fp8(launch) and meaning(launch, "fp8_backend") == "MSAMP" and stage == 3 and not own:
		text = "ms-amp with ZeRO stage 3 is refused; use stage 0, 1 or 2, or another backend"
		at = deepspeed.document.value("zero_optimization", "stage")
		yield Hit(at, text, related=(launch.at("fp8_backend"),))
