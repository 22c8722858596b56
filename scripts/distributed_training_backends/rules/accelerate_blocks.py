"""ACC rules about the keys inside the `*_config` blocks of an Accelerate config."""

from functools import lru_cache
from typing import Any, NamedTuple

from ..flow.effect import default_of_option, same
from ..flow.launch import BLOCKS, OLD_BACKEND, SEPARATE, Launch, destination, merged_blocks
from ..flow.placement import arguments, block_keys, block_of, block_options, homes, is_read
from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api
from ..model import Applicability, Pointer, Severity, Targets
from ..sources.document import Document
from ..versions import describe, parse
from .readings import read
from .registry import Hit, Hits, Repair, rule
from .rewriting import removing, renaming
from .suggest import closest, named, shown
from .values import on_route

READ_BY = {
	"fsdp_config": "FSDP",
	"deepspeed_config": "DEEPSPEED",
	"megatron_lm_config": "MEGATRON_LM",
	"tp_config": "TP",
	"parallelism_config": "FSDP, MULTI_GPU or DEEPSPEED",
	"mpirun_config": "MULTI_CPU",
	"ipex_config": "NO or MULTI_CPU",
	"dynamo_config": "a type other than DEEPSPEED and XLA",
}
SEVERAL = " unless the deepspeed program starts several machines"
DROPPED = ": the launcher drops it, only a file named by deepspeed_config_file sets nvme_path"
# What narrows the reading of an option; see flow/placement.py, `reads_in_context`.
IN_CONTEXT = {
	"deepspeed_hostfile": SEVERAL,
	"deepspeed_exclusion_filter": SEVERAL,
	"deepspeed_inclusion_filter": f"{SEVERAL}, without an exclusion filter",
	"deepspeed_multinode_launcher": " on one machine",
	"offload_optimizer_nvme_path": DROPPED,
	"offload_param_nvme_path": DROPPED,
}
EQUIVALENTS = {
	"stage3_gather_16bit_weights_on_model_save": "zero3_save_16bit_model",
	"megatron_lm_recompute_activation": "megatron_lm_recompute_activations",
	"stage": "zero_stage",
	"zero_optimization_stage": "zero_stage",
	"gradient_accumulation": "gradient_accumulation_steps",
	"fsdp_transformer_layer_cls": "fsdp_transformer_layer_cls_to_wrap",
}
HOME = {"fsdp_config": "fsdp", "deepspeed_config": "deepspeed", "megatron_lm_config": "megatron"}
PLUGINS = {
	"fsdp_config": "FullyShardedDataParallelPlugin",
	"deepspeed_config": "DeepSpeedPlugin",
	"megatron_lm_config": "MegatronLMPlugin",
	"dynamo_config": "TorchDynamoPlugin",
}


# Their own rules say what becomes of a mapping there.
CHECKED_ELSEWHERE = ("num_processes", "num_machines", "gpu_ids")


class Entry(NamedTuple):
	block: str
	key: str
	value: Any
	option: str

	@property
	def pointer(self) -> Pointer:
		return self.block, self.key


@lru_cache(maxsize=4)
def entries(launch: Launch) -> tuple[Entry, ...]:
	"""The entries of all blocks that reach the launcher, but not those of `fp8_config`, which has its own rules."""
	reached = merged_blocks(launch.release) - {"fp8_config", replaced(launch.document)}
	blocks = {block: launch.document.get(block) for block in BLOCKS if block in reached}
	return tuple(
		Entry(block, key, value, destination(block, str(key), launch.release))
		for block, data in blocks.items()
		if isinstance(data, dict)
		for key, value in data.items()
	)


def replaced(document: Document) -> str:
	"""The block that `dynamo_backend` at the top takes the place of (PRC034), where it stands there."""
	return "dynamo_config" if OLD_BACKEND in document.data else ""


