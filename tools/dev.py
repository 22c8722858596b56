"""Set up and run the project on a machine that has nothing but Python and git.

    python3 tools/dev.py try      validate a bundled example
    python3 tools/dev.py test     run the tests, the type checker and the linter
    python3 tools/dev.py oracle   compare with the real libraries (downloads about 2 GB once; see tests/oracle)
    python3 tools/dev.py bench    measure against the budgets, side by side
    python3 tools/dev.py gate     the heavier checks of .ci/run

Everything is installed into `.venv` (and `.oracle`) in this folder. Further arguments go to the program that is run.
"""

import hashlib
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("DTB_VENV", ROOT / ".venv"))
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
EXAMPLE = "tests/cases/tour"
PROGRAMS = {"oracle": ["-m", "tests.oracle.agreement"], "bench": ["tools/bench.py"], "gate": ["tools/gate.py"]}


def main(argv: Sequence[str]) -> int:
	if sys.version_info < (3, 10):  # noqa: UP036 - whoever has an older Python is told so
		print(f"needs Python 3.10 or newer, this is {sys.version.split()[0]}")
		return 2
	if not argv or argv[0] not in ("try", "test", *PROGRAMS):
		print(__doc__)
		return 2
	prepare()
	job, *arguments = argv
	if job in PROGRAMS:
		return run([str(PYTHON), *PROGRAMS[job], *arguments])
	return test(arguments) if job == "test" else try_it(arguments)


def prepare() -> None:
	"""Create `.venv` with the project and its test tools; again only when pyproject.toml has changed."""
	stamp = VENV / "stamp"
	wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode()).hexdigest()
	if stamp.is_file() and stamp.read_text() == wanted:
		return
	print(f"setting up {VENV} (once)", flush=True)
	venv.create(VENV, with_pip=True, clear=True)
	run([str(PYTHON), "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[test]"], check=True)
	stamp.write_text(wanted)


def run(command: Sequence[str], check: bool = False) -> int:
	return subprocess.run(command, cwd=ROOT, check=check).returncode


def try_it(arguments: list[str]) -> int:
	script = "scripts/validate_backend_config.py"
	status = run([str(PYTHON), script, *(arguments or [EXAMPLE])])
	return status if arguments else int(status != 1)


def test(arguments: list[str]) -> int:
	"""Run everything that needs neither network nor the real libraries."""
	if arguments:
		return run([str(PYTHON), "-m", "pytest", *arguments])
	checks = [
		["-m", "ruff", "check", "."],
		["-m", "ruff", "format", "--check", "."],
		["-m", "mypy"],
		["tools/generate_rule_pages.py", "--check"],
		["tools/generate_api_reference.py", "--check"],
		["tools/generate_config_keys.py", "--check"],
		["tools/generate_versions.py", "--check"],
		["-m", "pytest", "-n", "auto"],
	]
	return max(run([str(PYTHON), *check]) for check in checks)


if __name__ == "__main__":
	sys.exit(main(sys.argv[1:]))
