"""Environment variables: lines `NAME=value` or `export NAME=value`, and the config that `accelerate env` prints."""

import re

from ..model import Extent, Pointer
from .command import Word
from .document import OPEN, Document, Node
from .shell import HOLE, Text
from .shell_script import Script, Variable

LINE = re.compile(r"[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*=[^\r\n]*|[ \t]*(?:#[^\r\n]*)?")
PRINTED = re.compile(
	r"^- `Accelerate` (?:default config|config passed):[ \t]*\r?\n((?:[ \t]+- [^\r\n]*(?:\r?\n|\Z))+)", re.MULTILINE
)
MAX_SEEN = 500  # lines that are looked at to tell the kind


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
