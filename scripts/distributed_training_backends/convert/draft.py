"""A config on its way to another one: steps that keep its comments and order, and notes on what they do."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ..edits import promised, resolve
from ..fix import splice
from ..model import Kind, Pointer
from ..model_convert import Note, Status
from ..rules.registry import Operation, Repair
from ..sources.document import Document, Syntax
from ..sources.load import read
from ..sources.writing import block_lines, write

REMARK = re.compile(r"(?m)(?:^|(?<=[ \t]))#[^\r\n]*")


class Draft:
    """Carries out steps one by one. What cannot be spliced is written anew, without its comments."""

    def __init__(self, document: Document) -> None:
        self.first = self.document = document
        self.notes: list[Note] = []

    def note(self, status: Status, setting: str, message: str, *pointer: str | int) -> None:
        """Say something about a setting, with the line that it had at first."""
        self.notes.append(Note(status, setting, message, line_of(self.first, *pointer)))

    def set(self, pointer: Pointer, value: Any) -> None:
        """Give an entry a value, in its place or at the end of its block."""
        if self.document.has(*pointer):
            self._step(Operation("replace", pointer, value=value))
        else:
            self._step(Operation("add", pointer[:-1], str(pointer[-1]), value))

    def rename(self, pointer: Pointer, name: str, value: Any) -> None:
        """Give an entry another name and value."""
        if pointer[-1] != name:
            self._step(Operation("rename", pointer, name))
        if self.document.get(*pointer[:-1], name) != value:
            self.set((*pointer[:-1], name), value)

    def rename_block(self, name: str, new: str) -> None:
        """Give a block another name."""
        self._step(Operation("rename", (name,), new))

    def remove(self, *pointer: str | int) -> None:
        """Take an entry out."""
        if self.document.has(*pointer):
            self._step(Operation("remove", pointer))

    def _step(self, step: Operation) -> None:
        fix = resolve(self.document, Repair("", (step,)))
        if fix is not None:
            text = splice(self.document.text, fix.edits)
        else:
            text = written(promised(self.document.data, (step,)), self.document.syntax)
        self.document = reread(self.document, text)

    def finished(self) -> str:
        """The text, after a note on each comment that went with its entry."""
        kept = Counter(REMARK.findall(self.document.text))
        for found in REMARK.finditer(self.first.text) if self.first.syntax == "yaml" else ():
            kept[found.group()] -= 1
            if kept[found.group()] < 0:
                line = self.first.position(found.start())[0]
                self.notes.append(Note("lost", "comment", f"went with its entry: {found.group()}", line))
        return self.document.text


def line_of(document: Document, *pointer: str | int) -> int | None:
    """The line of an entry; None where the text does not have it."""
    node = document.nodes.get(pointer)
    return document.position((node.key or node.value).start)[0] if node and pointer else None


def reread(document: Document, text: str, kind: Kind | None = None, syntax: Syntax | None = None) -> Document:
    """A changed text as a document, of the same kind unless told."""
    made = read(document.path, text, kind or document.kind, syntax or document.syntax)
    made.newline = document.newline
    return made


def written(data: Mapping[str, Any], syntax: str) -> str:
    """A mapping as a file of its own."""
    if syntax == "json":
        return write(data, "json") + "\n"
    return "".join(block_lines(data))


def entries(document: Document, block: str) -> Iterator[tuple[str, Any]]:
    """The entries of a block; none where there is no block."""
    data = document.get(block)
    yield from ((str(key), value) for key, value in data.items()) if isinstance(data, dict) else ()