def is_option(entry: Entry, launch: Launch) -> bool:
	return entry.option in arguments(launch.release) or entry.option in knowledge.TORCHRUN_OPTIONS


def without_effect(entry: Entry, launch: Launch, text: str) -> Hit:
	"""An entry without effect is only for information where it says what takes effect anyway.

	On one machine torchrun starts the workers, which is what `deepspeed_multinode_launcher: standard` asks for.
	"""
	anyway = entry.option == "deepspeed_multinode_launcher" and entry.value == "standard"
	anyway = anyway or same(entry.value, default_of_option(entry.option, launch.release))
	at = launch.document.key(*entry.pointer)
	return Hit(at, text, removing(entry.pointer), Severity.INFO if anyway else None)


@rule("ACC012", error="*")
def block_breaks_merge(accelerate: Document, launch: Launch, targets: Targets) -> Hits:
	"""A block is of a type on which the launcher breaks off.

	`deepspeed_config` has to be a mapping when DeepSpeed is launched (`AttributeError: … has no attribute 'keys'`).
	Up to 1.4.0 the launcher walks over every block as over a mapping, so any other type raises a `TypeError`. Keys
	that are no texts cannot become launch options in any release. Source: 1.15.0 and 1.4.0, commands/launch.py,
	`launch_command` and `_validate_launch_command`.
	"""
	for block in BLOCKS:
		value = accelerate.get(block)
		if block not in merged_blocks(launch.release) or value is None or block == replaced(accelerate):
			continue
		if isinstance(value, dict):
			for key in value:
				if not isinstance(key, str):
					text = f"the key {shown(key)} of {block} is no text, so it cannot become a launch option"
					yield Hit(accelerate.key(block, key), text)
		elif breaks(block, value, launch):
			text = f"{block} is no mapping, and accelerate {targets.accelerate} fails on it; write key: value lines"
			yield Hit(accelerate.value(block), text)


@rule("ACC014", error="*")
def mapping_for_a_value(accelerate: Document, launch: Launch) -> Hits:
	"""A mapping where a single value belongs.

	The launcher takes every mapping for a block and copies its keys, so the setting itself keeps its default. For
	`use_cpu`, which has no default of its own, it ends with an `AttributeError`. Source: 1.15.0, commands/launch.py,
	`_validate_launch_command`.
	"""
	options = knowledge.for_release(launch.release).options
	for key in knowledge.for_release(launch.release).cluster:
		value = accelerate.get(key)
		if isinstance(value, dict) and key not in BLOCKS and key not in SEPARATE and key not in CHECKED_ELSEWHERE:
			fails = key == "use_cpu" and key not in options
			text = f"{key} is a mapping, which accelerate takes for a block of settings; write a single value"
			yield Hit(accelerate.value(key), text, severity=None if fails else Severity.WARNING)


def breaks(block: str, value: object, launch: Launch) -> bool:
	if block == "deepspeed_config" and launch.route == "deepspeed":
		return True
	return launch.before("1.5.0") and value not in ([], "")


