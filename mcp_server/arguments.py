"""The arguments of a call: taken as the schema wants them, or refused with what to write instead."""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from .tool import Arguments, CallError, Schema, Tool

MOST = 3  # problems that are told at once
LONGEST = 60  # code points of a value in a message
KINDS = {"string": "a text", "integer": "a whole number", "boolean": "true or false"}
PYTHON = {"string": str, "integer": int, "boolean": bool}
TRUTH = {"true": True, "false": False}


def checked(tool: Tool, given: Arguments) -> dict[str, Any]:
	"""Give the arguments with defaults filled in. Raises CallError that tells what is wrong."""
	known = tool.properties
	# null stands for an argument that was left out: clients with strict schemas send every name
	named = {name: value for name, value in given.items() if value is not None or name not in known}
	taken = {name: _read(value, known.get(name, {})) for name, value in named.items()}
	problems = list(dict.fromkeys(_problems(tool, taken)))
	if problems:
		raise CallError("; ".join(problems[:MOST]))
	return {name: schema["default"] for name, schema in known.items() if "default" in schema} | taken


def _read(value: Any, schema: Mapping[str, Any]) -> Any:
	"""Read a number or truth value that came as text, as some clients write every argument, and JSON that came read."""
	if isinstance(value, dict) and "contentMediaType" in schema:
		return json.dumps(value, ensure_ascii=False)
	if not isinstance(value, str):
		return value
	word = value.strip().lower()
	if schema.get("type") == "boolean":
		return TRUTH.get(word, value)
	digits = word.removeprefix("-")
	is_number = schema.get("type") == "integer" and digits.isascii() and digits.isdigit() and len(digits) < 20
	return int(word) if is_number else value


def _problems(tool: Tool, taken: Arguments) -> Iterator[str]:
	unknown = [name for name in taken if name not in tool.properties]
	missing = [name for name in tool.required if name not in taken]
	if unknown:
		listed = ", ".join(f"{name!r:.60}" for name in unknown[:MOST])
		yield f"{tool.name} has no argument {listed}{_instead(unknown, tool)}"
	yield from (f"{tool.name} needs {name!r}: {tool.properties[name]['description']}" for name in missing)
	for name, value in taken.items():
		if name in tool.properties and not fits(value, tool.properties[name]):
			yield f"{name} is {_shown(value)}; write {_wanted(value, tool.properties[name])}"


def fits(value: Any, schema: Schema) -> bool:
	"""Check a value against its flat schema. (jsonschema would take a sixteenth of the memory that the server may.)"""
	if not isinstance(value, PYTHON[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
		return False
	if isinstance(value, str):
		return value in schema.get("enum", (value,)) and len(value) >= schema.get("minLength", 0)
	return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))


def _instead(unknown: list[str], tool: Tool) -> str:
	near = [found for name in unknown[:MOST] for found in get_close_matches(name, tool.properties, 1, 0.55)]
	hint = f"; did you mean {', '.join(map(repr, near))}?" if near else "."
	return f"{hint} It takes {', '.join(tool.properties)}"


def _wanted(value: Any, schema: Schema) -> str:
	if "enum" in schema:
		near = get_close_matches(str(value), schema["enum"], 1)
		listed = ", ".join(schema["enum"])
		return f"{near[0]} (of {listed})" if near else f"one of {listed}"
	kind = KINDS[schema["type"]]
	if value == "":
		return f"{kind} that is not empty: {schema['description']}"
	if schema["type"] != "integer":
		return kind
	return f"{kind} from {schema['minimum']}" + (f" to {schema['maximum']}" if "maximum" in schema else "")


def _shown(value: Any) -> str:
	if isinstance(value, dict | list):
		return "a structure, not its text" if isinstance(value, dict) else "a list"
	shown = repr(value)
	return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
