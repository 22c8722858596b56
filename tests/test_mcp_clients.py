"""Installed everywhere: manifests that agree, and every config that is shown or shipped, started by a real client."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_server.app import TOOLS
from tests.conformance.running import serving
from tests.manifests import COMMAND, KEY, LINE, ROOT, Entry, read, shipped, shown
from tests.mcp_calls import CLEAN, call
from tests.mcp_wire import skill_of

from distributed_training_backends.about import DESCRIPTION, NAME, VERSION

pytestmark = pytest.mark.anyio
MANIFESTS = (".claude-plugin/plugin.json", "plugin.json", "gemini-extension.json", "manifest.json", "server.json")
MADE = {"name": NAME, "version": VERSION, "description": DESCRIPTION}
README, PROJECT = ((ROOT / name).read_text("utf-8") for name in ("README.md", "pyproject.toml"))
# What stands for the words of a config on a machine where nothing is installed.
STANDING_IN = {COMMAND: [sys.executable, "-m", "distributed_training_backends.serve"], "python3": [sys.executable]}
PLACES = {"PYTHONPATH": str(ROOT / "scripts")}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_agree(name: str) -> None:
	manifest = read(name)
	manifest["name"] = manifest["name"].removeprefix("io.github.OWNER/")
	assert manifest | MADE == manifest


def test_the_marketplace_offers_the_plugin() -> None:
	market = read(".claude-plugin/marketplace.json")
	(plugin,) = market["plugins"]
	assert (market["name"], market["description"]) == (NAME, DESCRIPTION)
	assert plugin | MADE | {"source": "./"} == plugin


def test_the_package_and_the_skill_agree_too() -> None:
	skill = yaml.safe_load((ROOT / "SKILL.md").read_text("utf-8").split("---\n")[1])
	assert (skill["name"], skill["license"]) == (NAME, "Apache-2.0")
	for name, value in {**MADE, "license": skill["license"]}.items():
		assert f'{name} = "{value}"' in PROJECT


def test_the_registry_can_match_the_package() -> None:
	entry = read("server.json")
	assert len(entry["description"]) <= 100
	assert f"mcp-name: {entry['name']} -->" in README
	(package,) = entry["packages"]
	assert (package["registryType"], package["identifier"], package["version"]) == ("pypi", NAME, VERSION)
	assert package["runtimeArguments"][0]["value"] == f"{NAME}[mcp]=={VERSION}"
	assert [argument["value"] for argument in package["packageArguments"]] == [COMMAND]


def test_the_bundle_lists_the_tools_that_there_are() -> None:
	assert [tool["name"] for tool in read("manifest.json")["tools"]] == list(TOOLS)


def test_the_same_requirements_everywhere() -> None:
	script = (ROOT / "mcp_server" / "server.py").read_text("utf-8")
	needed = re.findall(r'"([^"]+)"', script.split("# dependencies = ")[1].split("\n")[0])
	assert [requirement for requirement in needed if f'"{requirement}"' not in PROJECT] == []
	assert '"mcp>=2.1,<3" PyYAML markdown-it-py' in README


def test_no_folder_of_skills_and_no_config_for_whoever_opens_the_repository() -> None:
	assert not [name for name in ("skills", ".mcp.json") if (ROOT / name).exists()]


def test_the_readme_shows_every_client() -> None:
	places = [entry.where for entry in shown()]
	assert {"README, claude", "README, codex", "README, gemini", "README, TOML"} <= set(places)
	assert sum(place.startswith("README, JSON") for place in places) == 4
	assert len(LINE.findall(README)) == 3


def stands_for(entry: Entry) -> list[str]:
	first, *rest = entry.words
	if first == "uvx":
		source, spec, command = rest
		wanted = ("--from", f"{NAME}[mcp] @ git+https://github.com/OWNER/{NAME}", COMMAND)
		assert (source, spec, command) == wanted
		return STANDING_IN[COMMAND]
	if first == "uv":
		assert rest[:2] == ["run", "--script"]
		return [sys.executable, *rest[2:]]
	return [*STANDING_IN[first], *rest]


@pytest.mark.parametrize("entry", [*shown(), *shipped()], ids=lambda entry: entry.where)
async def test_a_client_starts_what_is_shown(entry: Entry, tmp_path: Path) -> None:
	if "url" in entry.data:
		assert entry.data["url"].endswith(":8000/mcp")
		with serving() as address:
			async with Client(f"{address}/mcp") as client:
				assert (await call(client, "validate_config", {"config": CLEAN}))["verdict"] == "accepted"
		return
	first, *rest = stands_for(entry)
	parameters = StdioServerParameters(command=first, args=rest, env={**os.environ, **PLACES}, cwd=tmp_path)
	async with Client(stdio_client(parameters)) as client:
		assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
		assert (await call(client, "validate_config", {"config": CLEAN}))["verdict"] == "accepted"


def test_names_of_tools_fit_with_the_names_of_plugin_and_server() -> None:
	plugin = read(".claude-plugin/plugin.json")
	(key,) = plugin["mcpServers"]
	assert key == KEY
	assert max(len(f"mcp__plugin_{plugin['name']}_{key}__{tool}") for tool in TOOLS) <= 64


def test_a_copy_of_the_oldest_installer_serves(tmp_path: Path) -> None:
	copy = tmp_path / NAME
	ignored = shutil.ignore_patterns("_*", ".*", "README.md", "metadata.json", "tests", "tools", "build", "dist")
	shutil.copytree(ROOT, copy, ignore=ignored)
	entry = skill_of([sys.executable, "-I", copy / "mcp_server" / "server.py"], cwd=tmp_path)
	assert entry["uri"] == f"skill://{NAME}/SKILL.md"
