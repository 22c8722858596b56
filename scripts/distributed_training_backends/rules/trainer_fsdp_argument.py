"""TRN rules about `fsdp` and `fsdp_config` among TrainingArguments."""

from collections.abc import Iterator
from typing import Any

from ..knowledge import transformers
from ..model import Applicability, Targets
from ..sources.document import Document
from ..versions import covers
from .readings import TRUE_WORDS
from .registry import Hit, Operation, Repair, rule
from .rewriting import removing
from .suggest import closest, did_you_mean, listing, shown
from .trainer_arguments import given
from .trainer_combinations import value_of
from .trainer_fsdp import FsdpConfig
from .trainer_fsdp_file import conflict_hits, unread_hits, value_hits, version_hits

WRAPS = ("min_num_params", "transformer_layer_cls_to_wrap")
STRATEGIES = ("full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2")


def new(targets: Targets) -> bool:
	"""Tell whether `fsdp` is a switch, and everything else stands in `fsdp_config` (since 5.10)."""
	return covers("5.10..", transformers.nearest(targets.transformers))


def is_on(trainer: Document) -> bool:
	return bool(given(trainer).get("fsdp"))


def words_of(value: Any) -> list[Any]:
	return value.split() if isinstance(value, str) else list(value) if isinstance(value, (list, dict)) else []


def inside(trainer: Document, targets: Targets) -> FsdpConfig:
	return FsdpConfig(trainer, ("fsdp_config",), targets.transformers, targets.accelerate, in_file=False)


