"""The oracle's DeepSpeed worker: what do this release and the readers of its config do with a DeepSpeed JSON?

A case is {"mode": "deepspeed" | "accelerate" | "trainer", "files": {name: text}, "config": name, "world_size": n,
"arguments": {...}} or {"mode": "fsdp", ...} (see the module `trainer`); each goes through engine initialisation.
The answer has verdict, stage (parse, plugin, arguments, config, prepare, engine, …), error, warnings, facts, faked.
"""

import importlib
import json
import logging
import os
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.oracle.worker import Answer, Case, InterceptedError, enter, forked, lay_out, listening, plain, refusal, serve

HIDDEN_SIZE = 16
# Refusals that say only that there is no GPU here.
NO_GPU = (
	"only supported for CUDA",
	"only supports NVIDIA CUDA",
	"Triton",
	"CUDA is not available",
	"No CUDA",
	"not compiled with CUDA",
	"Torch not compiled",
	"device.type must be",
	"without accelerator",
	"libaio",
	"Pinned memory requires",
	"xpu",
	"MagicMock",
	"torch_xla",
)
LOADED_EARLY = (
	"torch._dynamo",
	"torch._inductor.compile_fx",
	"deepspeed.runtime.engine",
	"deepspeed.runtime.zero.stage3",
	"deepspeed.runtime.zero.stage_1_and_2",
	"deepspeed.runtime.zero.muon.muon_optimizer",
	"deepspeed.runtime.zero.muon.original_muon",
	"deepspeed.runtime.superoffload.superoffload_stage3",
	"deepspeed.runtime.zenflow.zenflow_stage_1_and_2",
	"deepspeed.runtime.bf16_optimizer",
	"deepspeed.ops.adam.cpu_adam",
	"deepspeed.ops.adagrad",
	"deepspeed.ops.lamb",
	"deepspeed.ops.lion",
)
# This release counts the processes before it sets up its own communication, so that a script has to do it.
COUNTS_FIRST = "0.9.0"
RESOLVED = (
	"train_batch_size",
	"train_micro_batch_size_per_gpu",
	"gradient_accumulation_steps",
	"gradient_clipping",
	"optimizer_name",
	"scheduler_name",
	"zero_optimization_stage",
)


class Run:
	"""One case on its way: how far it came, and what was learned."""

	def __init__(self, case: Case) -> None:
		self.case = case
		self.stage = "parse"
		self.facts: Answer = {}
		self.faked: list[str] = []
		self.path = Path(case["folder"], case["config"])
		self.arguments: dict[str, Any] = dict(case.get("arguments") or {})

	@property
	def world_size(self) -> int:
		return int(self.case.get("world_size", 1))


def preload() -> Answer:
	os.environ.update(LOCAL_RANK="0", RANK="0", LOCAL_SIZE="8", CROSS_RANK="0", CROSS_SIZE="1")
	os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
	faked = _reconcile_libraries()
	import deepspeed
	import torch

	torch.set_num_threads(1)
	for name in LOADED_EARLY:
		try:
			importlib.import_module(name)
		except ImportError:  # this release has no such module
			continue
	for name in ("accelerate.utils", "transformers.integrations.deepspeed", "transformers"):
		importlib.import_module(name)
	from transformers import BertForSequenceClassification, Trainer, TrainingArguments  # noqa: F401 (lazy modules)

	faked += importlib.import_module("tests.oracle.deepspeed_fakes").early_releases(deepspeed.__version__)
	_remember_cpu()
	return {"deepspeed": deepspeed.__version__, "torch": torch.__version__, "faked": faked}


def _reconcile_libraries() -> list[str]:
	import torch.distributed.elastic.agent.server.api as agent

	gone: list[tuple[Any, str, Any]] = [
		(importlib.import_module("numpy"), "BUFSIZE", 8192),
		(agent, "_get_socket_with_port", lambda *_: None),
		(agent, "log", logging.getLogger("torch.elastic")),
	]
	missing = [(module, name, value) for module, name, value in gone if not hasattr(module, name)]
	for module, name, value in missing:
		setattr(module, name, value)
	return [f"{module.__name__}.{name} is put back" for module, name, _ in missing]


