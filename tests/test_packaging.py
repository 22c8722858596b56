"""Wheel, editable install, bare copy and link: each gives the same answers with nothing but PyYAML at hand.

So does the server from the wheel: the console command, uvx, pipx, a script with its own requirements, and the app.
What installs packages runs only with DTB_PACKAGING=1, as the gate sets it, on every Python from 3.10 on that is found.
"""

import email
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.running import serving
from tests.manifests import COMMAND, ROOT, read, shown
from tests.mcp_calls import TOUR
from tests.mcp_wire import skill_of

from distributed_training_backends import skill
from distributed_training_backends.about import NAME, VERSION

PACKAGE = "distributed_training_backends"
SCRIPT = ROOT / "scripts" / "validate_backend_config.py"
ASKED = ("accelerate.yaml", "ds_zero3.json", "--verbose")
OLDEST = (3, 10)
PACKAGING = os.environ.get("DTB_PACKAGING")
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
installs = pytest.mark.skipif(not PACKAGING, reason="installs packages; DTB_PACKAGING=1 runs it")


def run(*command: str | Path, cwd: Path = TOUR) -> subprocess.CompletedProcess[str]:
	environment = {**PLAIN, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
	return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False)


def output(*command: str | Path, cwd: Path = TOUR) -> str:
	done = run(*command, cwd=cwd)
	assert done.returncode == 0, done.stdout + done.stderr
	return done.stdout.strip()


def answer(*command: str | Path, cwd: Path = TOUR) -> str:
	"""What a way to start the program says about the bundled example."""
	done = run(*command, *ASKED, cwd=cwd)
	assert (done.returncode, done.stderr) == (1, "")
	return done.stdout


def tracked() -> list[Path]:
	"""The files of the project, those not yet added to git included."""
	command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
	done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
	if done.returncode:
		pytest.skip("this is no git checkout")
	return [Path(name) for name in done.stdout.decode().split("\0") if name and (ROOT / name).exists()]


def interpreters() -> Iterator[str]:
	"""Every minor version of Python that is on the path or that pyenv has, the running one first; each once."""
	home = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
	named = [shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], 20)]
	seen = set()
	for path in [sys.executable, *filter(None, named), *map(str, sorted(home.glob("versions/3.*/bin/python")))]:
		done = run(path, "-c", "import sys; print(*sys.version_info[:2])")
		version = tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()
		if version >= OLDEST and version not in seen:
			seen.add(version)
			yield path


def pip(python: Path, *arguments: str | Path) -> None:
	output(sys.executable, "-m", "pip", "--python", python, *arguments, "--quiet")


def venv(folder: Path, *options: str, base: str = sys.executable) -> Path:
	output(base, "-m", "venv", *(options or ("--without-pip",)), folder)
	return folder / "bin" / "python"


