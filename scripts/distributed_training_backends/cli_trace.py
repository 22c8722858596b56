"""--trace: the memory model held against a measurement of the user's own model on fake tensors.

The one place that runs a program: this Python itself, with a time limit, on cli_trace_worker.py.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from os.path import dirname, join
from typing import Any, NamedTuple

from .triage.answer import answer, question
from .triage.describe import name_of
from .triage.estimate import GIB, Estimate
from .triage.facts import Facts, ModelFacts
from .triage.run import MIXED
from .triage.setup import Setup
from .triage.shapes import named
from .versions import in_span

WORKER = join(dirname(__file__), "cli_trace_worker.py")
TIME_LIMIT = 120.0
INTERPRETER = [sys.executable]
ATTENTION = {"sdpa": "sdpa", "flash_attention_2": "sdpa", "flash_attention_3": "sdpa", "eager": "eager"}


class Trace(NamedTuple):
	"""What was measured, in bytes by phase, or the one line that says why nothing was."""

	phases: dict[str, int]
	problem: str = ""

	@property
	def peak(self) -> int:
		return max(self.phases.values(), default=0)


def note_of(data: Mapping[str, Any], name: str, limit: float) -> str:
	asked = question(data)
	chosen = next(one for one in answer(asked).ranked if name_of(one.setup) == name)
	config = config_of(asked.facts.model)
	problem = "a model that is told by its sizes cannot be traced: give its config.json"
	trace = traced(chosen.made.facts, chosen.setup, config, limit) if config else Trace({}, problem)
	return f"{name}: {beside(trace, chosen.made.estimate)}"


def config_of(model: ModelFacts) -> dict[str, Any]:
	if model.config is not None:
		return dict(model.config)
	return dict(named(model.name)) if model.name else {}


def traced(facts: Facts, setup: Setup, config: dict[str, Any], limit: float = TIME_LIMIT) -> Trace:
	"""Measure a model with the given config.json; the facts are completed."""
	refusal = refused(facts, setup)
	if refusal:
		return Trace({}, refusal)
	command, task = [*INTERPRETER, WORKER], json.dumps(task_of(facts, setup, config))
	try:
		done = subprocess.run(command, input=task, capture_output=True, text=True, timeout=limit, check=False)
	except subprocess.TimeoutExpired:
		return Trace({}, f"the trace took longer than {limit:.0f} s; a smaller model or --trace-limit helps")
	lines = done.stdout.strip().splitlines()
	if not lines:
		last = (done.stderr.strip().splitlines() or ["no output"])[-1]
		return Trace({}, f"the trace ended with status {done.returncode}: {last}")
	answer = json.loads(lines[-1])
	return Trace(answer.get("phases", {}), answer.get("error", ""))


def refused(facts: Facts, setup: Setup) -> str:
	"""Why a run cannot be traced; empty if it can."""
	if not facts.task.trains:
		return "only training is traced"
	if facts.task.quantized:
		return "quantized weights cannot be traced: their kernels have no fake form"
	if setup.backend not in ("single", "ddp", "fsdp2", "local_sgd") or max(setup.tp, setup.pp, setup.cp, setup.sp) > 1:
		return f"{setup.backend} with these sizes cannot be traced; single, ddp and fsdp2 can"
	if facts.compile or setup.compile:
		return "torch.compile cannot be traced"
	if (facts.loss or "transformers") != "transformers" or setup.fused_loss:
		return "only the model's own loss is traced"
	if setup.offload_params != "none" or setup.offload_optimizer != "none":
		return "offloading cannot be traced"
	return ""


def task_of(facts: Facts, setup: Setup, config: dict[str, Any]) -> dict[str, Any]:
	adapters = facts.task.kind == "lora"
	sharded = setup.shard if setup.backend == "fsdp2" else 1
	mixed = facts.precision in MIXED
	task = facts.task
	lora = {"rank": task.lora_rank, "targets": list(task.lora_targets or ()), "dropout": task.lora_dropout or 0.0}
	return {
		"config": config,
		"seq": facts.batch.seq,
		"micro_batch": setup.micro_batch or facts.batch.micro_batch,
		"weights": "fp32" if sharded > 1 and mixed and not adapters else facts.weights,
		"attention": ATTENTION.get(facts.attention or "sdpa", "sdpa"),
		"checkpointing": (setup.checkpointing or facts.checkpointing) == "full",
		"autocast": mixed and sharded == 1,
		"fused": facts.optimizer != "adamw_torch",
		"lora": lora if adapters else None,
		"shard": sharded,
		"apart": in_span(facts.versions.accelerate, "1.14.0", None),
	}


def beside(trace: Trace, estimate: Estimate) -> str:
	if trace.problem:
		return f"no trace: {trace.problem}"
	buckets = sum(part.size for part in estimate.at_peak.parts if part.name == "communication")
	point = estimate.allocated.point - buckets
	return (
		f"traced {trace.peak / GIB:.2f} GiB allocated, estimated {point / GIB:.2f} GiB"
		f"{' without the buckets of DDP' if buckets else ''} ({point / trace.peak - 1:+.1%})"
	)
