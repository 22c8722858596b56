"""How the property tests run (DTB_EXAMPLES: how many examples each of them draws), and the command line at hand."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tools")]

# A time limit for each example would fail on a busy machine, not on a slow program.
settings.register_profile(
	"dtb",
	max_examples=int(os.environ.get("DTB_EXAMPLES", "100")),
	deadline=None,
	print_blob=True,
	suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dtb")

Run = Callable[..., "tuple[int, str, str]"]


def put(text: str, name: str = "x.yaml") -> None:
	Path(name).write_text(text)


@pytest.fixture
def judge() -> Any:
	"""The judge that `run` uses."""
	from tests.fake_judge import FakeJudge

	return FakeJudge()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, judge: Any) -> Run:
	"""Run the command line in an empty folder, with the judge for tests; gives status, stdout and stderr."""
	from tests.reports import TARGETS

	from distributed_training_backends import api, cli

	monkeypatch.setattr(api, "validate_paths", judge.validate_paths)
	monkeypatch.setattr(api, "validate_text", judge.validate_text)
	monkeypatch.setattr(api, "default_targets", lambda: TARGETS)
	for name in ("NO_COLOR", "FORCE_COLOR", "DTB_DEBUG"):
		monkeypatch.delenv(name, raising=False)
	monkeypatch.chdir(tmp_path)

	def run(*argv: str) -> tuple[int, str, str]:
		status = cli.main(argv)
		shown = capsys.readouterr()
		return status, shown.out, shown.err

	return run


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
	"""An empty working directory."""
	monkeypatch.chdir(tmp_path)
	return tmp_path


@pytest.fixture
def anyio_backend() -> str:
	return "asyncio"
