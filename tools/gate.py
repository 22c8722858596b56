"""The heavier checks, after the README's test command: what .ci/run runs last.

    python tools/gate.py [--skip STEP ...]

Each step is a program of its own; a line says how long it took. All together end when DTB_UNTIL says (seconds since
1970, set by .ci/run), or else after MINUTES: a step that is still at work then is ended, told, and not counted, for a
machine with empty caches may not get to it. What compares
with the real libraries for as long as there is time gets all that the steps after it will not need.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MINUTES = 24
LEFT = "<minutes left>"  # stands for a number in the command of a step
OUT_OF_TIME = 124
WRAP_UP = 60  # seconds in which a step that was told how long it has must come to its end
NEWEST_RELEASES = "3"
PROPERTY_EXAMPLES = 20_000
FIXES_SEED = "4711"  # the gate must not depend on luck; other seeds are for hunting


class Step(NamedTuple):
	"""One check: a program, the environment variables that it needs, and whether it may fail the gate.

	`needs` are the seconds that are kept for a step behind one that takes all the time there is.
	"""

	name: str
	command: Sequence[str]
	environment: Mapping[str, str] = {}
	decides: bool = True
	needs: float = 0


def cache() -> Path:
	"""Where downloads and the oracle's interpreter are kept between runs; in the checkout if nowhere else."""
	wanted = os.environ.get("DTB_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
	folder = Path(wanted) / "distributed-training-backends"
	try:
		folder.mkdir(parents=True, exist_ok=True)
	except OSError:
		return ROOT / ".cache"
	return folder if os.access(folder, os.W_OK) else ROOT / ".cache"


def steps(home: Path) -> list[Step]:
	"""All steps; those that ask the real libraries come last, because they can make do with less time."""
	python, downloads = sys.executable, str(home / "releases")
	drawing, examples = property_tests()
	oracle = {"DTB_ORACLE_HOME": os.environ.get("DTB_ORACLE_HOME", str(home / "oracle")), "DTB_ORACLE": "1"}
	extract = [
		Step(
			f"extraction of {name}",
			[python, f"tools/extract_{name}.py", "--check", "--newest", NEWEST_RELEASES, "--cache", downloads],
		)
		for name in ("accelerate", "deepspeed", "transformers")
	]
	return [
		Step("generated blocks", [python, "tools/generate_blocks.py", "--check"]),
		*extract,
		Step("packaging", [python, "-m", "pytest", "tests/test_packaging.py"], {"DTB_PACKAGING": "1"}),
		# Conformance, Inspector and installers; Node and its programs are kept between runs
		Step(
			"MCP and skill with Node",
			[python, "-m", "pytest", "tests/conformance"],
			{"DTB_NODE": "1", "DTB_NODE_HOME": str(home / "node")},
		),
		Step("properties", [python, "-m", "pytest", "-n", "2", *drawing], {"DTB_EXAMPLES": str(examples)}),
		Step("oracle's interpreter", [python, "-m", "tests.oracle.environment"], oracle),
		# Times of a shared machine prove nothing, so that they are printed and do not decide
		Step(
			"budgets",
			[python, "tools/bench.py", "--oracle-python", f"{oracle['DTB_ORACLE_HOME']}/bin/python"],
			decides=False,
		),
		Step("oracle's own tests", [python, "-m", "pytest", "tests/oracle"], oracle),
		Step("what takes effect", [python, "-m", "tests.oracle.effective", "--cases", "80"], oracle),
		Step("upgrades", [python, "-m", "tests.oracle.upgrades", "--quick"], oracle),
		Step("liveness", [python, "-m", "tests.oracle.liveness", "--quick"], oracle),
		Step("conversions", [python, "-m", "tests.oracle.conversions", "--count", "12"], oracle),
		Step("triage", [python, "-m", "tests.oracle.triage", "--minutes", "1.2"], oracle),
		Step("agreement", [python, "-m", "tests.oracle.agreement", "--minutes", LEFT], oracle),
		# Behind the agreement, whose answers it uses
		Step(
			"safe fixes",
			[python, "-m", "tests.oracle.fixes", "--mutants", "5", "--seed", FIXES_SEED],
			oracle,
			needs=180,
		),
	]


def property_tests() -> tuple[list[str], int]:
	texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("test_*.py"))}
	counts = {str(path.relative_to(ROOT)): text.count("\n@given(") for path, text in texts.items()}
	return [name for name, count in counts.items() if count], -(-PROPERTY_EXAMPLES // sum(counts.values()))


def deadline() -> float:
	until = os.environ.get("DTB_UNTIL")
	return time.monotonic() + (float(until) - time.time() if until else 60 * MINUTES)


def run(step: Step, until: float, later: float = 0) -> bool:
	"""Run a step, and say how long it took; `later` are the seconds that the steps behind it need."""
	print(f"--- {step.name}", flush=True)
	start = time.monotonic()
	minutes = max(0, until - start - later - WRAP_UP) / 60
	command = [f"{minutes:.1f}" if part == LEFT else part for part in step.command]
	status = status_of(command, {**os.environ, **step.environment}, until - start)
	good = status in (0, OUT_OF_TIME) or not step.decides
	word = "passed" if status == 0 else f"status {status}, not counted" if good else f"FAILED (status {status})"
	print(f"--- {step.name}: {word} in {time.monotonic() - start:.0f} s", flush=True)
	return good


def status_of(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> int:
	"""Run a program, and end it with all that it has started when it takes too long (with the status of `timeout`)."""
	process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
	try:
		return process.wait(max(0, seconds))
	except subprocess.TimeoutExpired:
		print("out of time", flush=True)
		return OUT_OF_TIME
	finally:
		if process.poll() is None:
			os.killpg(process.pid, signal.SIGKILL)
			process.wait()


def main() -> int:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--skip", action="append", default=[], metavar="STEP", help="leave a step out")
	arguments = parser.parse_args()
	until = deadline()
	todo = [step for step in steps(cache()) if step.name not in arguments.skip]
	needs = [step.needs for step in todo]
	results = [run(step, until, sum(needs[number + 1 :])) for number, step in enumerate(todo)]
	print(f"{results.count(True)} passed, {results.count(False)} failed")
	return int(not all(results))


if __name__ == "__main__":
	raise SystemExit(main())
