"""The configs that README.md and the manifests show, as what a client starts: a command, or an address."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "distributed-training-backends-mcp"
KEY = "dtb"
ROOTS = ("${CLAUDE_PLUGIN_ROOT}", "${PLUGIN_ROOT}", "${extensionPath}", "${__dirname}")
LINE = re.compile(r"`((?:claude|codex|gemini) mcp add [^`]*)`")


class Entry(NamedTuple):
	"""One server entry of a client's config, and where it stands."""

	where: str
	data: dict[str, Any]

	@property
	def words(self) -> list[str]:
		words = [self.data["command"], *self.data.get("args", [])]
		for name in ROOTS:
			words = [word.replace("${/}", "/").replace(name, str(ROOT)) for word in words]
		return words


def read(name: str) -> dict[str, Any]:
	found: dict[str, Any] = json.loads((ROOT / name).read_text("utf-8"))
	return found


def shown() -> Iterator[Entry]:
	"""Every entry that README.md shows: JSON, TOML, and the lines that clients have for it."""
	text = (ROOT / "README.md").read_text("utf-8")
	for number, block in enumerate(re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)):
		config = json.loads(block)
		yield Entry(f"README, JSON {number + 1}", (config.get("mcpServers") or config.get("servers"))[KEY])
	for block in re.findall(rf"^```toml\n\[mcp_servers\.{KEY}\]\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
		pairs = [line.split(" = ", 1) for line in block.splitlines()]
		yield Entry("README, TOML", {name: json.loads(value) for name, value in pairs})
	for line in LINE.findall(text):
		words = line.replace(" -- ", " ").split()
		assert words[3] == KEY
		yield Entry(f"README, {words[0]}", {"command": words[4], "args": words[5:]})


def shipped() -> Iterator[Entry]:
	for name in (".claude-plugin/plugin.json", "mcp.json", "gemini-extension.json"):
		yield Entry(name, read(name)["mcpServers"][KEY])
	yield Entry("manifest.json", read("manifest.json")["server"]["mcp_config"])
