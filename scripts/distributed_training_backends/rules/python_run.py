"""PYS rules about what a script does with its plugins: handlers, trackers, prepare, saving, Local SGD."""

from collections.abc import Iterator
from typing import Any

from ..flow.script import Call, Script, plain
from ..model import Severity
from ..sources.document import OPEN, At
from ..sources.python_values import Made
from ..versions import in_span
from .python_arguments import written
from .python_tables import weighed
from .registry import Hit, Hits, rule

ACCUMULATION = "gradient_accumulation_steps"
DDP = "DistributedDataParallelKwargs"
HALF_HANDLERS = frozenset({"GradientAccumulationPlugin", "TorchDynamoPlugin"})
RECIPES = frozenset({"AORecipeKwargs", "FP8RecipeKwargs", "MSAMPRecipeKwargs", "TERecipeKwargs"})
HANDLERS = RECIPES | {"AutocastKwargs", DDP, "GradScalerKwargs", "InitProcessGroupKwargs", "ProfileKwargs"}
NAMES = {"deepspeed": "DeepSpeed", "fsdp": "FSDP", "megatron": "Megatron-LM"}
WITH_FOLDER = ("tensorboard", "aim")
FOLDERS = ("project_dir", "logging_dir")


def handlers(call: Call) -> list[Any]:
	value = call.given.get("kwargs_handlers")
	return value if isinstance(value, list) else []


@rule("PYS013", error="*")
def handlers_refused(script: Script) -> Hits:
	"""`kwargs_handlers` is no list, holds something that is no handler, or one of them twice.

	Accelerate asserts that each is a `KwargsHandler` and takes one of each class. `GradientAccumulationPlugin` and
	`TorchDynamoPlugin` have arguments of their own (a KeyError since 1.4.0, ignored before). Source: 1.15.0,
	accelerator.py, `Accelerator.__init__`.
	"""
	for call in script.of("Accelerator"):
		value = call.given.get("kwargs_handlers")
		text = next(wrong_handlers(value, script.release), "")
		if text:
			yield weighed(call, Hit(call.at("kwargs_handlers"), f"{text}: accelerate {script.release} refuses it"))


def wrong_handlers(found: Any, release: str) -> Iterator[str]:
	if not isinstance(found, list):
		if found is not None and found is not OPEN:
			yield f"kwargs_handlers is {written(found)}, and should be a list of handlers"
		return
	names = [one.name for one in found if isinstance(one, Made)]
	for one in found:
		if one is OPEN or (isinstance(one, Made) and one.name in HANDLERS):
			continue
		if isinstance(one, Made) and one.name in HALF_HANDLERS:
			if in_span(release, "1.4.0", None):
				argument = "dynamo_plugin" if one.name == "TorchDynamoPlugin" else "gradient_accumulation_plugin"
				yield f"{one.name} is no handler; pass it as {argument}"
			continue
		if isinstance(one, (Made, str, dict, int, list)):
			yield f"kwargs_handlers holds {written(one)}, which is no handler"
	for name in dict.fromkeys(names):
		if names.count(name) > 1:
			yield f"kwargs_handlers holds {name} twice"


@rule("PYS014", error="0.30.0..")
def recipe_without_fp8(script: Script) -> Hits:
	"""A recipe for FP8 beside another precision.

	Accelerate refuses it, but under FSDP and DeepSpeed: "Passing in an FP8 configuration requires setting
	`mixed_precision='fp8'`". Source: 1.15.0, accelerator.py, `Accelerator.__init__`.
	"""
	for call in script.of("Accelerator"):
		recipe = next((one.name for one in handlers(call) if isinstance(one, Made) and one.name in RECIPES), None)
		field = call.field("mixed_precision")
		precision = plain(field.value, script.release)
		wrapped = script.backend in ("fsdp", "deepspeed")
		if recipe and precision is not OPEN and precision != "fp8" and not wrapped:
			names = ("USE_FSDP", "USE_DEEPSPEED") if field.given else ("MIXED_PRECISION",)
			unless = [] if script.launched else [f"ACCELERATE_{name}" for name in names]
			text = f"{recipe} beside mixed_precision={precision or 'no'}: accelerate {script.release} refuses it"
			hit = Hit(call.at("kwargs_handlers"), f'{text}; write mixed_precision="fp8"')
			yield weighed(call, hit, unless)


