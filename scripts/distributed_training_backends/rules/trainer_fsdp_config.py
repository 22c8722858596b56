"""TRN rules about `fsdp_config` in a file of its own, and about `fsdp` and `fsdp_config` among TrainingArguments."""

from typing import Any

from ..flow.arguments import FALSE, TRUE
from ..flow.trainer import Arguments
from ..model import Applicability, Severity, Targets
from ..sources.document import Document
from ..versions import covers
from .readings import advice
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import removing
from .suggest import closest, did_you_mean, listing, misfit, named, shown
from .trainer_fsdp import FsdpConfig, fix, read_whole, refused, unread


def of_file(fsdp_file: Document, targets: Targets) -> FsdpConfig:
	return FsdpConfig(fsdp_file, (), targets)


@rule("TRN001", error="*")
def fsdp_config_value(fsdp_file: Document, targets: Targets) -> Hits:
	"""A value in `fsdp_config` that the Trainer refuses.

	Truth values are words in any case; up to 4.40 they have to be texts ("true", not true). `version` is an integer;
	with version 2, which is the default since 5.10, `reshard_after_forward` is a truth value, with version 1 the name
	of a sharding strategy. `min_num_params` is an integer (1e8 is a text for YAML and a float for JSON). Source:
	5.24.0, training_args.py, `_process_fsdp_args`; accelerate 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`.
	"""
	yield from value_hits(of_file(fsdp_file, targets))


def value_hits(config: FsdpConfig) -> Hits:
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
def fsdp_config_conflict(fsdp_file: Document, targets: Targets) -> Hits:
	"""Two keys of `fsdp_config` that exclude each other.

	Up to 5.9 `min_num_params` and `transformer_layer_cls_to_wrap` are mutually exclusive, and from 4.41 to 5.9
	`cpu_ram_efficient_loading` needs `sync_module_states`: the first process loads the weights and sends them to the
	others. Source: 5.9.0, training_args.py, `_process_fsdp_args`.
	"""
	yield from conflict_hits(of_file(fsdp_file, targets))


def conflict_hits(config: FsdpConfig) -> Hits:
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
def fsdp_config_key_unread(fsdp_file: Document, targets: Targets) -> Hits:
	"""A key of `fsdp_config` that nothing reads.

	Unknown keys are dropped without a word, among them most names of an Accelerate config's `fsdp_config` block: the
	sharding strategy and the offload are words of the `fsdp` argument (up to 5.9), later `reshard_after_forward` and
	`cpu_offload`. Others are read for one version of FSDP, one wrap policy, or XLA only. Source: 5.24.0,
	training_args.py, `_process_fsdp_args`.
	"""
	yield from unread_hits(of_file(fsdp_file, targets))


def unread_hits(config: FsdpConfig) -> Hits:
	"""Keys without effect; an info where they say what takes effect anyway."""
	known = config.facts.fsdp_keys
	for name, reason, repair in unread(config):
		moot = name in known and same(config.value(name), known[name].default)
		text = f"{named(config.entries[name][1][-1])} has no effect with transformers {config.release}; {reason}"
		yield Hit(config.key(name), text, repair, Severity.INFO if moot else None)


def same(value: Any, default: Any) -> bool:
	"""Tell whether a value comes to the default: true and "true" do, and so do a missing and an empty value."""
	one, other = str(value).lower(), str(default).lower()
	if one in TRUE and other in TRUE:
		return True
	return one == other or (one in (*FALSE, "none", "{}") and other in (*FALSE, "none", "{}"))


@rule("TRN004", info="*")
def fsdp_config_needs_fsdp(fsdp_file: Document, targets: Targets) -> Hits:
	"""A file for `fsdp_config` counts only beside the argument `fsdp`.

	Without it the file is not even opened since 5.10. Write `fsdp: true` (up to 5.9 `fsdp: full_shard auto_wrap`), and
	start the script with `torchrun` or `accelerate launch`. The argument takes the path of a JSON file only. Source:
	5.24.0, training_args.py, `_process_fsdp_args`.
	"""
	value = "true" if covers("5.10..", targets.transformers) else "full_shard auto_wrap"
	yield Hit(fsdp_file.value(), f"this counts only where TrainingArguments has fsdp: {value} as well")
	if fsdp_file.syntax != "json":
		text = "fsdp_config takes the path of a JSON file only: convert this one, or write it inside the arguments"
		yield Hit(fsdp_file.value(), text)


@rule("TRN005", warning="5.0..")
def fsdp_version_unknown(fsdp_file: Document, targets: Targets) -> Hits:
	"""`version` of `fsdp_config` is neither 1 nor 2.

	Every number but 2 counts as FSDP1 in the Trainer, and Accelerate gets the number as it is. Source: 5.24.0,
	training_args.py, `_process_fsdp_args`.
	"""
	yield from version_hits(of_file(fsdp_file, targets))


