"""What really takes effect in a run: from the launcher's arguments to `Accelerator()` in a worker.

There it is precision, accumulation, the kind of run, and the plugins that it builds; that follows accelerator.py,
state.py and utils/dataclasses.py, on hardware that matches what the run asks for.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..knowledge.transformers import nearest
from ..model import Context
from ..model_effective import Effective, Setting
from ..sources.document import Document
from . import effective_deepspeed
from .arguments import PARADIGMS, TRUE, Arg
from .command import command_line
from .effect import number
from .effective_plugins import ARGUMENT_WINS, Fields, Variables, chosen, fields, typed, unsure
from .effective_run import (
	MOST,
	Run,
	arguments,
	called,
	calls_of,
	elastic,
	runs_deepspeed,
	set_inside,
	setting_at,
	variables_given,
)
from .effective_start import start, variables
from .effective_trainer import finished, trained, trainer_of
from .launch import launch_of, multi_device_types

STATE_CONFIGS = {
	"FULL_STATE_DICT": ("FullStateDictConfig", "FullOptimStateDictConfig", "offload_to_cpu=True, rank0_only=True"),
	"SHARDED_STATE_DICT": ("ShardedStateDictConfig", "ShardedOptimStateDictConfig", "offload_to_cpu=True"),
}
RECIPES = {name: (f"{name}RecipeKwargs", f"{name.lower()}_recipe_handler") for name in ("AO", "TE", "MSAMP")}
ONE_CLASS = ("FP8RecipeKwargs", "fp8_recipe_handler")
OPEN_BACKEND = Setting("accelerator.fp8_backend", "torchao, Transformer Engine or MS-AMP, as installed", state="open")
OWNERS = {
	"FullyShardedDataParallelPlugin": ("fsdp", "ACCELERATE_USE_FSDP"),
	"MegatronLMPlugin": ("megatron", "ACCELERATE_USE_MEGATRON_LM"),
	"DeepSpeedPlugin": ("deepspeed", "ACCELERATE_USE_DEEPSPEED"),
}
HANDLERS = {
	"tp": "TorchTensorParallelConfig",
	"cp": "TorchContextParallelConfig",
	"sp": "DeepSpeedSequenceParallelConfig",
}


def worker(run: Run, variables: Variables, started: Mapping[str, Setting]) -> Iterator[Setting]:
	plugins = {name: switched(run, variables, owner, variable) for owner, (name, variable) in OWNERS.items()}
	processes = world(run, variables, started)
	kind = kind_of_run(run, variables, processes, plugins)
	switches = (variables[name] for _, name in OWNERS.values() if name in variables and not kind.argued)
	unknown = next((one._replace(name=kind.name) for one in switches if one.state == "open"), kind)
	yield from (unknown._replace(losers=tuple(one for one in kind.losers if one.value != kind.value)), processes)
	precision = precision_of(run, variables)
	yield from fields(run, dynamo_variables(run, variables), "TorchDynamoPlugin", "dynamo_plugin").values()
	if plugins["deepspeed"] and kind.value == "DEEPSPEED":
		found = effective_deepspeed.plugin(run, variables, precision, processes)
		yield from found.values()
		yield of_config(run, found, precision)
	else:
		yield precision
	if kind.value in ("FSDP", "MEGATRON_LM") and plugins["fsdp"]:
		yield from fsdp(run, variables, precision).values()
	if kind.value == "MEGATRON_LM":
		yield from megatron(run, variables, precision).values()
	yield accumulation(run, variables)
	yield from parallelism(run, variables, processes if kind.value in multi_device_types(run.release) else None)
	if precision.value == "fp8":
		yield from recipe(run, variables, precision)


def switched(run: Run, variables: Variables, owner: str, variable: str) -> bool:
	value = variables.get(variable)
	return owner in run.calls or (value is not None and str(value.value).lower() == "true")


def on_cpu(run: Run, variables: Variables) -> bool:
	argument = argument_of(run, "Accelerator", "cpu")
	return said_cpu(variables) or (argument is not None and argument.value is True)


def said_cpu(variables: Variables) -> bool:
	variable = variables.get("ACCELERATE_USE_CPU")
	return variable is not None and str(variable.value).lower() in TRUE


def world(run: Run, variables: Variables, started: Mapping[str, Setting]) -> Setting:
	name = "accelerator.num_processes"
	local, nodes = started.get("torchrun.nproc_per_node"), started.get("torchrun.max_nodes")
	if local is not None and nodes is not None:
		known = isinstance(local.value, int) and isinstance(nodes.value, int)
		return local.becomes(local.value * nodes.value if known else local.value, name)
	if runs_deepspeed(run.launch) or run.launch.route == "tpu":
		asked = "as the hostfile says" if run.launch.route != "tpu" else "as many as the TPU has devices"
		return Setting(name, asked, state="open")
	count, line = run.launch.arguments["num_processes"].value, started.get("command.line")
	started_by_mpi = line is not None and line.value[0] in ("mpirun", "mpiexec")
	if started_by_mpi and on_cpu(run, variables) and isinstance(count, int):
		return Setting(name, count, "accelerate", state="set")
	return Setting(name, 1)


def kind_of_run(run: Run, variables: Variables, processes: Setting, plugins: Mapping[str, bool]) -> Setting:
	found = kind_given(run)
	alone = run.trainer is not None and plugins["deepspeed"]  # the Trainer tells PartialState only of its use_cpu
	if said_cpu(variables) if alone else on_cpu(run, variables):
		several = isinstance(processes.value, int) and processes.value > 1
		return found._replace(value="MULTI_CPU" if several or started_by_torch(run) else "NO")
	if run.launch.route == "tpu":
		return found._replace(value="XLA")
	if plugins["deepspeed"] and (started_by_torch(run) or run.covers("1.4.0..")):
		return found._replace(value="DEEPSPEED")
	if not started_by_torch(run):
		return found
	wanted = str(run.launch.distributed_type)
	usual = wanted if wanted.startswith("MULTI_") and wanted != "MULTI_CPU" else "MULTI_GPU"
	return found._replace(value="MEGATRON_LM" if plugins["megatron"] else "FSDP" if plugins["fsdp"] else usual)


def started_by_torch(run: Run) -> bool:
	return elastic(run.launch) or runs_deepspeed(run.launch)


def kind_given(run: Run) -> Setting:
	"""Where the kind of run comes from: a constructor, an option, or the file, which loses to both."""
	name, launch, pointer = "accelerator.distributed_type", run.launch, ("distributed_type",)
	written, document = Setting(name, None), launch.document
	if document.has(*pointer):
		written = setting_at(name, document.get(*pointer), document, pointer)
	called = next((run.calls[owner].place for owner in OWNERS if owner in run.calls), None)
	if called is not None:
		lost = written.beaten("the plugin of the script decides in the workers")
		return Setting(name, "NO", "python", called, lost, "set")
	given = [launch.arguments.get(one, Arg(None)) for one in ("cpu", *(name for name, _ in PARADIGMS.values()))]
	option = next((one for one in given if one.value), Arg(None))
	if option.document is not None and option.pointer is not None:
		lost = written.beaten("an option of the command line chooses the launcher")
		return setting_at(name, "NO", option.document, option.pointer)._replace(losers=lost)
	return written.becomes("NO") if written.state == "set" else Setting(name, "NO", "accelerate")


def argument_of(run: Run, owner: str, name: str) -> Setting | None:
	call = run.calls.get(owner)
	return call.arguments.get(name) if call else None


def precision_of(run: Run, variables: Variables) -> Setting:
	argument = argument_of(run, "Accelerator", "mixed_precision")
	found = chosen(variables.get("ACCELERATE_MIXED_PRECISION"), argument, Setting("", "no"), False)
	found = unsure(run.calls.get("Accelerator"), argument, found)
	return found.becomes(str(found.value).lower(), "accelerator.mixed_precision")


def of_config(run: Run, found: Fields, precision: Setting) -> Setting:
	if precision.value == "fp8" and run.covers("1.11.0.."):
		return precision
	if (unseen := found.get("config.")) is not None:
		return unseen._replace(name=precision.name)
	for kind in ("fp16", "bf16"):
		if (entry := found.get(f"config.{kind}.enabled")) is not None and entry.value is True:
			lost = precision.losers if precision.value == kind else precision.beaten("the DeepSpeed file counts more")
			return entry.becomes(kind, precision.name)._replace(losers=lost)
	return precision.becomes("no")


def accumulation(run: Run, variables: Variables) -> Setting:
	"""`gradient_accumulation_steps`: a plugin for it, else the variable, else the argument."""
	name = "accelerator.gradient_accumulation_steps"
	variable = variables.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS")
	plugin = run.calls.get("GradientAccumulationPlugin")
	if plugin is not None:
		given = plugin.arguments.get("num_steps", Setting("", 1))
		return given._replace(name=name, losers=variable.beaten(ARGUMENT_WINS) if variable else ())
	argument = argument_of(run, "Accelerator", "gradient_accumulation_steps")
	found = chosen(variable, argument, Setting("", 1), variable is not None)
	found = unsure(run.calls.get("Accelerator"), variable or argument, found)
	return found.becomes(number(found.value) if isinstance(found.value, str) else found.value, name)


def dynamo_variables(run: Run, variables: Variables) -> Variables:
	argument = argument_of(run, "Accelerator", "dynamo_backend")
	if argument is None or argument.value is None:
		return variables
	name = "ACCELERATE_DYNAMO_BACKEND"
	beaten = variables[name].beaten(ARGUMENT_WINS) if name in variables else ()
	return {**variables, name: argument._replace(losers=beaten)}


def fsdp(run: Run, variables: Variables, precision: Setting) -> Fields:
	found = fields(run, variables, "FullyShardedDataParallelPlugin", "fsdp_plugin")
	found.pop("param_init_fn", None)  # made from sync_module_states
	second = "fsdp_version" in found and found["fsdp_version"].value == 2
	reshard, names = found.get("reshard_after_forward"), found.get("transformer_cls_names_to_wrap")
	if second and reshard is not None:
		found["reshard_after_forward"] = reshard.becomes(reshard.value is None or typed("bool", reshard.value))
	if names is not None and isinstance(names.value, str):
		found["transformer_cls_names_to_wrap"] = names.becomes(names.value.split(","))
	if found["auto_wrap_policy"].value == "NO_WRAP":
		found["auto_wrap_policy"] = found["auto_wrap_policy"].becomes(None)
	loading = found.get("cpu_ram_efficient_loading") or variables.get("FSDP_CPU_RAM_EFFICIENT_LOADING")
	synced = found.get("sync_module_states")
	if synced and loading and not second and str(loading.value).lower() == "true" and not synced.value:
		beaten = synced.beaten("needed by cpu_ram_efficient_loading")
		found["sync_module_states"] = loading._replace(name=synced.name, value=True, losers=beaten)
	if found["mixed_precision_policy"].value is None and precision.value != "no":
		kind = "bf16" if precision.value == "fp8" else precision.value
		found["mixed_precision_policy"] = precision.becomes(kind, "fsdp_plugin.mixed_precision_policy")
	return found | state_dicts(run, found, second)


def state_dicts(run: Run, found: Fields, second: bool) -> Fields:
	state = found["state_dict_type"]
	if state.value is None:
		state = state._replace(value="SHARDED_STATE_DICT" if second else "FULL_STATE_DICT", state="default")
	unset = state.argued and run.covers("..0.33.0")  # made only of the variable then
	unset = unset or (state.value == "SHARDED_STATE_DICT" and run.covers("..0.30.0"))
	model, optimizer, options = STATE_CONFIGS.get("" if unset else str(state.value), ("", "", ""))
	made: Fields = {"state_dict_type": state}
	for name, config in (("state_dict_config", model), ("optim_state_dict_config", optimizer)):
		if config and name in found and found[name].value is None:
			made[name] = Setting(f"fsdp_plugin.{name}", f"{config}({options})")
	return made


def megatron(run: Run, variables: Variables, precision: Setting) -> Fields:
	found = fields(run, variables, "MegatronLMPlugin", "megatron_lm_plugin")
	local = found["pp_degree"].value not in (0, 1) or found["use_distributed_optimizer"].value is True
	ddp = "local" if local or precision.value == "bf16" else "torch"
	found["DDP_impl"] = Setting("megatron_lm_plugin.DDP_impl", ddp, "accelerate", state="set")
	kind = precision.value
	if kind in ("fp16", "bf16"):
		found[f"args.{kind}"] = precision.becomes(True, f"megatron_lm_plugin.megatron_lm_default_args.{kind}")
	return found


def parallelism(run: Run, variables: Variables, processes: Setting | None) -> Iterator[Setting]:
	owner = "ParallelismConfig"
	if not api.parameters(owner, run.release) or not switched(
		run, variables, owner, "ACCELERATE_USE_PARALLELISM_CONFIG"
	):
		return
	found = fields(run, variables, owner, "parallelism_config")
	sizes = {name: setting for name, setting in found.items() if name.endswith("_size")}
	if processes is not None and all(setting.value == 1 for setting in sizes.values()):
		replicas = found["dp_replicate_size"]
		found["dp_replicate_size"] = processes._replace(name=replicas.name, losers=replicas.beaten("all sizes are 1"))
	for short, handler in HANDLERS.items():
		size = sizes.get(f"{short}_size")
		wanted = size is not None and isinstance(size.value, int) and size.value > 1
		found.pop(f"{short}_handler", None)
		if wanted or handler in run.calls:
			inner = fields(run, variables, handler, f"parallelism_config.{short}_handler")
			found |= {f"{short}_handler.{name}": sequence(name, inner) for name in inner}
	yield from found.values()


def sequence(name: str, inner: Fields) -> Setting:
	setting, varies = inner[name], inner.get("sp_seq_length_is_variable")
	if name == "sp_seq_length" and setting.surface != "python" and varies is not None and varies.value:
		return Setting(setting.name, None, losers=setting.beaten("not read while lengths vary"))
	return setting.becomes(None) if setting.value == "None" else setting


def recipe(run: Run, variables: Variables, precision: Setting) -> Iterator[Setting]:
	how = next(one for spans, one in run.table("recipes").items() if run.covers(spans))
	given = next((row for row in (*RECIPES.values(), ONE_CLASS) if row[0] in run.calls), None)
	backend = variables.get("ACCELERATE_FP8_BACKEND")
	named = RECIPES.get(str(backend.value).upper()) if backend is not None and how == "named" else None
	owner, title = given or named or (ONE_CLASS if how == "one class" else ("", ""))
	found = fields(run, variables, owner, title) if owner else {}
	if "config" in found and found["config"].value is None:
		del found["config"]  # torchao's own object, made of the other fields
	automatic = how in ("installed", "named") or (how == "argument" and precision.argued)
	backend = found.get("backend") if how == "one class" else None
	unknown = backend.value is None if backend is not None else not found and automatic
	yield from [OPEN_BACKEND] if unknown else found.values()


def run_of(documents: Sequence[Document], release: str, context: Context, transformers: str = "") -> Run | None:
	"""Put together what belongs to one run; None where nothing is launched."""
	by_kind: Mapping[str, Document] = {document.kind: document for document in documents}
	line, judged = by_kind.get("launch"), knowledge.nearest(release)
	command = command_line(line, judged) if line is not None and line.get("launcher") == "accelerate" else None
	launch = launch_of(by_kind.get("accelerate"), judged, context, command)
	if launch is None:
		return None
	given = variables_given([one for one in documents if one.kind in ("environment", "launch")])
	script, files = by_kind.get("python"), [one for one in documents if one.kind == "deepspeed"]
	readable = [one for one in reversed(files) if isinstance(one.data, dict)]
	file, fsdp = by_kind.get("trainer"), by_kind.get("fsdp")
	trainer = trainer_of(file, script, nearest(transformers), fsdp) if transformers else None
	if script is None:
		return Run(launch, given, {}, readable, trainer)
	return Run(launch, given, calls_of(script), readable, trainer, set_inside(script))


def scripts_of(command: Document | None, documents: Sequence[Document], release: str) -> list[Document]:
	"""The scripts that a command may run: of its path, or else of its name; a lone one goes with the only name."""
	scripts = [one for one in documents if one.kind == "python"]
	name = script_name(command, release)
	if not name:
		return scripts
	same = called(name, scripts)
	others = (one for one in documents if one.kind == "launch" and not same)
	return same or (scripts if len(scripts) == 1 and all(script_name(one, release) == name for one in others) else [])


def script_name(command: Document | None, release: str) -> str:
	"""The script or module that a command runs, as a path; "" where it is not known."""
	ours = command is not None and command.get("launcher") == "accelerate"
	line = command_line(command, knowledge.nearest(release)) if command and ours else None
	name = line.tokens[line.script] if line and line.script is not None else ""
	if line and line.value("module") and isinstance(name, str):
		name = name.replace(".", "/") + ".py"
	return name if isinstance(name, str) and name.endswith(".py") else ""


def effective(run: Run) -> Effective:
	launched = arguments(run)
	exported = {**variables(run, launched), **run.set_inside}
	started = {setting.name: setting for setting in start(run, launched)}
	run, exported = trained(run, exported)
	inside = finished(run, worker(run, exported, started), exported)
	outside = (*started.values(), *exported.values(), *launched.values())
	doubt = doubt_of(run)
	settings = [doubted(one, doubt) for one in (*inside, *outside)]
	return Effective(run.release, run.launch.route, tuple(settings), doubt)


def doubt_of(run: Run) -> str:
	"""What may set more than is known: a config that is not here, or a word that only the shell knows."""
	line = run.launch.command
	config, word = (line.given.get("config_file"), line.open_at) if line else (None, None)
	if line and config and not run.launch.has_config:
		word = config.where
	elif line is None or word is None or (word == line.script and re.fullmatch(r'"\$\{?\w+\}?"', line.text(word))):
		return ""
	return f"unless {line.text(word)[:MOST]} sets it"


def doubted(setting: Setting, doubt: str) -> Setting:
	sure = setting.argued or setting.surface in ("command line", "environment", "deepspeed file")
	known = setting.state != "open"
	if not doubt or sure or not (known or setting.surface == "default"):
		return setting
	return setting._replace(value=f"{setting.value}, {doubt}", state="open", doubted=known)
