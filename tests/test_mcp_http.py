"""Streamable HTTP: who is let in, what is refused, and several workers behind one address."""

import contextlib
import http.client
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import anyio
import pytest
from mcp.client import Client
from mcp_server import http_app
from tests.conformance.running import serving
from tests.mcp_calls import ACCELERATE, MODES, ROOT, call, refused
from tests.tables import packed_table

from distributed_training_backends.about import NAME, VERSION

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
	with serving() as found:
		yield found


def request(address: str, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> tuple[int, bytes]:
	"""(status, body) of one request on a connection of its own."""
	with contextlib.closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)) as connection:
		connection.request(method, path, body, dict(headers))
		answer = connection.getresponse()
		return answer.status, answer.read()


def ping(address: str, **headers: str) -> int:
	named = {name.replace("_", "-"): value for name, value in headers.items()}
	return request(address, "POST", "/mcp", {**JSON, **named}, PING)[0]


def test_health_says_who_is_there_under_every_name(address: str) -> None:
	status, body = request(address, "GET", "/health", {"Host": "10.0.0.7"})
	assert (status, json.loads(body)) == (200, {"status": "ok", "name": NAME, "version": VERSION})


@packed_table("mcp_http.only_known_names_are_let_in")
def test_only_known_names_are_let_in(address: str, headers: dict[str, str], status: int) -> None:
	assert ping(address, **headers) == status


def test_what_is_too_large_is_refused(address: str) -> None:
	assert request(address, "POST", "/mcp", JSON, b" " * (5 * 1024 * 1024))[0] == 413


def test_what_is_no_request_is_refused(address: str) -> None:
	for body in (b"", b"no json", b"[" * 100_000, b"\xff", b"{}", b"null"):
		assert 400 <= request(address, "POST", "/mcp", JSON, body)[0] < 500
	assert ping(address) == 200


def test_no_stream_is_held_open(address: str) -> None:
	assert request(address, "GET", "/mcp", {"Accept": "text/event-stream"})[0] == 405
	assert request(address, "GET", "/elsewhere", {})[0] == 404


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_answer(address: str, mode: str) -> None:
	async with Client(f"{address}/mcp", mode=mode) as client:
		assert (await call(client, "validate_config", {"config": ACCELERATE}))["verdict"] == "rejected"
		assert (await call(client, "lookup_reference", {"query": "FSD001"}))["total"] > 0
		assert "did you mean 'query'" in await refused(client, "lookup_reference", {"querry": "FSD001"})


def test_names_that_are_allowed_are_let_in_with_and_without_a_port() -> None:
	made = http_app.security(["dtb.example.org", "10.0.0.5:8000", "[::1]"])
	assert made.enable_dns_rebinding_protection
	assert made.allowed_hosts == ["dtb.example.org", "dtb.example.org:*", "10.0.0.5:8000", "[::1]", "[::1]:*"]
	assert "https://dtb.example.org" in made.allowed_origins


def team_command() -> tuple[list[str], dict[str, str]]:
	(line,) = re.findall(r"^((?:DTB_\S+ )?uvicorn .*--workers 2.*)$", (ROOT / "README.md").read_text("utf-8"), re.M)
	words = shlex.split(line)
	start = words.index("uvicorn")
	return [sys.executable, "-m", *words[start:]], dict(word.split("=", 1) for word in words[:start])


async def test_two_workers_are_like_one() -> None:
	command, settings = team_command()
	for option, value in (("--port", "PORT"), ("--host", "127.0.0.1")):
		command[command.index(option) + 1] = value
	environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT / "scripts")}
	with serving(command, cwd=ROOT.parent, env=environment) as address:
		assert ping(address, Host=settings["DTB_ALLOWED_HOSTS"].split(",")[0]) == 200
		assert ping(address, Host="evil.example.com") == 421

		async def ask(mode: str) -> None:
			async with Client(f"{address}/mcp", mode=mode) as client:
				for _ in range(3):
					assert (await call(client, "validate_config", {"config": ACCELERATE}))["verdict"] == "rejected"

		async with anyio.create_task_group() as group:
			for mode in (*MODES, *MODES, *MODES):
				group.start_soon(ask, mode)
