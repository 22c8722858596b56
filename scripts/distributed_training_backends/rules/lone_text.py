"""XCF rule about the text of lone files: blocks and arguments that stand in a file of their own."""

from ..sources.document import Document
from .registry import Hit, Hits, rule


@rule("XCF004", error="*", of="transformers")
def lone_file_unreadable(lone: Document) -> Hits:
	"""A file with a block of its own (`fsdp_config`, quantization, …) that cannot be parsed, or is no mapping.

	Whoever reads it needs a mapping of keys: `fsdp_config` and arguments as JSON, the others as YAML or JSON. Source:
	5.24.0, training_args.py, `_process_fsdp_args`; PyYAML `safe_load` and `json.load`.
	"""
	for defect in lone.defects:
		if defect.name == "syntax-error":
			yield Hit(lone.stretch(defect.extent), f"the file cannot be parsed: {defect.detail or 'syntax error'}")
			return
	if lone.parsed and not isinstance(lone.data, dict):
		what = "is empty" if lone.data is None else f"holds a {type(lone.data).__name__}"
		yield Hit(lone.value(), f"the file {what}; write a mapping of keys")
