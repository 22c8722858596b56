"""DSP rules about the text of a DeepSpeed config: DeepSpeed reads Hjson, Accelerate and the Trainer strict JSON."""

import re

from ..flow.inputs import DeepSpeedFile
from ..model import Severity
from ..sources.document import Defect, Document
from .registry import Hit, Hits, Operation, Repair, rule
from .suggest import shown

PLACEHOLDER = re.compile(r"[$<{%]")
REMOVABLE = ("trailing-comma", "comment")


@rule("DSP001", error="*")
def not_json(deepspeed: DeepSpeedFile) -> Hits:
	"""The text is not what its reader can parse.

	DeepSpeed reads the file with Hjson, which takes comments, trailing commas and unquoted text. Accelerate and the
	Transformers Trainer read it with `json.load`, which takes none of them. An unquoted placeholder such as `$STAGE,`
	is text up to the end of its line for Hjson, comma included; so are `NaN` and `Infinity`, which `json.load` takes.
	Write strict JSON: every reader takes that. Source:
	deepspeed 0.19.8, runtime/config.py; accelerate 1.15.0, utils/deepspeed.py, `HfDeepSpeedConfig`.
	"""
	document = deepspeed.document
	for defect in document.defects:
		if defect.name == "syntax-error":
			message = f"this is neither JSON nor Hjson, so that no reader can parse it: {defect.detail}"
			yield Hit(document.stretch(defect.extent), message)
		elif defect.name == "not-strict-json" and deepspeed.huggingface:
			reason = f"{defect.detail}{remedy(document)}"
			message = f"json.load, the reader of Accelerate and the Trainer, refuses this: {reason}"
			yield Hit(document.stretch(defect.extent), message, strictly(document.defects))
		elif defect.name == "not-hjson" and not deepspeed.huggingface:
			message = f"DeepSpeed reads Hjson, which has no {document.raw(*defect.pointer)}"
			yield Hit(document.stretch(defect.extent), f"{message} and fails on this file; write a number")


def remedy(document: Document) -> str:
	departures = {defect.name: defect for defect in reversed(document.defects)}
	for defect in document.defects:
		if defect.name == "template" or (defect.name == "unquoted-string" and PLACEHOLDER.match(defect.detail)):
			return f"; fill in the placeholder {defect.detail.rstrip(',')} first"
	if not isinstance(document.data, dict):
		return ""
	if "missing-braces" in departures:
		return "; this is YAML, or text: write a JSON object in braces"
	if "unquoted-string" in departures:
		return f"; put quotation marks around {shown(departures['unquoted-string'].detail.rstrip(',')).strip(chr(34))}"
	return ""


def strictly(defects: tuple[Defect, ...]) -> Repair | None:
	"""Take out comments and trailing commas, where nothing else is wrong."""
	departures = [defect for defect in defects if not defect.pointer and defect.name != "not-strict-json"]
	if not departures or any(defect.name not in REMOVABLE for defect in departures):
		return None
	steps = tuple(Operation("text", (), extent=(item.extent.start, item.extent.end)) for item in departures)
	return Repair("remove comments and trailing commas", steps)


@rule("DSP002", error="*")
def duplicate_key(deepspeed: DeepSpeedFile) -> Hits:
	"""A key stands twice in the same block.

	DeepSpeed refuses a file with duplicate keys at any level. `json.load`, which Accelerate and the Trainer use, keeps
	the last one without a word. Keep one of them. Source: 0.19.8, runtime/config_utils.py,
	`dict_raise_error_on_duplicate_keys`.
	"""
	for defect in deepspeed.document.defects:
		if defect.name != "duplicate-key":
			continue
		at, kept = deepspeed.document.stretch(defect.extent, defect.pointer), deepspeed.document.value(*defect.pointer)
		what = "DeepSpeed refuses duplicate keys: keep one of them"
		if deepspeed.huggingface:
			what = "json.load keeps the last one and drops this one silently"
		severity = Severity.WARNING if deepspeed.huggingface else None
		yield Hit(at, f"`{defect.detail}` stands here twice; {what}", None, severity, (kept,))


@rule("DSP003", error="*")
def not_a_mapping(deepspeed: DeepSpeedFile) -> Hits:
	"""A DeepSpeed config is a mapping of settings; a list, a number, a text or an empty file is refused.

	Source: 0.19.8, runtime/config.py, `DeepSpeedConfig`.
	"""
	document = deepspeed.document
	if document.parsed and not isinstance(document.data, dict):
		what = "is empty" if document.data is None else f"holds a {type(document.data).__name__}"
		yield Hit(document.value(), f'the file {what}; write a JSON object such as {{"train_batch_size": 8}}')
