"""What the pages claim about names, releases, defaults and values, held against the project's knowledge.

The conventions, for whoever writes a page:

- A code span that looks like a name (`fsdp_version`, `--rdzv_backend`, `ACCELERATE_USE_FSDP`, `fsdp_version: 2`,
  `DeepSpeedPlugin(zero_stage=3)`) is a name: it must be in data/*.json, among our own files, options and rules, or in
  tests/cases/pages/names.json.gz, which says where in the libraries it is (checked by the oracle).
- A span of several words that is none of these is a message, found in the source of a library (checked by the oracle).
- `name` (since 1.6.0), `name` (until 1.9.0), `name` (1.4.0 to 1.6.0): the releases that have the name. A rule in its
  place, as in (FSD003, since 1.6.0): the releases of its severity. A minimum, as in 2.6.0 (`FSDP2_PYTORCH_VERSION`):
  the constant's value.
- The columns `since`, `default` and `values` of a table are about the span in the first column. No entry under `since`
  means that the oldest release has it.
- Every number of three parts is a release of a library, and every code such as FSD003 a rule.
"""

import ast
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from tests.pages import ROOT

import packed
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import RULES

catalog.load()
NAMES = ROOT / "tests" / "cases" / "pages" / "names.json.gz"
HISTORIES = tuple(
	f"{name}.json" for name in ("accelerate", "accelerate_reference", "accelerate_api", "deepspeed", "transformers")
)
# Branches of these files that are no names a user could write.
INTERNAL = {"blocks", "calls", "command_line", "copies", "exports", "fills", "help", "loading", "merging", "packages"}
INTERNAL |= {"provenance", "pydantic", "read", "reads_file", "releases", "sections", "sets", "torch", "fsdp"}
# What a snippet finds, and where the rest of a dotted name is then.
VARIABLES = {"model", "optimizer", "scheduler", "loader", "batch", "accelerator"}
PREFIXES = {name: name for name in ("accelerate", "deepspeed", "torch", "transformers")}
PREFIXES |= {"accelerator": "accelerate.Accelerator", "model": "transformers.PreTrainedModel"}
PREFIXES |= {"optimizer": "torch.optim.Optimizer", "scheduler": "torch.optim.lr_scheduler.LRScheduler"}
WORD = r"[A-Za-z_][\w.]*"
NAME = re.compile(rf"{WORD}(\(\))?")
SETTING = re.compile(rf'["\']?({WORD})["\']?(?:: |=)(.+)')
OPTION = re.compile(r"--[a-z][\w-]*")
CODE = re.compile(r"\b(?:ACC|DSP|FSD|PAR|PRC|TRN|LCH|PYS|XCF)\d{3}\b")
RELEASE = re.compile(r"(?<![\w.])\d+\.\d+\.\d+(?![\w.])")
PROGRAMS = "python|torchrun|mpirun|srun|deepspeed|ds_report|py-spy dump|echo"
PLAIN = re.compile(rf"[\d.,e+-]+|[\W\d_]*|\$\{{\w+}}|{PROGRAMS}|true|false|null|none|no|yes|on|off|auto", re.I)
FILE = re.compile(r"[\w./*<>~-]+\.(?:md|py|json|yaml|yml|safetensors|bin|pkl|pt|sh)(?:\.gz)?(?:#[\w-]+)?|[\w./<>-]+/")


class Span(NamedTuple):
	"""Releases from the first to the last, None where the newest one has it."""

	first: str
	last: str | None


class Fact(NamedTuple):
	"""What is known about a name in one file: when it was there, its defaults in the newest release, its values."""

	file: str
	spans: tuple[Span, ...]
	defaults: tuple[Any, ...]
	values: tuple[Any, ...]


@cache
def releases(file: str) -> list[str]:
	return list(load_json(file)["releases"])


