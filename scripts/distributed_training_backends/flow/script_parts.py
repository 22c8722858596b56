"""Settings of the Trainer and of DeepSpeed that stand in a script, for the rules about files of them.

What the script leaves open must not be judged. A rule that asks for such a value, or for one that may be there and is
not seen, ends with `OpenValueError` and says nothing; rules about single settings see only those that are known.
"""

from collections import ChainMap
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..model import Consumer, Context, Kind, Pointer, Targets
from ..sources.document import OPEN, Document, OpenValueError
from ..sources.partly import Partly
from ..sources.python_values import Made, Symbol
from .inputs import DeepSpeedFile
from .script import Call, Script
from .trainer import Arguments, deepspeed_of, unfolded

# Rules about single settings, which what is open beside them does not touch.
SINGLE = frozenset(f"TRN0{number}" for number in (10, 14, 20, 21, 22)) | frozenset(
	f"DSP0{number:02}" for number in (4, 5, 6, 7, 8, 10, 11)
)
# A script has rules of its own for names, and takes objects where a file cannot.
NEVER = frozenset({"TRN011", "TRN012"})
FILLED_LATER = ("DSP02", "DSP054")  # a script often fills these in: plugin.deepspeed_config["…"] = …
NAMES = ("TRN010", "TRN013", "TRN014")


class Part(NamedTuple):
	"""The inputs of one run of the rules, and the codes that it may give."""

	inputs: dict[str, Any]
	single: bool
	left_out: tuple[str, ...] = ()

	def gives(self, code: str) -> bool:
		return (code in SINGLE) is self.single and code not in NEVER and not code.startswith(self.left_out)


def script_parts(script: Script) -> Iterator[Part]:
	"""The parts of a script: arguments of the Trainer, and DeepSpeed settings that a plugin gets as a mapping."""
	for call in script.calls:
		if call.module != "accelerate":
			yield from trainer_parts(call, script.targets, script.context)
		elif call.name == "DeepSpeedPlugin" and isinstance(call.given.get("hf_ds_config"), dict):
			yield from plugin_parts(call, script)


def trainer_parts(call: Call, targets: Targets, context: Context) -> Iterator[Part]:
	"""The arguments of one call. Classes derived from TrainingArguments have more of them, and other defaults."""
	derived = call.name != "TrainingArguments"
	base = ("calls", call.place, "arguments")
	left_out = NAMES if derived else ()
	if not isinstance(call.given.get("parallelism_config"), dict):
		left_out = (*left_out, "TRN036")
	for single in (True, False):
		part = part_of(call, base, "trainer", single, call.open or derived)
		inputs: dict[str, Any] = {"trainer": Arguments(part, targets)}
		if isinstance(dict.get(part.data, "deepspeed"), dict):
			with suppress(OpenValueError):
				settings = part.part("deepspeed", kind="deepspeed")
				file = DeepSpeedFile(settings, "trainer", targets, context)
				inputs["deepspeed"] = file if single else deepspeed_of(part, None, targets, context)
		yield Part(inputs, single, left_out)


def plugin_parts(call: Call, script: Script) -> Iterator[Part]:
	base = call.at("hf_ds_config").pointer
	left_out = FILLED_LATER if "deepspeed_config[" in script.document.text else ()
	for single in (True, False):
		part = part_of(call, base, "deepspeed", single, False)
		file = DeepSpeedFile(part, "accelerate", script.targets, script.context)
		yield Part({"deepspeed": file}, single, left_out)


def file_parts(document: Document, consumer: Consumer, targets: Targets, context: Context) -> Iterator[Part]:
	"""The parts of a DeepSpeed file with values that are open."""
	for single, data in ((True, known(document.data)), (False, with_questions(document.data))):
		file = DeepSpeedFile(document.with_defects(data=data), consumer, targets, context)
		yield Part({"deepspeed": file}, single)


def part_of(call: Call, base: Pointer, kind: Kind, known_only: bool, open_: bool) -> Document:
	"""A mapping of the script as a document: what is known of it, or all of it with open questions."""
	depth = len(base)
	nodes = {where[depth:]: node for where, node in call.script.nodes[call.place].items() if where[:depth] == base}
	whole = call.script.document
	part = whole.with_defects(data=whole.get(*base), nodes=nodes, kind=kind, outer=(whole, base))
	if kind == "trainer":
		part = unfolded(part.with_defects(data={**call.given, **part.data}))
		inside = {(*base, *where): part.nodes[where] for where in part.nodes.keys() - nodes.keys()}
		nodes_too = ChainMap(inside, whole.nodes)  # type: ignore[arg-type]  # nobody writes to it
		part = part.with_defects(outer=(whole.with_defects(nodes=nodes_too), base))
	if known_only:
		data = known(part.data)
		nodes = {pointer: node for pointer, node in part.nodes.items() if is_there(data, pointer)}
		return part.with_defects(data=data, nodes=nodes)
	return part.with_defects(data=with_questions(part.data, open_))


def is_there(data: Any, pointer: Pointer) -> bool:
	for step in pointer:
		try:
			data = data[step]
		except (KeyError, IndexError, TypeError):
			return False
	return True


def is_open(value: Any) -> bool:
	return value is OPEN or isinstance(value, (Symbol, Made)) or (isinstance(value, list) and any(map(is_open, value)))


def known(value: Any) -> Any:
	if not isinstance(value, dict):
		return value
	return {key: known(item) for key, item in value.items() if not is_open(item)}


def with_questions(value: Any, open_: bool = False) -> Any:
	if is_open(value):
		return OPEN
	if not isinstance(value, dict):
		return value
	found = {key: with_questions(item) for key, item in value.items()}
	return Partly(found, open_) if open_ or any(item is OPEN for item in found.values()) else found
