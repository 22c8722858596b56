"""The server as a process of its own, for what talks to it over HTTP."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "mcp_server" / "server.py"
PATIENCE = 60  # seconds that a start may take on a busy machine


def free_port() -> int:
	with socket.socket() as asked:
		asked.bind(("127.0.0.1", 0))
		port: int = asked.getsockname()[1]
		return port


@contextlib.contextmanager
def serving(command: Sequence[str] | None = None, **options: object) -> Iterator[str]:
	port = free_port()
	command = command or [sys.executable, str(SERVER), "--http", "--port", str(port)]
	process = subprocess.Popen(
		[part.replace("PORT", str(port)) for part in command],
		stdin=subprocess.DEVNULL,
		stdout=subprocess.DEVNULL,
		stderr=subprocess.DEVNULL,
		**options,  # type: ignore[call-overload]
	)
	try:
		wait_until_alive(port, process)
		yield f"http://127.0.0.1:{port}"
	finally:
		process.terminate()
		try:
			process.wait(20)
		except subprocess.TimeoutExpired:
			process.kill()
			process.wait()


def wait_until_alive(port: int, process: subprocess.Popen[bytes]) -> None:
	end = time.monotonic() + PATIENCE
	while time.monotonic() < end and process.poll() is None:
		with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
			urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
			return
		time.sleep(0.1)
	raise RuntimeError(f"the server did not come up; it ended with {process.poll()}")
