"""What installers make of the repository: the skills CLI, from a clone, for three agents; the bundle for desktops.

Set DTB_NODE=1 to run; it needs Node.
"""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import gated
from tests.conformance import node
from tests.mcp_calls import CLEAN
from tests.mcp_wire import wire

from distributed_training_backends.about import NAME

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ("claude-code", "codex", "cursor")
MOST = 3 * 1024 * 1024
# By package of tests/conformance/package.json: the newest CLI, and the one that npx takes on Node 18 and 20.
INSTALLERS = ("skills", "skills-node-20")
pytestmark = gated.node


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
	"""A repository with the files as they are now, committed or not."""
	node.prepare()
	folder = tmp_path_factory.mktemp("origin") / "any-name"
	listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
	for name in filter(None, listed):
		if (ROOT / name).exists():
			(folder / name).parent.mkdir(parents=True, exist_ok=True)
			shutil.copyfile(ROOT / name, folder / name)
	git("init", "--quiet", cwd=folder)
	git("add", "--all", cwd=folder)
	git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "all", cwd=folder)
	return folder


def git(*arguments: str, cwd: Path) -> str:
	done = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, encoding="utf-8", check=True)
	return done.stdout


def nodes(package: str) -> Iterator[str]:
	wanted = json.loads((node.home() / "node_modules" / package / "package.json").read_text("utf-8"))["engines"]["node"]
	least = tuple(int(part) for part in wanted.removeprefix(">=").split("."))
	for found in filter(None, [shutil.which("node")]):
		version = subprocess.run([found, "--version"], capture_output=True, encoding="utf-8", check=True).stdout
		if tuple(int(part) for part in version.strip().removeprefix("v").split(".")) >= least:
			yield found
	yield str(node.folder_of_node() / "node")


@pytest.fixture(scope="module", params=INSTALLERS)
def project(request: pytest.FixtureRequest, clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
	"""A project into which the skill has been installed, for all three agents."""
	folder = tmp_path_factory.mktemp(request.param)
	script = node.program(request.param, "skills")[1]
	command = [next(nodes(request.param)), script, "add", f"file://{clone}", "-a", *AGENTS, "-y"]
	done = node.run(*command, cwd=folder, HOME=str(folder / "home"))
	assert done.status == 0, done.out + done.err
	return folder


@pytest.fixture(params=[".agents/skills", ".claude/skills"])
def installed(request: pytest.FixtureRequest, project: Path) -> Path:
	"""The skill where agents look for it: Codex and Cursor in the first folder, Claude Code in the second."""
	where: str = request.param
	return project / where / NAME


def test_the_skill_is_where_each_agent_looks(installed: Path) -> None:
	assert (installed / "SKILL.md").read_bytes() == (ROOT / "SKILL.md").read_bytes()
	assert [path.name for path in installed.parent.iterdir()] == [NAME]


def test_there_is_one_skill_and_it_is_small(installed: Path) -> None:
	files = [path for path in installed.resolve().rglob("*") if path.is_file() and ".git" not in path.parts]
	assert [path for path in files if path.name.lower() == "skill.md"] == [installed.resolve() / "SKILL.md"]
	assert sum(path.stat().st_size for path in files) < MOST


def test_scripts_run_from_another_directory(installed: Path, tmp_path: Path) -> None:
	(tmp_path / "config.yaml").write_text("distributed_type: multi_gpu\nnum_processes: 2\n")
	for script, arguments, status, said in (
		("validate_backend_config.py", ["config.yaml"], 1, "error["),
		("diagnose_failure.py", ["--symptom", "hang"], 0, "check:"),
		("convert_backend_config.py", ["--to", "launch", "config.yaml"], 1, "multi_gpu"),
		("lookup_reference.py", ["FSD001"], 0, "references/rules/fsdp.md#fsd001"),
	):
		done = node.run(sys.executable, "-I", installed / "scripts" / script, *arguments, cwd=tmp_path)
		assert (done.status, said in done.out + done.err) == (status, True), done.out + done.err


def test_the_server_runs_from_another_directory(installed: Path, tmp_path: Path) -> None:
	with wire([sys.executable, "-I", str(installed / "mcp_server" / "server.py")], cwd=tmp_path) as server:
		server.start()
		assert server.call("validate_config", config=CLEAN)["verdict"] == "accepted"


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> str:
	"""The validator of the specification, which needs Python 3.11."""
	python = next((found for minor in (11, 12, 13, 14) if (found := shutil.which(f"python3.{minor}"))), sys.executable)
	folder = tmp_path_factory.mktemp("skills-ref")
	commands: list[list[str | Path]] = [
		[python, "-m", "venv", folder],
		[folder / "bin" / "python", "-m", "pip", "install", "--quiet", "skills-ref"],
	]
	for command in commands:
		done = node.run(*command)
		assert done.status == 0, done.err
	return str(folder / "bin" / "agentskills")


def test_the_specification_accepts_what_is_installed(installed: Path, validator: str) -> None:
	done = node.run(validator, "validate", installed)
	assert done.status == 0, done.out + done.err


def test_the_bundle_for_desktops_starts(clone: Path, tmp_path: Path) -> None:
	program = node.program("@anthropic-ai/mcpb", "mcpb")
	assert node.run(*program, "validate", clone / "manifest.json").status == 0
	done = node.run(*program, "pack", clone, tmp_path / "server.mcpb")
	assert done.status == 0, done.out + done.err
	with zipfile.ZipFile(tmp_path / "server.mcpb") as bundle:
		names = bundle.namelist()
		bundle.extractall(tmp_path / "unpacked")
	assert not [name for name in names if name.startswith(("tests/", "tools/", ".git/")) or "__pycache__" in name]
	start = json.loads((tmp_path / "unpacked" / "manifest.json").read_text("utf-8"))["server"]["entry_point"]
	with wire([sys.executable, str(tmp_path / "unpacked" / start)], cwd=tmp_path) as server:
		server.start()
		assert server.call("validate_config", config=CLEAN)["verdict"] == "accepted"
