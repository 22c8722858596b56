"""A config on its way to another one: steps that keep its comments and order, and notes on what they do."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..edits import promised, same, together
from ..fix import splice
from ..model import Kind, Pointer
from ..model_convert import Note, Status
from ..rules.registry import Operation
from ..sources.document import Document, Syntax
from ..sources.load import read
from ..sources.writing import block_lines, write

REMARK = re.compile(r"(?m)(?:^|(?<=[ \t]))#[^\r\n]*")


BELOW = -1  # no entry: that something below is touched
ONE_BY_ONE = 50  # steps that do not go together: with more of them the text is written anew


class Draft:
	"""Carries out steps, those together that do not touch each other, because each time the text is read again."""

	def __init__(self, document: Document) -> None:
		self.first = self.latest = document
		self.notes: list[Note] = []
		self.steps: list[Operation] = []
		self.touched: set[Pointer] = set()

	@property
	def document(self) -> Document:
		return self.settle()

	def settle(self) -> Document:
		if self.steps:
			self.latest, self.steps, self.touched = carried_out(self.latest, self.steps), [], set()
		return self.latest

	def at(self, *pointer: str | int) -> Document:
		"""The document as it is at an entry."""
		near = (*pointer, BELOW) in self.touched or any(
			pointer[:end] in self.touched for end in range(len(pointer) + 1)
		)
		return self.settle() if near else self.latest

	def touch(self, pointer: Pointer) -> None:
		self.touched |= {pointer, *((*pointer[:end], BELOW) for end in range(len(pointer)))}

	def note(self, status: Status, setting: str, message: str, *pointer: str | int) -> None:
		"""Say something about a setting, with the line that it had at first."""
		node = self.first.nodes.get(pointer) if pointer else None
		self.say(status, setting, message, self.first.position((node.key or node.value).start)[0] if node else None)

	def say(self, status: Status, setting: str, message: str, line: int | None = None) -> None:
		self.notes.append(Note(status, setting, message, line))

	def set(self, value: Any, *pointer: str | int) -> None:
		there = self.at(*pointer)
		if there.has(*pointer):
			self.step("replace", pointer, value=value)
		else:
			self.step("add", pointer[:-1], str(pointer[-1]), value)
			self.touch(pointer if there.has(*pointer[:-1]) else pointer[:-1])

	def rename(self, pointer: Pointer, name: str, value: Any) -> None:
		if self.at(*pointer).get(*pointer) != value:
			self.set(value, *pointer)
		if pointer[-1] != name:
			self.step("rename", pointer, name)
			self.touch((*pointer[:-1], name))

	def remove(self, *pointer: str | int) -> None:
		if self.at(*pointer).has(*pointer):
			self.step("remove", pointer)

	def step(self, action: Any, pointer: Pointer, text: str = "", value: Any = None) -> None:
		if action == "rename":
			self.at(*pointer[:-1], text)
		self.steps.append(Operation(action, pointer, text, value))
		if action != "add":
			self.touch(pointer)

	def finished(self) -> str:
		kept = Counter(REMARK.findall(self.document.text))
		for found in REMARK.finditer(self.first.text) if self.first.syntax == "yaml" else ():
			kept[found.group()] -= 1
			if kept[found.group()] < 0:
				line = self.first.position(found.start())[0]
				self.say("lost", "comment", f"went with its entry: {found.group()}", line)
		return self.document.text


def carried_out(document: Document, steps: Sequence[Operation]) -> Document:
	wanted = promised(document.data, steps)
	if edits := together(document, steps):
		made = reread(document, splice(document.text, edits))
		if made.parsed and same(made.data, wanted):
			return made
	if 1 < len(steps) <= ONE_BY_ONE:
		for step in steps:
			document = carried_out(document, [step])
		return document
	return reread(document, written(wanted, document.syntax))  # without its comments


def reread(document: Document, text: str, kind: Kind | None = None, syntax: Syntax | None = None) -> Document:
	made = read(document.path, text, kind or document.kind, syntax or document.syntax)
	made.newline = document.newline
	return made


def fresh(document: Document, data: Mapping[str, Any]) -> Document:
	return reread(document, written(data, "yaml"), "accelerate", "yaml")


def written(data: Mapping[str, Any], syntax: str) -> str:
	return write(data, "json") + "\n" if syntax == "json" else "".join(block_lines(data))


def entries(document: Document, block: str) -> dict[str, Any]:
	data = document.get(block)
	return {str(key): value for key, value in data.items()} if isinstance(data, dict) else {}
