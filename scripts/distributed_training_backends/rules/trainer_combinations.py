"""TRN rules about TrainingArguments that do not go together."""

from typing import Any

from ..flow.trainer import Arguments
from ..knowledge import accelerate as knowledge
from ..model import Applicability, Severity
from .registry import Hit, Hits, rule
from .rewriting import removing, rewriting
from .suggest import closest, did_you_mean, listing, shown

FOLLOWERS = ("reduce_lr_on_plateau", "greedy")


def evaluation(trainer: Arguments) -> Any:
	"""The evaluation strategy, by its old name or its new one; the old one decides where both are there."""
	known, arguments = trainer.known, trainer.given
	old = arguments.get("evaluation_strategy") if "evaluation_strategy" in known else None
	new = arguments.get("eval_strategy", "no") if "eval_strategy" in known else "no"
	return old if old is not None else new


def evaluation_name(trainer: Arguments) -> str:
	return "evaluation_strategy" if "evaluation_strategy" in trainer.given else "eval_strategy"


@rule("TRN030", error="*")
def step_settings(trainer: Arguments) -> Hits:
	"""`logging_steps`, `eval_steps` or `save_steps` that do not fit the strategy "steps".

	They are numbers, above 1 whole ones (below 1 a share of all steps); logging needs one that is not 0, and where
	`eval_steps` is 0 or missing `logging_steps` takes its place. With another strategy they are not looked at. Source:
	5.24.0, training_args.py, `_validate_args`.
	"""
	for name, strategy in (("logging_steps", "logging_strategy"), ("save_steps", "save_strategy")):
		steps = trainer.of(name)
		wrong = wrong_steps(steps, zero=name == "save_steps")
		if trainer.of(strategy) == "steps" and wrong:
			yield Hit(trainer.value(name), f"{name} is {shown(steps)}: {wrong}")
	if evaluation(trainer) == "steps":
		yield from evaluation_steps(trainer)


def evaluation_steps(trainer: Arguments) -> Hits:
	steps, logging = (trainer.of(name) for name in ("eval_steps", "logging_steps"))
	if steps is None or steps == 0:
		if isinstance(logging, (int, float)) and logging <= 0:
			yield Hit(trainer.value("eval_steps"), "eval_steps and logging_steps are both 0; write one of them")
	elif wrong := wrong_steps(steps, zero=True):
		yield Hit(trainer.value("eval_steps"), f"eval_steps is {shown(steps)}: {wrong}")


def wrong_steps(steps: Any, zero: bool) -> str:
	if not isinstance(steps, (int, float)):
		return "it is compared with a number; write it without quotation marks"
	if steps > 1 and not float(steps).is_integer():
		return "above 1 it has to be an integer"
	return "" if zero or steps != 0 else "it has to be above 0"


@rule("TRN031", error="*")
def best_model_at_end(trainer: Arguments) -> Hits:
	"""`load_best_model_at_end` without an evaluation for each checkpoint.

	Evaluation and saving have to follow the same strategy, and saving steps a multiple of the evaluation steps (since
	4.48 `save_strategy: best` is free of that). Source: 5.24.0, training_args.py, `_validate_args`.
	"""
	if not trainer.of("load_best_model_at_end"):
		return
	saving, evaluating = trainer.of("save_strategy"), evaluation(trainer)
	if saving == "best" and trainer.covers("4.48.."):
		return
	at = trainer.key("load_best_model_at_end")
	if saving != evaluating:
		name = evaluation_name(trainer)
		text = f"load_best_model_at_end needs {name} and save_strategy to be the same"
		yield Hit(at, f"{text}: they are {shown(evaluating)} and {shown(saving)}")
	elif evaluating == "steps" and (text := uneven(trainer)):
		yield Hit(at, text)


def uneven(trainer: Arguments) -> str:
	saving = trainer.of("save_steps")
	steps = trainer.of("eval_steps") or trainer.of("logging_steps")
	if not all(isinstance(item, (int, float)) and item > 0 for item in (saving, steps)) or saving % steps == 0:
		return ""
	if saving < 1 and steps < 1 and (saving * 1_000_000) % (steps * 1_000_000) == 0:
		fixed = trainer.covers("4.53..")
		return "" if fixed else f"shares such as {saving} and {steps} are refused up to 4.52; write whole steps"
	return f"load_best_model_at_end needs save_steps ({saving}) to be a multiple of eval_steps ({steps})"


