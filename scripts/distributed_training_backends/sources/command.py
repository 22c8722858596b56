"""A launch command as a document, made of words that stand somewhere in a text."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..model import Extent, Pointer
from .document import Document, Node


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
