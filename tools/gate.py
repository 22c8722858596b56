"""The heavier checks, after the README's test command: what .ci/run runs last.

    python tools/gate.py [--skip STEP ...]

Each step is a program of its own; a line says how long it took. The agreement with the real libraries has floors: no
error for a real file that the newest libraries accept, 97 % for each release, 95 % for each kind of mutation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NEWEST_RELEASES = "3"
PROPERTY_EXAMPLES = "800"
SAMPLE = 30
FLOORS = {"release": 0.97, "group": 0.95}


class Step(NamedTuple):
    """One check: a program, the environment variables that it needs, and whether it may fail the gate."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = {}
    decides: bool = True


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
    """All steps, the quick ones first."""
    python, downloads = sys.executable, str(home / "releases")
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
        Step(
            "properties",
            [python, "-m", "pytest", "-n", "2", *property_tests()],
            {"DTB_EXAMPLES": PROPERTY_EXAMPLES},
        ),
        Step("budgets", [python, "tools/bench.py"], decides=False),
        Step("oracle's interpreter", [python, "-m", "tests.oracle.environment"], oracle),
        Step("oracle's own tests", [python, "-m", "pytest", "tests/oracle"], oracle),
        Step("liveness", [python, "-m", "tests.oracle.liveness", "--quick"], oracle, decides=False),
        Step("agreement", [python, "-m", "tests.oracle.agreement"], oracle, decides=False),
        Step("agreement, floors", [python, "tools/gate.py", "--floors", oracle["DTB_ORACLE_HOME"]]),
    ]


def property_tests() -> list[str]:
    """The test files that draw examples."""
    return sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").glob("test_*.py")
        if "from hypothesis" in path.read_text(encoding="utf-8")
    )


def run(step: Step) -> bool:
    """Run a step, and say how long it took."""
    print(f"--- {step.name}", flush=True)
    start = time.monotonic()
    status = subprocess.run(step.command, cwd=ROOT, env={**os.environ, **step.environment}, check=False).returncode
    good = status == 0 or not step.decides
    word = "passed" if status == 0 else "FAILED" if step.decides else "differs (does not decide)"
    print(f"--- {step.name}: {word} in {time.monotonic() - start:.0f} s", flush=True)
    return good


def below_floors(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the agreement falls short of."""
    counted = [row for row in rows if row["outcome"] != "left out" and is_main(row)]
    for row in counted:
        if row["group"] == "corpus" and row["outcome"] == "false error" and row["release"] in newest(rows):
            yield f"an error for {row['case']}, which {row['library']} {row['release']} accepts"
    yield from low(counted, "release", lambda row: f"{row['library']} {row['release']}")
    yield from low([row for row in counted if row["group"] not in ("corpus", "own")], "group", lambda row: row["group"])


def is_main(row: Mapping[str, Any]) -> bool:
    """Rows that count for a case as a whole, not for one of the readers of a DeepSpeed file."""
    return bool(row["kind"] != "deepspeed" or row["reader"] == "any reader")


def newest(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The newest release of each library that was compared."""
    found: dict[str, str] = {}
    for row in rows:
        best = found.get(row["library"], "0")
        found[row["library"]] = max(best, row["release"], key=lambda text: [int(part) for part in text.split(".")])
    return set(found.values())


def low(rows: Sequence[Mapping[str, Any]], kind: str, name: Callable[[Mapping[str, Any]], str]) -> Iterator[str]:
    """The groups of at least SAMPLE comparisons whose agreement is below the floor."""
    every, agreed = Counter(map(name, rows)), Counter(name(row) for row in rows if row["outcome"] == "agree")
    for group, count in every.items():
        if count >= SAMPLE and agreed[group] / count < FLOORS[kind]:
            yield f"{group}: {agreed[group]} of {count} agree, less than {FLOORS[kind]:.0%}"


def check_floors(home: str) -> int:
    """Hold the last comparison against the floors."""
    path = Path(home) / "agreement" / "agreement.json"
    if not path.is_file():
        print("there is no comparison to look at")
        return 1
    problems = list(below_floors(json.loads(path.read_text(encoding="utf-8"))))
    print(*(problems or ["every release and every kind of mutation is above its floor"]), sep="\n")
    return int(bool(problems))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip", action="append", default=[], metavar="STEP", help="leave a step out")
    parser.add_argument("--floors", metavar="HOME", help="only hold the comparison in HOME against the floors")
    arguments = parser.parse_args()
    if arguments.floors:
        return check_floors(arguments.floors)
    chosen = [step for step in steps(cache()) if step.name not in arguments.skip]
    results = [run(step) for step in chosen]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return int(not all(results))


if __name__ == "__main__":
    raise SystemExit(main())
