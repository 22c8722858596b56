"""TRN rules about TrainingArguments that do not go together."""

from collections.abc import Iterator
from typing import Any

from ..knowledge import accelerate as knowledge
from ..knowledge import transformers
from ..model import Applicability, Severity, Targets
from ..sources.document import Document
from ..versions import covers
from .registry import Hit, rule
from .rewriting import removing, rewriting
from .suggest import closest, did_you_mean, listing, shown
from .trainer_arguments import given, known_arguments

FOLLOWERS = ("reduce_lr_on_plateau", "greedy")


def value_of(document: Document, name: str, targets: Targets) -> Any:
	arguments = given(document)
	if name in ("eval_strategy", "evaluation_strategy"):
		return evaluation(document, targets)
	if name in arguments:
		return arguments[name]
	known = known_arguments(targets)
	return known[name].default if name in known else None


def evaluation(document: Document, targets: Targets) -> Any:
	"""The evaluation strategy, by its old name or its new one; the old one decides where both are there."""
	known, arguments = known_arguments(targets), given(document)
	old = arguments.get("evaluation_strategy") if "evaluation_strategy" in known else None
	new = arguments.get("eval_strategy", "no") if "eval_strategy" in known else "no"
	return old if old is not None else new


def evaluation_name(document: Document) -> str:
	return "evaluation_strategy" if "evaluation_strategy" in given(document) else "eval_strategy"


