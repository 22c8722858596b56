"""The server over stdio as a client without a library sees it: lines out, lines in."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.mcp_calls import CLEAN, SERVER

PATIENCE = 60  # seconds for an answer on a busy machine
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}


class Wire:
	"""A running server."""

	def __init__(self, process: subprocess.Popen[bytes]) -> None:
		self.process = process
		self._number = 0
		self._lines: queue.Queue[bytes] = queue.Queue()
		threading.Thread(target=self._listen, daemon=True).start()

	def _listen(self) -> None:
		assert self.process.stdout is not None
		for line in self.process.stdout:
			self._lines.put(line)
		self._lines.put(b"")

	def raw(self, data: bytes) -> None:
		"""Send bytes as they are."""
		assert self.process.stdin is not None
		self.process.stdin.write(data)
		self.process.stdin.flush()

	def send(self, method: str, **params: Any) -> int:
		self._number += 1
		request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
		self.raw(json.dumps(request).encode() + b"\n")
		return self._number

	def receive(self) -> dict[str, Any]:
		line = self._lines.get(timeout=PATIENCE)
		assert line, "the server has closed its output"
		message: dict[str, Any] = json.loads(line)
		assert message["jsonrpc"] == "2.0"
		return message

	def answer(self, number: int | str) -> dict[str, Any]:
		"""The answer to a request; what comes before it is left out."""
		while (message := self.receive()).get("id") != number:
			pass
		return message

	def ask(self, method: str, **params: Any) -> dict[str, Any]:
		return self.answer(self.send(method, **params))

	def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
		result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
		assert not result.get("isError"), result
		answer: dict[str, Any] = result["structuredContent"]
		return answer

	def start(self) -> dict[str, Any]:
		answer: dict[str, Any] = self.ask("initialize", **HANDSHAKE)["result"]
		self.raw(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
		return answer

	def memory(self) -> int:
		done = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, check=True)
		return int(done.stdout)


@contextlib.contextmanager
def wire(command: Sequence[str] = (), **options: Any) -> Iterator[Wire]:
	"""Run a server, with its standard error left unread as some clients do."""
	process = subprocess.Popen(
		list(command) or [sys.executable, str(SERVER)],
		stdin=subprocess.PIPE,
		stdout=subprocess.PIPE,
		stderr=subprocess.PIPE,
		**{"env": {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, **options},
	)
	try:
		yield Wire(process)
	finally:
		process.kill()
		process.wait()
		for stream in (process.stdin, process.stdout, process.stderr):
			with contextlib.suppress(OSError):
				stream.close() if stream else None


def skill_of(command: Sequence[str | Path], **options: Any) -> dict[str, Any]:
	with wire([str(part) for part in command], **options) as server:
		server.start()
		assert server.call("validate_config", config=CLEAN)["verdict"] == "accepted"
		assert server.call("lookup_reference", query="FSD001")["total"] > 0
		(entry,) = server.ask("skills/list")["result"]["skills"]
	found: dict[str, Any] = entry
	return found
