"""The files of the skill as resources: skill://distributed-training-backends/SKILL.md, its pages and its scripts."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, NoReturn

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import Resource

from distributed_training_backends import skill
from distributed_training_backends.about import NAME

ROOT = f"skill://{NAME}"
TEMPLATE = f"{ROOT}/{{+path}}"
MIME_TYPES = {"md": "text/markdown", "py": "text/x-python", "json": "application/json", "gz": "application/gzip"}


class SkillFile(Resource):
	"""One file, served as the very bytes that its digest is about."""

	path: str

	async def read(self) -> str | bytes:
		"""Decode without touching line ends; what is packed is no text."""
		content = skill.content(self.path)
		return content if self.path.endswith(".gz") else content.decode("utf-8")


@cache
def frontmatter() -> dict[str, Any]:
	return skill.frontmatter()


def uri_of(path: str) -> str:
	return f"{ROOT}/{path}"


def mime_type(path: str) -> str:
	return MIME_TYPES[path.rpartition(".")[2]]


def resources() -> Iterator[Resource]:
	"""Every file of the skill. All can be read; `is_listed` says which of them are listed."""
	for path in skill.files():
		about = {"uri": uri_of(path), "mime_type": mime_type(path), "path": path}
		if path == "SKILL.md":
			yield SkillFile.model_validate({**about, "name": NAME, "description": frontmatter()["description"]})
		else:
			title = title_of(path) if path.endswith(".md") else None
			yield SkillFile.model_validate({**about, "name": path, "title": title})


def is_listed(uri: str) -> bool:
	"""The pages are listed; to name every module of the scripts would cost clients more than it tells them."""
	return uri.endswith(".md")


def title_of(path: str) -> str:
	with open(skill.files()[path], encoding="utf-8") as file:
		return next((line.removeprefix("# ").strip() for line in file if line.startswith("# ")), path)


def missing(path: str) -> NoReturn:
	near = get_close_matches(path, skill.files(), 1)
	hint = f"did you mean {uri_of(near[0])}?" if near else f"start at {uri_of('SKILL.md')}"
	raise ResourceNotFoundError(f"the skill has no file {path[:100]!r}; {hint}")


def paths_like(beginning: str) -> list[str]:
	return [path for path in skill.files() if path.startswith(beginning)]
