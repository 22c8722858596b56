"""Launch commands and environment variables as documents, made of words that stand somewhere in a text.

Variables are lines `NAME=value` or `export NAME=value`, or the config that `accelerate env` prints.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..model import Extent, Pointer
from .document import OPEN, Document, Node
from .shell import HOLE, Text
from .shell_script import Script, Variable

LINE = re.compile(r"[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*=[^\r\n]*|[ \t]*(?:#[^\r\n]*)?")
PRINTED = re.compile(
	r"^- `Accelerate` (?:default config|config passed):[ \t]*\r?\n((?:[ \t]+- [^\r\n]*(?:\r?\n|\Z))+)", re.MULTILINE
)
MAX_SEEN = 500  # lines that are looked at to tell the kind


class Word(NamedTuple):
	"""A word of a command: its text, or OPEN where the shell has yet to fill it in; and where it stands."""

	text: Any
	extent: Extent


def launch_document(
	path: str,
	text: str,
	launcher: Word,
	words: Sequence[Word],
	environment: Mapping[str, tuple[Word, Word]],
	prefix: Sequence[str] = (),
	scheduler: Mapping[str, tuple[Word, Word]] | None = None,
) -> Document:
	"""Give a command as a document; `environment` maps each variable to the words of its name and its value.

	`prefix` are the words before the launcher, `scheduler` the options of the job that the script is.
	"""
	tables = {"environment": environment, "scheduler": scheduler or {}}
	data = {
		"launcher": launcher.text,
		"tokens": [word.text for word in words],
		"prefix": list(prefix),
		**{key: {name: value.text for name, (_, value) in table.items()} for key, table in tables.items()},
	}
	end = max((word.extent.end for word in words), default=launcher.extent.end)
	nodes: dict[Pointer, Node] = {
		(): Node(None, Extent(launcher.extent.start, end)),
		("launcher",): Node(None, launcher.extent),
	}
	nodes |= {("tokens", index): Node(None, word.extent) for index, word in enumerate(words)}
	for index, word in enumerate(words):
		raw = text[word.extent.start : word.extent.end]
		if raw == word.text and raw.startswith("--") and "=" in raw:
			middle = word.extent.start + raw.index("=")
			nodes["tokens", index] = Node(Extent(word.extent.start, middle), word.extent)
			nodes["tokens", index, "value"] = Node(None, Extent(middle + 1, word.extent.end))
	for title, table in tables.items():
		nodes |= {(title, name): Node(key.extent, value.extent) for name, (key, value) in table.items()}
	document = Document(path, "launch", "shell", text, data, nodes)
	document.begin = launcher.extent.start
	return document


def looks_like_environment(text: str) -> bool:
	"""Tell whether a text holds nothing but assignments and comments, at least one of a variable in capitals."""
	lines = text.split("\n", MAX_SEEN)[:MAX_SEEN]
	assigns = re.search(r"^[ \t]*(?:export[ \t]+)?[A-Z][A-Z0-9_]*=", text[:100_000], re.MULTILINE)
	return assigns is not None and all(LINE.fullmatch(line.rstrip("\r")) for line in lines)


def parse_environment(path: str, text: str) -> Document:
	"""Read the variables; the last assignment of one counts."""
	script = Script(Text(text, range(len(text))))
	for _ in script.commands():
		pass
	found = {name: value for name, value in script.scopes[0].names.items() if value is not None}
	return environment_document(path, text, found)


def environment_document(path: str, text: str, found: dict[str, Variable]) -> Document:
	words = {
		name: Word(OPEN if HOLE in value.value.chars else value.value.chars, value.place)
		for name, value in found.items()
	}
	nodes: dict[Pointer, Node] = {(): Node(None, Extent(0, len(text)))}
	nodes |= {(name,): Node(found[name].name, word.extent) for name, word in words.items()}
	return Document(path, "environment", "shell", text, {name: word.text for name, word in words.items()}, nodes)


def printed_config(text: str) -> tuple[str, int] | None:
	"""The config in what `accelerate env` prints, as YAML of the same length, and where it begins."""
	found = PRINTED.search(text)
	if found is None:
		return None
	lines = [
		re.sub(r"^[ \t]+- ", lambda mark: " " * len(mark.group()), line) for line in found.group(1).splitlines(True)
	]
	return re.sub(r"\bNone\b", "null", "".join(lines)), found.start(1)
