"""An Accelerate config on its way to another one: steps that keep its comments and order, and notes on what they do.

A run is what the launch of such a config comes to in a release, with the DeepSpeed file that it names.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..edits import promised, same, together
from ..fix import splice
from ..flow.effect import ON, normal
from ..flow.launch import BLOCKS, destination, launch_of
from ..knowledge import accelerate as knowledge
from ..model import Context, Kind, Pointer, Targets
from ..model_convert import BadConversionError, Note, Status
from ..resources import load_json
from ..rules.registry import Operation
from ..sources.document import Document, Syntax
from ..sources.load import read
from ..sources.writing import block_lines, write
from ..versions import in_span

REMARK = re.compile(r"(?m)(?:^|(?<=[ \t]))#[^\r\n]*")


BELOW = -1  # no entry: that something below is touched
ONE_BY_ONE = 50  # steps that do not go together: with more of them the text is written anew


class Draft:
	"""Carries out steps, those together that do not touch each other, because each time the text is read again."""

	def __init__(self, document: Document) -> None:
		self.first = self.latest = document
		self.notes: list[Note] = []
		self.steps: list[Operation] = []
		self.touched: set[Pointer] = set()

	@property
	def document(self) -> Document:
		return self.settle()

	def settle(self) -> Document:
		if self.steps:
			self.latest, self.steps, self.touched = carried_out(self.latest, self.steps), [], set()
		return self.latest

	def at(self, *pointer: str | int) -> Document:
		"""The document as it is at an entry."""
		near = (*pointer, BELOW) in self.touched or any(
			pointer[:end] in self.touched for end in range(len(pointer) + 1)
		)
		return self.settle() if near else self.latest

	def touch(self, pointer: Pointer) -> None:
		self.touched |= {pointer, *((*pointer[:end], BELOW) for end in range(len(pointer)))}

	def note(self, status: Status, setting: str, message: str, *pointer: str | int) -> None:
		"""Say something about a setting, with the line that it had at first."""
		node = self.first.nodes.get(pointer) if pointer else None
		self.say(status, setting, message, self.first.position((node.key or node.value).start)[0] if node else None)

	def say(self, status: Status, setting: str, message: str, line: int | None = None) -> None:
		self.notes.append(Note(status, setting, message, line))

	def set(self, value: Any, *pointer: str | int) -> None:
		there = self.at(*pointer)
		if there.has(*pointer):
			self.step("replace", pointer, value=value)
		else:
			self.step("add", pointer[:-1], str(pointer[-1]), value)
			self.touch(pointer if there.has(*pointer[:-1]) else pointer[:-1])

	def rename(self, pointer: Pointer, name: str, value: Any) -> None:
		if self.at(*pointer).get(*pointer) != value:
			self.set(value, *pointer)
		if pointer[-1] != name:
			self.step("rename", pointer, name)
			self.touch((*pointer[:-1], name))

	def remove(self, *pointer: str | int) -> None:
		if self.at(*pointer).has(*pointer):
			self.step("remove", pointer)

	def step(self, action: Any, pointer: Pointer, text: str = "", value: Any = None) -> None:
		if action == "rename":
			self.at(*pointer[:-1], text)
		self.steps.append(Operation(action, pointer, text, value))
		if action != "add":
			self.touch(pointer)

	def finished(self) -> str:
		kept = Counter(REMARK.findall(self.document.text))
		for found in REMARK.finditer(self.first.text) if self.first.syntax == "yaml" else ():
			kept[found.group()] -= 1
			if kept[found.group()] < 0:
				line = self.first.position(found.start())[0]
				self.say("lost", "comment", f"went with its entry: {found.group()}", line)
		return self.document.text


def carried_out(document: Document, steps: Sequence[Operation]) -> Document:
	wanted = promised(document.data, steps)
	if edits := together(document, steps):
		made = reread(document, splice(document.text, edits))
		if made.parsed and same(made.data, wanted):
			return made
	if 1 < len(steps) <= ONE_BY_ONE:
		for step in steps:
			document = carried_out(document, [step])
		return document
	return reread(document, written(wanted, document.syntax))  # without its comments


def reread(document: Document, text: str, kind: Kind | None = None, syntax: Syntax | None = None) -> Document:
	made = read(document.path, text, kind or document.kind, syntax or document.syntax)
	made.newline = document.newline
	return made


def fresh(document: Document, data: Mapping[str, Any]) -> Document:
	return reread(document, written(data, "yaml"), "accelerate", "yaml")


def written(data: Mapping[str, Any], syntax: str) -> str:
	return write(data, "json") + "\n" if syntax == "json" else "".join(block_lines(data))


def entries(document: Document, block: str) -> dict[str, Any]:
	data = document.get(block)
	return {str(key): value for key, value in data.items()} if isinstance(data, dict) else {}


OFF_DEVICES = (None, "none", "auto", "")
ZERO, FSDP = "deepspeed_config", "fsdp_config"
PRECISIONS = ("bf16", "fp16")
Settings = Iterator[tuple[str, Any]]


def table(*path: str) -> Any:
	found = load_json("conversions.json")
	for step in path:
		found = found[step]
	return found


class Strategy(NamedTuple):
	"""A sharding strategy: its name and number in FSDP1, FSDP2's reshard_after_forward, the ZeRO stage."""

	name: str
	number: int
	reshard: bool | None
	zero: int
	hybrid: bool = False


