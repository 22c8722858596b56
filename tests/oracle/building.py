"""Inside the training script: `Accelerator()`, and DeepSpeed's reading of the config that it holds then.

Runs inside the oracle's Accelerate worker, with the environment that the launch stage left.
"""

import copy
import os
from collections.abc import Iterator
from typing import Any

import accelerate
import accelerate.state
import accelerate.utils
from tests.oracle import fakes
from tests.oracle.worker import HANDED_OVER, Answer, Case, bare_environment, enter, listening, plain, refusal

HIDDEN_SIZE = 64
MICRO_BATCH = 4
# What `prepare` puts in the place of "auto" for a model of this hidden size.
FILLED_BY_PREPARE: dict[str, Any] = {
	"train_micro_batch_size_per_gpu": MICRO_BATCH,
	"gradient_clipping": 1.0,
	"zero_optimization.reduce_bucket_size": HIDDEN_SIZE**2,
	"zero_optimization.stage3_prefetch_bucket_size": int(0.9 * HIDDEN_SIZE**2),
	"zero_optimization.stage3_param_persistence_threshold": 10 * HIDDEN_SIZE,
	"zero_optimization.stage3_gather_16bit_weights_on_model_save": False,
}
HANDLERS = (
	"ao_recipe_handler",
	"te_recipe_handler",
	"msamp_recipe_handler",
	"fp8_recipe_handler",
	"ddp_handler",
	"scaler_handler",
	"init_handler",
)
PLUGINS = ("deepspeed_plugin", "fsdp_plugin", "megatron_lm_plugin", "dynamo_plugin", "parallelism_config")
# Variables that some other code reads later in the run.
LATER_VARIABLES = (
	"ACCELERATE_CPU_AFFINITY",
	"ACCELERATE_DEBUG_MODE",
	"ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES",
	"ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
	"ACCELERATE_MIXED_PRECISION",
	"ACCELERATE_USE_FSDP",
	"CUDA_VISIBLE_DEVICES",
	"FSDP_CPU_RAM_EFFICIENT_LOADING",
	"KMP_AFFINITY",
	"KMP_BLOCKTIME",
	"OMP_NUM_THREADS",
	"XLA_DOWNCAST_BF16",
	"XLA_USE_BF16",
)


def run(case: Case) -> Answer:
	"""The building stage of a case; `case["launched"]` holds the facts of the launch stage."""
	launched = case["launched"]
	folder = case["folder"]
	enter(folder, {**bare_environment(folder), **launched["environment"], **process_variables(launched)})
	requests: list[Any] = []
	faked = [fakes.gpus(case["gpus"]), fakes.peers(requests)]
	fakes.replace_everywhere("accelerate", "is_megatron_lm_available", fakes.constant(True))
	answer: Answer = {"stage": "accelerator", "facts": {}, "verdict": "accepted"}
	with listening() as heard:
		try:
			accelerator, trainer = made(case)
			answer["facts"] = {"state": describe(accelerator), "process_groups": requests}
			answer["facts"] |= trainer
			answer["stage"] = "deepspeed config"
			answer["facts"]["deepspeed"] = read_by_deepspeed(accelerator)
			answer["stage"] = "built"
		except (Exception, SystemExit) as error:
			answer |= {"verdict": "rejected", "error": refusal(error)}
	return {"warnings": heard, "faked": faked, **answer}


def made(case: Case) -> tuple[Any, Answer]:
	"""The accelerator of the script or of its Trainer; then, too, which variables TrainingArguments leave."""
	if "trainer" not in case:
		return accelerate.Accelerator(**constructed(case.get("python", {}))), {}
	from tests.oracle import trainer

	settings = trainer.arguments(case["folder"], **case["trainer"])
	left = {name: value for name, value in os.environ.items() if name.startswith(("ACCELERATE_", "FSDP_"))}
	built = trainer.build(settings, HIDDEN_SIZE, settings.world_size)
	return built.accelerator, {"left": left, "steps": built.args.gradient_accumulation_steps}


def constructed(calls: dict[str, dict[str, Any]]) -> dict[str, Any]:
	"""The arguments of `Accelerator`, with the plugins that a case asks for by name and arguments."""
	given = {name: dict(arguments) for name, arguments in calls.items()}
	for name, place in HANDED_OVER.items():
		if name in given:
			made = getattr(accelerate.utils, name)(**given[name])
			owner, _, parameter = place.partition(".")
			given.setdefault(owner, {})[parameter] = [made] if parameter == "kwargs_handlers" else made
	return given.get("Accelerator", {})


