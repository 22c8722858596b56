"""What clients see of the tools: snapshots, and the limits that one client or another breaks on."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from mcp.client import Client
from mcp.types import ListToolsResult
from mcp_server.app import INSTRUCTIONS, TOOLS, listed, server
from mcp_server.tool import Tool

import packed
from extraction import dump

SNAPSHOTS = str(Path(__file__).with_name("snapshots.json"))
UPDATE = "DTB_UPDATE_SNAPSHOTS"
# A Claude plugin prefixes names with mcp__plugin_<plugin>_<server>__, and all together may have 64 characters.
PREFIX = "mcp__plugin_distributed-training-backends_dtb__"
FIVE_TOOLS = 7_500  # bytes of tools/list
# What one client or another cannot read, or shows to the model without use.
UNREADABLE = ("$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "title", "format")

pytestmark = pytest.mark.anyio


def definition(tool: Tool) -> dict[str, Any]:
	return listed(tool).model_dump(by_alias=True, exclude_none=True, mode="json")


def schemas(tool: Tool) -> Iterator[tuple[str, dict[str, Any]]]:
	"""(where, schema) of every schema in a definition."""
	for where in ("inputSchema", "outputSchema"):
		yield from below(where, definition(tool)[where])


def below(where: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
	yield where, schema
	for name, inner in schema.get("properties", {}).items():
		yield from below(f"{where}.{name}", inner)
	if isinstance(schema.get("items"), dict):
		yield from below(f"{where}[]", schema["items"])


every_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)


def test_definitions_change_only_on_purpose() -> None:
	text = dump({name: definition(tool) for name, tool in sorted(TOOLS.items())})
	if os.environ.get(UPDATE):
		packed.save(SNAPSHOTS, text)
	assert packed.text_of(SNAPSHOTS) == text, f"if it is meant to change: {UPDATE}=1 writes the new ones"


@every_tool
def test_names_fit_where_clients_put_them(tool: Tool) -> None:
	assert re.fullmatch(r"[a-z]+(?:_[a-z]+)+", tool.name)
	assert len(tool.name) <= 17
	assert len(PREFIX + tool.name) <= 64


@every_tool
def test_nothing_that_a_client_cannot_read(tool: Tool) -> None:
	for where, schema in schemas(tool):
		assert [word for word in UNREADABLE if word in schema] == [], where
		assert isinstance(schema["type"], str), f"{where}: a list of types"
		assert (schema["type"] == "array") == ("items" in schema), where
		assert set(schema.get("required", ())) <= set(schema.get("properties", ())), where
		assert "default" not in schema or schema["default"] in schema.get("enum", [schema["default"]]), where


@every_tool
def test_arguments_are_flat_and_closed(tool: Tool) -> None:
	schema = definition(tool)["inputSchema"]
	assert schema["additionalProperties"] is False
	assert {inner["type"] for inner in schema["properties"].values()} <= {"string", "integer", "boolean"}
	for name in schema["required"]:
		assert schema["properties"][name]["description"]
		assert "default" not in schema["properties"][name]


@every_tool
@pytest.mark.parametrize("dialect", [Draft7Validator, Draft202012Validator])
def test_schemas_are_schemas_in_both_dialects(tool: Tool, dialect: Any) -> None:
	dialect.check_schema(definition(tool)["inputSchema"])
	dialect.check_schema(definition(tool)["outputSchema"])


@every_tool
def test_hints_and_titles_are_all_said(tool: Tool) -> None:
	shown = definition(tool)
	assert shown["title"]
	assert shown["annotations"] == {
		"readOnlyHint": True,
		"destructiveHint": False,
		"idempotentHint": True,
		"openWorldHint": False,
	}


def test_the_list_is_short() -> None:
	result = ListToolsResult(tools=[listed(tool) for tool in TOOLS.values()])
	assert len(result.model_dump_json(by_alias=True, exclude_none=True)) <= FIVE_TOOLS


def test_instructions_say_it_in_what_clients_read() -> None:
	assert len(INSTRUCTIONS) <= 512
	assert [name for name in TOOLS if name not in INSTRUCTIONS] == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_see_the_same_in_both_revisions(mode: Any) -> None:
	async with Client(server(), mode=mode) as client:
		tools = (await client.list_tools()).tools
		assert [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools] == [
			definition(tool) for tool in TOOLS.values()
		]
		assert client.instructions == INSTRUCTIONS
		assert client.server_info is not None
		assert (client.server_info.name, client.server_info.title) == (
			"distributed-training-backends",
			"Distributed training backends",
		)