@rule("TRN040", error="*")
def fsdp_argument(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""A value of `fsdp` that is refused.

	Its words are compared letter by letter: full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2, no_shard,
	offload, auto_wrap. Up to 5.9 `offload` needs a strategy beside it, and full_shard and shard_grad_op exclude each
	other. Since 5.10 strategies other than those two are for `fsdp_config: {version: 1}` only; write `fsdp: true`.
	Source: 5.24.0, training_args.py, `_apply_legacy_fsdp_to_config`; 5.9.0, training_args.py, `_process_fsdp_args`.
	"""
	value = given(trainer).get("fsdp")
	if text := (refused_since_5_10 if new(targets) else refused_before)(trainer, value, targets):
		yield Hit(trainer.value("fsdp"), text)


def refused_before(_trainer: Document, value: Any, targets: Targets) -> str:
	words, options = words_of(value), transformers.for_release(targets.transformers).fsdp_options
	minor = transformers.nearest(targets.transformers)
	if isinstance(value, str):
		if wrong := [word for word in words if word not in options]:
			return unknown_word(wrong[0], options)
	elif value is False and minor == "4.57":
		return "fsdp: false is refused by transformers 4.57; remove it"
	elif isinstance(value, (int, float)) and not isinstance(value, bool) and (value or covers("..4.57", minor)):
		return f"fsdp is no text, but {shown(value)}"
	elif value is None and covers("..4.56", minor) and "fsdp" in given(_trainer):
		return "fsdp is empty, and this release takes a text; remove it"
	if words == ["offload"]:
		return "offload needs a strategy beside it: fsdp: full_shard offload"
	if "full_shard" in words and "shard_grad_op" in words:
		return "full_shard and shard_grad_op exclude each other"
	return ""


def refused_since_5_10(trainer: Document, value: Any, targets: Targets) -> str:
	options = transformers.for_release(targets.transformers).fsdp_options
	version = inside(trainer, targets).version
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
def fsdp_config_inside(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""A value of `fsdp_config` among the arguments that is refused.

	As in a file of its own (TRN001, TRN002). It is a mapping, or the path of a JSON file; since 5.10 it is looked at
	only with `fsdp` on. Source: 5.24.0, training_args.py, `TrainingArguments._process_fsdp_args`.
	"""
	settings = given(trainer).get("fsdp_config")
	if settings is None or not (is_on(trainer) or not new(targets)):
		return
	if not isinstance(settings, (dict, str)):
		yield Hit(trainer.value("fsdp_config"), f"fsdp_config is no mapping, but {shown(settings)}")
	elif isinstance(settings, dict):
		config = inside(trainer, targets)
		yield from (hit for hit in value_hits(config) if is_on(trainer) or is_checked_always(config, hit))
		if is_on(trainer) and not new(targets):
			yield from conflict_hits(config)


def is_checked_always(config: FsdpConfig, hit: Hit) -> bool:
	size = config.entries.get("min_num_params")
	return size is not None and hit.at.pointer == size[1] and not isinstance(size[0], (int, float))


@rule("TRN042", warning="*")
def fsdp_config_inside_unread(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""A key of `fsdp_config` among the arguments that nothing reads.

	As in a file of its own (TRN003). Up to 4.51 the prefix `fsdp_` is taken off in such a file only, not here; up
	to 5.9 the wrap settings need the word auto_wrap in `fsdp`. Source: 5.9.0, training_args.py,
	`TrainingArguments._process_fsdp_args`.
	"""
	if not is_on(trainer) or not isinstance(given(trainer).get("fsdp_config"), dict):
		return
	config = inside(trainer, targets)
	yield from unread_hits(config)
	yield from version_hits(config) if covers("5.0..", config.minor) else ()
	if not new(targets) and "auto_wrap" not in words_of(trainer.get("fsdp")) and not config.xla:
		for name in WRAPS:
			if config.value(name):
				yield Hit(config.key(name), f"{name} has no effect without the word auto_wrap in fsdp")


@rule("TRN043", warning="*")
def fsdp_config_without_fsdp(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`fsdp_config` without `fsdp`.

	Nothing of it is used. Write `fsdp: true` (up to 5.9 `fsdp: full_shard auto_wrap`). Where `accelerate launch` sets
	FSDP up, its own `fsdp_config` counts and this one does not. Source: 5.24.0, training_args.py,
	`TrainingArguments._process_fsdp_args`.
	"""
	if given(trainer).get("fsdp_config") and not is_on(trainer):
		wanted = "true" if new(targets) else "full_shard auto_wrap"
		add = Operation("add", (), "fsdp", True if new(targets) else wanted)
		repair = None if "fsdp" in given(trainer) else Repair(f"add fsdp: {wanted}", (add,))
		text = f"fsdp_config has no effect without fsdp; write fsdp: {wanted}"
		yield Hit(trainer.key("fsdp_config"), text, repair)


@rule("TRN044", error="*")
def fsdp_and_others(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""FSDP or DeepSpeed with arguments that the Trainer refuses beside them.

	FSDP and DeepSpeed exclude each other. With either, `save_only_model` excludes `load_best_model_at_end`; with FSDP
	it excludes SHARDED_STATE_DICT, and the activation checkpointing of `fsdp_config` excludes that of the arguments.
	Source: 5.24.0, trainer.py, `Trainer.__init__` and `create_accelerator_and_postprocess`.
	"""
	deepspeed = trainer.get("deepspeed")
	if is_on(trainer) and deepspeed:
		text = "fsdp and deepspeed exclude each other; remove one of them"
		yield Hit(trainer.key("fsdp"), text, related=(trainer.key("deepspeed"),))
	elif is_on(trainer) or deepspeed:
		yield from refused_beside(trainer, targets)


def refused_beside(trainer: Document, targets: Targets) -> Iterator[Hit]:
	only = value_of(trainer, "save_only_model", targets)
	config = inside(trainer, targets)
	if only and value_of(trainer, "load_best_model_at_end", targets):
		text = "save_only_model with load_best_model_at_end does not go with FSDP or DeepSpeed"
		yield Hit(trainer.key("save_only_model"), text, related=(trainer.key("load_best_model_at_end"),))
	if not is_on(trainer) or config.xla:
		return
	sharded = str(config.value("state_dict_type")).upper() in ("SHARDED_STATE_DICT", "3")
	if only and sharded and new(targets):
		yield Hit(trainer.key("save_only_model"), "save_only_model does not go with state_dict_type SHARDED_STATE_DICT")
	names = ("activation_checkpointing", "gradient_checkpointing")
	twice = next((name for name in names if given(trainer).get(name)), None)
	value = config.value("activation_checkpointing")
	if twice and (str(value).lower() in TRUE_WORDS if new(targets) else value):
		text = f"{twice} here and activation_checkpointing in fsdp_config exclude each other; keep the latter"
		repair = removing((twice,), Applicability.SAFE)
		yield Hit(trainer.key(twice), text, repair, related=(config.key("activation_checkpointing"),))


@rule("TRN045", info="5.10..")
def fsdp_as_text(trainer: Document) -> Iterator[Hit]:
	"""`fsdp` as words, as releases before 5.10 took it.

	They are still translated into `fsdp_config`, and a warning is logged. Write `fsdp: true`. Source: 5.24.0,
	training_args.py, `_apply_legacy_fsdp_to_config`.
	"""
	value = given(trainer).get("fsdp")
	if isinstance(value, (str, list)) and value:
		text = f"words are deprecated since 5.10: write fsdp: true and the rest into fsdp_config ({translated(value)})"
		yield Hit(trainer.value("fsdp"), text)


def translated(value: Any) -> str:
	settings = {"shard_grad_op": "reshard_after_forward: false", "offload": "cpu_offload: true"}
	found = [settings[word] for word in words_of(value) if isinstance(word, str) and word in settings]
	return ", ".join(found) or "nothing more"
