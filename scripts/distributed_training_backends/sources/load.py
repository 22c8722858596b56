"""From a decoded text to a document: choose the kind, and the reader that the kind's own consumer uses."""

from __future__ import annotations

from distributed_training_backends.model import Extent, Kind
from distributed_training_backends.sources.detect import detect
from distributed_training_backends.sources.document import Defect, Document, Syntax
from distributed_training_backends.sources.json_source import parse_json
from distributed_training_backends.sources.limits import LimitError, Unreadable
from distributed_training_backends.sources.reading import Raw

# Accelerate, the Trainer and DeepSpeed read these with a JSON reader, whatever the file is called
JSON_ONLY: tuple[Kind, ...] = ("deepspeed", "fsdp")


def load(raw: Raw, kind: Kind | None) -> Document | Unreadable:
    """Read a text as a kind, or as the kind that it looks like."""
    try:
        document = read(raw.path, raw.text, kind, syntax_of(raw, kind)) if kind else _read_unknown(raw)
    except LimitError as limit:
        return limit.of(raw.path)
    if document is None:
        message = "it does not look like any kind of config that is known here; --format says which kind it is"
        return Unreadable(raw.path, "unknown-kind", message)
    return _finish(document, raw)


def read(path: str, text: str, kind: Kind, syntax: Syntax) -> Document:
    """Read a text with one of the readers. Raises `LimitError`."""
    if syntax == "json":
        return parse_json(path, text, kind)
    # imported here, so that a JSON file can be judged where PyYAML is missing
    from distributed_training_backends.sources.yaml_source import parse_yaml

    return parse_yaml(path, text, kind)


def _read_unknown(raw: Raw) -> Document | None:
    """Read once to see the keys, and once more if the kind's own reader is another one."""
    first: Syntax = "json" if raw.text.lstrip().startswith("{") else syntax_of(raw, "accelerate")
    document = read(raw.path, raw.text, "accelerate", first)
    kind = detect(document.data if document.parsed else None, raw.text, raw.path)
    if kind is None or (kind == "accelerate" and first == syntax_of(raw, kind)):
        return document if kind else None
    return read(raw.path, raw.text, kind, syntax_of(raw, kind))


def syntax_of(raw: Raw, kind: Kind) -> Syntax:
    """Tell which reader a kind gets: Accelerate goes by the suffix, and what has none by its first character."""
    name = raw.path.lower()
    if kind in JSON_ONLY or name.endswith(".json"):
        return "json"
    named = name.endswith((".yaml", ".yml"))
    return "json" if raw.path == "-" and not named and raw.text.lstrip().startswith(("{", "[")) else "yaml"


def _finish(document: Document, raw: Raw) -> Document:
    defects = [Defect("byte-order-mark", Extent(0, 0))] if raw.bom else []
    return document.with_defects(*defects, newline=raw.newline, bom=raw.bom)