def process_variables(launched: Answer) -> dict[str, str]:
	"""What the launcher would set for the first process of the first machine."""
	command = launched["command"] or [""]
	arguments = launched["arguments"]
	if launched["torchrun"]:
		local = int(launched["torchrun"]["nproc_per_node"])
		return torchrun_variables(local * int(launched["torchrun"]["max_nodes"]), local)
	if launched["route"] == "deepspeed_launcher" and arguments:
		total, machines = arguments.get("num_processes") or 1, arguments.get("num_machines") or 1
		return torchrun_variables(total, max(1, total // machines))
	if command[0] == "mpirun":
		count = str(int(arguments.get("num_processes") or 1))
		names = {"SIZE": count, "RANK": "0", "LOCAL_RANK": "0", "LOCAL_SIZE": count}
		return {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}
	return {}


def torchrun_variables(total: int, local: int) -> dict[str, str]:
	return {
		"RANK": "0",
		"LOCAL_RANK": "0",
		"WORLD_SIZE": str(total),
		"LOCAL_WORLD_SIZE": str(local),
		"MASTER_ADDR": "127.0.0.1",
		"MASTER_PORT": "29500",
	}


# --- what was built ---


def describe(accelerator: Any) -> Answer:
	state = accelerator.state
	facts: Answer = {
		"distributed_type": str(getattr(state.distributed_type, "value", state.distributed_type)),
		"num_processes": state.num_processes,
		"device": str(state.device),
		"backend": str(getattr(accelerate.state.PartialState(), "backend", None)),
		"debug": getattr(accelerate.state.PartialState(), "debug", None),
		"mixed_precision": attempt(lambda: str(state.mixed_precision)),
		"native_amp": getattr(accelerator, "native_amp", None),
		"scaler": type(getattr(accelerator, "scaler", None)).__name__,
		"gradient_accumulation_steps": accelerator.gradient_accumulation_steps,
		"fp8_backend": attempt(lambda: str(getattr(accelerator, "fp8_backend", None))),
		"variables": {name: os.environ[name] for name in LATER_VARIABLES if name in os.environ},
	}
	for name in PLUGINS:
		facts[name] = attempt(lambda name=name: fields(getattr(state, name, None)))
	for name in HANDLERS:
		facts[name] = fields(getattr(accelerator, name, None))
	mesh = getattr(state, "device_mesh", None)
	facts["mesh"] = None if mesh is None else {"names": plain(mesh.mesh_dim_names), "shape": plain(mesh.mesh.shape)}
	return facts


def attempt(read: Any) -> Any:
	"""Some releases raise on attributes of plugins that are not in use."""
	try:
		return read()
	except Exception as error:
		return f"<{type(error).__name__}>"


def fields(thing: Any) -> Answer | None:
	if thing is None:
		return None
	found = {name: plain(value) for name, value in vars(thing).items() if name != "dschf"}
	if hasattr(thing, "hf_ds_config"):
		found["hf_ds_config"] = plain(getattr(thing.hf_ds_config, "config", thing.hf_ds_config))
	return found


# --- DeepSpeed's own check ---


def read_by_deepspeed(accelerator: Any) -> Answer | None:
	"""Fill the config as `prepare` would and give it to the real DeepSpeedConfig."""
	plugin = deepspeed_plugin(accelerator.state)
	if plugin is None:
		return None
	from deepspeed.runtime.config import DeepSpeedConfig

	config = copy.deepcopy(plugin.deepspeed_config)
	fill(config, {**FILLED_BY_PREPARE, "gradient_accumulation_steps": accelerator.gradient_accumulation_steps})
	left = [path for path, value in entries(config) if value == "auto"]
	if "train_batch_size" not in config:
		config.setdefault("train_micro_batch_size_per_gpu", MICRO_BATCH)
	read = DeepSpeedConfig(config)
	batch = [read.train_batch_size, read.train_micro_batch_size_per_gpu, read.gradient_accumulation_steps]
	return {"batch": batch, "stage": getattr(read, "zero_optimization_stage", None), "unfilled": left}


def deepspeed_plugin(state: Any) -> Any:
	try:
		return state.deepspeed_plugin
	except Exception:
		return None


def fill(config: dict[str, Any], values: dict[str, Any], path: str = "") -> None:
	for key, value in list(config.items()):
		here = path + str(key)
		if isinstance(value, dict):
			fill(value, values, here + ".")
		elif value != "auto":
			continue
		elif here == "train_batch_size":
			del config[key]
		elif here in values:
			config[key] = values[here]
		elif path.startswith(("optimizer.", "scheduler.")):
			config[key] = 0.001 if "lr" in str(key) or "decay" in str(key) else 10


def entries(config: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
	for key, value in config.items():
		if isinstance(value, dict):
			yield from entries(value, f"{path}{key}.")
		else:
			yield f"{path}{key}", value
