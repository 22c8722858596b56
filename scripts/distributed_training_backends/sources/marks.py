"""What is worth noting about a text whatever its syntax: templates, odd scalars, and the shape of the whole."""

import re
from collections.abc import Iterator
from typing import Any

from ..model import Extent, Pointer
from .document import Defect

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
