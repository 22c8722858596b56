"""JSON as `json.load` reads it, and as Hjson reads it for DeepSpeed, with the extent of every key and value.

A text is first read strictly. What strict JSON refuses is read once more as Hjson does, which DeepSpeed uses; the
departures from JSON are then noted as defects, because Accelerate and the Transformers Trainer refuse the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..model import Extent, Kind, Pointer
from . import marks
from .document import Defect, Document, Node
from .json_scan import Item, JsonGrammar, Scan, ScanBreakdownError, ScanError

if TYPE_CHECKING:
	from .hjson_grammar import HjsonGrammar


def parse_json(path: str, text: str, kind: Kind) -> Document:
	"""Read a JSON document. Raises `LimitError`; what its readers refuse becomes a defect.

	Only a DeepSpeed file has a reader that takes Hjson. For other kinds the departures from JSON are noted, but the
	text counts as not parsed.
	"""
	try:
		return _hjson_too(_document(path, text, kind, Scan(JsonGrammar(text)).run(), None))
	except ScanError:
		objection = strict_objection(text)
	try:
		item, grammar = _read_hjson(text)
	except ScanError:
		return _refused(path, text, kind, objection)
	if kind != "deepspeed":
		return _refused(path, text, kind, objection).with_defects(*grammar.defects)
	refused = objection._replace(name="not-strict-json")
	return _document(path, text, kind, item, grammar).with_defects(refused, *grammar.defects)


def _refused(path: str, text: str, kind: Kind, objection: Defect) -> Document:
	return Document(path, kind, "json", text, None, {}, (objection, *marks.template_marks(text)), parsed=False)


def _hjson_too(document: Document) -> Document:
	odd = next((defect for defect in document.defects if defect.name == "not-a-number"), None)
	if odd is None or document.kind != "deepspeed":
		return document
	try:
		_read_hjson(document.text)
	except ScanError:
		return document.with_defects(Defect("not-hjson", odd.extent, odd.detail, odd.pointer))
	return document


def as_hjson(document: Document) -> Any:
	"""The data that DeepSpeed's own reader gives for a text that `json` takes, and that holds a NaN or an Infinity: a
	text up to the end of its line, whatever else stands there. None where it gives none (`not-hjson`)."""
	try:
		return _read_hjson(document.text)[0].value
	except ScanError:
		return None


def strict_objection(text: str) -> Defect:
	try:
		json.loads(text)
	except json.JSONDecodeError as error:
		return Defect("syntax-error", marks.around(text, error.pos), f"{error.msg} (char {error.pos})")
	except (ValueError, RecursionError) as error:
		return Defect("syntax-error", Extent(0, len(text)), str(error))
	return Defect("syntax-error", Extent(0, len(text)), "it is not JSON")


def _read_hjson(text: str) -> tuple[Item, HjsonGrammar]:
	from .hjson_grammar import HjsonGrammar  # few files need it

	grammar = HjsonGrammar(text)
	start = grammar.skip(0)
	if start == len(grammar.text):
		return Item({}, Extent(0, 0), {}), grammar
	if grammar.text[start] in "{[":
		return Scan(grammar).run(), grammar
	try:
		braceless = HjsonGrammar(text, braceless=True)
		item = Scan(braceless).run()
	except ScanBreakdownError:
		raise
	except ScanError:
		return Scan(grammar).run(), grammar
	braceless.note("missing-braces", *item.extent)
	return item, braceless


def _document(path: str, text: str, kind: Kind, item: Item, grammar: HjsonGrammar | None) -> Document:
	nodes: dict[Pointer, Node] = {}
	defects = list(_walk(item, (), None, nodes, grammar))
	shape = marks.shape_defects(None if grammar and not item.value and not nodes[()].value.end else item.value, text)
	return Document(path, kind, "json", text, item.value, nodes, (*defects, *shape))


def _walk(
	item: Item, pointer: Pointer, key: Extent | None, nodes: dict[Pointer, Node], grammar: HjsonGrammar | None
) -> Iterator[Defect]:
	"""Record an entry and those below it. The depth is bounded by the limit on nesting."""
	extent = grammar.original(item.extent) if grammar else item.extent
	nodes[pointer] = Node(grammar.original(key) if grammar and key else key, extent)
	if isinstance(item.value, str):
		yield from marks.string_defects(item.value, extent, pointer)
	elif isinstance(item.value, float) and not math.isfinite(item.value):
		yield Defect("not-a-number", extent, str(item.value), pointer)
	for name, overridden in item.overridden:
		where = grammar.original(overridden) if grammar else overridden
		yield Defect("duplicate-key", where, name, (*pointer, name))
	if isinstance(item.below, dict):
		for name, (key_extent, child) in item.below.items():
			yield from _walk(child, (*pointer, name), key_extent, nodes, grammar)
	else:
		for index, child in enumerate(item.below or ()):
			yield from _walk(child, (*pointer, index), None, nodes, grammar)
