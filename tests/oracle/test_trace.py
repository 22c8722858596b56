"""The memory model against traces of the real Transformers and FSDP2. Set DTB_ORACLE=1 to run."""

import os
from typing import Any

import pytest
from tests.oracle import environment

from distributed_training_backends import cli_trace
from distributed_training_backends.triage.assumptions import completed
from distributed_training_backends.triage.facts import read_facts
from distributed_training_backends.triage.memory import estimate
from distributed_training_backends.triage.setup import Setup
from distributed_training_backends.triage.shapes import named

pytestmark = pytest.mark.skipif(os.environ.get("DTB_ORACLE") != "1", reason="asks the real libraries (DTB_ORACLE=1)")


@pytest.mark.parametrize(
    ("name", "setup", "precision"),
    [
        ("llama-3.2-1b", Setup("single"), "pure_bf16"),
        ("tinyllama-1.1b", Setup("single", checkpointing="full"), "bf16"),
        ("llama-3-8b", Setup("fsdp2", shard=4, checkpointing="full"), "bf16"),
    ],
)
def test_estimate_is_near_the_trace(name: str, setup: Setup, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_trace, "INTERPRETER", [str(environment.default().python)])
    given: dict[str, Any] = {"batch": {"seq": 2048, "micro_batch": 2}, "precision": precision}
    facts = completed(read_facts({"model": {"name": name}, **given})[0])[0]
    facts = facts._replace(weights="fp32") if precision == "bf16" and setup.backend == "single" else facts
    trace = cli_trace.traced(facts, setup, dict(named(name)))
    assert trace.problem == ""
    assert estimate(facts, setup).allocated.point == pytest.approx(trace.peak, rel=0.05)
