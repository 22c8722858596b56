"""The trace tier where nothing can be traced: refusals, a missing library, a worker that hangs or dies."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tables import table

from distributed_training_backends import cli_trace
from distributed_training_backends.triage.assumptions import completed
from distributed_training_backends.triage.facts import Facts, read_facts
from distributed_training_backends.triage.memory import estimate
from distributed_training_backends.triage.setup import Setup
from distributed_training_backends.triage.shapes import named

CONFIG = dict(named("llama-3.2-1b"))


def facts_of(**data: Any) -> Facts:
	facts, problems = read_facts({"model": {"name": "llama-3.2-1b"}, **data})
	assert problems == []
	return completed(facts)[0]


@pytest.mark.parametrize(
	("setup", "data", "words"),
	[
		(Setup("single"), {"task": {"kind": "qlora"}}, "quantized"),
		(Setup("single"), {"task": {"kind": "inference"}}, "only training"),
		(Setup("zero3", shard=8), {}, "zero3 with these sizes"),
		(Setup("fsdp2", shard=8, tp=2), {}, "fsdp2 with these sizes"),
		(Setup("single", compile=True), {}, "torch.compile"),
		(Setup("single", fused_loss=True), {}, "own loss"),
		(Setup("fsdp2", shard=8, offload_params="cpu"), {}, "offloading"),
	],
)
def test_what_cannot_be_traced_is_said(setup: Setup, data: dict[str, Any], words: str) -> None:
	trace = cli_trace.traced(facts_of(**data), setup, CONFIG)
	assert words in trace.problem
	assert trace.peak == 0


def worker(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> cli_trace.Trace:
	program = folder / "worker.py"
	program.write_text(text, "utf-8")
	monkeypatch.setattr(cli_trace, "WORKER", str(program))
	return cli_trace.traced(facts_of(), Setup("single"), CONFIG, limit=5)


def test_a_measurement_stands_beside_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	phases = {"forward": 10, "backward": 30 * 2**30, "step": 20}
	trace = worker(f"print('a warning')\nprint({json.dumps(json.dumps({'phases': phases}))})", tmp_path, monkeypatch)
	assert (trace.peak, trace.problem) == (30 * 2**30, "")
	line = cli_trace.beside(trace, estimate(facts_of(), Setup("single")))
	assert line.startswith("traced 30.00 GiB allocated, estimated ")


def test_the_task_says_what_the_facts_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	echo = "import sys, json\nprint(json.dumps({'error': sys.stdin.read()}))"
	task = json.loads(worker(echo, tmp_path, monkeypatch).problem)
	assert (task["seq"], task["micro_batch"], task["shard"], task["lora"]) == (2048, 1, 1, None)
	assert task["config"] == CONFIG


@table(r"""text, words
"import time\ntime.sleep(60)", took longer than 5 s
raise SystemExit('out of luck'), 'ended with status 1: out of luck'
pass, no output""")
def test_a_worker_that_fails(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	trace = worker(text, tmp_path, monkeypatch)
	assert words in trace.problem
	assert cli_trace.beside(trace, estimate(facts_of(), Setup("single"))).startswith("no trace: ")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(cli_trace, "INTERPRETER", [sys.executable, "-S", "-I"])
	trace = cli_trace.traced(facts_of(), Setup("single"), CONFIG, limit=60)
	assert "is not installed here" in trace.problem
