"""What is checked about the answers of triage can fail; the memory model is near traces."""

from typing import Any

import pytest
from tests import gated
from tests.oracle import environment
from tests.oracle.triage_checks import Emitted, Failure, Libraries, check, refused
from tests.triage_facts import SETUPS, facts

from distributed_training_backends import cli_trace
from distributed_training_backends.triage.assumptions import completed
from distributed_training_backends.triage.compatibility import Obstacle
from distributed_training_backends.triage.emit import files
from distributed_training_backends.triage.facts import read_facts
from distributed_training_backends.triage.memory import estimate
from distributed_training_backends.triage.setup import Setup
from distributed_training_backends.triage.shapes import named

pytestmark = gated.oracle
OFFLOAD = "zero2-offload"


def emitted(name: str, **changes: tuple[str, str]) -> Emitted:
	setup, groups = SETUPS[name]
	asked = facts(**groups)
	found = {file.name: file.text for file in files(asked, setup)}
	for file, (old, new) in changes.items():
		full = next(known for known in found if known.startswith(file))
		assert old in found[full]
		found[full] = found[full].replace(old, new)
	return Emitted(name, asked, setup, found)


def failed(one: Emitted, libraries: Libraries) -> set[str]:
	return {said.check for said in check(one, libraries) if isinstance(said, Failure)}


@pytest.mark.parametrize("name", ["fsdp2", OFFLOAD])
def test_what_is_right_passes(name: str, libraries: Libraries) -> None:
	assert failed(emitted(name), libraries) == set()


BROKEN: list[tuple[str, dict[str, tuple[str, str]], set[str]]] = [
	("fsdp2", {"accelerate": ("fsdp_version: 2", "fsdp_version: 3")}, {"validator", "launch"}),
	("fsdp2", {"accelerate": ("num_processes: 8", "num_processes: 4")}, {"meaning"}),
	("fsdp2", {"plugins": ("reshard_after_forward=True", "reshard_after_forward=False")}, {"plugins"}),
	("fsdp2", {"launch": ("accelerate launch", "accelerate launch --num_proceses 8")}, {"command"}),
	(OFFLOAD, {"ds_config": ('"stage": 2', '"stage": 5')}, {"DeepSpeed through accelerate"}),
]


@pytest.mark.parametrize(("name", "changes", "checks"), BROKEN)
def test_what_is_wrong_is_found(
	name: str, changes: dict[str, tuple[str, str]], checks: set[str], libraries: Libraries
) -> None:
	assert failed(emitted(name, **changes), libraries) >= checks


def test_a_removal_that_the_library_does_not_make_is_found(libraries: Libraries) -> None:
	setup, groups = SETUPS["fsdp2"]
	never = Obstacle("tp-alone", "it is refused", "somewhere")
	assert [type(said) for said in refused((facts(**groups), setup, never), libraries)] == [Failure]
	assert list(refused((facts(**groups), setup._replace(shard=1, tp=8), never), libraries)) == [
		"removal, refused by the library"
	]


def test_a_removal_without_a_source_is_found(libraries: Libraries) -> None:
	setup, groups = SETUPS["fsdp2"]
	said = list(refused((facts(**groups), setup, Obstacle("another", "it is so", "")), libraries))
	assert isinstance(said[0], Failure)


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
	told = completed(read_facts({"model": {"name": name}, **given})[0])[0]
	told = told._replace(weights="fp32") if precision == "bf16" and setup.backend == "single" else told
	trace = cli_trace.traced(told, setup, dict(named(name)))
	assert trace.problem == ""
	assert estimate(told, setup).allocated.point == pytest.approx(trace.peak, rel=0.05)
