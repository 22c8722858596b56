"""The MCP server's part of the benchmark: start, calls over stdio, size of what clients load, memory.

The start is compared with an empty server on the same SDK, which takes turns with ours.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import project

OURS = [sys.executable, str(project.ROOT / "mcp_server" / "server.py")]
EMPTY = [sys.executable, "-c", "from mcp.server.mcpserver import MCPServer; MCPServer('empty').run()"]
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
CONFIG = (project.CASES / "tour" / "accelerate.yaml").read_text(encoding="utf-8")
ASKED: dict[str, dict[str, Any]] = {
	"validate_config": {"config": CONFIG},
	"diagnose_failure": {"log": "RuntimeError: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"},
	"lookup_reference": {"query": "fsdp_reshard_after_forward"},
}
CALLS = 300
QUICK = ("validate_config", "lookup_reference")  # which have a budget for each call
BYTES_A_TOKEN = 2.75  # of tables, which have most; prose has four or more
Ask = Callable[..., dict[str, Any]]


class Line(NamedTuple):
	"""One measured budget: what, the figure, its unit, the limit, and whether the figure may be above it."""

	what: str
	figure: float
	unit: str
	limit: float
	at_least: bool = False

	@property
	def kept(self) -> bool:
		return self.figure >= self.limit if self.at_least else self.figure <= self.limit

	def __str__(self) -> str:
		sign = "≥" if self.at_least else "≤"
		return f"{'ok    ' if self.kept else 'BROKEN'} {self.what}: {self.figure:.2f} {self.unit} ({sign} {self.limit})"


@contextmanager
def running(command: Sequence[str]) -> Iterator[tuple[Ask, int]]:
	"""A server that has shaken hands: (ask, process number)."""
	process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
	assert process.stdin is not None
	assert process.stdout is not None
	try:
		ask = asker(process.stdin, process.stdout)
		ask("initialize", **CLIENT)
		yield ask, process.pid
	finally:
		process.stdin.close()
		process.wait()


def asker(there: IO[bytes], back: IO[bytes]) -> Ask:

	def ask(method: str, **params: Any) -> dict[str, Any]:
		there.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
		there.flush()
		answer: dict[str, Any] = json.loads(back.readline())["result"]
		return answer

	return ask


def start(command: Sequence[str]) -> float:
	"""The seconds from the start to the answer to `initialize`."""
	begin = time.perf_counter()
	with running(command):
		return time.perf_counter() - begin


def side_by_side(
	seconds: Callable[[Sequence[str]], float], one: Sequence[str], other: Sequence[str], runs: int = 15
) -> tuple[float, float]:
	"""The median seconds of two programs that take turns, after a first run of each."""
	seconds(one), seconds(other)
	times = zip(*((seconds(one), seconds(other)) for _ in range(runs)), strict=True)
	ours, theirs = map(statistics.median, times)
	return ours, theirs


def cold() -> Line:
	ours, empty = side_by_side(start, OURS, EMPTY)
	print(f"       MCP start: {ours * 1000:.0f} ms, an empty server on the same SDK: {empty * 1000:.0f} ms")
	return Line("MCP: start up to the answer to initialize", ours / empty, "times an empty server", 1.25)


def call(ask: Ask, tool: str) -> float:
	times = []
	for _ in range(CALLS):
		begin = time.perf_counter()
		ask("tools/call", name=tool, arguments=ASKED[tool])
		times.append((time.perf_counter() - begin) * 1000)
	return statistics.median(times)


def tokens(ask: Ask, tool: str) -> Line:
	"""How long a default answer is, in tokens if it were all tables."""
	text = ask("tools/call", name=tool, arguments=ASKED[tool])["content"][0]["text"]
	return Line(f"MCP: default answer of {tool}", len(text.encode()) / BYTES_A_TOKEN, "tokens at most", 1200)


def memory(process: int) -> Line:
	done = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, check=True)
	return Line("MCP: resident memory after these calls", int(done.stdout) / 1024, "MiB", 90)


def lines() -> list[Line]:
	measured = [cold()]
	with running(OURS) as (ask, process):
		listed = json.dumps(ask("tools/list")["tools"], ensure_ascii=False, separators=(",", ":"))
		times = {tool: call(ask, tool) for tool in ASKED}
		print("       over stdio:", ", ".join(f"{tool} {time:.1f} ms" for tool, time in times.items()))
		measured += [Line(f"MCP: {tool} over stdio, median of {CALLS}", times[tool], "ms", 5) for tool in QUICK]
		measured += [tokens(ask, tool) for tool in ASKED]
		measured.append(Line("MCP: tools/list, of five tools", len(listed.encode()) / 1000, "KB", 7.5))
		measured.append(memory(process))
	return measured