STRATEGIES = tuple(Strategy(**row) for row in table("strategies"))


def strategy_named(value: object) -> Strategy | None:
	return next((one for one in STRATEGIES if str(value).upper() in (one.name, str(one.number))), None)


class Run(Draft):
	"""The config of one run on its way to another spelling. What is asked about it is about its first text."""

	own: Mapping[str, Any] | None = None  # as in Hub

	def __init__(
		self, document: Document, companion: Document | None, targets: Targets, context: Context, script: str
	) -> None:
		super().__init__(document)
		self.companion, self.targets, self.script = companion, targets, script
		self.release = targets.accelerate
		self.known = knowledge.for_release(self.release)
		for block in BLOCKS:
			if not isinstance(document.get(block), dict | None):
				raise BadConversionError(f"{document.path}: {block} is no mapping of settings")
		launch = launch_of(document, self.release, context)
		if launch is None:
			sagemaker = document.get("compute_environment") == "AMAZON_SAGEMAKER"
			why = "SageMaker starts this config, and nothing else can say what it says"
			why = why if sagemaker else "no distributed_type says how it is launched"
			raise BadConversionError(f"{document.path}: {why}")
		self.launch, self.value, self.route = launch, launch.value, launch.route

	def require(self, route: str, name: str) -> None:
		if self.route != route:
			raise BadConversionError(f"{self.first.path} runs {self.launch.distributed_type}, not {name}")

	def since(self, release: str) -> bool:
		return in_span(self.release, release, None)

	def keys(self, block: str) -> dict[str, str]:
		return {destination(block, key, self.release): key for key in entries(self.first, block)}

	def on(self, option: str) -> bool:
		return truth(self.value(option))

	def tell(self, status: Status, option: str, why: str) -> None:
		"""Say something about an option of FSDP or DeepSpeed, at its key or at the file that counts instead."""
		if self.route == "fsdp":
			self.note(status, option, why, FSDP, self.keys(FSDP).get(option, option))
		else:
			key = option if self.first.has(ZERO, option) else "deepspeed_config_file"
			self.note(status, option, why, ZERO, key)

	def about(self, status: Status, option: str, why: str) -> None:
		found = self.launch.arguments.get(option)
		place = (found.pointer if found else None) or ()
		self.note(status, str(place[-1]) if place else option, why, *place)

	@property
	def fsdp2(self) -> bool:
		return self.since("1.6.0") and normal(self.value("fsdp_version")) == 2.0

	@property
	def strategy(self) -> Strategy:
		if self.fsdp2:
			reshard = self.on("fsdp_reshard_after_forward")
			return next(one for one in STRATEGIES if one.reshard is reshard)
		return strategy_named(self.value("fsdp_sharding_strategy")) or STRATEGIES[0]

	@property
	def compiled(self) -> bool:
		launchers = {"deepspeed": "prepare_deepspeed_cmd_env", "simple": "prepare_simple_launcher_cmd_env"}
		exported = self.known.exports_of(launchers.get(self.route, "prepare_multi_gpu_env"))
		return self.value("dynamo_backend") not in (None, "no", "NO") and "dynamo_backend" in exported

	@property
	def zero_name(self) -> str | None:
		name = self.first.get(ZERO, "deepspeed_config_file")
		return name if isinstance(name, str) and name != "none" else None

	@cached_property
	def zero_file(self) -> Mapping[str, Any] | None:
		"""The content of the DeepSpeed file; None where the block says it all."""
		if self.zero_name is None:
			return None
		if self.companion is None or not isinstance(self.companion.data, dict):
			raise BadConversionError(f"{self.first.path} names the DeepSpeed file {self.zero_name}: give it too")
		return self.companion.data

	def zero(self, key: str, path: str | None = None) -> Any:
		"""A setting of DeepSpeed, from the file that counts or else from the block; None where it is left open."""
		if self.zero_file is None or not path:
			found = self.value(key)
		else:
			found = self.zero_file
			for step in path.split("."):
				found = found.get(step) if isinstance(found, Mapping) else None
		return None if found in ("auto", "none") else found

	@property
	def zero_stage(self) -> int:
		"""The ZeRO stage; Accelerate's plugin takes 2 where nothing says it, also for "auto"."""
		found = self.zero("zero_stage", "zero_optimization.stage")
		return found if isinstance(found, int) else 2

	def zero_precision(self) -> Iterator[str]:
		for name in PRECISIONS if self.zero_file is not None else ():
			if self.zero("", f"{name}.enabled") is True:
				yield name


def truth(value: object) -> bool:
	return value is True or str(value).strip().lower() in (*ON, "1", "y", "t")


def leaves(data: Mapping[str, Any], path: str = "") -> Settings:
	for key, value in data.items():
		if isinstance(value, Mapping) and value:
			yield from leaves(value, f"{path}{key}.")
		else:
			yield f"{path}{key}", value