@cache
def facts() -> dict[str, list[Fact]]:
	found: dict[str, list[Fact]] = {}
	for file in HISTORIES:
		for path, runs in leaves({k: v for k, v in load_json(file).items() if k not in INTERNAL}):
			for name in names_of(file, path, runs):
				found.setdefault(name, []).append(fact(file, runs))
			for item in {item for _, _, value in runs if isinstance(value, list) for item in map(str, value)}:
				found.setdefault(item, []).append(
					fact(file, [run for run in runs if isinstance(run[2], list) and item in map(str, run[2])])
				)
	return found


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
	for name, below in tree.items():
		if isinstance(below, dict):
			yield from leaves(below, (*path, name))
		elif isinstance(below, list) and below and isinstance(below[0], list) and len(below[0]) == 3:
			yield (*path, name), below


def names_of(file: str, path: tuple[str, ...], runs: list[Any]) -> set[str]:
	"""What a fact may be called: its name, its place, its flags, the values of an enumeration or a constant."""
	name = path[-1]
	found = {name, ".".join(path[1:]), path[-2] if path[0] == "parameters" else name}
	found.update(name.split(".", count)[-1] for count in range(1, name.count(".") + 1))
	newest = [value for _, _, value in runs]
	for value in newest:
		if isinstance(value, dict):
			found.update(value.get("flags", ()), value.get("negated", ()))
			found.update(map(str, [*value.get("allowed", ()), *value.get("choices", ())]))
		if path[0] in ("enums", "constants", "literals") and not isinstance(value, list):
			found.add(str(value))
	if file == "deepspeed.json" and path[0] in ("optimizers", "schedulers"):
		records = [record for value in newest for record in classes(value)]
		found |= {str(record.get("class")) for record in records}
		found.update(name for record in records for name in record.get("parameters", ()))
	return found


def classes(value: Any) -> list[dict[str, Any]]:
	records = [value, *value.values()] if isinstance(value, dict) else []
	return [record for record in records if isinstance(record, dict)]


def fact(file: str, runs: list[Any]) -> Fact:
	order = {release: number for number, release in enumerate(releases(file))}
	spans: list[Span] = []
	for first, last, _ in runs:
		if spans and spans[-1].last is not None and order[spans[-1].last] + 1 == order[first]:
			spans[-1] = Span(spans[-1].first, last)
		else:
			spans.append(Span(first, last))
	newest = runs[-1][2] if isinstance(runs[-1][2], dict) else {}
	defaults = (newest["default"],) if "default" in newest else ()
	return Fact(file, tuple(spans), defaults, (*newest.get("choices", ()), *newest.get("allowed", ())))


# --- names ---


@cache
def listed(sort: str) -> dict[str, str]:
	"""What tests/cases/pages/names.json.gz lists (`gzip -cd` shows it, tools/packed.py packs it).

	`places`: names that only the libraries know, and the module path where they are, a parameter in brackets. `texts`:
	names that are no Python names, messages of compiled code, and the file of a library that holds them.
	`other_messages`: messages that no file at hand holds, and whose they are. `other_releases`: of other libraries.
	"""
	return dict(json.loads(packed.unpacked(NAMES))[sort])


@cache
def own_options() -> frozenset[str]:
	asked = [[sys.executable, str(script), "--help"] for script in (ROOT / "scripts").glob("*.py")]
	helps = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in asked]
	return frozenset(option for text in helps for option in OPTION.findall(text))


@cache
def tabled() -> frozenset[str]:
	auto = load_json("deepspeed_auto.json")
	modules = {feature["module"] for feature in load_json("packages.json")["features"].values()}
	return frozenset({*auto["accelerate"], *auto["trainer"], *load_json("precision.json")["fp8_misnamed"], *modules})


def place_of(name: str) -> str:
	bare = name.removesuffix("()")
	if bare in listed("places") or bare in tabled():
		return listed("places").get(bare, "")
	first, _, rest = bare.partition(".")
	return f"{PREFIXES[first]}.{rest}" if first in PREFIXES and rest else ""


