"""Calls of the MCP server for its tests, and texts to call it with."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.types import CallToolResult, TextContent

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "mcp_server" / "server.py"
TOUR = ROOT / "tests" / "cases" / "tour"
ACCELERATE = (TOUR / "accelerate.yaml").read_text("utf-8")
DEEPSPEED = (TOUR / "ds_zero3.json").read_text("utf-8")
CLEAN = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n"
MODES = ("auto", "legacy")


async def call(client: Client, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
	"""The structured answer of a call that succeeds."""
	result = await client.call_tool(tool, dict(arguments))
	assert not result.is_error, text_of(result)
	assert json.loads(text_of(result)) == result.structured_content
	answer: dict[str, Any] = result.structured_content
	return answer


async def refused(client: Client, tool: str, arguments: Mapping[str, Any]) -> str:
	"""What a call that fails says."""
	result = await client.call_tool(tool, dict(arguments))
	assert result.is_error, text_of(result)
	return text_of(result)


def text_of(result: CallToolResult) -> str:
	(block,) = result.content
	assert isinstance(block, TextContent)
	return block.text
