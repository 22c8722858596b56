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
from tests.mcp_wire import wire

from distributed_training_backends.about import DESCRIPTION, NAME, VERSION

pytestmark = pytest.mark.anyio
MANIFESTS = (".claude-plugin/plugin.json", "plugin.json", "gemini-extension.json", "manifest.json", "server.json")
# What stands for the words of a config on a machine where nothing is installed.
STANDING_IN = {COMMAND: [sys.executable, "-m", "distributed_training_backends.serve"], "python3": [sys.executable]}
PLACES = {"PYTHONPATH": str(ROOT / "scripts")}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_agree(name: str) -> None:
    manifest = read(name)
    assert manifest["name"].removeprefix("io.github.OWNER/") == NAME
    assert (manifest["version"], manifest["description"]) == (VERSION, DESCRIPTION)


def test_the_marketplace_offers_the_plugin() -> None:
    market = read(".claude-plugin/marketplace.json")
    (plugin,) = market["plugins"]
    assert (market["name"], market["description"]) == (NAME, DESCRIPTION)
    assert (plugin["name"], plugin["version"], plugin["description"], plugin["source"]) == (
        NAME,
        VERSION,
        DESCRIPTION,
        "./",
    )


def test_the_package_and_the_skill_agree_too() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    for line in (f'name = "{NAME}"', f'version = "{VERSION}"', f'description = "{DESCRIPTION}"'):
        assert line in project
    skill = yaml.safe_load((ROOT / "SKILL.md").read_text("utf-8").split("---\n")[1])
    assert (skill["name"], skill["license"]) == (NAME, "Apache-2.0")
    assert f'license = "{skill["license"]}"' in project


def test_the_registry_can_match_the_package() -> None:
    entry = read("server.json")
    assert len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text("utf-8")
    (package,) = entry["packages"]
    assert (package["registryType"], package["identifier"], package["version"]) == ("pypi", NAME, VERSION)
    assert package["runtimeArguments"][0]["value"] == f"{NAME}[mcp]=={VERSION}"
    assert [argument["value"] for argument in package["packageArguments"]] == [COMMAND]


def test_the_bundle_lists_the_tools_that_there_are() -> None:
    assert [tool["name"] for tool in read("manifest.json")["tools"]] == list(TOOLS)


def test_the_same_requirements_everywhere() -> None:
    script = (ROOT / "mcp_server" / "server.py").read_text("utf-8")
    needed = re.findall(r'"([^"]+)"', script.split("# dependencies = ")[1].split("\n")[0])
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    for requirement in needed:
        assert f'"{requirement}"' in project, requirement
    assert '"mcp>=2.1,<3" PyYAML markdown-it-py' in (ROOT / "README.md").read_text("utf-8")


def test_no_folder_of_skills_and_no_config_for_whoever_opens_the_repository() -> None:
    """A folder `skills` would hide SKILL.md from Claude plugins; .mcp.json would start a server in every checkout."""
    assert not (ROOT / "skills").exists()
    assert not (ROOT / ".mcp.json").exists()


def test_the_readme_shows_every_client() -> None:
    places = [entry.where for entry in shown()]
    assert {"README, claude", "README, codex", "README, gemini", "README, TOML"} <= set(places)
    assert sum(place.startswith("README, JSON") for place in places) == 4
    assert len(LINE.findall((ROOT / "README.md").read_text("utf-8"))) == 3


def stands_for(entry: Entry) -> list[str]:
    """The command of an entry, with what is not installed here replaced by what it leads to."""
    first, *rest = entry.words
    if first == "uvx":
        source, spec, command = rest
        assert (source, command) == ("--from", COMMAND)
        assert re.fullmatch(rf"{NAME}\[mcp\] @ git\+https://github\.com/OWNER/{NAME}", spec)
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
    """It leaves out README.md, metadata.json, and whatever begins with an underscore."""
    copy = tmp_path / NAME
    ignored = shutil.ignore_patterns("_*", ".*", "README.md", "metadata.json", "tests", "tools", "build", "dist")
    shutil.copytree(ROOT, copy, ignore=ignored)
    with wire([sys.executable, "-I", str(copy / "mcp_server" / "server.py")], cwd=tmp_path) as server:
        server.start()
        assert server.call("validate_config", config=CLEAN)["verdict"] == "accepted"
        assert server.call("lookup_reference", query="FSD001")["total"] > 0
        (entry,) = server.ask("skills/list")["result"]["skills"]
    assert entry["uri"] == f"skill://{NAME}/SKILL.md"
