"""The script as people start it: copies, links, bare interpreters, pipes, streams and hostile input."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "validate_backend_config.py"
CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 8\nnum_machnes: 1\n"


def start(
	*argv: str | Path, script: Path = SCRIPT, flags: tuple[str, ...] = (), **more: object
) -> subprocess.CompletedProcess[str]:
	environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
	command = [sys.executable, *flags, str(script), *map(str, argv)]
	options: dict[str, object] = {"env": environment, "timeout": 60, **more}
	return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def config(tmp_path: Path) -> Path:
	path = tmp_path / "accelerate.yaml"
	path.write_text(CONFIG)
	return path


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
	"""A bare copy as an old installer leaves it, without names that start with an underscore, and read-only."""
	folder = tmp_path / "copy"
	shutil.copytree(ROOT / "scripts", folder, ignore=shutil.ignore_patterns("_*", "*.pyc"))
	folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
	for path in folders:
		path.chmod(stat.S_IRUSR | stat.S_IXUSR)
	yield folder / "validate_backend_config.py"
	for path in folders:
		path.chmod(stat.S_IRWXU)


def verdict(done: subprocess.CompletedProcess[str]) -> str:
	assert done.stderr == ""
	return str(json.loads(done.stdout)["files"][0]["verdict"])


@pytest.mark.parametrize("flags", [(), ("-P",), ("-I",), ("-B",), ("-X", "dev"), ("-W", "error")], ids=" ".join)
def test_the_script_runs_from_anywhere(flags: tuple[str, ...], config: Path, tmp_path: Path) -> None:
	if flags == ("-P",) and sys.version_info < (3, 11):
		pytest.skip("-P came with Python 3.11")
	done = start(config.name, "--output-format", "json", flags=flags, cwd=tmp_path)
	assert (done.returncode, verdict(done)) == (1, "rejected")


def test_the_script_runs_through_a_link(config: Path, tmp_path: Path) -> None:
	link = tmp_path / "elsewhere" / "validate.py"
	link.parent.mkdir()
	link.symlink_to(SCRIPT)
	assert verdict(start(config, "--output-format", "json", script=link, flags=("-I",), cwd=tmp_path)) == "rejected"


def test_a_bare_copy_runs_and_stays_as_it_is(config: Path, copy: Path, tmp_path: Path) -> None:
	before = sorted(copy.parent.rglob("*"))
	done = start(config, "--output-format", "json", script=copy, flags=("-I",), cwd=tmp_path)
	assert verdict(done) == "rejected"
	assert sorted(path for path in copy.parent.rglob("*") if "__pycache__" not in path.parts) == before


def test_without_pyyaml_json_files_are_judged_and_yaml_files_say_what_to_run(config: Path, tmp_path: Path) -> None:
	bare = ("-I", "-S")
	done = start(config, flags=bare)
	assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
	assert "-m pip install PyYAML" in done.stderr
	deepspeed = tmp_path / "ds.json"
	deepspeed.write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}')
	assert verdict(start(deepspeed, "--output-format", "json", flags=bare)) == "accepted"
	assert start("--list-rules", flags=bare).returncode == 0


def test_standard_input(config: Path) -> None:
	done = start("-", "--output-format", "json", input=config.read_text())
	assert (done.returncode, json.loads(done.stdout)["files"][0]["path"]) == (1, "-")


def test_a_reader_that_leaves_is_no_trouble() -> None:
	command = f'"{sys.executable}" "{SCRIPT}" --list-rules; echo "status $?" >&2'
	done = subprocess.run(
		["bash", "-c", f"({command}) | head -c 1"], capture_output=True, encoding="utf-8", check=False
	)
	assert done.stderr == "status 0\n"


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
	path = tmp_path / "名前.yaml"
	path.write_text(CONFIG + "note: 日本\n", encoding="utf-8")
	done = start(path, "--verbose", env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
	assert done.returncode == 1
	assert done.stdout.isascii()
	assert "Traceback" not in done.stderr


def test_a_terminal_gets_colours_and_its_own_width(config: Path) -> None:
	config.write_text(CONFIG + "num_machnes_2: '" + "x" * 500 + "'\n")
	master, slave = pty.openpty()
	fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
	environment = {**os.environ, "TERM": "xterm"}
	environment.pop("NO_COLOR", None)
	command = [sys.executable, str(SCRIPT), str(config)]
	done = subprocess.run(command, stdout=slave, stderr=subprocess.PIPE, env=environment, check=False, timeout=60)
	os.close(slave)
	shown = os.read(master, 100_000).decode()
	os.close(master)
	assert done.stderr == b""
	assert "\x1b[1;31merror[" in shown
	rows = [row for row in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines() if " | " in row]
	assert any(row.endswith("…") for row in rows)
	assert max(map(len, rows)) <= 60


def test_an_interrupt_is_quiet() -> None:
	process = subprocess.Popen(
		[sys.executable, str(SCRIPT), "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
	)
	assert process.stdin is not None
	process.stdin.write(b" " * 1_000_000)  # more than a pipe holds, so that it is being read once this is written
	process.stdin.flush()
	process.send_signal(signal.SIGINT)
	_, err = process.communicate(timeout=60)
	assert (process.returncode, err) == (130, b"")