def _remember_cpu() -> None:
	try:
		cpuinfo: Any = importlib.import_module("cpuinfo")
	except ImportError:
		return
	known = cpuinfo.get_cpu_info()
	cpuinfo.get_cpu_info = lambda: known


# --- the three readers ---


def read_by_deepspeed(run: Run) -> None:
	"""`deepspeed.initialize(config=…)` on two linear layers."""
	import deepspeed
	import hjson
	from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys
	from tests.oracle.tracing import Traced, unread

	with open(run.path, encoding="utf-8") as file:
		config = hjson.load(file, object_pairs_hook=dict_raise_error_on_duplicate_keys)
	run.stage = "config"
	traced = Traced(config)
	model = layers()
	options: dict[str, Any] = {"model_parameters": model.parameters()}
	if "optimizer" not in config:
		optimizer_type = script_optimizer(config, "offload_optimizer", "cpu_offload")
		options = {"optimizer": optimizer_type(model.parameters(), lr=1e-3)}
	if deepspeed.__version__ == COUNTS_FIRST:
		deepspeed.init_distributed()
	run.stage = "engine"
	engine, *_ = deepspeed.initialize(model=model, config=traced, **options)
	run.facts |= describe(engine)
	run.facts["unread"] = unread(config, traced.asked)


def read_by_accelerate(run: Run) -> None:
	"""`DeepSpeedPlugin(hf_ds_config=…)`, then `prepare` of a model, an optimizer and a loader."""
	from tests.oracle import deepspeed_fakes

	os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
	run.faked.append(deepspeed_fakes.accelerate_backend())
	import torch
	from accelerate import Accelerator
	from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler

	config = json.loads(run.path.read_text(encoding="utf-8"))
	run.stage = "plugin"
	plugin = DeepSpeedPlugin(hf_ds_config=str(run.path))
	accumulation = run.arguments.get("gradient_accumulation_steps", 1)
	accelerator = Accelerator(deepspeed_plugin=plugin, gradient_accumulation_steps=accumulation)
	run.stage = "prepare"
	model = layers()
	model.config = types.SimpleNamespace(hidden_size=HIDDEN_SIZE)
	# Accelerate itself replaces the optimizer where `offload_optimizer` says so
	optimizer_type = DummyOptim if "optimizer" in config else script_optimizer(config, "cpu_offload")
	optimizer = optimizer_type(model.parameters(), lr=1e-3)
	loader = torch.utils.data.DataLoader(list(range(64)), batch_size=run.arguments.get("batch_size", 2))
	things = [model, optimizer, loader]
	if "scheduler" in config:
		things.append(DummyScheduler(optimizer, total_num_steps=100, warmup_num_steps=10))
	run.facts["config"] = plugin.deepspeed_config
	accelerator.prepare(*things)
	run.stage = "engine"
	run.facts |= describe(accelerator.deepspeed_engine_wrapped.engine)


def read_by_trainer(run: Run) -> None:
	"""`TrainingArguments(deepspeed=…)`, then `Trainer.train()` up to the initialised engine."""
	import deepspeed
	from tests.oracle import deepspeed_fakes, trainer

	run.faked.append(deepspeed_fakes.accelerate_backend())
	json.loads(run.path.read_text(encoding="utf-8"))
	run.stage = "arguments"
	arguments = trainer.arguments(run.case["folder"], deepspeed=str(run.path), **run.arguments)
	run.facts["config"] = arguments.hf_deepspeed_config.config
	run.stage = "trainer"
	initialize: Callable[..., Any] = deepspeed.initialize

	def initialise_and_stop(*positional: Any, **options: Any) -> None:
		run.stage = "engine"
		run.facts["config"] = options.get("config_params") or options.get("config")
		engine, *_ = initialize(*positional, **options)
		run.facts |= describe(engine)
		raise InterceptedError

	deepspeed.initialize = initialise_and_stop
	trainer.build(arguments, HIDDEN_SIZE, run.world_size).train()