def version_hits(config: FsdpConfig) -> Hits:
	number = read_whole({}, config.value("version"), "").meaning
	if number is not None and number not in (1, 2):
		yield Hit(config.at("version"), f"there is no FSDP version {number}: it is treated as FSDP1; write 2")
	elif number == 1 and covers("5.10..", config.minor):
		text = "FSDP1 is deprecated in the Trainer, which logs a warning; write version: 2, unless you need FSDP1"
		yield Hit(config.at("version"), text, severity=Severity.INFO)


WRAPS = ("min_num_params", "transformer_layer_cls_to_wrap")
STRATEGIES = ("full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2")


def new(trainer: Arguments) -> bool:
	"""Tell whether `fsdp` is a switch, and everything else stands in `fsdp_config` (since 5.10)."""
	return trainer.covers("5.10..")


def is_on(trainer: Arguments) -> bool:
	return bool(trainer.given.get("fsdp"))


def words_of(value: Any) -> list[Any]:
	return value.split() if isinstance(value, str) else list(value) if isinstance(value, (list, dict)) else []


def inside(trainer: Arguments) -> FsdpConfig:
	return FsdpConfig(trainer.document, ("fsdp_config",), trainer.targets)


@rule("TRN040", error="*")
def fsdp_argument(trainer: Arguments) -> Hits:
	"""A value of `fsdp` that is refused.

	Its words are compared letter by letter: full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2, no_shard,
	offload, auto_wrap. Up to 5.9 `offload` needs a strategy beside it, and full_shard and shard_grad_op exclude each
	other. Since 5.10 strategies other than those two are for `fsdp_config: {version: 1}` only; write `fsdp: true`.
	Source: 5.24.0, training_args.py, `_apply_legacy_fsdp_to_config`; 5.9.0, training_args.py, `_process_fsdp_args`.
	"""
	value = trainer.given.get("fsdp")
	if text := (refused_since_5_10 if new(trainer) else refused_before)(trainer, value):
		yield Hit(trainer.value("fsdp"), text)


def refused_before(trainer: Arguments, value: Any) -> str:
	words, options = words_of(value), trainer.facts.enum("FSDPOption")
	if isinstance(value, str):
		if wrong := [word for word in words if word not in options]:
			return unknown_word(wrong[0], options)
	elif value is False and trainer.facts.release == "4.57":
		return "fsdp: false is refused by transformers 4.57; remove it"
	elif isinstance(value, (int, float)) and not isinstance(value, bool) and (value or trainer.covers("..4.57")):
		return f"fsdp is no text, but {shown(value)}"
	elif value is None and trainer.covers("..4.56") and "fsdp" in trainer.given:
		return "fsdp is empty, and this release takes a text; remove it"
	if words == ["offload"]:
		return "offload needs a strategy beside it: fsdp: full_shard offload"
	if "full_shard" in words and "shard_grad_op" in words:
		return "full_shard and shard_grad_op exclude each other"
	return ""


def refused_since_5_10(trainer: Arguments, value: Any) -> str:
	options = trainer.facts.enum("FSDPOption")
	version = inside(trainer).version
	for word in words_of(value) if isinstance(value, (str, list)) else ():
		if not isinstance(word, str):
			return f"fsdp holds {shown(word)}, which is no text"
		if word.lower() in STRATEGIES:
			if version == 2 and word not in ("full_shard", "shard_grad_op"):
				return f"{word} is for FSDP1 only: write fsdp: true, or version: 1 into fsdp_config"
		elif word not in ("offload", "auto_wrap"):
			return unknown_word(word, options)
	return ""


def unknown_word(word: Any, options: tuple[str, ...]) -> str:
	return f"fsdp has no option {shown(word)}; it has {listing(options)}{did_you_mean(closest(str(word), options))}"


@rule("TRN041", error="*")
def fsdp_config_inside(trainer: Arguments) -> Hits:
	"""A value of `fsdp_config` among the arguments that is refused.

	As in a file of its own (TRN001, TRN002). It is a mapping or the path of a JSON file, looked at with `fsdp` only
	since 5.10. Source: 5.24.0, training_args.py, `_process_fsdp_args`.
	"""
	settings = trainer.given.get("fsdp_config")
	if settings is None or not (is_on(trainer) or not new(trainer)):
		return
	if not isinstance(settings, (dict, str)):
		yield Hit(trainer.value("fsdp_config"), f"fsdp_config is no mapping, but {shown(settings)}")
	elif isinstance(settings, dict):
		config = inside(trainer)
		yield from (hit for hit in value_hits(config) if is_on(trainer) or is_checked_always(config, hit))
		if is_on(trainer) and not new(trainer):
			yield from conflict_hits(config)


def is_checked_always(config: FsdpConfig, hit: Hit) -> bool:
	size = config.entries.get("min_num_params")
	return size is not None and hit.at.pointer == size[1] and not isinstance(size[0], (int, float))


