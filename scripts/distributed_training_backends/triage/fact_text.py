"""Facts as text: YAML or JSON, within the limits that config files have."""

from typing import Any

from ..model import json_pointer
from ..model_triage import BadFactsError
from ..sources.document import Document, Syntax
from ..sources.limits import LimitError
from ..sources.load import read
from .fact_schema import no_facts


def facts_in(text: str, name: str = "facts") -> dict[str, Any]:
	"""Read a mapping of facts. Raises BadFactsError for what is none."""
	syntax: Syntax = "json" if text.lstrip().startswith("{") else "yaml"
	try:
		document = read(name, text, "accelerate", syntax)
	except LimitError as error:
		raise BadFactsError(((name, str(error)),)) from None
	refuse_defects(document)
	if not isinstance(document.data, dict):
		raise BadFactsError(((name, "a mapping of facts is wanted, such as model: {name: llama-3-8b}"),))
	if said := no_facts(document.data):
		raise BadFactsError(((name, said),))
	return {str(key): value for key, value in document.data.items()}


def refuse_defects(document: Document) -> None:
	for one in document.defects:
		if one.name == "duplicate-key":
			said = f"{json_pointer(one.pointer)} is told twice; leave one out"
		elif document.parsed:
			continue
		else:
			said = one.detail or "it cannot be read"
		raise BadFactsError(((f"{document.path}, line {document.position(one.extent.start)[0]}", said),))
