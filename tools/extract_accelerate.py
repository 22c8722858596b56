"""What every Accelerate release knows and does, extracted from the releases' own source into the data files.

    python tools/extract_accelerate.py --check               # the newest three releases, fetched and compared
    python tools/extract_accelerate.py --check --newest 52
    python tools/extract_accelerate.py --write               # all releases, data files written anew

Releases are those pinned in ``tools/releases.json``; ``--sources DIR`` takes them unpacked, one folder each.
Nothing of a release is imported or run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import releases as pinned
from extract_classes import class_facts
from extract_config import config_facts
from extract_environment import environment_facts
from extract_launcher import launcher_facts
from extraction import Facts, Tree, differences, dump, encode, facts_of

DATA = Path(__file__).parent.parent / "scripts/distributed_training_backends/data"
COMMAND = "python tools/extract_accelerate.py --write"


def core_facts(package: Path) -> Facts:
    return {**config_facts(package), **launcher_facts(package), **environment_facts(package)}


FILES: dict[str, Callable[[Path], Facts]] = {"accelerate.json": core_facts, "accelerate_api.json": class_facts}


def extract(names: Iterable[str], locate: Callable[[str], Path], facts: Callable[[Path], Facts]) -> dict[str, Facts]:
    return {name: facts(locate(name) / "accelerate") for name in names}


def document(tree: Tree, names: list[str]) -> Tree:
    """The content of a data file: where it comes from, the releases it covers, and the facts."""
    made = f"made by `{COMMAND}` from the wheels of accelerate {names[0]} to {names[-1]}, {len(names)} releases"
    return {"provenance": made, "releases": names, **tree}


def facts_in(content: Tree, release: str) -> Facts:
    return facts_of({name: part for name, part in content.items() if isinstance(part, dict)}, release)


def write(names: list[str], locate: Callable[[str], Path]) -> int:
    for file, facts in FILES.items():
        tree = encode(extract(names, locate, facts))
        (DATA / file).write_text(dump(document(tree, names)), encoding="utf-8")
        print(f"{file}: {(DATA / file).stat().st_size} bytes")
    return 0


def check(names: list[str], newest: int, locate: Callable[[str], Path], load: Callable[[Path], Tree]) -> int:
    """Compare the committed data, restricted to the newest releases, with what these releases say."""
    lines = []
    for file, facts in FILES.items():
        committed = load(DATA / file)
        if committed["releases"] != names:
            lines.append(
                f"{file}: covers {committed['releases'][0]} to {committed['releases'][-1]}, not the pinned ones"
            )
        if (DATA / file).read_text(encoding="utf-8") != dump(committed):
            lines.append(f"{file}: not in the form that --write gives it")
        for name, fresh in extract(names[-newest:], locate, facts).items():
            lines += [f"{file} {name}: {line}" for line in differences(facts_in(committed, name), fresh)]
    print("\n".join(lines) or f"{', '.join(FILES)}: equal to a fresh extraction of {', '.join(names[-newest:])}")
    return 1 if lines else 0


def load(path: Path) -> Tree:
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    return dict(content)


def main() -> int:
    parser = argparse.ArgumentParser(description="Extract Accelerate's knowledge from its releases.")
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--check", action="store_true", help="compare the committed data with a fresh extraction")
    verb.add_argument("--write", action="store_true", help="write the data files anew")
    parser.add_argument("--newest", type=int, default=3, help="how many releases --check takes (default: 3)")
    parser.add_argument("--sources", type=Path, help="folder with one unpacked release in each subfolder")
    parser.add_argument("--cache", type=Path, default=Path(".oracle"), help="where fetched releases go")
    options = parser.parse_args()
    names = pinned.known("accelerate")

    def locate(release: str) -> Path:
        if options.sources:
            return Path(options.sources) / release
        return pinned.source_tree("accelerate", release, options.cache)

    if options.write:
        return write(names, locate)
    return check(names, options.newest, locate, load)


if __name__ == "__main__":
    sys.exit(main())
