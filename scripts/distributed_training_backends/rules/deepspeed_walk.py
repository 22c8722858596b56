"""Every entry of a DeepSpeed config, with what the release knows about it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from distributed_training_backends.flow.deepspeed import Reading, read
from distributed_training_backends.flow.inputs import DeepSpeedFile
from distributed_training_backends.knowledge.deepspeed import Key, Section, Unknown
from distributed_training_backends.model import Pointer

FREE = ("optimizer.params", "scheduler.params")


class Entry(NamedTuple):
    """An entry: where it stands, the dotted path of its block, and the key that reads it, if any does.

    `unknown` says what becomes of a key of this block that nothing knows.
    """

    pointer: Pointer
    section: str
    name: str
    value: Any
    key: Key | None
    unknown: Unknown

    @property
    def path(self) -> str:
        """The dotted path as it is written, in terms of the blocks that the release knows."""
        return f"{self.section}.{self.name}" if self.section else self.name


@lru_cache(maxsize=4)
def walk(file: DeepSpeedFile) -> tuple[tuple[Reading, Entry], ...]:
    """Every entry of a file, with the reading that it belongs to; nothing where the file holds no mapping."""
    reading = read(file)
    return () if reading is None else tuple((reading, entry) for entry in entries(reading))


def entries(reading: Reading) -> Iterator[Entry]:
    """Walk the blocks that the release reads; what stands below an unread key is left out."""
    waiting: list[tuple[Pointer, str, dict[str, Any], Unknown]] = [((), "", reading.document.data, "ignored")]
    while waiting:
        pointer, section, block, unknown = waiting.pop(0)
        for name, value in block.items():
            key = reading.facts.children(section).get(name) or by_pattern(reading, section, name)
            entry = Entry((*pointer, name), section, name, value, key, unknown)
            yield entry
            below = block_path(reading, entry)
            if isinstance(value, dict) and below is not None:
                waiting.append((entry.pointer, below, value, policy(reading, below, unknown)))


def by_pattern(reading: Reading, section: str, name: str) -> Key | None:
    """A key whose path has a part that stands for any name."""
    return reading.facts.key_at(f"{section}.{name}") if section else None


def block_path(reading: Reading, entry: Entry) -> str | None:
    """The known path of the block that an entry opens; None when it opens none. `bfloat16` opens the block `bf16`."""
    if entry.path == "bfloat16":
        return "bf16" if reading.document.get("bf16") is None else None
    path = entry.key.path if entry.key else entry.path
    if path in FREE or entry.key is None:
        return None
    return path if reading.section(path) or reading.facts.children(path) else None


def policy(reading: Reading, path: str, above: Unknown) -> Unknown:
    """What becomes of an unknown key of a block: as the block says, or else as its parent does."""
    section: Section | None = reading.section(path)
    return section.unknown if section else above
