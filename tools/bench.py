"""Measure against the budgets, side by side in one run, and print ratios.

    python tools/bench.py [--oracle-python PATH]

Cold: whole processes, alternating with what they are compared with, so that a busy machine hits both; the medians are
compared. Python keeps its bytecode, as it does unless told otherwise, and each program has run once before. Warm: one
process, many calls, in CPU time. With --oracle-python (the interpreter of the oracle's environment) the real
`accelerate launch` is timed up to its own refusal. The MCP server: see bench_mcp.py. Exit status 1 if a budget is
broken.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import bench_mcp
import project
from bench_mcp import Line, side_by_side

SCRIPT = str(project.ROOT / "scripts" / "validate_backend_config.py")
TOUR = project.CASES / "tour"
CONFIGS = {"Accelerate": TOUR / "accelerate.yaml", "DeepSpeed": TOUR / "ds_zero3.json"}
REFUSED = "distributed_type: multi_gpu\nnum_processes: 2\n"
BASELINE = [sys.executable, "-c", "import argparse, json, yaml"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
MIB = 1024 * 1024


def seconds(command: Sequence[str]) -> float:
	start = time.perf_counter()
	subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False)
	return time.perf_counter() - start


def cold(kind: str) -> Line:
	ours, baseline = side_by_side(seconds, [sys.executable, SCRIPT, str(CONFIGS[kind])], BASELINE)
	print(f"       cold, {kind}: {ours * 1000:.0f} ms, import argparse, json, yaml: {baseline * 1000:.0f} ms")
	return Line(f"validate, cold, {kind}", ours / baseline, "times python -c 'import argparse, json, yaml'", 2.5)


def against_the_library(python: str) -> Line:
	with tempfile.TemporaryDirectory() as folder:
		config = Path(folder) / "config.yaml"
		config.write_text(REFUSED, encoding="utf-8")
		launch = [python, "-m", "accelerate.commands.launch", "--config_file", str(config), "train.py"]
		ours, real = side_by_side(seconds, [python, SCRIPT, str(config)], launch, 3)
	print(f"       ours: {ours * 1000:.0f} ms, accelerate launch up to its refusal: {real * 1000:.0f} ms")
	return Line("faster than asking the real library", real / ours, "times", 25, at_least=True)


def timed(call: Callable[[], object], calls: int) -> float:
	"""The median milliseconds of CPU time that a call takes; other programs' turns are not counted."""
	found = []
	for _ in range(calls):
		start = time.process_time()
		call()
		found.append((time.process_time() - start) * 1000)
	return statistics.median(found)


def warm(kind: str, calls: int) -> list[Line]:
	"""A typical config again and again in one process, and how time grows with the size of a file."""
	from distributed_training_backends import api

	options = api.Options(targets=api.default_targets())
	path = CONFIGS[kind]
	text = path.read_text(encoding="utf-8")
	typical = timed(lambda: api.validate_text(text, options, path.name), calls)
	small, big = (LARGE[kind](entries) for entries in SIZES)
	times = [timed(lambda given=given: api.validate_text(given, options, path.name), 5) for given in (small, big)]  # type: ignore[misc]
	growth = times[1] / times[0] / (SIZES[1] / SIZES[0])
	return [
		Line(f"validate, warm, typical {kind} config", typical, "ms", 3),
		Line(f"growth from {SIZES[0]:,} to {SIZES[1]:,} {kind} entries, by entry", growth, "times", 1.5),
	]


def large_accelerate(entries: int) -> str:
	lines = [f"  fsdp_unknown_{number}: {number}" for number in range(entries)]
	return "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n" + "\n".join(lines) + "\n"


def large_deepspeed(entries: int) -> str:
	block = {"stage": 2, **{f"unknown_{number}": number for number in range(entries)}}
	return json.dumps({"train_batch_size": 8, "zero_optimization": block}, indent=1)


SIZES = (2_000, 8_000)
LARGE = {"Accelerate": large_accelerate, "DeepSpeed": large_deepspeed}


def memory(kind: str) -> Line:
	probe = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], capture_output=True);"
	probe += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
	command = [sys.executable, "-c", probe, sys.executable, SCRIPT, str(CONFIGS[kind])]
	kilobytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
	unit = 1 if sys.platform == "darwin" else 1024
	return Line(f"peak memory of the script, {kind}", kilobytes * unit / MIB, "MiB", 40)


def diagnosis() -> list[Line]:
	"""Logs of one and of sixty-four megabytes: a training loop of eight ranks, and a failure at its end."""
	from distributed_training_backends import api

	line = b"[rank%d]: step %d loss 2.01 lr 3.0e-05 tokens/s 1234.5 memory 34.5 GB"
	part = b"\n".join(line % (number % 8, number) for number in range(3_700)) + b"\n"  # a quarter of a megabyte
	end = (
		b"[rank3]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
	)

	def diagnose(megabytes: int) -> None:
		api.diagnose(itertools.chain(itertools.repeat(part, 4 * megabytes), [end]))

	diagnose(1)
	small, big = timed(lambda: diagnose(1), 5), timed(lambda: diagnose(64), 1)
	growth = big / small / 64
	return [
		Line("diagnose a log of 1 MB", small, "ms", 500),
		Line("growth to 64 MB, by megabyte", growth, "times", 1.5),
	]


def main() -> int:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--oracle-python", help="an interpreter that has accelerate")
	arguments = parser.parse_args()
	lines = [line for kind in CONFIGS for line in (cold(kind), *warm(kind, 200), memory(kind))]
	if arguments.oracle_python:
		lines.append(against_the_library(arguments.oracle_python))
	lines += diagnosis()
	lines += bench_mcp.lines()
	print(*lines, sep="\n")
	return int(not all(line.kept for line in lines))


if __name__ == "__main__":
	raise SystemExit(main())
