"""How the code hangs together: who may import whom, what stays at the edge, and how long things may get."""

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "scripts" / "distributed_training_backends"
PACKAGE = "distributed_training_backends"

MODEL = ("about", "model", "model_convert", "model_diagnose", "model_effective", "model_lookup", "model_triage")
# From the bottom up; a module may import from its own layer and from those above it in this list.
LAYERS = (
	(*MODEL, "versions"),
	("resources",),
	("knowledge",),
	("sources",),
	("flow",),
	("rules",),
	(
		*("validate", "linking", "consumers", "edits", "effects", "fix", "schemas", "skill", "triage", "diagnose"),
		*("lookup", "convert"),
	),
	("render",),
	("installed",),
	("api",),
	("mending",),
	(
		"cli_common",
		"cli_parser",
		"cli_run",
		"cli_rules",
		"cli_fix",
		"cli_lookup",
		"cli_convert",
		"cli_diagnose",
		"cli_triage_facts",
		"cli_trace_worker",
		"cli_trace",
		"cli_triage",
		"cli",
		"serve",
	),
)
ONLY_FOR_RENDER = {*MODEL, "render"}
# Third parties, and the only places that may know them; scripts/ and tools/ know none.
THIRD_PARTIES = {
	"yaml": re.compile(r"sources/yaml\w*\.py"),
	"markdown_it": re.compile(r"/lookup/sections\.py$"),
	**dict.fromkeys(("torch", "transformers", "peft"), re.compile(r"/cli_trace_worker\.py$")),
	**dict.fromkeys(("anyio", "mcp", "pydantic", "starlette", "uvicorn"), re.compile(r"^mcp_server/\w+\.py")),
}
# It measures a model in an interpreter of its own, with a time limit.
MAY_RUN_PROGRAMS = "scripts/distributed_training_backends/cli_trace.py"
MAINTAINERS_MAY_USE = {"yaml", "jsonschema", "packaging", "pip"}
LIMITS = {"median": 12, "ninety in a hundred": 40, "longest": 80, "module": 400, "bytes": 3 * 1024 * 1024}


@cache
def tracked() -> tuple[str, ...]:
	done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
	if done.returncode:
		pytest.skip("this is no git checkout")
	return tuple(name for name in done.stdout.decode().split("\0") if name and (ROOT / name).exists())


def python_files(*folders: str) -> list[Path]:
	return [ROOT / name for name in tracked() if name.endswith(".py") and name.startswith(folders)]


@cache
def tree_of(path: Path) -> ast.Module:
	return ast.parse(path.read_text("utf-8"))


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
	for node in ast.walk(tree_of(path)):
		if isinstance(node, ast.Import):
			yield from ((alias.name, "") for alias in node.names)
		elif isinstance(node, ast.ImportFrom):
			yield from ((absolute(path, node) or alias.name, alias.name) for alias in node.names)


def absolute(path: Path, node: ast.ImportFrom) -> str:
	"""The whole name of the module that is imported from.

	In the core and in the server, which is one package in a checkout and another in a wheel, modules know each other
	by place.
	"""
	if not node.level:
		return node.module or ""
	if path.parent.name == "mcp_server":
		assert node.level == 1, f"{path}: the server knows the core by its name"
		return node.module or ""
	inside = path.relative_to(CORE.parent).parts[: -node.level]
	return ".".join([*inside, *([node.module] if node.module else [])])


def parts_imported(path: Path) -> Iterator[str]:
	for module, name in imports_of(path):
		if module == PACKAGE:
			yield name
		elif module.startswith(PACKAGE + "."):
			yield module.split(".")[1]


def part_of(path: Path) -> str:
	return path.relative_to(CORE).parts[0].removesuffix(".py")


def layer_of(part: str) -> int:
	return next((number for number, parts in enumerate(LAYERS) if part in parts), len(LAYERS))


def core_files() -> list[Path]:
	return python_files(f"scripts/{PACKAGE}/")


def test_every_part_of_the_core_has_its_layer() -> None:
	assert sorted({part_of(path) for path in core_files()} - {part for parts in LAYERS for part in parts}) == []


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(CORE)))
def test_imports_point_downwards(path: Path) -> None:
	part = part_of(path)
	allowed = (
		ONLY_FOR_RENDER
		if part == "render"
		else {name for parts in LAYERS[: layer_of(part) + 1] for name in parts} - {"render"}
	)
	if part.startswith("cli"):
		allowed = allowed | {"render"}
	assert set(parts_imported(path)) <= allowed


