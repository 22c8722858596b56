"""A config on its way to another one: steps that keep its comments and order, and notes on what they do."""

import re
from collections import Counter
from collections.abc import Mapping
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
		node = self.first.nodes.get(pointer) if pointer else None
		self.say(status, setting, message, self.first.position((node.key or node.value).start)[0] if node else None)

	def say(self, status: Status, setting: str, message: str, line: int | None = None) -> None:
		self.notes.append(Note(status, setting, message, line))

	def set(self, value: Any, *pointer: str | int) -> None:
		if self.document.has(*pointer):
			self.step("replace", pointer, value=value)
		else:
			self.step("add", pointer[:-1], str(pointer[-1]), value)

	def rename(self, pointer: Pointer, name: str, value: Any) -> None:
		if pointer[-1] != name:
			self.step("rename", pointer, name)
		if self.document.get(*pointer[:-1], name) != value:
			self.set(value, *pointer[:-1], name)

	def remove(self, *pointer: str | int) -> None:
		if self.document.has(*pointer):
			self.step("remove", pointer)

	def step(self, *operation: Any, **value: Any) -> None:
		step = Operation(*operation, **value)
		fix = resolve(self.document, Repair("", (step,)))
		if fix is not None:
			text = splice(self.document.text, fix.edits)
		else:
			text = written(promised(self.document.data, (step,)), self.document.syntax)
		self.document = reread(self.document, text)

	def finished(self) -> str:
		kept = Counter(REMARK.findall(self.document.text))
		for found in REMARK.finditer(self.first.text) if self.first.syntax == "yaml" else ():
			kept[found.group()] -= 1
			if kept[found.group()] < 0:
				line = self.first.position(found.start())[0]
				self.say("lost", "comment", f"went with its entry: {found.group()}", line)
		return self.document.text


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
