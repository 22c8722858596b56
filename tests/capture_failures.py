"""Produce failures for real on the CPU with the installed libraries, and keep their logs for the tests.

    PYTHON tests/capture_failures.py [NAME ...]

PYTHON is an interpreter with torch, accelerate, deepspeed and transformers. The cases stand in
tests/cases/diagnose/failures.txt.gz (tools/packed.py packs it): small runs of two processes (gloo), or of a launcher
that refuses. Their logs go to real.json.gz beside it, shortened, with plausible paths for those of this machine.
"""

import gzip
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent / "cases" / "diagnose"
REAL = FOLDER / "real.json.gz"
SECONDS = 150
VARIABLES = {
	"cpu": "DS_ACCELERATOR=cpu ACCELERATE_USE_CPU=true",
	"deepspeed": "DS_ACCELERATOR=cpu ACCELERATE_USE_DEEPSPEED=true",
}
PROGRAMS = {
	"torchrun": "-m torch.distributed.run --nproc_per_node",
	"launch": "-m accelerate.commands.accelerate_cli launch",
}
OPTIMIZER = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}}
NOISE = ("frame ##", "Failed to load", "W#")  # C++ frames, extensions of torchao, warnings
SUMMARY = 'Traceback (most recent call last):\n  File "<frozen runpy>"'  # of torchrun
LONGEST, WIDEST = 1_500, 400  # characters of a log, and of a line


class Case(NamedTuple):
	"""A failure: the families that are right, the script, the command after the interpreter, variables, files."""

	name: str
	families: str
	script: str
	command: str
	environment: Mapping[str, str]
	files: Mapping[str, str]
	busy: bool


def cases() -> Iterator[Case]:
	listed = gzip.decompress((FOLDER / "failures.txt.gz").read_bytes()).decode()
	parts = re.split(r"^=== (\S+)\n", listed, flags=re.MULTILINE)[1:]
	sections = dict(zip(parts[::2], parts[1::2], strict=True))
	beginnings = {name[6:]: sections.pop(name) for name in list(sections) if name.startswith("begin:")}
	for name, text in sections.items():
		head, _, script = text.partition("---\n")
		fields = dict(line.split(": ", 1) for line in head.splitlines())
		begin = fields.get("begin", "").split()
		engine = "engine" in begin
		command = fields.get("run", "torchrun 2 train.py" + " ds.json" * engine)
		program, _, rest = command.partition(" ")
		command = f"{PROGRAMS[program]} {rest}" if program in PROGRAMS else command
		variables = fields.get("env", "cpu" if engine else "")
		yield Case(
			name,
			fields["right"],
			"".join(beginnings[part] for part in begin) + script,
			command,
			dict(pair.split("=", 1) for pair in shlex.split(VARIABLES.get(variables, variables))),
			{key[5:]: file_text(json.loads(value), engine) for key, value in fields.items() if key.startswith("file ")},
			"busy" in fields,
		)


def file_text(content: str | dict[str, object], engine: bool) -> str:
	return content if isinstance(content, str) else json.dumps({**(OPTIMIZER if engine else {}), **content}, indent=1)


CASES = tuple(cases())


def logs() -> dict[str, str]:
	found: dict[str, str] = json.loads(gzip.decompress(REAL.read_bytes())) if REAL.exists() else {}
	return found


def run(case: Case) -> str:
	with tempfile.TemporaryDirectory(prefix="run") as folder, socket.socket() as held:
		port = bound(held)
		if case.busy:
			held.listen()
		with socket.socket() as other:
			free = bound(other)
		here = Path(folder)
		for name, text in {**case.files, "train.py": case.script.replace("{free}", free)}.items():
			(here / name).write_text(text, "utf-8")
		command = case.command.replace("{port}", port).replace("{free}", free)
		environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", **case.environment}
		status, said = ended(f"exec {sys.executable} {command}", here, environment)
		assert status != 0, f"{case.name} did not fail:\n{said}"
		return anonymous(said, folder)


def bound(to: socket.socket) -> str:
	to.bind(("127.0.0.1", 0))
	return str(to.getsockname()[1])


def ended(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
	"""Run a command line to its end; what it started ends with it, should it take too long."""
	output = folder / "output"
	with output.open("w") as stream:
		process = subprocess.Popen(
			command, shell=True, cwd=folder, env=environment, stdout=stream, stderr=stream, start_new_session=True
		)
		try:
			status = process.wait(SECONDS)
		except subprocess.TimeoutExpired:
			os.killpg(process.pid, signal.SIGKILL)
			status = process.wait()
	return status, output.read_text("utf-8", "replace")


def anonymous(text: str, folder: str) -> str:
	site = str(Path(os.__file__).parent.parent.parent)
	pairs = [(folder, "/srv/project"), (f"/private{folder}", "/srv/project")]
	pairs += [(place, "/opt/conda") for place in (sys.prefix, sys.base_prefix, site)]
	for old, new in (*pairs, (str(Path.home()), "/srv"), (socket.gethostname(), "node-0")):
		text = text.replace(old, new)
	return re.sub(r"/(?:tmp|var/folders)/[\w./-]+", "/scratch/run", text)


def shortened(text: str) -> str:
	"""Leave out what says nothing more: repeated lines, C++ frames, all but the last frame of a traceback.

	The summary of torchrun stays where no process says why it failed.
	"""
	kept: list[str] = []
	seen: set[str] = set()
	told = text.partition(SUMMARY)[0]
	for line in (told if re.search(r"rank[01]\]: Traceback", told) else text).splitlines():
		known = re.sub(r"[0-9]+", "#", re.sub(r"^\[[a-z]+\d+\]: ?", "", line).strip())
		if not known or set(known) <= set("=-^~") or known.startswith(NOISE) or known in seen:
			continue
		if not known.startswith(("rank ", "exitcode ")):  # of the root cause, after those of other processes
			seen.add(known)
		if is_frame(line):
			last = next((place for place in range(len(kept) - 1, -1, -1) if not is_code(kept[place])), 0)
			if kept and is_frame(kept[last]):
				del kept[last:]
		kept.append(line[:WIDEST])
	return "\n".join(kept)[:LONGEST] + "\n"


def is_frame(line: str) -> bool:
	return re.match(r'(\[[a-z]+\d+\]: )?  File "', line) is not None


def is_code(line: str) -> bool:
	return re.match(r"(\[[a-z]+\d+\]: )?    ", line) is not None


def main() -> None:
	captured = {case.name: logs().get(case.name, "") for case in CASES}
	for case in CASES:
		if not sys.argv[1:] or case.name in sys.argv[1:]:
			try:
				captured[case.name] = shortened(run(case))
			except AssertionError as error:
				print(error, flush=True)
	text = json.dumps(captured, indent=0, ensure_ascii=False)
	REAL.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
	main()
