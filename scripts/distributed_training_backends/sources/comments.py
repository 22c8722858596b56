"""Remarks to this program in comments of YAML and Python: `# dtb: ignore[FSD003, ACC001]`, `# dtb: ignore`."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping

from ..model import Extent
from .document import Document

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
