"""XCF rules about a script, or TrainingArguments, and what launches it: an Accelerate config, a command line."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..flow.arguments import Arg
from ..flow.effect import normal, same
from ..flow.effective import effective
from ..flow.effective_plugins import shaped
from ..flow.effective_run import Run
from ..flow.effective_trainer import filled
from ..flow.launch import Launch
from ..flow.script import Call, Script, plain
from ..knowledge import accelerate as knowledge
from ..model import Place, Severity
from ..model_effective import Setting
from ..sources.document import OPEN, At, Document
from ..sources.python_values import Made, Symbol
from .python_arguments import written
from .python_tables import weighed
from .registry import Hit, Hits, rule
from .suggest import shown

ACCUMULATION = "gradient_accumulation_steps"
PLUGINS = ("DeepSpeedPlugin", "FullyShardedDataParallelPlugin", "MegatronLMPlugin", "ParallelismConfig")
NUMBERED = {"sharding_strategy": "FSDP_SHARDING_STRATEGY", "backward_prefetch": "FSDP_BACKWARD_PREFETCH"}


def there(launch: Launch, place: Place | None, files: Sequence[Document] = ()) -> tuple[At, ...]:
	documents = [launch.document, launch.command and launch.command.document, *files]
	return tuple(one.stretch(place.extent) for one in documents if one and place and one.path == place.path)[:1]


def set_by(setting: Setting) -> str:
	return "the config file" if setting.surface == "file" else f"the {setting.surface}"


@rule("XCF030", warning="*")
def accumulation_of_the_launcher_wins(script: Script, beside: Launch) -> Hits:
	"""`gradient_accumulation_steps` of the launcher and of the script differ.

	The variable of the launcher (which the DeepSpeed launcher sets) beats the argument of `Accelerator`; a
	`GradientAccumulationPlugin` beats both. Source: 1.15.0, accelerator.py, `Accelerator.__init__`.
	"""
	for call in script.of("Accelerator"):
		value, set_to = call.given.get(ACCUMULATION, OPEN), call.launcher_sets(ACCUMULATION)
		if value is OPEN or "gradient_accumulation_plugin" in call.given or set_to is None or set_to.state == "open":
			continue
		if not same(value, set_to.value):
			text = f"{ACCUMULATION}={written(value)} has no effect: {set_by(set_to)} says {set_to.value}, which wins"
			yield Hit(call.at(ACCUMULATION), text, related=there(beside, set_to.place))


@rule("XCF031", warning="*")
def script_beats_the_launcher(script: Script, beside: Launch) -> Hits:
	"""An argument of a plugin, and another value of the same setting in the config file or on the command line.

	What a plugin is given counts; the launcher's variable is read only where nothing is given. Source: 1.15.0,
	utils/dataclasses.py, `__post_init__` of each plugin; state.py, `AcceleratorState.__init__`.
	"""
	both = [(call, name, call.launcher_sets(name)) for call in script.of(*PLUGINS) for name in call.given]
	precision = script.exported.get("ACCELERATE_MIXED_PRECISION")
	both += [(call, "mixed_precision", precision) for call in script.of("Accelerator")]
	for call, name, set_to in both:
		if set_to is not None and set_to.place is not None and differ(call, name, set_to):
			text = f"{name}={written(call.given[name])} counts, and not {set_to.value}, which {set_by(set_to)} says"
			yield Hit(call.at(name), text, related=there(beside, set_to.place))


def differ(call: Call, name: str, set_to: Setting) -> bool:
	value = call.given.get(name)
	if value is None or value is OPEN or set_to.state == "open" or isinstance(value, (dict, list, Made)):
		return False
	if isinstance(value, Symbol) and not value.dotted.startswith(("accelerate.", "torch.distributed.fsdp")):
		return False
	return not same(named(name, plain(value, call.script.release), call), named(name, set_to.value, call))


def named(name: str, value: Any, call: Call) -> Any:
	words = knowledge.for_release(call.script.release).constant(NUMBERED.get(name, "")) or ()
	text = str(value)
	numbered = text.isdigit() and 0 < int(text) <= len(words)
	return words[int(text) - 1] if numbered else value


@rule("XCF032", warning="*")
def plugin_of_another_backend(script: Script, beside: Launch) -> Hits:
	"""The script passes a plugin, and the launcher starts something else.

	DeepSpeed wins both ways: its plugin makes any launch a run of DeepSpeed, and a launch with DeepSpeed passes over a
	plugin of FSDP, as one process does (`distributed_type: NO`). Source: 1.15.0, state.py, `AcceleratorState.__init__`;
	accelerator.py, `Accelerator.__init__`.
	"""
	kind = str(beside.distributed_type)
	if "deepspeed_plugin" in script.wrappers and beside.route in ("fsdp", "megatron"):
		text = f"DeepSpeed wraps the model, because of this plugin; distributed_type {kind} has no effect in the script"
		yield placed(script, "deepspeed_plugin", text, beside)
	for name in ("fsdp_plugin", "megatron_lm_plugin"):
		if name in script.wrappers and "deepspeed_plugin" not in script.wrappers:
			if beside.route == "deepspeed":
				yield placed(
					script, name, f"{name} has no effect: distributed_type is {kind}, and DeepSpeed wins", beside
				)
			elif beside.route == "simple" and name == "fsdp_plugin":
				text = f"{name} has no effect: the launcher starts one process (distributed_type {kind})"
				yield placed(script, name, text, beside)


def placed(script: Script, name: str, text: str, launch: Launch) -> Hit:
	call = next(one for one in script.of("Accelerator") if name in one.given or f"{name}s" in one.given)
	return Hit(call.at(name if name in call.given else f"{name}s"), text, related=(launch.at("distributed_type"),))


@rule("XCF033", error="1.10.0..")
def sizes_against_processes(script: Script, beside: Launch) -> Hits:
	"""The sizes of a `ParallelismConfig` do not come to the number of processes that the launcher starts.

	"ParallelismConfig total_size does not match num_processes". Source: 1.15.0, parallelism_config.py,
	`ParallelismConfig._validate_accelerator`.
	"""
	world = beside.world
	for call in script.of("Accelerator"):
		config = script.made_by(call.given.get("parallelism_config"))
		if config is None or world is None or beside.route == "simple":
			continue
		fields = {name: config.field(name) for name in config.parameters if name.endswith("_size")}
		values = [field.value for field in fields.values()]
		total = 1
		for value in values:
			total *= value if type(value) is int else 0
		if total > 1 and total != world and config.field("sp_size").value in (None, 1):
			text = f"the sizes come to {total} processes, and the launcher starts {world}: accelerate refuses it"
			hit = Hit(call.at("parallelism_config"), text, related=(beside.at("num_processes"),))
			yield weighed(call, hit, [name for field in fields.values() for name in field.unless])


SURFACES = ("file", "command line", "deepspeed file")
CHECKPOINTING = "activation_checkpointing"
PRECISION = "accelerator.mixed_precision"
OWNERS = {
	"fsdp_plugin": "FullyShardedDataParallelPlugin",
	"deepspeed_plugin": "DeepSpeedPlugin",
	"dynamo_plugin": "TorchDynamoPlugin",
}


@rule("XCF034", warning="*", of="transformers")
def trainer_beats_the_launcher(trained: tuple[Document, list[Run]]) -> Hits:
	"""TrainingArguments and the launcher do not agree on a setting.

	TrainingArguments count more than the config file: they set its variables again, or hand arguments to the plugins.
	Of DeepSpeed's settings the launcher's stay, and the Trainer refuses to train: "Please correct the following
	DeepSpeed config values that mismatch TrainingArguments values". Write each in one place. Source: 5.24.0,
	training_args.py, `__post_init__`; integrations/deepspeed.py, `HfTrainerDeepSpeedConfig`.
	"""
	document, runs = trained
	for run in runs:
		yield from disagreements(document, run)


def disagreements(document: Document, run: Run) -> Hits:
	settings, told = {one.name: one for one in effective(run).settings}, set()
	for name, one, other in unlike(run, settings):
		told.add(one.place)
		text = f"{name} is {shown(one.value)} for DeepSpeed and {shown(other.value)} by TrainingArguments"
		yield trained_hit(document, run, other, one.place, f"{text}: the Trainer refuses to train with both")
	settings |= strategy_of_trainer(run, settings)
	for name, one in settings.items():
		plugin, _, field = name.partition(".")
		for lost in one.losers if one.argued and one.state == "set" and (plugin in OWNERS or name == PRECISION) else ():
			value = shaped(run, f"{OWNERS.get(plugin)}.{field}", "text", lost.value)
			if lost.surface in SURFACES and lost.place not in told and not same(value, one.value):
				told.add(lost.place)
				title = f"dynamo_{field}" if plugin == "dynamo_plugin" else field
				text = f"{shown(one.value)} counts for {title}, as TrainingArguments say, and not {shown(lost.value)}"
				severity = Severity.INFO if normal(value) is None else None
				yield trained_hit(document, run, one, lost.place, text)._replace(severity=severity)


@rule("XCF035", error="*", of="transformers")
def checkpointing_by_both(trained: tuple[Document, list[Run]]) -> Hits:
	"""Activations are checkpointed by FSDP, as the launcher says, and by TrainingArguments.

	"can't both be set to True": the Trainer does not come up. Keep FSDP's. Source: 5.24.0, trainer.py,
	`Trainer.create_accelerator_and_postprocess`.
	"""
	document, runs = trained
	for run in runs:
		ours = next((one for one in effective(run).settings if one.name == f"fsdp_plugin.{CHECKPOINTING}"), None)
		asked = (run.trainer.of(name) for name in (CHECKPOINTING, "gradient_checkpointing") if run.trainer)
		twice = next((one for one in asked if one.value is True), None)
		if ours and twice and ours.surface in SURFACES and ours.value is True:
			text = f"{CHECKPOINTING} of FSDP is on, too, and the Trainer refuses both; keep that one"
			yield trained_hit(document, run, twice, ours.place, text)


def strategy_of_trainer(run: Run, settings: dict[str, Setting]) -> dict[str, Setting]:
	"""What the arguments say about `sharding_strategy`, where they make a plugin FSDP2, which does not read it."""
	strategy, reshard = (settings.get(f"fsdp_plugin.{name}") for name in ("sharding_strategy", "reshard_after_forward"))
	asked = run.launch.arguments.get("fsdp_version", Arg(None))
	if not (strategy and reshard and reshard.argued and isinstance(reshard.value, bool)) or str(asked.value) == "2":
		return {}
	named = "FULL_SHARD" if reshard.value else "SHARD_GRAD_OP"
	return {strategy.name: reshard._replace(value=named, losers=strategy.losers)}


def unlike(run: Run, settings: dict[str, Setting]) -> Iterator[tuple[str, Setting, Setting]]:
	assert run.trainer is not None
	for path in run.trainer.table("fills") if not run.trainer.value("deepspeed") else ():
		one = settings.get(f"deepspeed_plugin.deepspeed_config.{path}")
		if one is not None and one.surface in SURFACES and one.value not in (None, "auto"):
			wanted = {path: one._replace(value="auto")}
			filled(run, wanted, settings["accelerator.num_processes"])
			if wanted[path].state == "set" and wanted[path].value != one.value:
				yield path, one, wanted[path]


def trained_hit(document: Document, run: Run, one: Setting, other: Place | None, text: str) -> Hit:
	places = [one.place, run.trainer and run.trainer.by.place]
	here = next((place for place in places if place and place.path == document.path), None)
	at = document.stretch(here.extent) if here else document.value()
	return Hit(at, text, related=there(run.launch, other, run.deepspeed))
