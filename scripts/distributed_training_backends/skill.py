"""The files of the skill: where they are, and what SKILL.md says at its top.

In a checkout they stand in its root. A wheel keeps them inside the package, and the package stands for the folder of
scripts that it is in the checkout.
"""

import os
from collections.abc import Iterator
from functools import cache
from os.path import dirname, isdir, isfile, join
from typing import Any

from .resources import references

PACKAGE = dirname(__file__)
NAME = "distributed_training_backends"
SUFFIXES = (".md", ".py", ".json", ".gz")
ELSEWHERE = ("references", "scripts", "mcp_server")  # what a wheel keeps inside the package and a checkout does not


@cache
def files() -> dict[str, str]:
	"""Every file of the skill by its path in it, SKILL.md first: an allow-list, so that nothing else is ever served."""
	root = dirname(references())
	found = {"SKILL.md": join(root, "SKILL.md")}
	found |= {f"references/{name}": path for name, path in _below(references())}
	doors = join(root, "scripts")
	found |= {f"scripts/{name}": join(doors, name) for name in _names(doors) if isfile(join(doors, name))}
	core = {name: path for name, path in _below(PACKAGE) if name != "SKILL.md" and name.split("/")[0] not in ELSEWHERE}
	return found | {f"scripts/{NAME}/{name}": path for name, path in core.items()}


def content(name: str) -> bytes:
	"""The bytes of one file, as they are. Raises KeyError for what is no file of the skill."""
	with open(files()[name], "rb") as file:
		return file.read()


def frontmatter() -> dict[str, Any]:
	"""The fields at the top of SKILL.md."""
	from .sources.yaml_source import parse_yaml

	block = content("SKILL.md").decode("utf-8").split("\n---\n", 1)[0].removeprefix("---\n")
	fields: dict[str, Any] = parse_yaml("SKILL.md", block, "accelerate").data
	return fields


def _below(folder: str, prefix: str = "") -> Iterator[tuple[str, str]]:
	for name in _names(folder):
		path = join(folder, name)
		if isdir(path):
			yield from _below(path, f"{prefix}{name}/")
		else:
			yield prefix + name, path


def _names(folder: str) -> list[str]:
	if not isdir(folder):
		return []
	names = sorted(name for name in os.listdir(folder) if name[0] not in "._")
	return [name for name in names if name.endswith(SUFFIXES) or isdir(join(folder, name))]