@rule("ACC020", warning="*")
def unknown_block_key(launch: Launch) -> Hits:
	"""A key inside a block that nothing reads.

	The launcher copies every entry of a block onto its arguments and looks at those that it knows, so a misspelt key
	is dropped without a word: the setting keeps its default. The same happens to names of plugin fields
	(`fsdp_cpu_offload`), to keys of a DeepSpeed JSON, and to keys that a block needs with its prefix. Source:
	1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	for entry in entries(launch):
		if isinstance(entry.key, str) and not is_option(entry, launch):
			text, repair = block_explanation(entry, launch)
			message = f"nothing reads {named(entry.key)} in {entry.block} (accelerate {launch.release}); {text}"
			severity = Severity.INFO if asks_for_default(entry, launch, repair) else None
			yield Hit(launch.document.key(*entry.pointer), message, repair, severity)


def asks_for_default(entry: Entry, launch: Launch, repair: Repair | None) -> bool:
	"""Whether an unknown key asks for what happens anyway: the default of the setting that is most likely meant.

	A name that never was a setting has no default, so it is told from nothing only by an empty value.
	"""
	meant = next((step.text for step in repair.operations if step.action == "rename"), "") if repair else ""
	option = destination(entry.block, meant, launch.release) if meant else entry.option
	if entry.value is None or knowledge.spans("options", option):
		return same(entry.value, default_of_option(option, launch.release))
	field = field_of(entry, launch.release)
	return field is not None and field.default is not None and same(entry.value, field.default)


def block_explanation(entry: Entry, launch: Launch) -> tuple[str, Repair | None]:
	release, data = launch.release, launch.document.get(entry.block)
	near = EQUIVALENTS.get(entry.key) or closest(entry.key, block_keys(entry.block, release))
	full = with_prefix(entry, release)
	near = full or (near if near in block_keys(entry.block, release) else None)
	spans = knowledge.spans("options", entry.option)
	past = lifetime_text(*spans[0], release) if spans else ""
	if near and near not in data:
		text = f"{past}: write {near}" if past else f"the full name is {near}" if full else f"did you mean {near}?"
		return text, renamed(entry, near, launch)
	if full:
		return f"{full} is read, and stands here too: remove this one", removing(entry.pointer)
	if past:
		return past, removing(entry.pointer)
	if entry.key in knowledge.for_release(release).cluster:
		return "it belongs to the top of the file", None
	if (found := homes(entry.key, release)) and entry.block not in found:
		return f"it belongs into {found[0]}", None
	if entry.block == "deepspeed_config" and known_to_deepspeed(entry.key):
		return "it is a key of a DeepSpeed JSON: put it into a file and name that with deepspeed_config_file", None
	if field_of(entry, release):
		return f"it is a field of {PLUGINS[entry.block]}: pass it in the script", None
	return "remove it", removing(entry.pointer)


def known_to_deepspeed(key: str) -> bool:
	from ..knowledge import deepspeed  # seldom needed, and large

	newest = deepspeed.for_release(deepspeed.releases()[-1])
	return key in newest.keys or bool(deepspeed.known_elsewhere(key))


def field_of(entry: Entry, release: str) -> accelerate_api.Parameter | None:
	fields = accelerate_api.parameters(PLUGINS.get(entry.block, ""), release)
	return fields.get(entry.key.removeprefix("fsdp_"))


def with_prefix(entry: Entry, release: str) -> str | None:
	prefix = f"{entry.block}_" if entry.block == "parallelism_config" else entry.block.removesuffix("config")
	full = prefix + entry.key
	return full if full in block_options(entry.block, release) else None


def lifetime_text(first: str, last: str | None, release: str) -> str:
	if parse(first) > parse(release):
		return f"it is read since {first}"
	return f"it was read {describe(None, last)}"


def renamed(entry: Entry, name: str, launch: Launch) -> Repair | None:
	"""Give a key its right name; not unseen where its value, once it is read, would be refused."""
	option = destination(entry.block, name, launch.release)
	refused = any(read(row.how, entry.value, launch.release).expected for row in on_route(launch, option))
	return renaming(entry.pointer, name, Applicability.UNSAFE if refused else Applicability.SAFE)


@rule("ACC021", warning="*")
def block_of_another_type(launch: Launch) -> Hits:
	"""A whole block belongs to another `distributed_type` and is ignored.

	`fsdp_config` is read for FSDP only, `deepspeed_config` for DEEPSPEED only, and so on; the type alone decides.
	Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env` and its siblings.
	"""
	for block in foreign_blocks(launch):
		where = READ_BY.get(block, "another type")
		text = f"{block} is ignored: distributed_type is {shown(launch.distributed_type)}, and it is read for {where}"
		yield Hit(launch.document.key(block), text)


@lru_cache(maxsize=4)
def foreign_blocks(launch: Launch) -> tuple[str, ...]:
	known = [entry for entry in entries(launch) if is_option(entry, launch)]
	read = {entry.block for entry in known if launch.route == "tpu" or is_read(launch, entry.option)}
	blocks = dict.fromkeys(entry.block for entry in known)
	return tuple(block for block in blocks if block not in read and launch.route != HOME.get(block))


@rule("ACC022", warning="*")
def unread_block_key(launch: Launch) -> Hits:
	"""A key that Accelerate knows, and that the launcher of this file does not look at.

	It is an option of `accelerate launch`, read for another number of machines or another launcher only. Source:
	1.15.0, utils/launch.py, `prepare_multi_gpu_env` and its siblings.
	"""
	for entry in unread(launch):
		if block_of(entry.option, launch.release) in (entry.block, None):
			kind, hint = shown(launch.distributed_type), IN_CONTEXT.get(entry.option, "")
			yield without_effect(entry, launch, f"{entry.key} is not read when distributed_type is {kind}{hint}")


@rule("ACC024", warning="*")
def misplaced_block_key(launch: Launch) -> Hits:
	"""A key of one block that stands in another, where nothing reads it.

	Source: 1.15.0, commands/launch.py, `_validate_launch_command`, and utils/launch.py.
	"""
	for entry in unread(launch):
		home = block_of(entry.option, launch.release)
		if home not in (entry.block, None):
			text = f"nothing reads {entry.key} in {entry.block} (accelerate {launch.release}); it belongs into {home}"
			yield without_effect(entry, launch, text)


@lru_cache(maxsize=4)
def unread(launch: Launch) -> tuple[Entry, ...]:
	"""The entries that set an option at which this launcher does not look, but not those of a foreign block."""
	if launch.route == "tpu":
		return ()
	judged = [entry for entry in entries(launch) if entry.block not in foreign_blocks(launch)]
	return tuple(entry for entry in judged if is_option(entry, launch) and not is_read(launch, entry.option))


@rule("ACC023", warning="*")
def block_overrides_option(launch: Launch) -> Hits:
	"""A key inside a block sets an option that also stands at the top of the file.

	The launcher copies blocks without asking what they hold, so `deepspeed_config: {num_processes: 2}` beats
	`num_processes: 4` at the top. Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	fields = knowledge.for_release(launch.release).cluster
	for entry in entries(launch):
		if entry.option in fields and launch.document.has(entry.option) and launch.value(entry.option) == entry.value:
			if same(launch.document.get(entry.option), entry.value):
				continue
			text = f"{entry.key} in {entry.block} beats {entry.option} at the top: {shown(entry.value)} takes effect"
			yield Hit(launch.document.key(entry.option), text, related=(launch.document.key(*entry.pointer),))


@rule("ACC025", warning="*")
def block_key_twice(launch: Launch) -> Hits:
	"""Two keys of the blocks set the same option: `version` and `fsdp_version` in `fsdp_config`.

	The launcher puts the prefix of the block in front of a key that lacks it, and what it copies last takes effect.
	Keep one of them. Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	for block in merged_blocks(launch.release) - {replaced(launch.document)}:
		data = launch.document.get(block)
		for key, value in data.items() if isinstance(data, dict) else ():
			option = destination(block, str(key), launch.release)
			found = launch.arguments.get(option)
			# what the command line sets is told elsewhere
			wins = found.pointer if found and not found.document else None
			if wins is None or len(wins) < 2 or wins == (block, key) or not is_read(launch, option):
				continue
			if not same(launch.value(option), value):
				text = f"{key} has no effect: {wins[-1]} in {wins[0]} sets the same, and {shown(launch.value(option))}"
				at, related = launch.document.key(block, key), (launch.document.key(*wins),)
				yield Hit(at, f"{text} takes effect; keep one", removing((block, key)), related=related)
