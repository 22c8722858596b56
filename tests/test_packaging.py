"""Wheel, editable install, bare copy and link: each gives the same answers with nothing but PyYAML at hand.

What installs packages runs only with DTB_PACKAGING=1, as the gate sets it, on every Python from 3.10 on that is found.
"""

import email
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed_training_backends.about import NAME, VERSION

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "distributed_training_backends"
TOUR = ROOT / "tests" / "cases" / "tour"
ASKED = ("accelerate.yaml", "ds_zero3.json", "--verbose")
OLDEST = (3, 10)
installs = pytest.mark.skipif(not os.environ.get("DTB_PACKAGING"), reason="installs packages; DTB_PACKAGING=1 runs it")


def run(*command: str | Path, cwd: Path = TOUR) -> subprocess.CompletedProcess[str]:
    """Run a program with the settings of Python's own left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False)


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
    done = run(sys.executable, "-m", "pip", "--python", python, *arguments, "--quiet")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def expected() -> str:
    return answer(sys.executable, ROOT / "scripts" / "validate_backend_config.py")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    assert done.returncode == 0, done.stderr
    (path,) = folder.iterdir()
    return path


@pytest.fixture(
    scope="session",
    params=list(interpreters()) if os.environ.get("DTB_PACKAGING") else [sys.executable],
    ids=lambda path: Path(path).name if path != sys.executable else "this",
)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has PyYAML and nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    done = run(request.param, "-m", "venv", "--without-pip", folder)
    assert done.returncode == 0, done.stderr
    executable = folder / "bin" / "python"
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
    """What is in a copy, apart from the bytecode that Python keeps."""
    return sorted(path for path in copy.resolve().rglob("*") if "__pycache__" not in path.parts)


def distributions(python: Path) -> set[str]:
    code = "import importlib.metadata as m; print(*{d.metadata['Name'] for d in m.distributions()}, sep=chr(10))"
    return set(run(python, "-c", code).stdout.split())


def test_the_release_is_the_same_everywhere() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'name = "{NAME}"' in (ROOT / "pyproject.toml").read_text("utf-8")


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
    assert {f"{PACKAGE}/SKILL.md", f"{PACKAGE}/data/targets.json", f"{PACKAGE}/data/schemas/report.schema.json"} <= mine


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
        code = f"from {PACKAGE} import api; print(api.__file__)"
        assert str(python.parent.parent) in run(python, "-c", code, cwd=tmp_path).stdout
    finally:
        pip(python, "uninstall", "--yes", NAME)


@installs
def test_installed_as_editable(python: Path, expected: str, tmp_path: Path) -> None:
    pip(python, "install", "--no-deps", "--editable", ROOT)
    try:
        assert answer(python.with_name("validate-backend-config")) == expected
        code = f"from {PACKAGE} import api; print(api.__file__)"
        assert run(python, "-c", code, cwd=tmp_path).stdout.strip() == str(ROOT / "scripts" / PACKAGE / "api.py")
    finally:
        pip(python, "uninstall", "--yes", NAME)


@installs
def test_a_bare_copy_through_a_link(python: Path, copy: Path, expected: str) -> None:
    assert distributions(python) == {"PyYAML"}
    before = contents(copy)
    script = copy / "scripts" / "validate_backend_config.py"
    isolating = [("-P",), ("-P", "-I")] if "-P " in run(python, "--help").stdout else []
    for flags in [(), ("-I",), ("-W", "error", "-X", "dev"), *isolating]:
        assert answer(python, *flags, script) == expected
    assert contents(copy) == before


@installs
@pytest.mark.parametrize(
    "arguments",
    [
        ("--list-rules",),
        ("--explain", "ACC001"),
        ("--schema", "accelerate"),
        ("accelerate.yaml", "--diff"),
        ("accelerate.yaml", "--statistics"),
        *(("accelerate.yaml", "--output-format", name) for name in ("json", "sarif", "github")),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_bare_copy_can_do_everything(python: Path, copy: Path, arguments: tuple[str, ...]) -> None:
    script = ROOT / "scripts" / "validate_backend_config.py"
    here, there = (run(python, "-I", path, *arguments) for path in (script, copy / "scripts" / script.name))
    assert there.stdout
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


@installs
def test_the_reference_validator_of_skills_accepts_a_copy(copy: Path, tmp_path: Path) -> None:
    """It wants the folder to be named as the skill is, and Python 3.11."""
    new = "import sys; sys.exit(sys.version_info < (3, 11))"
    path = next(path for path in interpreters() if run(path, "-c", new).returncode == 0)
    assert run(path, "-m", "venv", "--without-pip", tmp_path / "venv").returncode == 0
    pip(tmp_path / "venv" / "bin" / "python", "install", "skills-ref")
    done = run(tmp_path / "venv" / "bin" / "agentskills", "validate", copy)
    assert done.returncode == 0, done.stdout + done.stderr
