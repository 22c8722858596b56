"""Skills over MCP (SEP-2640): the skill as an entry with the digest of each file, and its folders."""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from distributed_training_backends import skill
from distributed_training_backends.about import NAME

from .resources import ROOT, frontmatter, mime_type, uri_of

FRESH = {"ttlMs": 3_600_000, "cacheScope": "public"}  # the files change only with a new release
FOLDER = "inode/directory"


class UriParams(RequestParams):
	uri: str


class DirectoryParams(PaginatedRequestParams):
	uri: str


class Skills(Extension):
	identifier = "io.modelcontextprotocol/skills"

	def settings(self) -> dict[str, Any]:
		return {"directoryRead": True}

	def methods(self) -> Sequence[MethodBinding]:
		return [
			MethodBinding("skills/list", PaginatedRequestParams, list_skills),
			MethodBinding("skills/get", UriParams, get_skill),
			MethodBinding("resources/directory/read", DirectoryParams, read_directory),
		]


@cache
def entry() -> dict[str, Any]:
	contents = {path: skill.content(path) for path in skill.files()}
	files = [
		{"uri": uri_of(path), "digest": f"sha256:{sha256(content).hexdigest()}", "size": len(content)}
		for path, content in contents.items()
	]
	return {"uri": uri_of("SKILL.md"), "frontmatter": frontmatter(), "resources": files}


@cache
def folders() -> dict[str, dict[str, dict[str, Any]]]:
	found: dict[str, dict[str, dict[str, Any]]] = {ROOT: {}}
	for path in skill.files():
		*steps, name = path.split("/")
		folder = ROOT
		for step in steps:
			inner = f"{folder}/{step}"
			found[folder].setdefault(inner, {"uri": inner, "name": step, "mimeType": FOLDER})
			found.setdefault(inner, {})
			folder = inner
		found[folder][uri_of(path)] = {"uri": uri_of(path), "name": name, "mimeType": mime_type(path)}
	skill_file = found[ROOT][uri_of("SKILL.md")]
	skill_file |= {"name": NAME, "description": frontmatter()["description"]}
	return found


async def list_skills(context: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
	if params.cursor is not None:
		raise MCPError(INVALID_PARAMS, "there is no such cursor: the list has one page")
	return {"resultType": "complete", "skills": [entry()], **FRESH}


async def get_skill(context: ServerRequestContext[Any, Any], params: UriParams) -> dict[str, Any]:
	if params.uri != uri_of("SKILL.md"):
		raise MCPError(INVALID_PARAMS, f"there is no skill {params.uri[:200]!r}; there is {uri_of('SKILL.md')}")
	return {"resultType": "complete", "skill": entry(), **FRESH}


async def read_directory(context: ServerRequestContext[Any, Any], params: DirectoryParams) -> dict[str, Any]:
	if params.uri not in folders():
		is_file = params.uri.removeprefix(f"{ROOT}/") in skill.files()
		what = "is a file" if is_file else "is no folder of the skill"
		raise MCPError(INVALID_PARAMS, f"{params.uri[:200]!r} {what}; the folder of all is {ROOT}")
	if params.cursor is not None:
		raise MCPError(INVALID_PARAMS, "there is no such cursor: a folder has one page")
	return {"resultType": "complete", "resources": list(folders()[params.uri].values())}
