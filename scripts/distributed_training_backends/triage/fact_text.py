"""Facts as text: YAML or JSON, within the limits that config files have."""

from __future__ import annotations

from typing import Any

from distributed_training_backends.model_triage import BadFactsError
from distributed_training_backends.sources.document import Syntax
from distributed_training_backends.sources.limits import LimitError
from distributed_training_backends.sources.load import read


def facts_in(text: str, name: str = "facts.yaml") -> dict[str, Any]:
    """Read a mapping of facts. Raises BadFactsError for what is none."""
    syntax: Syntax = "json" if text.lstrip().startswith("{") else "yaml"
    try:
        document = read(name, text, "accelerate", syntax)
    except LimitError as error:
        raise BadFactsError((("", str(error)),)) from None
    if not document.parsed:
        raise BadFactsError((("", next((one.detail for one in document.defects if one.detail), "it cannot be read")),))
    if not isinstance(document.data, dict):
        raise BadFactsError((("", "a mapping of facts is wanted, such as model: {name: llama-3-8b}"),))
    return {str(key): value for key, value in document.data.items()}
