"""Data files made by extraction: writing them from all pinned releases, and proving them equal to fresh ones."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import packed
import releases as pinned
from extraction import Facts, Tree, differences, dump, encode, facts_of


@dataclass(frozen=True)
class DataFile:
	"""A data file, the package that it is about, and how the facts of one release are found.

	``facts`` gets the package's folder, or with ``archive`` the release's wheel; ``named`` is how the file calls a
	release. ``constant`` are branches that hold for every release, ``finished`` says what is wrong once all are read.
	"""

	name: str
	package: str
	facts: Callable[[Path], Facts]
	named: Callable[[str], str] = str
	archive: bool = False
	constant: Tree = field(default_factory=dict)
	finished: Callable[[], str] = str

	def extract(self, release: str, cache: Path) -> Facts:
		if self.archive:
			return self.facts(pinned.fetch(self.package, release, cache))
		return self.facts(pinned.source_tree(self.package, release, cache) / self.package)

	def content(self, by_release: dict[str, Facts], command: str) -> Tree:
		read = list(by_release)
		names = [self.named(release) for release in read]
		made = f"made by `python {command} --write` from {self.package} {read[0]} to {read[-1]}, {len(read)} releases"
		tree = encode({self.named(release): facts for release, facts in by_release.items()})
		exact = {} if names == read else {"read": dict(zip(names, read, strict=True))}
		return {"provenance": made, "releases": names, **exact, **tree, **self.constant}


def write(files: Sequence[DataFile], command: str, cache: Path) -> int:
	for file in files:
		by_release = {name: file.extract(name, cache) for name in pinned.known(file.package)}
		if wrong := file.finished():
			raise SystemExit(wrong)
		print(packed.save(file.name, dump(file.content(by_release, command))))
	return 0


def check(files: Sequence[DataFile], newest: int, cache: Path) -> int:
	"""Compare the committed data, restricted to the newest releases, with what these releases say."""
	lines = []
	for file in files:
		committed: dict[str, Any] = json.loads(packed.text_of(file.name))
		known = pinned.known(file.package)
		others = {"provenance", "releases", "read", *file.constant}
		branches = {name: part for name, part in committed.items() if name not in others}
		if committed["releases"] != [file.named(release) for release in known]:
			lines.append(f"{file.name}: does not cover the pinned releases")
		if any(committed[name] != branch for name, branch in file.constant.items()):
			lines.append(f"{file.name}: {', '.join(file.constant)} is another one")
		for release in known[-newest:]:
			stated = facts_of(branches, file.named(release))
			found = differences(stated, file.extract(release, cache))
			lines += [f"{file.name} {release}: {line}" for line in found]
		if not lines:
			print(f"{file.name}: equal to a fresh extraction of {file.package} {', '.join(known[-newest:])}")
	print("\n".join(lines))
	return 1 if lines else 0


def main(description: str, files: Sequence[DataFile]) -> int:
	command = f"tools/{Path(sys.argv[0]).name}"
	parser = argparse.ArgumentParser(description=description)
	verb = parser.add_mutually_exclusive_group(required=True)
	verb.add_argument(
		"--check", action="store_true", help="compare the data with a fresh extraction from the newest releases"
	)
	verb.add_argument("--write", action="store_true", help="write the data anew from all releases")
	parser.add_argument("--newest", type=int, default=3, help="how many releases --check takes (default: 3)")
	parser.add_argument("--cache", type=Path, default=Path(".oracle"), help="where fetched releases go")
	options = parser.parse_args()
	try:
		if options.write:
			return write(files, command, options.cache)
		return check(files, options.newest, options.cache)
	except pinned.ReleaseError as error:
		print(error)
		return 2
