"""The server from the wheel: the console command, uvx, pipx, a script with its own requirements, and the app.

Installs packages, so it runs only with DTB_PACKAGING=1, as the gate sets it.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.running import serving
from tests.manifests import COMMAND, ROOT, read, shown
from tests.mcp_calls import CLEAN
from tests.mcp_wire import wire
from tests.test_packaging import interpreters

from distributed_training_backends import skill
from distributed_training_backends.about import NAME

pytestmark = pytest.mark.skipif(
    not os.environ.get("DTB_PACKAGING"), reason="installs packages; DTB_PACKAGING=1 runs it"
)
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command], env=PLAIN, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (path,) = folder.iterdir()
    return path


def oldest_and_newest() -> list[str]:
    """The first and the last minor version of Python that there is; the same one twice counts once."""
    found: dict[tuple[int, ...], str] = {}
    for path in interpreters() if os.environ.get("DTB_PACKAGING") else [sys.executable]:
        code = "import sys; print(*sys.version_info[:2])"
        version = subprocess.run([path, "-c", code], capture_output=True, encoding="utf-8", check=True).stdout
        found[tuple(map(int, version.split()))] = path
    return list(dict.fromkeys([found[min(found)], found[max(found)]]))


@pytest.fixture(scope="module", params=oldest_and_newest(), ids=lambda path: Path(path).parent.parent.name)
def python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel and what its extras bring."""
    folder = tmp_path_factory.mktemp("venv")
    run(request.param, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{NAME}[mcp,team] @ file://{wheel}")
    return python


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with uv, uvx and pipx."""
    folder = tmp_path_factory.mktemp("tools")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv", "pipx")
    return folder / "bin"


def answers(command: Sequence[str | Path], folder: Path, **environment: str) -> dict[str, Any]:
    """Start a server, have it judge a config, and give the entry of its skill."""
    with wire([str(part) for part in command], cwd=folder, env={**PLAIN, **environment}) as server:
        server.start()
        assert server.call("validate_config", config=CLEAN)["verdict"] == "accepted"
        assert server.call("lookup_reference", query="FSD001")["total"] > 0
        (entry,) = server.ask("skills/list")["result"]["skills"]
    found: dict[str, Any] = entry
    return found


def test_the_command_serves_the_same_skill_as_the_checkout(python: Path, tmp_path: Path) -> None:
    entry = answers([python.with_name(COMMAND)], tmp_path)
    paths = [item["uri"].removeprefix(f"skill://{NAME}/") for item in entry["resources"]]
    assert sorted(paths) == sorted(skill.files())
    sizes = {item["uri"].removeprefix(f"skill://{NAME}/"): item["size"] for item in entry["resources"]}
    assert sizes == {path: len(skill.content(path)) for path in skill.files()}


def test_the_module_and_the_file_in_the_wheel_serve_too(python: Path, tmp_path: Path) -> None:
    answers([python, "-I", "-m", "distributed_training_backends.serve"], tmp_path)
    code = "from distributed_training_backends import serve; print(serve.part('command').__file__)"
    found = subprocess.run([python, "-c", code], env=PLAIN, capture_output=True, encoding="utf-8", check=True).stdout
    assert str(python.parent.parent) in found
    answers([python, Path(found.strip()).with_name("server.py")], tmp_path)


def test_the_app_of_the_wheel_is_served_by_workers(python: Path, tmp_path: Path) -> None:
    app = "distributed_training_backends.serve:app"
    command = [str(python), "-m", "uvicorn", app, "--port", "PORT", "--workers", "2"]
    with serving(command, cwd=tmp_path, env=PLAIN) as address:
        assert address


def test_uvx_starts_what_the_readme_shows(tools: Path, wheel: Path, tmp_path: Path) -> None:
    (entry,) = [entry for entry in shown() if entry.data.get("command") == "uvx"]
    command, source, spec, *rest = entry.words
    local = f"{spec.partition(' @ ')[0]} @ file://{wheel}"
    answers([tools / command, source, local, *rest], tmp_path, UV_CACHE_DIR=str(tmp_path / "cache"))


def test_pipx_starts_it(tools: Path, wheel: Path, tmp_path: Path) -> None:
    home = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_DEFAULT_PYTHON": sys.executable}
    answers([tools / "pipx", "run", "--spec", f"{NAME}[mcp] @ file://{wheel}", COMMAND], tmp_path, **home)


def test_uv_starts_the_file_with_what_it_needs(tools: Path, tmp_path: Path) -> None:
    start = read("manifest.json")["server"]["mcp_config"]
    arguments = [word.replace("${__dirname}", str(ROOT)) for word in start["args"]]
    answers([tools / start["command"], *arguments], tmp_path, UV_CACHE_DIR=str(tmp_path / "cache"))


def test_an_editable_install_runs_the_checkout(tmp_path: Path) -> None:
    """It also keeps a copy of the server as it was on that day, which must not be what runs."""
    run(sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", ROOT)
    code = "from distributed_training_backends import serve; print(serve.part('tool').__file__)"
    found = subprocess.run([python, "-c", code], env=PLAIN, capture_output=True, encoding="utf-8", check=True).stdout
    assert Path(found.strip()) == ROOT / "mcp_server" / "tool.py"