@rule("TRN032", error="*")
def two_precisions(trainer: Arguments) -> Hits:
	"""Both fp16 and bf16, for training or for evaluation.

	Source: 5.24.0, training_args.py, `_validate_args`.
	"""
	for one, other in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
		if trainer.of(one) and trainer.of(other):
			text = f"at most one of {one} and {other} can be true; remove {one} where the GPUs have bf16"
			yield Hit(trainer.key(one), text, related=(trainer.key(other),))


@rule("TRN033", error="*")
def scheduler_without_evaluation(trainer: Arguments) -> Hits:
	"""A scheduler that follows a metric, and no evaluation.

	`reduce_lr_on_plateau`, and `greedy` since 5.4, need an evaluation strategy. Source: 5.24.0, training_args.py,
	`_validate_args`.
	"""
	scheduler = trainer.of("lr_scheduler_type")
	if scheduler in FOLLOWERS and evaluation(trainer) == "no":
		text = f"lr_scheduler_type {scheduler} follows a metric; write {evaluation_name(trainer)}: epoch"
		yield Hit(trainer.value("lr_scheduler_type"), text)


@rule("TRN034", error="*")
def prefetch_without_workers(trainer: Arguments) -> Hits:
	"""`dataloader_prefetch_factor` without worker processes.

	Source: 5.24.0, training_args.py, `_validate_args`.
	"""
	workers = trainer.of("dataloader_num_workers")
	if trainer.get("dataloader_prefetch_factor") is not None and workers == 0:
		text = "dataloader_prefetch_factor needs dataloader_num_workers above 0"
		repair = removing(("dataloader_prefetch_factor",), Applicability.SAFE)
		yield Hit(trainer.key("dataloader_prefetch_factor"), text, repair)


@rule("TRN035", error="*")
def accelerator_config(trainer: Arguments) -> Hits:
	"""`accelerator_config` with a key that it does not have, or settings that are refused.

	It is a mapping, or the path of a JSON file. `use_configured_state: true` needs a state that the script has made
	before. `gradient_accumulation_kwargs` has `num_steps`, which excludes `gradient_accumulation_steps` above 1, and
	`adjust_scheduler`, `sync_with_dataloader` and `sync_each_batch`; from 4.46 to 5.1 all but `num_steps` is ignored.
	Source: 5.24.0, trainer_pt_utils.py, `AcceleratorConfig`; trainer.py,
	`Trainer.create_accelerator_and_postprocess`.
	"""
	value = trainer.get("accelerator_config")
	known = trainer.facts.accelerator_config
	if value is not None and not isinstance(value, (dict, str)):
		yield Hit(trainer.value("accelerator_config"), f"accelerator_config is no mapping, but {shown(value)}")
	if not isinstance(value, dict):
		return
	for key in value:
		if key not in known:
			text = f"accelerator_config has no {shown(key)} in transformers {trainer.release}"
			yield Hit(trainer.key("accelerator_config", key), text)
	if value.get("use_configured_state") is True:
		text = "use_configured_state needs an Accelerator or PartialState that the script makes before the arguments"
		yield Hit(trainer.value("accelerator_config", "use_configured_state"), text, severity=Severity.WARNING)
	yield from accumulation(trainer, value.get("gradient_accumulation_kwargs"))


PLUGIN_KEYS = ("num_steps", "adjust_scheduler", "sync_with_dataloader", "sync_each_batch")


