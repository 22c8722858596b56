"""Where two descriptions of an Accelerator differ; the oracle's workers import this, so it needs nothing."""

from collections.abc import Iterator, Mapping
from typing import Any


def unlike(built: Mapping[str, Any], meant: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What is not as it was meant: its name, and the two values."""
    for name in sorted(meant):
        mine, theirs = built.get(name), meant[name]
        if isinstance(mine, dict) and isinstance(theirs, dict):
            yield from (
                (f"{name}.{key}", mine.get(key), theirs[key]) for key in sorted(theirs) if mine.get(key) != theirs[key]
            )
        elif mine != theirs:
            yield name, mine, theirs