@rule("TRN030", error="*")
def step_settings(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`logging_steps`, `eval_steps` or `save_steps` that do not fit the strategy "steps".

	They are numbers, above 1 whole ones (below 1 a share of all steps); logging needs one that is not 0, and where
	`eval_steps` is 0 or missing `logging_steps` takes its place. With another strategy they are not looked at.
	Source: 5.24.0, training_args.py, `TrainingArguments._validate_args`.
	"""
	for name, strategy in (("logging_steps", "logging_strategy"), ("save_steps", "save_strategy")):
		steps = value_of(trainer, name, targets)
		wrong = wrong_steps(steps, zero=name == "save_steps")
		if value_of(trainer, strategy, targets) == "steps" and wrong:
			yield Hit(trainer.value(name), f"{name} is {shown(steps)}: {wrong}")
	if evaluation(trainer, targets) == "steps":
		yield from evaluation_steps(trainer, targets)


def evaluation_steps(document: Document, targets: Targets) -> Iterator[Hit]:
	steps, logging = (value_of(document, name, targets) for name in ("eval_steps", "logging_steps"))
	if steps is None or steps == 0:
		if isinstance(logging, (int, float)) and logging <= 0:
			yield Hit(document.value("eval_steps"), "eval_steps and logging_steps are both 0; write one of them")
	elif wrong := wrong_steps(steps, zero=True):
		yield Hit(document.value("eval_steps"), f"eval_steps is {shown(steps)}: {wrong}")


def wrong_steps(steps: Any, zero: bool) -> str:
	if not isinstance(steps, (int, float)):
		return "it is compared with a number; write it without quotation marks"
	if steps > 1 and not float(steps).is_integer():
		return "above 1 it has to be an integer"
	return "" if zero or steps != 0 else "it has to be above 0"


@rule("TRN031", error="*")
def best_model_at_end(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`load_best_model_at_end` without an evaluation for each checkpoint.

	Evaluation and saving have to follow the same strategy, and saving steps a multiple of the evaluation steps
	(since 4.48 `save_strategy: best` is free of that). Source: 5.24.0, training_args.py,
	`TrainingArguments._validate_args`.
	"""
	if not value_of(trainer, "load_best_model_at_end", targets):
		return
	saving, evaluating = value_of(trainer, "save_strategy", targets), evaluation(trainer, targets)
	minor = transformers.nearest(targets.transformers)
	if saving == "best" and covers("4.48..", minor):
		return
	at = trainer.key("load_best_model_at_end")
	if saving != evaluating:
		name = evaluation_name(trainer)
		text = f"load_best_model_at_end needs {name} and save_strategy to be the same"
		yield Hit(at, f"{text}: they are {shown(evaluating)} and {shown(saving)}")
	elif evaluating == "steps" and (text := uneven(trainer, targets)):
		yield Hit(at, text)


def uneven(document: Document, targets: Targets) -> str:
	saving = value_of(document, "save_steps", targets)
	steps = value_of(document, "eval_steps", targets) or value_of(document, "logging_steps", targets)
	if not all(isinstance(item, (int, float)) and item > 0 for item in (saving, steps)) or saving % steps == 0:
		return ""
	if saving < 1 and steps < 1 and (saving * 1_000_000) % (steps * 1_000_000) == 0:
		fixed = covers("4.53..", transformers.nearest(targets.transformers))
		return "" if fixed else f"shares such as {saving} and {steps} are refused up to 4.52; write whole steps"
	return f"load_best_model_at_end needs save_steps ({saving}) to be a multiple of eval_steps ({steps})"


@rule("TRN032", error="*")
def two_precisions(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""Both fp16 and bf16, for training or for evaluation.

	Source: 5.24.0, training_args.py, `TrainingArguments._validate_args`.
	"""
	for one, other in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
		if value_of(trainer, one, targets) and value_of(trainer, other, targets):
			text = f"at most one of {one} and {other} can be true; remove {one} where the GPUs have bf16"
			yield Hit(trainer.key(one), text, related=(trainer.key(other),))


@rule("TRN033", error="*")
def scheduler_without_evaluation(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""A scheduler that follows a metric, and no evaluation.

	`reduce_lr_on_plateau`, and `greedy` since 5.4, need an evaluation strategy. Source: 5.24.0, training_args.py,
	`TrainingArguments._validate_args`.
	"""
	scheduler = value_of(trainer, "lr_scheduler_type", targets)
	if scheduler in FOLLOWERS and evaluation(trainer, targets) == "no":
		text = f"lr_scheduler_type {scheduler} follows a metric; write {evaluation_name(trainer)}: epoch"
		yield Hit(trainer.value("lr_scheduler_type"), text)


@rule("TRN034", error="*")
def prefetch_without_workers(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`dataloader_prefetch_factor` without worker processes.

	Source: 5.24.0, training_args.py, `TrainingArguments._validate_args`.
	"""
	workers = value_of(trainer, "dataloader_num_workers", targets)
	if trainer.get("dataloader_prefetch_factor") is not None and workers == 0:
		text = "dataloader_prefetch_factor needs dataloader_num_workers above 0"
		repair = removing(("dataloader_prefetch_factor",), Applicability.SAFE)
		yield Hit(trainer.key("dataloader_prefetch_factor"), text, repair)


@rule("TRN035", error="*")
def accelerator_config(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`accelerator_config` with a key that it does not have, or settings that are refused.

	It is a mapping, or the path of a JSON file. `use_configured_state: true` needs a state that the script has made
	before. `gradient_accumulation_kwargs` has `num_steps`, which excludes `gradient_accumulation_steps` above 1, and
	`adjust_scheduler`, `sync_with_dataloader` and `sync_each_batch`; from 4.46 to 5.1 all but `num_steps` is ignored.
	Source: 5.24.0, trainer_pt_utils.py, `AcceleratorConfig`; trainer.py,
	`Trainer.create_accelerator_and_postprocess`.
	"""
	value = trainer.get("accelerator_config")
	known = transformers.for_release(targets.transformers).accelerator_config
	if value is not None and not isinstance(value, (dict, str)):
		yield Hit(trainer.value("accelerator_config"), f"accelerator_config is no mapping, but {shown(value)}")
	if not isinstance(value, dict):
		return
	for key in value:
		if key not in known:
			text = f"accelerator_config has no {shown(key)} in transformers {targets.transformers}"
			yield Hit(trainer.key("accelerator_config", key), text)
	if value.get("use_configured_state") is True:
		text = "use_configured_state needs an Accelerator or PartialState that the script makes before the arguments"
		yield Hit(trainer.value("accelerator_config", "use_configured_state"), text, severity=Severity.WARNING)
	yield from accumulation(trainer, value.get("gradient_accumulation_kwargs"), targets)


PLUGIN_KEYS = ("num_steps", "adjust_scheduler", "sync_with_dataloader", "sync_each_batch")


def accumulation(document: Document, settings: Any, targets: Targets) -> Iterator[Hit]:
	path = ("accelerator_config", "gradient_accumulation_kwargs")
	ignored = covers("4.46..5.1", transformers.nearest(targets.transformers))
	severity = Severity.WARNING if ignored else None
	if settings is not None and not isinstance(settings, dict):
		text = f"gradient_accumulation_kwargs is no mapping, but {shown(settings)}"
		yield Hit(document.value(*path), text, severity=severity)
	for key in settings if isinstance(settings, dict) else ():
		if key not in PLUGIN_KEYS or (ignored and key != "num_steps"):
			what = "is ignored in this release" if ignored else "is no field of GradientAccumulationPlugin"
			yield Hit(document.key(*path, key), f"{key} {what}", severity=severity)
	steps = value_of(document, "gradient_accumulation_steps", targets)
	if isinstance(settings, dict) and "num_steps" in settings and isinstance(steps, (int, float)) and steps > 1:
		text = "num_steps and gradient_accumulation_steps above 1 exclude each other; keep the latter"
		yield Hit(document.key(*path, "num_steps"), text, related=(document.key("gradient_accumulation_steps"),))


@rule("TRN036", error="4.56..")
def parallelism_config_in_file(trainer: Document) -> Iterator[Hit]:
	"""`parallelism_config` in a file.

	The argument takes an object of Accelerate's `ParallelismConfig`, which no file can hold; a mapping fails when
	the Trainer asks it for its sizes. Build it in the script, or write `parallelism_config` into the config of
	`accelerate launch`. Source: 5.24.0, trainer.py, `Trainer.create_accelerator_and_postprocess`.
	"""
	if trainer.get("parallelism_config") is not None:
		text = "parallelism_config takes an object of ParallelismConfig, which no file can hold; make it in the script"
		yield Hit(trainer.key("parallelism_config"), text)


@rule("TRN037", error="*")
def batch_size_search(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`auto_find_batch_size` with a launcher that does not go with it.

	DeepSpeed of stage 3; up to 4.44 any DeepSpeed or FSDP. Source: 5.24.0, trainer.py,
	`Trainer.create_accelerator_and_postprocess`.
	"""
	if not value_of(trainer, "auto_find_batch_size", targets):
		return
	stage = trainer.get("deepspeed", "zero_optimization", "stage")
	old = covers("..4.44", transformers.nearest(targets.transformers))
	if stage == 3 or (old and (trainer.get("deepspeed") or trainer.get("fsdp"))):
		what = "DeepSpeed of stage 3" if not old else "DeepSpeed and FSDP"
		yield Hit(trainer.key("auto_find_batch_size"), f"auto_find_batch_size does not go with {what}; remove it")


@rule("TRN038", error="4.47..")
def best_without_metric(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`save_strategy: best` without a metric that tells which one is best.

	`metric_for_best_model` is "loss" by itself only with `load_best_model_at_end` or a scheduler that follows a
	metric; otherwise the Trainer refuses the arguments. Source: 5.24.0, trainer.py, `Trainer.__init__`.
	"""
	scheduler = value_of(trainer, "lr_scheduler_type", targets)
	filled = value_of(trainer, "load_best_model_at_end", targets) or scheduler in FOLLOWERS
	best = value_of(trainer, "save_strategy", targets) == "best"
	if best and not filled and trainer.get("metric_for_best_model") is None:
		text = "save_strategy best needs metric_for_best_model, such as eval_loss"
		yield Hit(trainer.value("save_strategy"), text)


@rule("TRN039", error="*")
def compile_backend(trainer: Document, targets: Targets) -> Iterator[Hit]:
	"""`torch_compile_backend` is none that Accelerate knows.

	The Trainer hands it to Accelerate's `TorchDynamoPlugin`, which knows a list of backends in any case. Source:
	5.24.0, trainer.py, `Trainer.create_accelerator_and_postprocess`; accelerate 1.15.0, utils/dataclasses.py,
	`DynamoBackend`.
	"""
	value = trainer.get("torch_compile_backend")
	known = list(knowledge.for_release(targets.accelerate).enum("DynamoBackend").values())
	if value is not None and (not isinstance(value, str) or value.upper() not in known):
		near = closest(str(value).upper(), known)
		text = f"accelerate {targets.accelerate} has no backend {shown(value)}"
		at, word = trainer.value("torch_compile_backend"), near and near.lower()
		text += f"{did_you_mean(word)} (it has {listing(known)})"
		yield Hit(at, text, rewriting(at, word) if word else None)
