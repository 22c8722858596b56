"""What every DeepSpeed release reads in its JSON config, extracted from the releases' own source.

    python tools/extract_deepspeed.py --check               # the newest three releases, fetched and compared
    python tools/extract_deepspeed.py --check --newest 73
    python tools/extract_deepspeed.py --write               # all releases, the data file written anew

Releases are those pinned in ``tools/releases.json.gz``; ``--sources DIR`` takes them unpacked, one folder each.
Nothing of a release is imported or run. What cannot be read off the source (which values a plain read survives)
stands in ``tools/deepspeed_curated.json.gz``, each fact with the line of source that it holds for.
"""

import argparse
import ast
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import packed
import releases as pinned
from extract_deepspeed_calls import Calls, removed
from extract_deepspeed_models import Models
from extract_deepspeed_package import Package
from extract_deepspeed_reads import MISSING, Reads, trace
from extraction import Facts, Tree, assignments, differences, dump, encode, facts_of

HERE = Path(__file__).parent
DATA = "deepspeed.json"
CURATED = HERE / "deepspeed_curated.json.gz"
COMMAND = "python tools/extract_deepspeed.py --write"
TABLES = ("keys", "sections", "removed", "optimizers", "schedulers")
ARGUMENTS = {("optimizer", "params"), ("scheduler", "params")}
KWARGS = {*ARGUMENTS, ("amp",)}
OLD_NAMES = {"bfloat16": "bf16"}
PLAIN = ("bool", "int", "float", "str")
Dotted = tuple[str, ...]
Record = dict[str, Any]


# --- one release ---


def release_facts(root: Path, curated: list[Record]) -> Facts:
    """Every fact of one release, under (table, dotted path)."""
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
    """Keys that are read from plain dicts; the type is that of the default, where it has one."""
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
    """Every block that some key stands in; what it does with a key that it does not know."""
    above = {key[:depth] for key in reads.keys for depth in range(len(key))}
    for path in above | reads.stored | KWARGS:
        if path and (path[0] in OLD_NAMES or not (path in reads.keys or path[-1] == "*")):
            continue
        unknown = "kwargs" if path in KWARGS else "stored" if path in reads.stored else "ignored"
        yield path, {"unknown": unknown}


def nested_values(keys: dict[Dotted, Record], sections: dict[Dotted, Record], generation: int) -> None:
    """What may stand in the place of a model inside a model: null if optional, and what dict() takes."""
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
    """The text of a release's files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._all: dict[str, str] = {}

    def text(self, file: str) -> str:
        if file not in self._all:
            path = self.root / file
            self._all[file] = path.read_text(encoding="utf-8") if path.is_file() else ""
        return self._all[file]

    def mentions(self, name: str, apart_from: Iterable[str]) -> bool:
        """Whether any file mentions a name, but for the ones that only parse it."""
        kept = set(apart_from)
        for path in self.root.rglob("*.py"):
            file = path.relative_to(self.root).as_posix()
            if file not in kept and name in self.text(file):
                return True
        return False


def holds(row: Record, sources: Sources) -> bool:
    """Whether the line that a curated fact rests on is in this release."""
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


def curated() -> Record:
    content: Record = json.loads(packed.unpacked(CURATED))
    return content


def extract(names: Iterable[str], locate: Callable[[str], Path]) -> dict[str, Facts]:
    rows = curated()["facts"]
    found = {name: release_facts(locate(name) / "deepspeed", rows) for name in names}
    idle = [row["names"] for row in rows if "applied" not in row]
    if len(found) == len(pinned.known("deepspeed")) and idle:
        raise SystemExit(f"curated facts that hold in no release: {idle}")
    return found


def document(by_release: dict[str, Facts]) -> Tree:
    names = list(by_release)
    made = f"made by `{COMMAND}` from the source archives of deepspeed {names[0]} to {names[-1]}, {len(names)} releases"
    return {"provenance": made, "releases": names, **encode(by_release), "torch": curated()["torch"]}


def facts_in(content: Tree, release: str) -> Facts:
    return facts_of({name: content[name] for name in ("pydantic", *TABLES)}, release)


def check(names: list[str], newest: int, locate: Callable[[str], Path]) -> list[str]:
    """Lines on what differs between the committed data and a fresh extraction of the newest releases."""
    text = packed.text_of(DATA)
    content = json.loads(text)
    lines = [] if content["releases"] == names else ["the data does not cover the pinned releases"]
    lines += [] if content["torch"] == curated()["torch"] else ["torch: not what is curated"]
    lines += [] if text == dump(content) else ["the data is not in the form that --write gives it"]
    for name, fresh in extract(names[-newest:], locate).items():
        lines += [f"{name}: {line}" for line in differences(facts_in(content, name), fresh)]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Extract DeepSpeed's config knowledge from its releases.")
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--check", action="store_true", help="compare the committed data with a fresh extraction")
    verb.add_argument("--write", action="store_true", help="write the data file anew")
    parser.add_argument("--newest", type=int, default=3, help="how many releases --check takes (default: 3)")
    parser.add_argument("--sources", type=Path, help="folder with one unpacked release in each subfolder")
    parser.add_argument("--cache", type=Path, default=Path(".oracle"), help="where fetched releases go")
    options = parser.parse_args()
    names = pinned.known("deepspeed")

    def locate(release: str) -> Path:
        if options.sources:
            return Path(options.sources) / release
        return pinned.source_tree("deepspeed", release, options.cache)

    if options.write:
        print(packed.save(DATA, dump(document(extract(names, locate)))))
        return 0
    lines = check(names, options.newest, locate)
    print("\n".join(lines) or f"{DATA}: equal to a fresh extraction of {', '.join(names[-options.newest :])}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
