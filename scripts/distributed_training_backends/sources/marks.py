"""What is worth noting about a text whatever its syntax: templates, odd scalars, the shape of the whole, and remarks to
this program in comments of YAML and Python: `# dtb: ignore[FSD003, ACC001]`, `# dtb: ignore`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from ..model import Extent, Pointer
from .document import Defect, Document

# each stops at a second opening mark, so that a text of nothing but opening marks takes linear time
_JINJA = r"\{\{[^{}\n]*\}\}|\{%[^%\n]*%\}"
_TEMPLATE = rf"{_JINJA}|\$\{{[^{{}}\n]*\}}|\$\([^()\n]*\)|\$[A-Za-z_]\w*|<[A-Za-z_][^<>\n]*>"
_LEGACY_OCTAL = r"[-+]?0[0-7_]+"
_SEXAGESIMAL = r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
_SURROGATE = "[\ud800-\udfff]"


def scalar_defects(tag: str, value: str, style: str | None, extent: Extent, pointer: Pointer) -> Iterator[Defect]:
	"""Note a YAML scalar that holds a template, or a number that is not read in base ten."""
	if tag.endswith(":str"):
		yield from string_defects(value, extent, pointer)
	elif style is None and tag.endswith((":int", ":float")):
		if value.lstrip("-+")[:1] == "0" and re.fullmatch(_LEGACY_OCTAL, value):
			yield Defect("legacy-octal", extent, value, pointer)
		elif ":" in value and re.fullmatch(_SEXAGESIMAL, value):
			yield Defect("sexagesimal", extent, value, pointer)


def string_defects(value: str, extent: Extent, pointer: Pointer) -> Iterator[Defect]:
	if ("{" in value or "$" in value or "<" in value) and (found := re.search(_TEMPLATE, value)):
		yield Defect("template", extent, found.group(), pointer)
	if not value.isascii() and re.search(_SURROGATE, value):
		yield Defect("surrogate", extent, "", pointer)


def template_marks(text: str) -> Iterator[Defect]:
	"""Note where a text that cannot be parsed holds Jinja or Helm marks, which may be the reason."""
	if found := re.search(_JINJA, text):
		yield Defect("template", Extent(*found.span()), found.group())


def shape_defects(data: Any, text: str) -> Iterator[Defect]:
	if data is None and not text.strip():
		yield Defect("empty", Extent(0, 0))
	elif data is None:
		yield Defect("empty", Extent(0, len(text.rstrip())), "only comments, or an empty value")
	elif not isinstance(data, dict):
		yield Defect("not-a-mapping", Extent(0, len(text.rstrip())), type(data).__name__)


def around(text: str, position: int) -> Extent:
	start = min(position, len(text) - 1) if text else 0
	return Extent(start, min(start + 1, len(text)))


def block_scalar(text: str, extent: Extent) -> Extent:
	"""Leave out what follows a block scalar, which PyYAML counts in; blank lines belong to one that keeps them."""
	header = text[extent.start : extent.end].split("\n", 1)[0].split("#", 1)[0]
	if "+" in header:
		return extent
	return Extent(extent.start, extent.start + len(text[extent.start : extent.end].rstrip(" \t\r\n")))


_REMARK = r"(?m)(?:^|(?<=[\s#]))#[ \t]*dtb:[ \t]*ignore\b(?:[ \t]*\[([^\]\r\n]*)\])?"


def ignores(document: Document) -> Mapping[int, frozenset[str] | None]:
	"""Give, for lines that say so, the codes that are silenced there; None stands for all codes."""
	if document.syntax not in ("yaml", "python") or "dtb:" not in document.text:
		return {}
	scalars = sorted(_scalars(document)) if document.syntax == "yaml" else []
	starts = [extent.start for extent in scalars]
	silenced: dict[int, frozenset[str] | None] = {}
	for found in re.finditer(_REMARK, document.text):
		before = bisect_right(starts, found.start()) - 1
		if before >= 0 and found.start() < scalars[before].end:
			continue  # the text of a value, not a comment
		line = document.position(found.start())[0]
		codes = found.group(1)
		named = None if codes is None else frozenset(re.findall(r"[A-Z]+[0-9]+", codes.upper()))
		earlier = silenced.get(line, frozenset())
		silenced[line] = None if named is None or earlier is None else named | earlier
	return silenced


def _scalars(document: Document) -> Iterator[Extent]:
	parents = {pointer[:-1] for pointer in document.nodes if pointer}
	for pointer, node in document.nodes.items():
		if node.key is not None:
			yield node.key
		if pointer not in parents and document.text[node.value.start : node.value.start + 1] not in ("{", "["):
			yield _content(document.text, node.value)


def _content(text: str, extent: Extent) -> Extent:
	if text[extent.start : extent.start + 1] not in ("|", ">"):
		return extent
	newline = text.find("\n", extent.start, extent.end)
	return Extent(newline, extent.end) if newline >= 0 else Extent(extent.start, extent.start)
