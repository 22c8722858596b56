"""The gate: what a comparison with the libraries has to show, how many examples are drawn, and that time is kept."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.oracle import tables
from tests.oracle.cases import Case
from tests.oracle.comparison import Row, Truth
from tests.oracle.environment import PINS
from tests.oracle.judge import Judgement

import gate

ACCEPTED, REFUSED = Truth("accepted", "", {}), Truth("rejected", "", {"type": "ValueError", "where": "x.py:1"})


def rows(group: str, outcomes: dict[str, int], release: str = PINS["accelerate"]) -> Iterator[Row]:
	shown = {
		"agree": (ACCEPTED, "accepted"),
		"false error": (ACCEPTED, "rejected"),
		"missed": (REFUSED, "accepted"),
		"left out": (Truth("left out", "a package is missing", {}), "rejected"),
	}
	for outcome, count in outcomes.items():
		truth, verdict = shown[outcome]
		case = Case("a-file", "accelerate", "", group=group)
		row = Row("accelerate", release, "launch", case, truth, Judgement(verdict, ()))
		assert row.outcome == outcome
		yield from [row] * count


@pytest.mark.parametrize(
	("group", "outcomes", "release", "broken"),
	[
		("corpus", {"agree": 100, "left out": 50}, "1.15.0", 0),
		("corpus", {"agree": 500, "false error": 1}, "1.15.0", 1),
		("corpus", {"agree": 500, "false error": 1}, "1.10.1", 0),
		("corpus", {"agree": 97, "missed": 3}, "1.15.0", 0),
		("corpus", {"agree": 96, "missed": 4}, "1.15.0", 1),
		("corpus", {"agree": 3, "missed": 3}, "0.20.3", 0),
		("misspell", {"agree": 100, "missed": 3, "false error": 3}, "1.15.0", 2),
		("misspell", {"agree": 98, "missed": 4}, "1.15.0", 1),
		("own", {"agree": 500, "false error": 1}, "1.15.0", 0),
	],
)
def test_promises(group: str, outcomes: dict[str, int], release: str, broken: int) -> None:
	assert len(tables.broken(rows(group, outcomes, release))) == broken


def test_at_least_twenty_thousand_examples_are_drawn() -> None:
	files, examples = gate.property_tests()
	texts = [(gate.ROOT / name).read_text("utf-8") for name in files]
	assert examples * sum(text.count("\n@given(") for text in texts) >= 20_000


def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
	beats = tmp_path / "beats"
	child = f"import time\nwhile True:\n    open({str(beats)!r}, 'a').write('x'); time.sleep(0.05)"
	parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
	assert gate.status_of([sys.executable, "-c", parent], {}, 3) == 124
	heard = beats.stat().st_size
	time.sleep(0.5)
	assert beats.stat().st_size == heard > 0


def test_the_status_of_a_step() -> None:
	assert gate.status_of([sys.executable, "-c", "raise SystemExit(3)"], {}, 60) == 3
	assert gate.run(gate.Step("fine", [sys.executable, "-c", ""]), time.monotonic() + 60)
	assert not gate.run(gate.Step("wrong", [sys.executable, "-c", "raise SystemExit(1)"]), time.monotonic() + 60)


def test_a_step_for_which_there_is_no_time_left_is_told(capsys: pytest.CaptureFixture[str]) -> None:
	slow = gate.Step("slow", [sys.executable, "-c", "import time; time.sleep(60)"])
	assert gate.run(slow, time.monotonic() - 1)
	assert "slow: status 124, not counted" in capsys.readouterr().out


def test_a_step_is_told_what_the_others_leave() -> None:
	look = [sys.executable, "-c", "import sys; raise SystemExit(not 6 < float(sys.argv[1]) <= 7)", gate.LEFT]
	assert gate.run(gate.Step("timed", look), time.monotonic() + 600, later=120)


def test_only_times_do_not_decide() -> None:
	assert [step.name for step in gate.steps(Path("home")) if not step.decides] == ["budgets"]
