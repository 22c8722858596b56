"""Every entry of a DeepSpeed config, with what the release knows about it."""

from collections import deque
from functools import lru_cache
from typing import Any, NamedTuple

from ..flow.deepspeed import Reading, key_of, read, section_of, seen_by_hjson
from ..flow.inputs import DeepSpeedFile
from ..knowledge.deepspeed import Key, Unknown, for_release
from ..model import Pointer
from ..sources.document import Document

FREE = ("optimizer.params", "scheduler.params")


class Entry(NamedTuple):
	"""An entry: where it stands, the dotted path of its block, and the key that reads it, if any does.

	`path` is the dotted path as it is written, in terms of the blocks that the release knows; `unknown` says what
	becomes of a key of this block that nothing knows.
	"""

	pointer: Pointer
	section: str
	name: str
	path: str
	value: Any
	key: Key | None
	unknown: Unknown


@lru_cache(maxsize=4)
def walk(file: DeepSpeedFile) -> tuple[tuple[Reading, Entry], ...]:
	"""Every entry of a file, with the reading that it belongs to; nothing where the file holds no mapping."""
	reading = read(file)
	if reading is None:
		return ()
	return tuple((reading, entry) for entry in entries(file.document, file.release, file.huggingface))


@lru_cache(maxsize=4)
def entries(document: Document, release: str, strict: bool) -> tuple[Entry, ...]:
	"""Walk the blocks that the release reads, as strict JSON or as Hjson gives them; what stands below an unread key is
	left out."""
	children = for_release(release).children
	data = document.data if strict else seen_by_hjson(document)
	found: list[Entry] = []
	waiting: deque[tuple[Pointer, str, dict[str, Any], Unknown]] = deque([((), "", data, "ignored")])
	while waiting:
		pointer, section, block, unknown = waiting.popleft()
		known = children(section)
		for name, value in block.items():
			path = f"{section}.{name}" if section else str(name)
			key = known.get(name) or key_of(release, path)
			entry = Entry((*pointer, name), section, str(name), path, value, key, unknown)
			found.append(entry)
			below = block_path(document, release, entry) if isinstance(value, dict) else None
			if below is not None:
				waiting.append((entry.pointer, below, value, policy(release, below, unknown)))
	return tuple(found)


def block_path(document: Document, release: str, entry: Entry) -> str | None:
	if entry.path == "bfloat16":
		return "bf16" if document.get("bf16") is None else None
	if entry.key is None:  # no key of the release, but a block of a name of one's own: a group of compression_training
		return entry.path if section_of(release, entry.path) else None
	if entry.key.path in FREE:
		return None
	path = entry.key.path
	return path if section_of(release, path) or for_release(release).children(path) else None


def policy(release: str, path: str, above: Unknown) -> Unknown:
	"""What becomes of an unknown key of a block: as the block says, or else as its parent does."""
	section = section_of(release, path)
	return section.unknown if section else above
