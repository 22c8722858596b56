"""What every DeepSpeed release reads in its JSON config, extracted from the releases' own source.

Releases are those pinned in ``tools/releases.json.gz``. Nothing of a release is imported or run. What cannot be read
off the source (which values a plain read survives) stands in ``tools/deepspeed_curated.json.gz``, each fact with the
line of source that it holds for.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import packed
from extract_deepspeed_calls import Calls, removed
from extract_deepspeed_models import Models
from extract_deepspeed_package import Package
from extract_deepspeed_reads import MISSING, Reads, trace
from extraction import Facts, assignments
from extraction_files import DataFile, main

ARGUMENTS = {("optimizer", "params"), ("scheduler", "params")}
KWARGS = {*ARGUMENTS, ("amp",)}
OLD_NAMES = {"bfloat16": "bf16"}
PLAIN = ("bool", "int", "float", "str")
Dotted = tuple[str, ...]
Record = dict[str, Any]


# --- one release ---


def release_facts(root: Path, curated: list[Record]) -> Facts:
	package = Package(root)
	models, calls, reads = Models(package), Calls(package), trace(package)
	keys = dict(read_keys(reads))
	sections = dict(read_sections(reads))
	for path, model in reads.models.items():
		for inner, key, section in models.mounted(path, model):
			if key is not None:
				keys[inner] = key
			if section is not None and inner:
				sections[inner] = section
	keys |= expert_parallel(package, keys)
	nested_values(keys, sections, models.generation)
	rows: dict[str, dict[str, Record]] = {
		"keys": {".".join(path): record for path, record in keys.items()},
		"sections": {".".join(path): record for path, record in sections.items()},
		"removed": dict(removed(package)),
		"optimizers": dict(calls.optimizers()),
		"schedulers": dict(calls.schedulers()),
	}
	apply(curated, rows, Sources(root))
	facts: Facts = {(table, name): record for table, of in rows.items() for name, record in of.items()}
	return {("pydantic",): models.generation, **facts}


def read_keys(reads: Reads) -> Iterator[tuple[Dotted, Record]]:
	blocks = {path[:-1] for path in reads.keys} | set(reads.models) | reads.stored | ARGUMENTS
	for path, default in reads.keys.items():
		if path[0] in OLD_NAMES or path[:-1] in ARGUMENTS:
			continue
		record: Record = {}
		if path in blocks:
			record["type"] = "dict"
		elif default is not MISSING and default is not None:
			record |= {"type": type(default).__name__, "default": default}
		old = [name for name, now in OLD_NAMES.items() if (now,) == path and (name,) in reads.keys]
		yield path, {**record, **({"names": old} if old else {})}


def read_sections(reads: Reads) -> Iterator[tuple[Dotted, Record]]:
	above = {key[:depth] for key in reads.keys for depth in range(len(key))}
	for path in above | reads.stored | KWARGS:
		if path and (path[0] in OLD_NAMES or not (path in reads.keys or path[-1] == "*")):
			continue
		unknown = "kwargs" if path in KWARGS else "stored" if path in reads.stored else "ignored"
		yield path, {"unknown": unknown}


def nested_values(keys: dict[Dotted, Record], sections: dict[Dotted, Record], generation: int) -> None:
	for path, section in sections.items():
		if "model" in section and "model" in sections.get(path[:-1], {}):
			others = ["auto"] + (["empty text", "empty list"] if generation == 1 else [])
			section["others"] = sorted(others + (["null"] if keys[path]["type"].endswith("?") else []))


def expert_parallel(package: Package, keys: dict[Dotted, Record]) -> Iterator[tuple[Dotted, Record]]:
	"""Types and values of the `expert_parallel` keys, from the dataclass that takes them."""
	settings = package.definition("module_inject.auto_ep_config", "AutoEPConfig")
	for name, annotation, _ in assignments(settings.node) if settings else ():
		path = ("expert_parallel", name)
		if path in keys and annotation is not None:
			yield path, {**keys[path], **notation(annotation)}


def notation(annotation: ast.expr) -> Record:
	"""The type that an annotation documents: `str | None` is `str?`, `Literal["a", "b"]` text of two values."""
	if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
		values = ast.literal_eval(annotation.slice)
		return {"type": "str", "choices": list(values)}
	parts = ast.unparse(annotation).split(" | ")
	plain = "|".join(part for part in parts if part in PLAIN)
	return {"type": plain + "?" * ("None" in parts)} if plain else {}


class Sources:
	def __init__(self, root: Path) -> None:
		self.root = root
		self._all: dict[str, str] = {}

	def text(self, file: str) -> str:
		if file not in self._all:
			path = self.root / file
			self._all[file] = path.read_text(encoding="utf-8") if path.is_file() else ""
		return self._all[file]

	def mentions(self, name: str, apart_from: Iterable[str]) -> bool:
		kept = set(apart_from)
		for path in self.root.rglob("*.py"):
			file = path.relative_to(self.root).as_posix()
			if file not in kept and name in self.text(file):
				return True
		return False


def holds(row: Record, sources: Sources) -> bool:
	if "nowhere" in row:
		return not any(sources.mentions(name, row["but"]) for name in row["nowhere"])
	return row["text"] in sources.text(row["file"])


def apply(curated: list[Record], rows: dict[str, dict[str, Record]], sources: Sources) -> None:
	"""Add the curated facts that hold in this release to the keys and sections that it has."""
	for row in curated:
		table = rows[row.get("table", "keys")]
		names = [name for name in row["names"] if name in table or "add" in row]
		if names and holds(row, sources):
			row["applied"] = True
			for name in names:
				table[name] = {**table.get(name, {}), **row["set"]}


# --- the data file ---


CURATED: Record = json.loads(packed.unpacked(Path(__file__).with_name("deepspeed_curated.json.gz")))
ROWS = CURATED["facts"]


def idle() -> str:
	"""A line about curated facts that hold in no release, once all are read."""
	names = [row["names"] for row in ROWS if "applied" not in row]
	return f"curated facts that hold in no release: {names}" if names else ""


def facts(package: Path) -> Facts:
	return release_facts(package, ROWS)


FILES = (DataFile("deepspeed.json", "deepspeed", facts, constant={"torch": CURATED["torch"]}, finished=idle),)

if __name__ == "__main__":
	sys.exit(main(__doc__.splitlines()[0], FILES))
