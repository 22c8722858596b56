"""The oracle's worker for the snippets of the reference pages, as rank 0 of a job that is pretended.

A case is {"mode": "python", "code": text, "processes": n, "config": name or "", "files": {name: text}} or {"mode":
"shell", "command": [words], "files": …}. A snippet finds `model`, `optimizer`, `scheduler`, `loader` and `batch`. With
a config it runs in the environment that `accelerate launch` leaves with it. GPUs and peers are pretended as for
configs, but tensors live on the CPU, so that models are really wrapped and steps really taken. The answer has verdict,
error, warnings and faked.
"""

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import sys
import tempfile
from typing import Any
from unittest.mock import MagicMock

from tests.oracle.worker import Answer, Case, bare_environment, enter, forked, lay_out, listening, refusal, serve

PRELUDE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
    vocab_size=128, max_position_embeddings=64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
samples = [{"input_ids": torch.arange(32), "labels": torch.arange(32)} for _ in range(256)]
loader = torch.utils.data.DataLoader(samples, batch_size=4)
batch = next(iter(loader))
"""
LOADED = (
	*("deepspeed.launcher.runner", "deepspeed.runtime.engine", "deepspeed.runtime.sequence_parallel.ulysses_sp"),
	*("deepspeed.runtime.zero.stage3", "deepspeed.runtime.zero.stage_1_and_2", "torch.distributed.checkpoint"),
	*("torch.distributed.checkpoint.format_utils", "torch.distributed.fsdp", "torch.distributed.tensor"),
	*("torch._dynamo", "tests.oracle.building", "tests.oracle.launching"),
)


def preload() -> Answer:
	import accelerate
	import torch
	from transformers import LlamaForCausalLM, Trainer, TrainingArguments  # noqa: F401 (lazy modules)

	for name in LOADED:
		importlib.import_module(name)
	torch.set_num_threads(1)
	return {"accelerate": accelerate.__version__, "torch": torch.__version__}


def run_python(case: Case) -> Answer:
	enter(case["folder"], {**bare_environment(case["folder"]), **case["variables"]})
	faked = pretend(case["processes"])
	answer: Answer = {"verdict": "accepted"}
	with listening("accelerate", "transformers", "DeepSpeed") as heard:
		try:
			namespace: dict[str, Any] = {"__name__": "__main__"}
			exec(PRELUDE, namespace)
			exec(compile(case["code"], case["name"], "exec"), namespace)
		except (Exception, SystemExit) as error:
			answer = {"verdict": "rejected", "error": refusal(error)}
	return {"warnings": heard, "faked": faked, **answer}


def pretend(processes: int) -> list[str]:
	"""GPUs that are asked for nothing but their abilities, peers, compiled kernels."""
	from tests.oracle import deepspeed_fakes, fakes

	if processes == 0:
		return []
	os.environ.update(ACCELERATE_TORCH_DEVICE="cpu", ACCELERATE_BYPASS_DEVICE_MAP="true")
	said = [fakes.gpus(processes), fakes.peers([]), deepspeed_fakes.kernels(), deepspeed_fakes.device()]
	return [*said, flat_parameters_on_cpu(), partial_checkpoints(), unreduced_gradients(), "tensors live on the CPU"]


def flat_parameters_on_cpu() -> str:
	from tests.oracle import fakes
	from torch.distributed.fsdp import _init_utils

	vars(_init_utils)["_check_module_states_for_sync_module_states"] = fakes.constant(None)
	return "FSDP1 broadcasts the states of modules on the CPU"


def partial_checkpoints() -> str:
	import torch
	from tests.oracle import fakes
	from torch.distributed.checkpoint import default_planner

	vars(default_planner)["_validate_global_plan"] = fakes.constant([])
	stream = MagicMock()  # what a checkpoint would copy tensors in
	vars(torch.cuda).update(current_stream=fakes.constant(stream), stream=fakes.constant(contextlib.nullcontext()))
	return "distributed checkpoints hold what rank 0 has"


def unreduced_gradients() -> str:
	import torch

	build = torch.nn.parallel.DistributedDataParallel.__init__

	def building(model: Any, *arguments: Any, **options: Any) -> None:
		build(model, *arguments, **options)
		model.require_backward_grad_sync = False

	torch.nn.parallel.DistributedDataParallel.__init__ = building
	return "DDP leaves gradients as rank 0 has them"


def launched_variables(case: Case) -> Answer:
	from tests.oracle import building, launching

	asked = {**case, "gpus": 8, "flags": case.get("flags", [])}
	launched = forked(launching.run, asked)
	if launched["verdict"] != "accepted":
		return launched
	facts = launched["facts"]
	variables = {**facts["environment"], **building.process_variables(facts)}
	return {"verdict": "accepted", "variables": variables, "processes": int(variables.get("WORLD_SIZE", 1))}


def answer_python(case: Case) -> Answer:
	if case["config"]:
		launched = launched_variables(case)
		return forked(run_python, {**case, **launched}) if launched["verdict"] == "accepted" else launched
	from tests.oracle import building

	processes = case["processes"]
	variables = building.torchrun_variables(processes, processes) if processes > 1 else {}
	return forked(run_python, {**case, "variables": variables})


def run_shell(case: Case) -> Answer:
	"""`accelerate launch …` up to the step that would start processes, other commands up to their function."""
	import accelerate.commands.accelerate_cli as accelerate_cli
	from tests.oracle import fakes, launching
	from tests.oracle.worker import InterceptedError

	enter(case["folder"], bare_environment(case["folder"]))
	recorder = launching.Recorder()
	faked = [fakes.gpus(8), *launching._intercept(recorder), *stop_before_functions()]
	sys.argv = case["command"]
	errors = io.StringIO()
	answer: Answer = {"verdict": "rejected", "error": {"type": "NotLaunched", "message": "", "where": ""}}
	with listening() as heard, contextlib.redirect_stderr(errors):
		try:
			accelerate_cli.main()
		except InterceptedError:
			answer = launching._after_the_launch(recorder) if recorder.route else {"verdict": "accepted"}
		except (Exception, SystemExit) as error:
			answer = {"verdict": "rejected", "error": refusal(error, errors.getvalue()[-600:])}
	facts = {"route": recorder.route, "command": recorder.command, "torchrun": launching._torchrun(recorder)}
	return {"warnings": heard, "faked": faked, "facts": facts, **answer}


def stop_before_functions() -> list[str]:
	from tests.oracle.worker import InterceptedError

	def stop(_: Any) -> None:
		raise InterceptedError

	for name in ("merge", "estimate", "to_fsdp2"):
		setattr(importlib.import_module(f"accelerate.commands.{name}"), f"{name}_command", stop)
	return ["merge-weights, estimate-memory and to-fsdp2 end after their command line"]


def missing_places(case: Case) -> Answer:
	return {"verdict": "accepted", "missing": [place for place in case["places"] if find(place) is None]}


def find(place: str) -> Any:
	"""What is at a place; True for a parameter, in brackets, and for an attribute that only instances have."""
	if place.endswith(")"):
		function, _, parameter = place[:-1].partition("(")
		return parameter in inspect.signature(find(function)).parameters or None
	parts = place.split(".")
	for length in range(len(parts), 0, -1):
		try:
			found = importlib.import_module(".".join(parts[:length]))
		except Exception:
			continue
		for name in parts[length:]:
			found = member(found, name)
		return found
	return None


def member(owner: Any, name: str) -> Any:
	if hasattr(owner, name):
		return True if (value := getattr(owner, name)) is None else value
	given = isinstance(owner, type) and (
		name in getattr(owner, "__annotations__", {}) or re.search(rf"self\.{name}\b", inspect.getsource(owner))
	)
	return True if given else None


def wrong_calls(case: Case) -> Answer:
	"""Imports that fail and calls whose arguments do not fit, in code that cannot be run here."""
	nodes = list(ast.walk(ast.parse(case["code"])))
	namespace: dict[str, Any] = {}
	wrong: list[str] = []
	for node in nodes:
		if isinstance(node, ast.Import | ast.ImportFrom):
			try:
				exec(ast.unparse(node), namespace)
			except Exception as error:
				wrong.append(f"{ast.unparse(node)}: {error}")
	for node in nodes:
		if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in namespace:
			wrong += misfits(node, namespace[node.func.id])
	return {"verdict": "accepted", "wrong": wrong}


def misfits(node: ast.Call, function: Any) -> list[str]:
	positional = [None for argument in node.args if not isinstance(argument, ast.Starred)]
	named = {keyword.arg: None for keyword in node.keywords if keyword.arg}
	try:
		inspect.signature(function).bind(*positional, **named)
	except (TypeError, ValueError) as error:
		return [f"{ast.unparse(node)}: {error}"]
	return []


WITHOUT_RUNNING = {"names": missing_places, "calls": wrong_calls}


def answer(case: Case) -> Answer:
	if case["mode"] in WITHOUT_RUNNING:
		return forked(WITHOUT_RUNNING[case["mode"]], case)
	with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
		case["folder"] = folder
		lay_out(case, folder)
		return answer_python(case) if case["mode"] == "python" else forked(run_shell, case)


if __name__ == "__main__":
	serve(preload, answer)