@rule("TRN042", warning="*")
def fsdp_config_inside_unread(trainer: Arguments) -> Hits:
	"""A key of `fsdp_config` among the arguments that nothing reads.

	As in a file of its own (TRN003). Up to 4.51 the prefix `fsdp_` is taken off in such a file only, not here; up to
	5.9 the wrap settings need the word auto_wrap in `fsdp`. Source: 5.9.0, training_args.py, `_process_fsdp_args`.
	"""
	if not is_on(trainer) or not isinstance(trainer.given.get("fsdp_config"), dict):
		return
	config = inside(trainer)
	yield from unread_hits(config)
	yield from version_hits(config) if trainer.covers("5.0..") else ()
	if not new(trainer) and "auto_wrap" not in words_of(trainer.get("fsdp")) and not config.xla:
		for name in WRAPS:
			if config.value(name):
				yield Hit(config.key(name), f"{name} has no effect without the word auto_wrap in fsdp")


@rule("TRN043", warning="*")
def fsdp_config_without_fsdp(trainer: Arguments) -> Hits:
	"""`fsdp_config` without `fsdp`.

	Nothing of it is used. Write `fsdp: true` (up to 5.9 `fsdp: full_shard auto_wrap`). Where `accelerate launch` sets
	FSDP up, its own `fsdp_config` counts. Source: 5.24.0, training_args.py, `_process_fsdp_args`.
	"""
	if trainer.given.get("fsdp_config") and not is_on(trainer):
		wanted = "true" if new(trainer) else "full_shard auto_wrap"
		add = Operation("add", (), "fsdp", True if new(trainer) else wanted)
		repair = None if "fsdp" in trainer.given else Repair(f"add fsdp: {wanted}", (add,))
		text = f"fsdp_config has no effect without fsdp; write fsdp: {wanted}"
		yield Hit(trainer.key("fsdp_config"), text, repair)


@rule("TRN044", error="*")
def fsdp_and_others(trainer: Arguments) -> Hits:
	"""FSDP or DeepSpeed with arguments that the Trainer refuses beside them.

	They exclude each other. With either, `save_only_model` excludes `load_best_model_at_end`; with FSDP it excludes
	SHARDED_STATE_DICT, and the activation checkpointing of `fsdp_config` excludes that of the arguments. Source:
	5.24.0, trainer.py, `Trainer.__init__` and `create_accelerator_and_postprocess`.
	"""
	deepspeed = trainer.get("deepspeed")
	if is_on(trainer) and deepspeed:
		text = "fsdp and deepspeed exclude each other; remove one of them"
		yield Hit(trainer.key("fsdp"), text, related=(trainer.key("deepspeed"),))
	elif is_on(trainer) or deepspeed:
		yield from refused_beside(trainer)


def refused_beside(trainer: Arguments) -> Hits:
	only = trainer.of("save_only_model")
	config = inside(trainer)
	if only and trainer.of("load_best_model_at_end"):
		text = "save_only_model with load_best_model_at_end does not go with FSDP or DeepSpeed"
		yield Hit(trainer.key("save_only_model"), text, related=(trainer.key("load_best_model_at_end"),))
	if not is_on(trainer) or config.xla:
		return
	sharded = str(config.value("state_dict_type")).upper() in ("SHARDED_STATE_DICT", "3")
	if only and sharded and new(trainer):
		yield Hit(trainer.key("save_only_model"), "save_only_model does not go with state_dict_type SHARDED_STATE_DICT")
	names = ("activation_checkpointing", "gradient_checkpointing")
	twice = next((name for name in names if trainer.given.get(name)), None)
	value = config.value("activation_checkpointing")
	if twice and (str(value).lower() in TRUE if new(trainer) else value):
		text = f"{twice} here and activation_checkpointing in fsdp_config exclude each other; keep the latter"
		repair = removing((twice,), Applicability.SAFE)
		yield Hit(trainer.key(twice), text, repair, related=(config.key("activation_checkpointing"),))


@rule("TRN045", info="5.10..")
def fsdp_as_text(trainer: Arguments) -> Hits:
	"""`fsdp` as words, as releases before 5.10 took it.

	They are still translated into `fsdp_config`, and a warning is logged. Write `fsdp: true`. Source: 5.24.0,
	training_args.py, `_apply_legacy_fsdp_to_config`.
	"""
	value = trainer.given.get("fsdp")
	if isinstance(value, (str, list)) and value:
		text = f"words are deprecated since 5.10: write fsdp: true and the rest into fsdp_config ({translated(value)})"
		yield Hit(trainer.value("fsdp"), text)


def translated(value: Any) -> str:
	settings = {"shard_grad_op": "reshard_after_forward: false", "offload": "cpu_offload: true"}
	found = [settings[word] for word in words_of(value) if isinstance(word, str) and word in settings]
	return ", ".join(found) or "nothing more"