def read_as_fsdp(run: Run) -> None:
	from tests.oracle import trainer

	config = json.loads(run.path.read_text(encoding="utf-8"))
	run.stage = "arguments"
	arguments = trainer.arguments(run.case["folder"], fsdp_config=config, **run.arguments)
	run.facts["plugin_arguments"] = plain(getattr(arguments, "fsdp_plugin_args", None))
	run.stage = "trainer"
	made = trainer.build(arguments, HIDDEN_SIZE, run.world_size)
	plugin = getattr(made.accelerator.state, "fsdp_plugin", None)
	run.facts["plugin"] = plugin and {name: plain(value) for name, value in vars(plugin).items()}


READERS: dict[str, Callable[[Run], None]] = {
	"deepspeed": read_by_deepspeed,
	"accelerate": read_by_accelerate,
	"trainer": read_by_trainer,
	"fsdp": read_as_fsdp,
}


def layers() -> Any:
	import torch

	return torch.nn.Sequential(torch.nn.Linear(HIDDEN_SIZE, HIDDEN_SIZE), torch.nn.Linear(HIDDEN_SIZE, HIDDEN_SIZE))


def script_optimizer(config: dict[str, Any], *offloading: str) -> Any:
	import torch
	from deepspeed.ops.adam import DeepSpeedCPUAdam

	zero = config.get("zero_optimization")
	asked = [zero.get(name) for name in offloading] if isinstance(zero, dict) else []
	on_cpu = [value.get("device") in ("cpu", "nvme") if isinstance(value, dict) else value is True for value in asked]
	return DeepSpeedCPUAdam if any(on_cpu) else torch.optim.AdamW


def describe(engine: Any) -> Answer:
	config = getattr(engine, "_config", None)
	resolved = {name: plain(getattr(config, name, None)) for name in RESOLVED}
	parameter = next(engine.module.parameters())
	optimizer = getattr(engine.optimizer, "optimizer", engine.optimizer)
	return {"resolved": resolved, "dtype": str(parameter.dtype), "optimizer": type(optimizer).__name__}


# --- a case ---


def pretend(run: Run) -> list[str]:
	"""Replace what this machine lacks. FSDP gets GPUs and finds its peers itself, DeepSpeed gets a group on a CPU."""
	from tests.oracle import deepspeed_fakes, fakes

	if run.case["mode"] == "fsdp":
		local = {"LOCAL_WORLD_SIZE": str(run.world_size), "WORLD_SIZE": str(run.world_size)}
		os.environ.update(local)
		return [fakes.gpus(run.world_size), fakes.peers([])]
	folder = run.case["folder"]
	return [
		deepspeed_fakes.group(run.world_size),
		deepspeed_fakes.kernels(),
		deepspeed_fakes.device(),
		deepspeed_fakes.file_system(folder),
	]


def judge(case: Case) -> Answer:
	run = Run(case)
	lay_out(case, case["folder"])
	enter(case["folder"], {**os.environ, "HOME": case["folder"]})
	run.faked += pretend(run)
	answer: Answer = {"verdict": "accepted"}
	with listening("DeepSpeed", "accelerate", "transformers") as heard:
		try:
			READERS[case["mode"]](run)
		except InterceptedError:
			pass
		except (Exception, SystemExit) as error:
			answer = {"verdict": "rejected", "error": refusal(error)}
			if any(text in str(error) for text in NO_GPU):
				answer["verdict"] = "undecided"
	run.facts["unfilled"] = unfilled(run.facts.pop("config", {}))
	return {"stage": run.stage, "warnings": heard, "faked": run.faked, "facts": run.facts, **answer}


def unfilled(config: Any, path: str = "") -> list[str]:
	"""Paths that still hold "auto" when the engine, or the refusal, comes."""
	if isinstance(config, dict):
		return [name for key, value in config.items() for name in unfilled(value, f"{path}.{key}".lstrip("."))]
	return [path] if config == "auto" else []


def answer(case: Case) -> Answer:
	with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
		return forked(judge, {**case, "folder": folder})


if __name__ == "__main__":
	serve(preload, answer)