def accumulation(trainer: Arguments, settings: Any) -> Hits:
	path = ("accelerator_config", "gradient_accumulation_kwargs")
	ignored = trainer.covers("4.46..5.1")
	severity = Severity.WARNING if ignored else None
	if settings is not None and not isinstance(settings, dict):
		text = f"gradient_accumulation_kwargs is no mapping, but {shown(settings)}"
		yield Hit(trainer.value(*path), text, severity=severity)
	for key in settings if isinstance(settings, dict) else ():
		if key not in PLUGIN_KEYS or (ignored and key != "num_steps"):
			what = "is ignored in this release" if ignored else "is no field of GradientAccumulationPlugin"
			yield Hit(trainer.key(*path, key), f"{key} {what}", severity=severity)
	steps = trainer.of("gradient_accumulation_steps")
	if isinstance(settings, dict) and "num_steps" in settings and isinstance(steps, (int, float)) and steps > 1:
		text = "num_steps and gradient_accumulation_steps above 1 exclude each other; keep the latter"
		yield Hit(trainer.key(*path, "num_steps"), text, related=(trainer.key("gradient_accumulation_steps"),))


@rule("TRN036", error="4.56..")
def parallelism_config_in_file(trainer: Arguments) -> Hits:
	"""`parallelism_config` in a file.

	It takes an object of Accelerate's `ParallelismConfig`; a mapping fails when the Trainer asks it for its sizes.
	Build it in the script, or write `parallelism_config` into the config of `accelerate launch`. Source: 5.24.0,
	trainer.py, `Trainer.create_accelerator_and_postprocess`.
	"""
	if trainer.get("parallelism_config") is not None:
		text = "parallelism_config takes an object of ParallelismConfig, which no file can hold; make it in the script"
		yield Hit(trainer.key("parallelism_config"), text)


@rule("TRN037", error="*")
def batch_size_search(trainer: Arguments) -> Hits:
	"""`auto_find_batch_size` with a launcher that does not go with it.

	DeepSpeed of stage 3; up to 4.44 any DeepSpeed or FSDP. Source: 5.24.0, trainer.py,
	`Trainer.create_accelerator_and_postprocess`.
	"""
	if not trainer.of("auto_find_batch_size"):
		return
	stage = trainer.get("deepspeed", "zero_optimization", "stage")
	old = trainer.covers("..4.44")
	if stage == 3 or (old and (trainer.get("deepspeed") or trainer.get("fsdp"))):
		what = "DeepSpeed of stage 3" if not old else "DeepSpeed and FSDP"
		yield Hit(trainer.key("auto_find_batch_size"), f"auto_find_batch_size does not go with {what}; remove it")


@rule("TRN038", error="4.47..")
def best_without_metric(trainer: Arguments) -> Hits:
	"""`save_strategy: best` without a metric that tells which one is best.

	`metric_for_best_model` is "loss" by itself only with `load_best_model_at_end` or a scheduler that follows a
	metric; otherwise the Trainer refuses the arguments. Source: 5.24.0, trainer.py, `Trainer.__init__`.
	"""
	scheduler = trainer.of("lr_scheduler_type")
	filled = trainer.of("load_best_model_at_end") or scheduler in FOLLOWERS
	best = trainer.of("save_strategy") == "best"
	if best and not filled and trainer.get("metric_for_best_model") is None:
		text = "save_strategy best needs metric_for_best_model, such as eval_loss"
		yield Hit(trainer.value("save_strategy"), text)


@rule("TRN039", error="*")
def compile_backend(trainer: Arguments) -> Hits:
	"""`torch_compile_backend` is none that Accelerate knows.

	The Trainer hands it to Accelerate's `TorchDynamoPlugin`, which knows a list of backends in any case. Source:
	5.24.0, trainer.py, `Trainer.create_accelerator_and_postprocess`; accelerate 1.15.0, utils/dataclasses.py,
	`DynamoBackend`.
	"""
	value = trainer.get("torch_compile_backend")
	known = list(knowledge.for_release(trainer.targets.accelerate).enum("DynamoBackend").values())
	if value is not None and (not isinstance(value, str) or value.upper() not in known):
		near = closest(str(value).upper(), known)
		text = f"accelerate {trainer.targets.accelerate} has no backend {shown(value)}"
		at, word = trainer.value("torch_compile_backend"), near and near.lower()
		text += f"{did_you_mean(word)} (it has {listing(known)})"
		yield Hit(at, text, rewriting(at, word) if word else None)
