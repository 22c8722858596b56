"""Comments that silence findings: `# dtb: ignore[FSD003, ACC001]`, or `# dtb: ignore` for all codes of a line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from distributed_training_backends.sources.document import Document

_IGNORE = re.compile(r"#[ \t]*dtb:[ \t]*ignore(?:\[([^\]\n]*)\])?", re.IGNORECASE)


def ignores(document: Document) -> Mapping[int, frozenset[str] | None]:
    """The codes that are silenced, by line; None for all of them. YAML only: JSON has no comments."""
    if document.syntax != "yaml" or "dtb:" not in document.text:
        return {}
    found: dict[int, frozenset[str] | None] = {}
    for match in _IGNORE.finditer(document.text):
        if not is_comment(document, match.start()):
            continue
        codes = match.group(1)
        line = document.position(match.start())[0]
        found[line] = None if codes is None else frozenset(code.strip().upper() for code in codes.split(","))
    return found


def is_comment(document: Document, offset: int) -> bool:
    """Tell whether a # begins a comment: it stands at a line's start or behind a blank, and in no scalar."""
    if offset and document.text[offset - 1] not in " \t\n\r\ufeff":
        return False
    for pointer, node in document.nodes.items():
        if node.key is not None and node.key.start <= offset < node.key.end:
            return False
        scalar = not isinstance(document.get(*pointer), (dict, list))
        if scalar and pointer and node.value.start <= offset < node.value.end:
            return False
    return True