@rule("PYS015", error="*")
def tracker_without_folder(script: Script) -> Hits:
	"""A tracker that writes files, without a folder to write them to.

	"Logging with `tensorboard` requires a `logging_dir` to be passed in": `project_dir="runs"`, or a
	`ProjectConfiguration` with one. Source: 1.15.0, tracking.py, `filter_trackers`.
	"""
	for call in script.of("Accelerator"):
		value = call.given.get("log_with")
		names = [plain(one, script.release) for one in (value if isinstance(value, list) else [value])]
		writer = next((name for name in names if name in WITH_FOLDER), None)
		if writer and not call.open and not may_have_folder(call, script):
			text = f"log_with={written(writer)} needs a folder, and accelerate refuses it without; add project_dir=…"
			yield weighed(call, Hit(call.at("log_with"), text))


def may_have_folder(call: Call, script: Script) -> bool:
	made = script.made_by(call.given.get("project_config"))
	if made is None:
		return any(call.given.get(name) is not None for name in (*FOLDERS, "project_config"))
	return made.open or any(one.given.get(name) is not None for one in (call, made) for name in FOLDERS)


@rule("PYS016", error="1.10.0..")
def context_parallel_without_fsdp2(script: Script) -> Hits:
	"""`cp_size` above 1 without a plugin of FSDP2.

	Accelerate refuses it as soon as there are several processes, which context parallelism needs: "We need a
	`fsdp_plugin` to use context parallelism". Source: 1.15.0, state.py, `AcceleratorState.__init__`.
	"""
	for call in script.of("Accelerator"):
		config = script.made_by(call.given.get("parallelism_config"))
		size = config.field("cp_size").value if config else None
		if call.open or not isinstance(size, int) or size <= 1:
			continue
		plugin = script.made_by(call.given.get("fsdp_plugin"))
		if plugin is not None and "fsdp_version" in plugin.parameters:
			field = plugin.field("fsdp_version")
			if field.value == 1:
				text = f"cp_size={size} needs FSDP2, and the plugin is one of FSDP1; write fsdp_version=2"
				yield weighed(call, Hit(call.at("fsdp_plugin"), f"{text}: accelerate refuses it"), field.unless)
		elif "fsdp_plugin" not in call.given and script.backend in ("other", "unknown"):
			text = f"cp_size={size} needs FSDP2: accelerate refuses it without a FullyShardedDataParallelPlugin"
			unless = [] if script.launched else ["ACCELERATE_USE_FSDP"]
			yield weighed(call, Hit(call.at("parallelism_config"), text), unless)


@rule("PYS030", warning="*")
def saved_by_one_process(script: Script) -> Hits:
	"""`save_state`, `save_model` or `get_state_dict` where only the main process comes.

	Under FSDP and DeepSpeed every process holds a part of the state: the main process waits for the others until the
	time-out. Call it in all processes; Accelerate itself writes once. An info where it is not known who wraps the
	model. Source: 1.15.0, accelerator.py, `Accelerator.save_state`.
	"""
	for call in script.of("Accelerator.save_state", "Accelerator.save_model", "Accelerator.get_state_dict"):
		backend = script.backend
		if not call.main or backend == "other":
			continue
		method = call.name.rpartition(".")[2]
		who = NAMES.get(backend, "FSDP and DeepSpeed")
		if backend == "deepspeed" and method != "save_state" and zero_stage(script) in (0, 1, 2):
			continue
		text = f"{method} is called by the main process only; under {who} it waits for the other processes forever"
		yield Hit(call.at(), f"{text}: call it in all of them", severity=None if backend in NAMES else Severity.INFO)


def zero_stage(script: Script) -> Any:
	plugin = script.wrappers.get("deepspeed_plugin")
	if plugin is not None:
		return plugin.field("zero_stage").value if "hf_ds_config" not in plugin.given else OPEN
	return script.launch.value("zero_stage") if script.launch else OPEN


@rule("PYS031", error="*")
def local_sgd_refused(script: Script) -> Hits:
	"""Local SGD with models that FSDP, DeepSpeed or Megatron-LM wraps.

	"LocalSGD is supported only for CPUs and GPUs (no DeepSpeed or MegatronLM)": it needs whole parameters in every
	process. Source: 1.15.0, local_sgd.py, `LocalSGD.__init__`.
	"""
	for call in script.of("LocalSGD"):
		if script.backend in NAMES:
			text = f"LocalSGD is refused under {NAMES[script.backend]}; it works with plain data parallelism only"
			related = tuple(made.at() for made in script.wrappers.values())
			yield weighed(call, Hit(call.at(), text, related=related))