def test_third_parties_stay_at_the_edge() -> None:
	strangers = []
	for path in python_files("scripts/", "tools/", "mcp_server/"):
		name = path.relative_to(ROOT).as_posix()
		for module, _ in imports_of(path):
			top = module.split(".")[0]
			local = (path.parent / f"{top}.py").exists() or top in (PACKAGE, "tools", "mcp_server")
			if top in sys.stdlib_module_names or local:
				continue
			edge = THIRD_PARTIES.get(top)
			if (name.startswith("tools/") and top in MAINTAINERS_MAY_USE) or (edge and edge.search(name)):
				continue
			strangers.append(f"{name}: {module}")
	assert strangers == []


def test_only_the_command_line_prints_and_reads_the_environment() -> None:
	forbidden = {"sys.argv", "sys.stdout", "sys.stderr", "sys.stdin", "os.environ", "os.getenv"}
	found = []
	for path in core_files():
		if part_of(path).startswith("cli"):
			continue
		for node in ast.walk(tree_of(path)):
			called = (
				isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input")
			)
			read = isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden
			if called or read:
				found.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")  # type: ignore[attr-defined]
	assert found == []


def test_nothing_runs_programs_or_opens_connections() -> None:
	found = [
		f"{path.relative_to(ROOT)}: {module}"
		for path in python_files("scripts/")
		for module, _ in imports_of(path)
		if module.split(".")[0] in ("subprocess", "socket", "ssl", "http", "urllib", "asyncio", "ctypes", "pickle")
		and module != "urllib.parse"
	]
	assert found == [f"{MAY_RUN_PROGRAMS}: subprocess"]


def test_no_file_that_an_installer_drops_or_mistakes() -> None:
	names = [Path(name) for name in tracked()]
	assert [
		str(name) for name in names if name.parts[0] == "scripts" and any(part[0] == "_" for part in name.parts)
	] == []
	assert [str(name) for name in names if name.name == "metadata.json"] == []
	assert [str(name) for name in names if name.name.lower() == "skill.md"] == ["SKILL.md"]


def test_no_symbolic_links() -> None:
	assert [name for name in tracked() if (ROOT / name).is_symlink()] == []


def test_the_tree_is_small_enough_to_be_copied() -> None:
	assert sum((ROOT / name).stat().st_size for name in tracked()) <= LIMITS["bytes"]


def functions() -> Iterator[tuple[int, str]]:
	for path in python_files(""):
		for node in ast.walk(tree_of(path)):
			if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
				assert node.end_lineno is not None
				yield node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def test_functions_are_short() -> None:
	lengths = sorted(functions())
	numbers = [length for length, _ in lengths]
	assert [item for item in lengths if item[0] > LIMITS["longest"]] == []
	assert statistics.median(numbers) <= LIMITS["median"]
	assert numbers[len(numbers) * 9 // 10] <= LIMITS["ninety in a hundred"]


def test_named_tuples_of_a_start_have_no_postponed_annotations() -> None:
	tour = [str(path) for path in sorted((ROOT / "tests" / "cases" / "tour").iterdir())]
	program = """import sys, typing; from distributed_training_backends import cli; cli.main(sys.argv[1:])
modules = [m for n, m in sys.modules.items() if n.startswith(cli.__package__ + ".")]
found = {c for m in modules for c in vars(m).values() if isinstance(c, type) and hasattr(c, "_fields")}
print(len(found), *(c.__name__ for c in found if typing.ForwardRef in map(type, c.__annotations__.values())))"""
	run = [sys.executable, "-c", program, *tour]
	done = subprocess.run(run, capture_output=True, text=True, cwd=CORE.parent, check=False)
	count, *postponed = done.stdout.splitlines()[-1].split()
	assert int(count) > 20
	assert postponed == []


def test_modules_are_short() -> None:
	lengths = {str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n") for path in python_files("")}
	assert {name: length for name, length in lengths.items() if length > LIMITS["module"]} == {}


# Spelled in pieces, so that this file does not hold what it looks for.
FORBIDDEN = re.compile(
	"|".join(
		[
			r"\bpypi\." + "org",
			"python" + r"hosted\.org",
			"registry" + r"\.npm",
			"proxy" + r"\.golang",
			r"(?<![\w.~-])/" + "root/",
			r"(?<![\w.~-])/" + r"work/(?!(?:dir|space)\b)",
			r"(?<![\w.~-])/" + "tmp/",
			"/home/" + r"\w+/",
		]
	)
)


def test_nothing_tells_where_it_was_made() -> None:
	found = []
	for name in tracked():
		text = (ROOT / name).read_bytes().decode("utf-8", "replace")
		found += [
			f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group()}" for hit in FORBIDDEN.finditer(text)
		]
	assert found == []
