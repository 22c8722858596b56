"""The oracle's client with a worker that needs no library: what is kept, and what happens when workers die."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.oracle import client
from tests.oracle.client import DEATHS, Oracle, OracleError
from tests.oracle.environment import PINS, Environment


class Home(Environment):
	"""An oracle's folder whose interpreter is this one."""

	@property
	def python(self) -> Path:
		return Path(sys.executable)


@pytest.fixture
def oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Oracle]:
	monkeypatch.setitem(client.WORKERS, "accelerate", "tests.fake_worker")
	with Oracle(Home(tmp_path), "accelerate", PINS["accelerate"]) as oracle:
		yield oracle


def test_an_answer_is_kept(oracle: Oracle) -> None:
	for _ in range(2):
		assert oracle.ask({"say": "a"}) == {"verdict": "accepted", "said": "a"}
	assert oracle.asked == 1


def test_a_dead_worker_is_followed_by_another(oracle: Oracle, capfd: pytest.CaptureFixture[str]) -> None:
	answer = oracle.ask({"die": True})
	assert answer["error"]["type"] == "WorkerDied"
	assert capfd.readouterr().err.count("accelerate 1.15.0: a worker ended with status 7") == 2
	assert oracle.ask({"say": "b"})["said"] == "b"
	assert oracle.ask({"die": True})["verdict"] == "failed"  # which is not kept, so it is tried again
	assert oracle.deaths == 4


def test_a_release_whose_workers_keep_dying_is_given_up(oracle: Oracle) -> None:
	oracle.deaths = DEATHS
	with pytest.raises(OracleError, match=f"{DEATHS + 1} workers died"):
		oracle.ask({"die": True})


def test_a_worker_that_is_stuck_is_ended(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
	assert oracle.ask({"say": "a"})["said"] == "a"
	monkeypatch.setattr(client, "ANSWERS_WITHIN", 0.5)
	assert oracle.worker is not None
	with pytest.raises(client.WorkerDiedError, match="status -9"):
		oracle.worker._read()  # nobody has asked it anything
