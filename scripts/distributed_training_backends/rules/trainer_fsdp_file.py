"""TRN rules about `fsdp_config` of the Transformers Trainer, in a file of its own or inside TrainingArguments."""

from collections.abc import Iterator
from typing import Any

from ..knowledge import transformers
from ..model import Severity, Targets
from ..sources.document import Document
from ..versions import covers
from .readings import FALSE_WORDS, TRUE_WORDS, advice
from .registry import Hit, rule
from .suggest import misfit, named, shown
from .trainer_fsdp import FsdpConfig, fix, read_whole, refused, unread


def of_file(fsdp_file: Document, targets: Targets) -> FsdpConfig:
	return FsdpConfig(fsdp_file, (), targets.transformers, targets.accelerate, in_file=True)


@rule("TRN001", error="*")
def fsdp_config_value(fsdp_file: Document, targets: Targets) -> Iterator[Hit]:
	"""A value in `fsdp_config` that the Trainer refuses.

	Truth values are words in any case; up to 4.40 they have to be texts ("true", not true). `version` is an integer;
	with version 2, which is the default since 5.10, `reshard_after_forward` is a truth value, with version 1 the name
	of a sharding strategy. `min_num_params` is an integer (1e8 is a text for YAML and a float for JSON). Source:
	5.24.0, training_args.py, `TrainingArguments._process_fsdp_args`; accelerate 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`.
	"""
	yield from value_hits(of_file(fsdp_file, targets))


def value_hits(config: FsdpConfig) -> Iterator[Hit]:
	for name, outcome in refused(config):
		value = config.value(name)
		if outcome.slip:
			text = f"{name} {shown(value)}: {outcome.slip}"
			yield Hit(config.at(name), text, fix(config, name, outcome), Severity.WARNING)
		else:
			says = f"transformers {config.release} refuses it{advice(config.at(name), outcome)}"
			text = misfit(f"{name} {shown(value)}", outcome.expected, says)
			yield Hit(config.at(name), text, fix(config, name, outcome))


@rule("TRN002", error="..5.9.99")
def fsdp_config_conflict(fsdp_file: Document, targets: Targets) -> Iterator[Hit]:
	"""Two keys of `fsdp_config` that exclude each other.

	Up to 5.9 `min_num_params` and `transformer_layer_cls_to_wrap` are mutually exclusive, and from 4.41 to 5.9
	`cpu_ram_efficient_loading` needs `sync_module_states`: the first process loads the weights and sends them to the
	others. Source: 5.9.0, training_args.py, `TrainingArguments._process_fsdp_args`.
	"""
	yield from conflict_hits(of_file(fsdp_file, targets))


def conflict_hits(config: FsdpConfig) -> Iterator[Hit]:
	size = config.value("min_num_params", 0)
	classes = "transformer_layer_cls_to_wrap"
	if isinstance(size, (int, float)) and size > 0 and config.value(classes) is not None:
		text = f"min_num_params and {classes} are mutually exclusive; remove one of them"
		yield Hit(config.key("min_num_params"), text, related=(config.key(classes),))
	if covers("4.41..", config.minor) and not config.xla:
		loading, synced = word(config, "cpu_ram_efficient_loading", "false"), word(config, "sync_module_states", "true")
		if loading == "true" and synced == "false":
			text = "cpu_ram_efficient_loading needs sync_module_states: true"
			yield Hit(config.at("sync_module_states"), text, related=(config.key("cpu_ram_efficient_loading"),))


def word(config: FsdpConfig, name: str, default: str) -> str:
	return str(config.value(name, default)).lower()


@rule("TRN003", warning="*")
def fsdp_config_key_unread(fsdp_file: Document, targets: Targets) -> Iterator[Hit]:
	"""A key of `fsdp_config` that nothing reads.

	Keys that TrainingArguments does not know are dropped without a word, among them most names of the `fsdp_config`
	block of an Accelerate config: the sharding strategy and the offload are words of the `fsdp` argument (up to 5.9),
	later `reshard_after_forward` and `cpu_offload`. Others are read for one version of FSDP, one wrap policy, or
	XLA only. Source: 5.24.0, training_args.py, `TrainingArguments._process_fsdp_args`.
	"""
	yield from unread_hits(of_file(fsdp_file, targets))


def unread_hits(config: FsdpConfig) -> Iterator[Hit]:
	"""Keys without effect; an info where they say what takes effect anyway."""
	known = transformers.for_release(config.release).fsdp_keys
	for name, reason, repair in unread(config):
		moot = name in known and same(config.value(name), known[name].default)
		text = f"{named(config.entries[name][1][-1])} has no effect with transformers {config.release}; {reason}"
		yield Hit(config.key(name), text, repair, Severity.INFO if moot else None)


def same(value: Any, default: Any) -> bool:
	"""Tell whether a value comes to the default: true and "true" do, and so do a missing and an empty value."""
	one, other = str(value).lower(), str(default).lower()
	if one in TRUE_WORDS and other in TRUE_WORDS:
		return True
	return one == other or (one in (*FALSE_WORDS, "none", "{}") and other in (*FALSE_WORDS, "none", "{}"))


@rule("TRN004", info="*")
def fsdp_config_needs_fsdp(fsdp_file: Document, targets: Targets) -> Iterator[Hit]:
	"""A file for `fsdp_config` counts only beside the argument `fsdp`.

	Without it the file is not even opened since 5.10. Write `fsdp: true` (up to 5.9 `fsdp: full_shard auto_wrap`),
	and start the script with `torchrun` or `accelerate launch`. The argument takes the path of a JSON file only.
	Source: 5.24.0, training_args.py, `TrainingArguments._process_fsdp_args`.
	"""
	value = "true" if covers("5.10..", targets.transformers) else "full_shard auto_wrap"
	yield Hit(fsdp_file.value(), f"this counts only where TrainingArguments has fsdp: {value} as well")
	if fsdp_file.syntax != "json":
		text = "fsdp_config takes the path of a JSON file only: convert this one, or write it inside the arguments"
		yield Hit(fsdp_file.value(), text)


@rule("TRN005", warning="5.0..")
def fsdp_version_unknown(fsdp_file: Document, targets: Targets) -> Iterator[Hit]:
	"""`version` of `fsdp_config` is neither 1 nor 2.

	Every number but 2 counts as FSDP1 in the Trainer, and Accelerate gets the number as it is. Source: 5.24.0,
	training_args.py, `TrainingArguments._process_fsdp_args`.
	"""
	yield from version_hits(of_file(fsdp_file, targets))


def version_hits(config: FsdpConfig) -> Iterator[Hit]:
	number = read_whole({}, config.value("version"), "").meaning
	if number is not None and number not in (1, 2):
		yield Hit(config.at("version"), f"there is no FSDP version {number}: it is treated as FSDP1; write 2")
	elif number == 1 and covers("5.10..", config.minor):
		text = "FSDP1 is deprecated in the Trainer, which logs a warning; write version: 2, unless you need FSDP1"
		yield Hit(config.at("version"), text, severity=Severity.INFO)
