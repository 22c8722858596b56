"""From a repair, which speaks of entries, to a fix, which speaks of stretches of the text.

Every fix is tried out: the edited text must give the data that the repair promises, or no fix is offered.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from .fix import splice
from .model import Edit, Extent, Fix, Pointer
from .rules.registry import Operation, Repair
from .sources.document import Document, copied
from .sources.limits import LimitError
from .sources.load import read
from .sources.splice import NotPossibleError, Splicer, splicer
from .sources.writing import write

# How many code points may be parsed again to try fixes out, per document: several hundred fixes in a usual config,
# and a bound on the time that a huge one with a finding on every line can take.
MAX_TRIED = 500_000


def resolve(document: Document, repair: Repair) -> Fix | None:
	"""Give the edits of a repair; None where they cannot be faithful. Several readers of a file may want the same."""
	made, name = splicer(document).made, repr(repair)
	if name not in made:
		made[name] = _resolved(document, repair)
	return made[name]


def _resolved(document: Document, repair: Repair) -> Fix | None:
	in_code = document.syntax == "python"
	foreign = any(defect.name == "other-encoding" for defect in document.defects)
	if in_code and (foreign or any(step.action != "text" for step in repair.operations)):
		return None  # only names are exchanged in code, and what is written is UTF-8
	if document.syntax == "shell":
		edits = sorted(edit for step in repair.operations for edit in _of_command(document, step))
		faithful = len(edits) == len(repair.operations) and _are_apart(edits)
	else:
		edits = together(document, repair.operations)
		faithful = bool(edits) and _holds(document, repair.operations, edits)
	return Fix(repair.applicability, repair.title, tuple(edits)) if edits and faithful else None


def _are_apart(edits: Iterable[Edit]) -> bool:
	return all(one.end <= other.start for one, other in pairwise(edits))


def together(document: Document, steps: Iterable[Operation]) -> list[Edit]:
	"""The edits of steps that do not touch each other, in their order; none where they do, or are not possible."""
	try:
		if any(entangled(document, pointer) for step in steps for pointer in _touched(step)):
			return []
		edits = [edit for step in steps for edit in _edits(splicer(document), step)]
	except (NotPossibleError, ValueError):
		return []
	edits.sort(key=lambda edit: (edit.start, edit.end))
	return edits if _are_apart(edits) else []


def _of_command(document: Document, step: Operation) -> list[Edit]:
	node = document.nodes.get(step.pointer)
	if step.action == "text" and step.extent is not None:
		return [Edit(*step.extent, step.text)]
	if node is None or step.pointer[:1] not in (("tokens",), ("environment",)):
		return []
	written, extent = document.text[slice(*node.value)], node.value
	if step.action == "replace" and re.fullmatch(r"[^\s$`\\]+", written):
		return [Edit(*extent, write(step.value, "shell"))]
	if step.action == "rename":
		extent = node.key or extent
		return [Edit(*extent, step.text)] if re.fullmatch(r"-[\w-]+", document.text[slice(*extent)]) else []
	return []


def _edits(splicer: Splicer, step: Operation) -> list[Edit]:
	if step.action == "rename":
		return splicer.rename(step.pointer, step.text)
	if step.action == "replace":
		return splicer.replace(step.pointer, step.value)
	if step.action == "remove":
		return splicer.remove(step.pointer, Extent(*step.extent) if step.extent else None)
	if step.action == "add":
		return splicer.add(step.pointer, step.text, step.value)
	if step.action == "move":
		return splicer.move(step.pointer, step.target, step.text or str(step.pointer[-1]))
	if step.extent is None:
		raise NotPossibleError
	return [Edit(*step.extent, step.text)]


def _touched(step: Operation) -> Iterable[Pointer]:
	if step.action != "text":
		yield step.pointer
	if step.action == "move":
		yield step.target


def entangled(document: Document, pointer: Pointer) -> bool:
	"""Whether an entry also stands elsewhere: by an anchor, an alias or a merge key on the way to it."""
	if document.syntax == "json":
		return False
	outer = Extent(0, len(document.text))
	for length in range(len(pointer) + 1):
		node = document.nodes.get(pointer[:length])
		if node is None:
			return False
		if not outer.start <= node.value.start <= node.value.end <= outer.end:
			return True
		outer = node.value
		if document.text[outer.start : outer.start + 1] in ("&", "*", "!"):
			return True
	return False


def _holds(document: Document, steps: tuple[Operation, ...], edits: list[Edit]) -> bool:
	author = splicer(document)
	author.tried += len(document.text)
	if author.tried > MAX_TRIED:
		return False
	text = splice(document.text, edits)
	if document.syntax == "yaml" and document.parsed and not _duplicates(document) and steps[0].action != "text":
		from .sources.yaml_source import plain_data  # a JSON file needs no PyYAML

		data, sure = plain_data(text)
		if sure:
			return same(data, promised(document.data, steps))
	try:
		again = read(document.path, text, document.kind, document.syntax)
	except LimitError:
		return False
	if any(step.action == "text" for step in steps):
		return again.parsed
	if again.parsed != document.parsed or _duplicates(again) > _duplicates(document):
		return False
	return same(again.data, promised(document.data, steps))


def _duplicates(document: Document) -> int:
	return sum(defect.name == "duplicate-key" for defect in document.defects)


def promised(data: Any, steps: Iterable[Operation]) -> Any:
	"""Do to the data what the steps say. All of them speak of the pointers before any is done: renaming comes last."""
	data = copied(data)
	for step in sorted(steps, key=lambda step: step.action == "rename"):
		parent = _at(data, step.pointer[:-1])
		last: Any = step.pointer[-1] if step.pointer else None
		if step.action == "rename":
			renamed = [(step.text if key == last else key, value) for key, value in parent.items()]
			parent.clear()
			parent.update(renamed)
		elif step.action == "replace":
			parent[last] = step.value
		elif step.action == "remove" and step.extent is None:
			del parent[last]
		elif step.action == "add":
			_at(data, step.pointer)[step.text] = step.value
		elif step.action == "move":
			_at(data, step.target)[step.text or str(last)] = parent.pop(last)
	return data


def _at(data: Any, pointer: Pointer) -> Any:
	"""Give what stands at a pointer; a mapping that is missing, or null, is made."""
	for step in pointer:
		if isinstance(data, dict) and data.get(step) is None:
			data[step] = {}
		data = data[step]
	return data


def same(one: Any, other: Any) -> bool:
	"""Compare two pieces of data; 1, 1.0 and true are different, and not-a-number equals itself."""
	if type(one) is not type(other):
		return False
	if isinstance(one, dict):
		return len(one) == len(other) and all(key in other and same(one[key], other[key]) for key in one)
	if isinstance(one, list):
		return len(one) == len(other) and all(map(same, one, other))
	return bool(one == other or (one != one and other != other))
