"""What a tool is: a row of its definition, and the function that answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Schema = dict[str, Any]
Arguments = Mapping[str, Any]
Answer = dict[str, Any]
ROWS: Schema = {"type": "array", "items": {"type": "object", "properties": {}}}


class CallError(Exception):
	"""A call that cannot be answered; the text tells the caller what to write instead."""


@dataclass(frozen=True, eq=False)
class Tool:
	"""One tool. `properties` and `answers` are the properties of its flat schemas for arguments and answer."""

	name: str
	title: str
	description: str
	properties: Mapping[str, Schema]
	required: tuple[str, ...]
	answers: Mapping[str, Schema]
	call: Callable[[Arguments], Answer]

	@cached_property
	def inputs(self) -> Schema:
		"""The schema of the arguments; what it does not name is refused."""
		schema = {"type": "object", "properties": dict(self.properties), "required": list(self.required)}
		return {**schema, "additionalProperties": False}

	@cached_property
	def outputs(self) -> Schema:
		return {"type": "object", "properties": dict(self.answers), "required": ["summary"]}


# The constructors of schemas: names that say it all need no description, which costs every client tokens.


def text(description: str = "", **more: Any) -> Schema:
	return _described({"type": "string", **more}, description)


def whole(description: str = "", minimum: int = 1, **more: Any) -> Schema:
	return _described({"type": "integer", "minimum": minimum, **more}, description)


def choice(*values: str, description: str = "", **more: Any) -> Schema:
	"""The schema of a word from a list; the first one is the default."""
	return _described({"type": "string", "enum": list(values), "default": values[0], **more}, description)


def _described(schema: Schema, description: str) -> Schema:
	return {**schema, "description": description} if description else schema
