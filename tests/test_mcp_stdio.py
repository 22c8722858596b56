"""The server over stdio: bad input, ends, streams that nobody reads, and memory over many calls."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import COMMAND
from tests.mcp_calls import CLEAN, DEEPSPEED, SERVER
from tests.mcp_wire import PATIENCE, Wire, skill_of, wire
from tests.tables import packed_table, table

from distributed_training_backends.about import NAME, VERSION

LINKED = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
GROWTH = 3 * 1024  # in KiB


@pytest.fixture(scope="module")
def server() -> Iterator[Wire]:
	"""One server for all that must not harm it."""
	with wire() as found:
		found.start()
		yield found


@pytest.fixture
def mortal() -> Iterator[Wire]:
	with wire() as found:
		found.start()
		yield found


def test_the_handshake_says_who_answers(server: Wire) -> None:
	info = server.start()
	assert (info["serverInfo"]["name"], info["serverInfo"]["version"]) == (NAME, VERSION)
	assert {"tools", "resources", "prompts", "completions"} <= set(info["capabilities"])
	assert "logging" not in info["capabilities"]


@pytest.mark.parametrize(
	"data",
	[
		*(b"no json", b"\n \n\r", b"\xff\xfe\x00", b'{"jsonrpc": "2.0"', b"[]"),
		b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
		b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
		b'{"jsonrpc": "2.0", "id": 1.5, "method": 7}',
		b'{"jsonrpc": "1.0", "id": 3, "method": "ping"}',
		b'{"jsonrpc": "2.0", "id": "x", "result": {}}',
		b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
		*(b"[" * 100_000, b'{"a": ' * 50_000, b"9" * 5_000, b'"' + b"x" * 3_000_000 + b'"', b"no json\n" * 3_000),
	],
	ids=lambda data: repr(data[:30]),
)
def test_lines_that_are_no_request_do_no_harm(server: Wire, data: bytes) -> None:
	server.raw(data + b"\n")
	assert server.call("validate_config", config=CLEAN)["verdict"] == "accepted"


@table(r"""method, params, code
no/such, {}, -32601
tools/call, null, -32602
tools/call, {name: 1}, -32602
resources/read, {uri: file:///etc/hosts}, -32602
skills/get, {}, -32602""")
def test_bad_requests_get_an_error(server: Wire, method: str, params: dict[str, Any] | None, code: int) -> None:
	asked = {"jsonrpc": "2.0", "id": 77, "method": method, **({} if params is None else {"params": params})}
	server.raw(json.dumps(asked).encode() + b"\n")
	error = server.answer(77)["error"]
	assert error["code"] == code
	assert "Traceback" not in str(error)


@pytest.mark.parametrize(
	("config", "code"), [(r'"a\ud800"', -32700), (r'"\udc00"', -32700), (300 * "[" + 300 * "]", -32700), ('"x"', None)]
)
def test_requests_that_the_sdk_cannot_read_get_an_error(server: Wire, config: str, code: int | None) -> None:
	arguments = f'{{"name": "validate_config", "arguments": {{"config": {config}}}}}'
	server.raw(f'{{"jsonrpc": "2.0", "id": "é", "method": "tools/call", "params": {arguments}}}\n'.encode())
	assert server.answer("é").get("error", {}).get("code") == code


@pytest.mark.parametrize(
	("text", "verdict"),
	[
		("[" * 100_000, "unreadable"),
		("a: &a [x, x, x]\n" + "\n".join(f"b{n}: &b{n} [*a, *a, *a, *a]" for n in range(40)), "unreadable"),
		("x: 1" + "0" * 10_000, "unreadable"),
		("a" * 3_000_000, "unreadable"),
		("distributed_type: FSDP\n" + "k: !!python/object/apply:os.system [ls]\n", "rejected"),
	],
	ids=lambda value: value[:20],
)
def test_hostile_configs_get_an_answer_at_once(server: Wire, text: str, verdict: str) -> None:
	answer = server.call("validate_config", config=text)
	assert answer["verdict"] == verdict
	assert answer["findings"][0]["message"]


def test_windows_line_ends_are_taken() -> None:
	with wire() as server:
		server.raw(b'{"jsonrpc": "2.0", "id": 5, "method": "ping"}\r\n')
		assert server.receive()["id"] == 5


def test_the_end_of_the_input_ends_the_server(mortal: Wire) -> None:
	assert mortal.process.stdin is not None
	mortal.process.stdin.close()
	assert mortal.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signals_end_the_server(mortal: Wire, name: str) -> None:
	number = getattr(signal, name)
	mortal.process.send_signal(number)
	assert mortal.process.wait(PATIENCE) == -number


FAILING = """
import sys
sys.path.insert(0, {scripts!r})
from distributed_training_backends import api, serve
def fail(*_):
    raise RuntimeError("a defect " + "x" * 5_000)
api.validate_text = fail
sys.exit(serve.main([]))
"""


def test_what_goes_wrong_while_nobody_reads_the_log() -> None:
	"""Standard error is a pipe that is never emptied; more than fits into it is said in these calls."""
	code = FAILING.format(scripts=str(SERVER.parent.parent / "scripts"))
	with wire([sys.executable, "-c", code]) as server:
		server.start()
		for _ in range(300):
			result = server.ask("tools/call", name="validate_config", arguments={"config": CLEAN})["result"]
			assert result["isError"]
		assert server.call("lookup_reference", query="FSD001")["total"] > 0
		server.process.kill()
		assert server.process.stderr is not None
		said = server.process.stderr.read().decode()
	assert said.startswith(
		"ERROR distributed_training_backends.mcp_server.app: validate_config failed: RuntimeError: a "
	)
	assert max(map(len, said.splitlines())) < 1_100
	assert "Traceback" not in said


def test_a_thousand_calls_take_no_more_memory(server: Wire) -> None:
	def calls(*numbers: int) -> None:
		for number in range(*numbers):
			server.call("validate_config", config=f"{LINKED}  zero_stge_{number}: 2\n", deepspeed_config=DEEPSPEED)
			server.call("lookup_reference", query=f"is fsdp_ofload_params{number} read")

	calls(50)
	before = server.memory()
	calls(50, 550)
	assert server.memory() - before < GROWTH


def test_fifty_calls_at_once_take_no_more_memory_each_time(server: Wire) -> None:
	def burst() -> None:
		numbers = {server.send("tools/call", name="validate_config", arguments={"config": CLEAN}) for _ in range(50)}
		while numbers:
			message = server.receive()
			assert message["result"]["structuredContent"]["verdict"] == "accepted"
			numbers.remove(message["id"])

	for _ in range(3):
		burst()
	before = server.memory()
	for _ in range(10):
		burst()
	assert server.memory() - before < GROWTH


def run(*command: str | Path, **environment: str) -> tuple[int, str, str]:
	"""What a program does that is given no input: its status, and what it prints on either stream."""
	options: Any = {"env": environment} if environment else {}
	words, null = [str(part) for part in command], subprocess.DEVNULL
	done = subprocess.run(
		words, stdin=null, capture_output=True, encoding="utf-8", check=False, timeout=PATIENCE, **options
	)
	return done.returncode, done.stdout, done.stderr


def without_sdk(*arguments: str) -> tuple[int, str, str]:
	code = f"import runpy, sys; sys.modules['mcp'] = None; runpy.run_path({str(SERVER)!r}, run_name='__main__')"
	return run(sys.executable, "-c", code, *arguments)


def test_without_the_sdk_one_line_says_what_to_install() -> None:
	said = (
		f'{COMMAND}: the MCP SDK is missing; run: {sys.executable} -m pip install "mcp>=2.1,<3" PyYAML markdown-it-py'
	)
	assert without_sdk() == (2, "", said + "\n")


def test_version_and_help_need_no_sdk() -> None:
	assert without_sdk("--version") == (0, f"{COMMAND} {VERSION}\n", "")
	status, out, _ = without_sdk("--help")
	assert (status, "--allow-host" in out) == (0, True)


def test_an_old_sdk_is_told_from_a_missing_one(tmp_path: Path) -> None:
	for name, text in {
		"mcp/__init__.py": "",
		"mcp/server/__init__.py": "",
		"mcp-1.30.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mcp\nVersion: 1.30.0\n",
	}.items():
		(tmp_path / name).parent.mkdir(exist_ok=True)
		(tmp_path / name).write_text(text)
	status, out, error = run(sys.executable, SERVER, PYTHONPATH=str(tmp_path))
	assert (status, out, error.count("\n")) == (2, "", 1)
	assert "mcp 1.30.0 does not fit; run: " in error


@packed_table("mcp_stdio.a_wrong_command_line_is_told_in_one_line")
def test_a_wrong_command_line_is_told_in_one_line(arguments: list[str], said: str) -> None:
	status, out, error = run(sys.executable, SERVER, *arguments)
	assert (status, out, error.count("\n")) == (2, "", 1)
	assert said in error


def test_it_runs_from_anywhere_and_through_a_link(tmp_path: Path) -> None:
	link = tmp_path / "skills" / NAME
	link.parent.mkdir()
	link.symlink_to(SERVER.parent.parent)
	for flags in ([], ["-I"]):
		assert skill_of([sys.executable, *flags, link / "mcp_server" / "server.py"], cwd=tmp_path)
