"""What the MCP Inspector finds, over stdio and HTTP, in both eras. Set DTB_NODE=1 to run; it needs Node."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_server.app import TOOLS
from tests import gated
from tests.conformance import node
from tests.conformance.running import SERVER, serving
from tests.mcp_calls import ACCELERATE

pytestmark = gated.node
A_TOOL_FAILED = 5
WAYS = ("stdio legacy", "stdio modern", "http legacy", "http modern")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
	node.prepare()
	with serving() as found:
		yield f"{found}/mcp"


@pytest.fixture(params=WAYS)
def server(request: pytest.FixtureRequest, address: str) -> list[str]:
	return options(request.param, address)


def options(way: str, address: str) -> list[str]:
	transport, era = way.split()
	if transport == "stdio":
		return [sys.executable, str(SERVER), "--protocol-era", era]
	return ["--transport", "http", "--server-url", address, "--protocol-era", era]


def inspect(server: list[str], method: str, *arguments: str) -> node.Done:
	command = node.program("@modelcontextprotocol/inspector", "mcp-inspector")
	return node.run(*command, "--cli", *server, "--method", method, *arguments, "--format", "json")


def call(server: list[str], tool: str, **given: Any) -> node.Done:
	return inspect(server, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(given))


def test_tools_are_listed_without_a_complaint(server: list[str]) -> None:
	done = inspect(server, "tools/list", "--strict")
	assert (done.status, done.err) == (0, "")
	assert [tool["name"] for tool in json.loads(done.out)["result"]["tools"]] == list(TOOLS)


def test_a_good_and_a_bad_call(server: list[str]) -> None:
	done = call(server, "validate_config", config=ACCELERATE)
	assert done.status == 0, done.err
	assert json.loads(done.out)["result"]["structuredContent"]["verdict"] == "rejected"
	done = call(server, "validate_config", confg=ACCELERATE)
	assert done.status == A_TOOL_FAILED
	assert "did you mean 'config'?" in done.out


@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "prompts/list"])
def test_the_other_lists(server: list[str], method: str) -> None:
	done = inspect(server, method)
	assert (done.status, done.err) == (0, "")
	assert any(json.loads(done.out)["result"].values())


@pytest.mark.parametrize("way", [way for way in WAYS if way.endswith("modern")])  # the extension came with that era
def test_the_skill_is_what_its_digests_say(way: str, address: str) -> None:
	done = inspect(options(way, address), "skills/list", "--verify", "--require-digests")
	assert done.status == 0, done.err
	assert "no conformance errors" in done.err