def known(name: str) -> bool:
	bare = name.removesuffix("()")
	if bare.endswith("_") and any(other.startswith(bare) for other in facts()):
		return True
	optimizers = load_json("deepspeed.json")["optimizers"]
	ours = bare in VARIABLES or bare in own_options() or bare in RULES or bare in tabled()
	return ours or bare in facts() or bare.lower() in optimizers or bool(place_of(name)) or bare in listed("texts")


def kind(text: str) -> str:
	"""What a code span is: plain, file, name, option, setting, call, command or message."""
	if PLAIN.fullmatch(text) or is_literal(text) or re.fullmatch(r"\*_\w+", text):
		return "plain"
	if FILE.fullmatch(text):
		return "file"
	if NAME.fullmatch(text) or CODE.fullmatch(text):
		return "name"
	if text.startswith(("accelerate ", "python ", "torchrun ", "npx ", "pip ", "srun ", "nvidia-smi")):
		return "command"
	if text.startswith("--"):
		return "option"
	if SETTING.fullmatch(text) and not re.match(r"\w+: \w+ \w+ ", text):
		return "setting"
	return "call" if call(text) else "message"


def is_literal(text: str) -> bool:
	with contextlib.suppress(ValueError):
		return bool(json.loads(text) or True)
	return False


def call(text: str) -> ast.Call | None:
	"""The call that a span consists of; `…` stands for any argument."""
	try:
		tree = ast.parse(text.replace("…", "..."), mode="eval").body
	except SyntaxError:
		return None
	return tree if isinstance(tree, ast.Call) else None


def names_in(text: str) -> list[str]:
	sort = kind(text)
	if sort == "name":
		return [text]
	if sort in ("option", "command"):
		return OPTION.findall(text)
	if match := SETTING.fullmatch(text) if sort == "setting" else None:
		value = match[2].strip("\"'{},")
		of_a_variable = match[1].isupper()
		return [match[1], *([value] if kind(value) == "name" and not of_a_variable else [])]
	node = call(text) if sort == "call" else None
	if node is None:
		return []
	return [ast.unparse(node.func), *(keyword.arg for keyword in node.keywords if keyword.arg)]


# --- releases, defaults, values ---


def is_since(name: str, release: str) -> bool:
	return any(spans[-1] == Span(release, None) for _, spans, _, _ in facts().get(name, ()))


def is_until(name: str, release: str) -> bool:
	return any(spans[-1].last == release for _, spans, _, _ in facts().get(name, ()))


def is_between(name: str, first: str, last: str) -> bool:
	return any(Span(first, last) in spans for _, spans, _, _ in facts().get(name, ()))


def is_as_old_as_known(name: str) -> bool:
	return any(spans[-1] == Span(releases(file)[0], None) for file, spans, _, _ in facts().get(name, ()))


def same(written: str, value: Any) -> bool:
	if value is None:
		return written in ("null", "None")
	if isinstance(value, bool) or str(value).lower() in ("true", "false"):
		return written.lower() == str(value).lower()
	return written.strip("\"'") == str(value)


def defaults(name: str) -> list[Any]:
	return [value for known_fact in facts().get(name, ()) for value in known_fact.defaults]


def values(name: str) -> set[str]:
	found = {str(value).lower() for known_fact in facts().get(name, ()) for value in known_fact.values}
	constants = load_json("accelerate.json")["constants"]
	for row in load_json("accelerate_values.json")["rows"]:
		if row["option"] == name and isinstance(row.get("names"), dict) and "constant" in row["names"]:
			found |= {str(value).lower() for value in constants[row["names"]["constant"]][-1][2]}
	return found


def rule_since(code: str, release: str) -> bool:
	return any(f"{release}.." in text for _, text in RULES[code].severities)


def is_release(number: str) -> bool:
	"""Whether a number of three parts is a release of a library whose releases are known."""
	of_a_history = any(number in releases(file) for file in ("accelerate.json", "deepspeed.json"))
	return of_a_history or number in {*load_json("transformers.json")["read"].values(), *listed("other_releases")}


def is_constant(name: str, value: str) -> bool:
	runs = load_json("accelerate.json")["constants"].get(name)
	return bool(runs) and runs[-1][1] is None and runs[-1][2] == value