@rule("PYS032", warning="*")
def handler_ignored(script: Script) -> Hits:
	"""Settings of DDP where FSDP, DeepSpeed or Megatron-LM wraps the model.

	A communication hook, `find_unused_parameters` and their like are arguments of `DistributedDataParallel`, which does
	not come into play. Source: 1.15.0, accelerator.py, `Accelerator.prepare_model`.
	"""
	for call in script.of("Accelerator"):
		for made in map(script.made_by, handlers(call)):
			if made is not None and made.name == DDP and script.backend in NAMES and (made.given or made.open):
				names = " and ".join(list(made.given)[:3]) or "the settings"
				text = f"{names} have no effect: {NAMES[script.backend]} wraps the model, not DistributedDataParallel"
				yield Hit(made.at(), text.replace("have", "has") if len(made.given) == 1 else text)


@rule("PYS033", error="*")
def prepare_refused(script: Script) -> Hits:
	"""A call of `prepare` with models that the backend does not take together.

	DeepSpeed takes one model in a call; FSDP2 takes one, and wants its optimizer in the same call (since 1.6.0).
	Source: 1.15.0, accelerator.py, `Accelerator.prepare`.
	"""
	for call in script.of("Accelerator.prepare"):
		shapes = script.document.data["calls"][call.place].get("shapes", [])
		if call.open and "*" in shapes:
			continue
		models, optimizers = shapes.count("model"), shapes.count("optimizer")
		text = ""
		if script.backend == "deepspeed" and models > 1:
			text = f"prepare takes one model in a call under DeepSpeed, and gets {models}"
		elif is_fsdp2(script) and models > 1 and in_span(script.release, "1.8.0", None):
			text = f"prepare takes one model in a call under FSDP2, and gets {models}"
		elif is_fsdp2(script) and "" not in shapes and bool(models) != bool(optimizers):
			text = "prepare wants a model and its optimizer in the same call under FSDP2"
		if text:
			yield weighed(call, Hit(call.at(), f"{text}: accelerate {script.release} refuses it"))


def is_fsdp2(script: Script) -> bool:
	if script.backend != "fsdp" or not in_span(script.release, "1.6.0", None):
		return False
	plugin = script.wrappers.get("fsdp_plugin")
	if plugin is None:
		return bool(script.launch and str(script.launch.value("fsdp_version")) == "2")
	return bool(plugin.field("fsdp_version").value == 2)


@rule("PYS034", warning="*")
def accumulation_of_deepspeed_wins(script: Script) -> Hits:
	"""`gradient_accumulation_steps` of the DeepSpeed settings and of `Accelerator` differ.

	A number in `DeepSpeedPlugin`, `hf_ds_config` or the DeepSpeed file wins: the engine accumulates so often, and since
	1.8.0 Accelerate takes it over in `prepare`. Write "auto" there to have the argument count. Source: 1.15.0,
	accelerator.py, `Accelerator._prepare_deepspeed`.
	"""
	for call in script.of("Accelerator"):
		there = deepspeed_accumulation(call)
		steps = there.document.get(*there.pointer) if there else None
		value, set_to = call.given.get(ACCUMULATION), call.launcher_sets(ACCUMULATION)
		if there and set_to is None and type(steps) is type(value) is int and steps != value:
			text = f"{ACCUMULATION}={value} has no effect: DeepSpeed's settings say {steps}, which wins"
			yield Hit(call.at(ACCUMULATION), text, related=(there,))


def deepspeed_accumulation(accelerator: Call) -> At | None:
	"""Where the plugin of an `Accelerator`, or the DeepSpeed file of the run, says how many steps are accumulated."""
	file, value = accelerator.script.deepspeed_file, accelerator.given.get("deepspeed_plugin")
	plugin = accelerator.script.made_by(value)
	if plugin is None:
		free = value is None and "deepspeed_plugins" not in accelerator.given
		return file.value(ACCUMULATION) if file is not None and free else None
	at = plugin.at("hf_ds_config" if "hf_ds_config" in plugin.given else ACCUMULATION)
	inner = at.pointer[-1] == "hf_ds_config"
	return At(at.document, (*at.pointer, ACCUMULATION), "value") if inner else at