@pytest.fixture(scope="session")
def expected() -> str:
	return answer(sys.executable, SCRIPT)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
	folder = tmp_path_factory.mktemp("wheel")
	output(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
	(path,) = folder.iterdir()
	return path


PYTHONS = list(interpreters()) if PACKAGING else [sys.executable]


@pytest.fixture(scope="session", params=PYTHONS, ids=lambda path: Path(path).name if path != sys.executable else "this")
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
	"""A Python that has PyYAML and nothing else."""
	executable = venv(tmp_path_factory.mktemp("venv"), base=request.param)
	pip(executable, "install", "PyYAML")
	return executable


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
	"""The tree as an old installer leaves it, read-only and reached through a link; gives the link."""
	target, link = tmp_path / "store" / "copy", tmp_path / "skills" / NAME
	kept = [path for path in tracked() if not any(part.startswith("_") for part in path.parts)]
	for path in kept:
		if path.name != "README.md":
			(target / path).parent.mkdir(parents=True, exist_ok=True)
			shutil.copyfile(ROOT / path, target / path)
	folders = [path for path in (target, *target.rglob("*")) if path.is_dir()]
	for path in folders:
		path.chmod(stat.S_IRUSR | stat.S_IXUSR)
	link.parent.mkdir()
	link.symlink_to(target)
	yield link
	for path in folders:
		path.chmod(stat.S_IRWXU)


def contents(copy: Path) -> list[Path]:
	return sorted(path for path in copy.resolve().rglob("*") if "__pycache__" not in path.parts)


def distributions(python: Path) -> set[str]:
	code = "import importlib.metadata as m; print(*{d.metadata['Name'] for d in m.distributions()})"
	return set(output(python, "-c", code).split())


def place(python: Path, module: str, cwd: Path) -> str:
	return output(python, "-c", f"from {PACKAGE} import api, serve; print({module}.__file__)", cwd=cwd)


def test_every_script_is_named_for_the_wheel() -> None:
	project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
	scripts = sorted(path.name for path in (ROOT / "scripts").glob("*.py"))
	assert len(scripts) >= 3
	assert [name for name in scripts if f'"scripts/{name}" = "{PACKAGE}/scripts/{name}"' not in project] == []


@installs
def test_the_wheel_holds_one_package_with_everything_in_it(wheel: Path) -> None:
	with zipfile.ZipFile(wheel) as archive:
		names = archive.namelist()
	mine = {name for name in names if ".dist-info/" not in name}
	assert {name.split("/")[0] for name in mine} == {PACKAGE}
	core = {str(path.relative_to("scripts")) for path in tracked() if path.parts[:2] == ("scripts", PACKAGE)}
	inside = {f"{PACKAGE}/{path}" for path in tracked() if path.parts[0] in ("SKILL.md", "references", "mcp_server")}
	doors = {f"{PACKAGE}/{path}" for path in tracked() if path.parent == Path("scripts")}
	assert mine == core | inside | doors
	assert {
		f"{PACKAGE}/SKILL.md",
		f"{PACKAGE}/data/targets.json",
		f"{PACKAGE}/data/schemas/report.schema.json.gz",
	} <= mine


@installs
def test_the_wheel_needs_pyyaml_only(wheel: Path) -> None:
	with zipfile.ZipFile(wheel) as archive:
		(name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
		metadata = email.message_from_bytes(archive.read(name))
	assert (metadata["Name"], metadata["Version"]) == (NAME, VERSION)
	needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
	assert [line.split(">")[0] for line in needed] == ["pyyaml"]


@installs
def test_installed_from_the_wheel(wheel: Path, python: Path, expected: str, tmp_path: Path) -> None:
	pip(python, "install", wheel)
	try:
		assert distributions(python) == {"PyYAML", NAME}
		assert answer(python.with_name("validate-backend-config")) == expected
		assert answer(python, "-I", "-m", f"{PACKAGE}.cli") == expected
		assert str(python.parent.parent) in place(python, "api", tmp_path)
	finally:
		pip(python, "uninstall", "--yes", NAME)


@installs
def test_installed_as_editable(python: Path, expected: str, tmp_path: Path) -> None:
	pip(python, "install", "--no-deps", "--editable", ROOT)
	try:
		assert answer(python.with_name("validate-backend-config")) == expected
		assert place(python, "api", tmp_path) == str(ROOT / "scripts" / PACKAGE / "api.py")
	finally:
		pip(python, "uninstall", "--yes", NAME)


@installs
def test_a_bare_copy_through_a_link(python: Path, copy: Path, expected: str) -> None:
	assert distributions(python) == {"PyYAML"}
	before = contents(copy)
	script = copy / "scripts" / SCRIPT.name
	isolating = [("-P",), ("-P", "-I")] if "-P " in run(python, "--help").stdout else []
	for flags in [(), ("-I",), ("-W", "error", "-X", "dev"), *isolating]:
		assert answer(python, *flags, script) == expected
	assert contents(copy) == before


@installs
@pytest.mark.parametrize(
	"line",
	[
		*("--list-rules", "--explain ACC001", "--schema accelerate", "--help"),
		*("accelerate.yaml --diff", "accelerate.yaml --statistics"),
		*(f"accelerate.yaml --output-format {name}" for name in ("json", "sarif", "github")),
	],
)
def test_a_bare_copy_can_do_everything(python: Path, copy: Path, line: str) -> None:
	here, there = (run(python, "-I", path, *line.split()) for path in (SCRIPT, copy / "scripts" / SCRIPT.name))
	assert there.stdout
	assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


@installs
def test_the_reference_validator_of_skills_accepts_a_copy(copy: Path, tmp_path: Path) -> None:
	new = "import sys; sys.exit(sys.version_info < (3, 11))"
	path = next(path for path in PYTHONS if run(path, "-c", new).returncode == 0)
	python = venv(tmp_path / "venv", base=path)
	pip(python, "install", "skills-ref")
	output(python.with_name("agentskills"), "validate", copy)


def minor(path: str) -> tuple[int, ...]:
	return tuple(map(int, output(path, "-c", "import sys; print(*sys.version_info[:2])").split()))


@pytest.fixture(
	scope="session",
	params=sorted({min(PYTHONS, key=minor), max(PYTHONS, key=minor)}),
	ids=lambda path: Path(path).parent.parent.name,
)
def complete(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
	"""The oldest and the newest Python, with the wheel and what its extras bring."""
	python = venv(tmp_path_factory.mktemp("venv"), base=request.param)
	pip(python, "install", f"{NAME}[mcp,team] @ file://{wheel}")
	return python


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
	"""A folder with uv, uvx and pipx."""
	python = venv(tmp_path_factory.mktemp("tools"))
	pip(python, "install", "uv", "pipx")
	return python.parent


def answers(command: Sequence[str | Path], folder: Path, **environment: str) -> dict[str, Any]:
	return skill_of(command, cwd=folder, env={**PLAIN, **environment})


@installs
def test_the_command_serves_the_same_skill_as_the_checkout(complete: Path, tmp_path: Path) -> None:
	entry = answers([complete.with_name(COMMAND)], tmp_path)
	assert len(entry["resources"]) == len(skill.files())
	sizes = {item["uri"].removeprefix(f"skill://{NAME}/"): item["size"] for item in entry["resources"]}
	assert sizes == {path: len(skill.content(path)) for path in skill.files()}


@installs
def test_the_module_and_the_file_in_the_wheel_serve_too(complete: Path, tmp_path: Path) -> None:
	answers([complete, "-I", "-m", f"{PACKAGE}.serve"], tmp_path)
	found = place(complete, "serve.part('command')", tmp_path)
	assert str(complete.parent.parent) in found
	answers([complete, Path(found).with_name("server.py")], tmp_path)


@installs
def test_the_app_of_the_wheel_is_served_by_workers(complete: Path, tmp_path: Path) -> None:
	command = [str(complete), "-m", "uvicorn", f"{PACKAGE}.serve:app", "--port", "PORT", "--workers", "2"]
	with serving(command, cwd=tmp_path, env=PLAIN) as address:
		assert address


@installs
def test_uvx_starts_what_the_readme_shows(tools: Path, wheel: Path, tmp_path: Path) -> None:
	(entry,) = [entry for entry in shown() if entry.data.get("command") == "uvx"]
	command, source, spec, *rest = entry.words
	local = f"{spec.partition(' @ ')[0]} @ file://{wheel}"
	answers([tools / command, source, local, *rest], tmp_path, UV_CACHE_DIR=str(tmp_path / "cache"))


@installs
def test_pipx_starts_it(tools: Path, wheel: Path, tmp_path: Path) -> None:
	home = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_DEFAULT_PYTHON": sys.executable}
	answers([tools / "pipx", "run", "--spec", f"{NAME}[mcp] @ file://{wheel}", COMMAND], tmp_path, **home)


@installs
def test_uv_starts_the_file_with_what_it_needs(tools: Path, tmp_path: Path) -> None:
	start = read("manifest.json")["server"]["mcp_config"]
	arguments = [word.replace("${__dirname}", str(ROOT)) for word in start["args"]]
	answers([tools / start["command"], *arguments], tmp_path, UV_CACHE_DIR=str(tmp_path / "cache"))


@installs
def test_an_editable_install_runs_the_checkout(tmp_path: Path) -> None:
	python = venv(tmp_path / "venv", "--system-site-packages")
	output(python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", ROOT)
	assert place(python, "serve.part('tool')", tmp_path) == str(ROOT / "mcp_server" / "tool.py")
