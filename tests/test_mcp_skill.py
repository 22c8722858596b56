"""The skill over MCP: every file of it and nothing else, with the bytes that the digests are about."""

import os
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import BlobResourceContents, TextResourceContents
from mcp_server.app import server
from mcp_server.resources import SkillFile
from tests.mcp_calls import MODES, ROOT
from tests.mcp_wire import Wire, wire
from tests.tables import table

from distributed_training_backends import skill

HOME = "skill://distributed-training-backends"
INVALID_PARAMS = -32602
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def running() -> Iterator[Wire]:
	with wire() as found:
		found.start()
		yield found


@pytest.fixture(scope="module")
def entry(running: Wire) -> dict[str, Any]:
	"""The entry of the skill."""
	result = running.ask("skills/list")["result"]
	assert (result["resultType"], result["cacheScope"], result["ttlMs"] > 0) == ("complete", "public", True)
	(found,) = result["skills"]
	return dict(found)


def tracked() -> set[str]:
	"""The files of the skill as git has them."""
	command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "SKILL.md", "references", "scripts"]
	done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
	if done.returncode:
		pytest.skip("this is no git checkout")
	return {name for name in done.stdout.split("\n") if name and (ROOT / name).exists()}


def test_the_entry_names_every_file_once(entry: dict[str, Any]) -> None:
	uris = [item["uri"] for item in entry["resources"]]
	assert uris[0] == entry["uri"] == f"{HOME}/SKILL.md"
	assert len(uris) == len(set(uris)) <= 512
	assert {uri.removeprefix(f"{HOME}/") for uri in uris} == tracked()
	assert sum(item["size"] for item in entry["resources"]) < 16 * 1024 * 1024


def test_what_is_read_is_what_the_digest_says(running: Wire, entry: dict[str, Any]) -> None:
	for item in entry["resources"]:
		(content,) = running.ask("resources/read", uri=item["uri"])["result"]["contents"]
		data = content["text"].encode() if "text" in content else b64decode(content["blob"])
		assert (f"sha256:{sha256(data).hexdigest()}", len(data)) == (item["digest"], item["size"]), item["uri"]
		assert data == (ROOT / item["uri"].removeprefix(f"{HOME}/")).read_bytes()


def test_the_frontmatter_is_verbatim(running: Wire, entry: dict[str, Any]) -> None:
	block = (ROOT / "SKILL.md").read_text("utf-8").split("---\n")[1]
	assert entry["frontmatter"] == yaml.safe_load(block)
	assert running.ask("skills/get", uri=entry["uri"])["result"]["skill"] == entry


def test_folders_lead_to_every_file(running: Wire, entry: dict[str, Any]) -> None:
	files, pending = set(), [HOME]
	while pending:
		for item in running.ask("resources/directory/read", uri=pending.pop())["result"]["resources"]:
			if item["mimeType"] == "inode/directory":
				pending.append(item["uri"])
			else:
				files.add(item["uri"])
	assert files == {item["uri"] for item in entry["resources"]}


@table("""method, path
skills/get, ''
skills/get, /references/SKILL.md
resources/directory/read, /
resources/directory/read, /SKILL.md
resources/directory/read, /tests""")
def test_unknown_addresses_are_invalid(running: Wire, method: str, path: str) -> None:
	for uri in (HOME + path, "skill://another/SKILL.md", "file:///"):
		assert running.ask(method, uri=uri)["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize("method", ["skills/list", "resources/directory/read"])
def test_there_is_one_page(running: Wire, method: str) -> None:
	assert running.ask(method, uri=HOME, cursor="2")["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize(
	"path",
	[
		*("README.md", "tests/conftest.py", "pyproject.toml", "mcp_server/app.py", "references", "", "/etc/hosts"),
		*("../SKILL.md", "references/../pyproject.toml", "references/%2e%2e/pyproject.toml", "..%2F..%2Fetc%2Fhosts"),
		*("SKILL.md/", "./SKILL.md", "SKILL.md%00", "skill.md", "scripts//lookup_reference.py", "~/.netrc"),
	],
)
async def test_nothing_else_can_be_read(path: str) -> None:
	async with Client(server()) as client:
		with pytest.raises(MCPError) as refusal:
			await client.read_resource(f"{HOME}/{path}")
	assert refusal.value.error.code == INVALID_PARAMS


async def test_a_slip_in_a_path_is_told() -> None:
	async with Client(server()) as client:
		with pytest.raises(MCPError, match=f"did you mean {HOME}/references/rules/accelerate.md"):
			await client.read_resource(f"{HOME}/references/rules/acelerate.md")


LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)|`(references/[\w./-]+\.md)`")


def test_what_the_pages_link_to_is_served(entry: dict[str, Any]) -> None:
	served = {item["uri"].removeprefix(f"{HOME}/") for item in entry["resources"]}
	found = 0
	for page in sorted(name for name in served if name.endswith(".md")):
		for link, named in LINK.findall((ROOT / page).read_text("utf-8")):
			found += 1
			path = named or os.path.normpath(os.path.join(os.path.dirname(page), link))
			assert path in served, f"{page}: {link or named}"
	assert found


@pytest.mark.parametrize("mode", MODES)
async def test_the_pages_are_listed_with_their_titles(mode: Any) -> None:
	async with Client(server(), mode=mode) as client:
		listed = (await client.list_resources()).resources
	by_path = {item.uri.removeprefix(f"{HOME}/"): item for item in listed}
	assert set(by_path) == {name for name in tracked() if name.endswith(".md")}
	front = by_path.pop("SKILL.md")
	fields = yaml.safe_load((ROOT / "SKILL.md").read_text("utf-8").split("---\n")[1])
	assert (front.name, front.description, front.mime_type) == (fields["name"], fields["description"], "text/markdown")
	for path, item in by_path.items():
		heading = re.search(r"^# (.*)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
		assert heading
		assert (item.title, item.mime_type) == (heading.group(1), "text/markdown")


async def test_bytes_are_served_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	data = "\ufeff# A page\r\n\r\nText\u2028 of it\r".encode()
	(tmp_path / "page.md").write_bytes(data)
	monkeypatch.setattr(skill, "files", lambda: {"page.md": str(tmp_path / "page.md")})
	resource = SkillFile(uri=f"{HOME}/page.md", path="page.md")
	assert await resource.read() == data.decode()


@table("""path, kind
scripts/lookup_reference.py, text/x-python
scripts/distributed_training_backends/data/targets.json, application/json
references/rules/fsdp.md, text/markdown
scripts/distributed_training_backends/data/accelerate.json.gz, application/gzip""")
async def test_types_fit_the_files(path: str, kind: str) -> None:
	async with Client(server()) as client:
		(content,) = (await client.read_resource(f"{HOME}/{path}")).contents
	assert isinstance(content, BlobResourceContents if kind == "application/gzip" else TextResourceContents)
	assert content.mime_type == kind
