"""The plugin calls of a script, as one release of Accelerate takes them, and what the launcher has set beside them.

A field that the caller leaves empty gets its value from an environment variable, so what a call comes to is known only
with the launch. Where that is not known, a field is as without the variable, and the answer is marked as such.

Settings of the Trainer and of DeepSpeed that stand in a script are parts for the rules about files of them. What the
script leaves open must not be judged. A rule that asks for such a value, or for one that may be there and is not seen,
ends with `OpenValueError` and says nothing; rules about single settings see only those that are known.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..model import Consumer, Context, Kind, Pointer, Targets
from ..model_effective import Setting
from ..resources import load_json
from ..sources.document import OPEN, At, Document, Node, OpenValueError, Partly
from ..sources.python_values import Made, Symbol
from .effective import run_of, scripts_of
from .effective_plugins import typed
from .effective_run import Run, arguments
from .effective_start import variables
from .inputs import DeepSpeedFile
from .launch import Launch
from .trainer import Arguments, deepspeed_of, unfolded

DATA = "python_calls.json"
Backend = Literal["deepspeed", "fsdp", "megatron", "other", "unknown"]

PLUGINS: Mapping[str, Backend] = {
	"deepspeed_plugin": "deepspeed",
	"megatron_lm_plugin": "megatron",
	"fsdp_plugin": "fsdp",
}


# What starts each run (its config, its command), and everything that was given.
Launched = tuple[Sequence[tuple[Document, ...]], Sequence[Document]]


class Field(NamedTuple):
	"""What an argument comes to: its value (OPEN if unknown), whether the call gives it, and the variables that would
	give it another value if the launcher sets them."""

	value: Any
	given: bool = False
	unless: tuple[str, ...] = ()


class Call:
	"""One call, with its positional arguments by their names where the order is known."""

	def __init__(self, script: Script, place: int) -> None:
		found = script.document.data["calls"][place]
		self.script, self.place = script, place
		self.name: str = found["name"]
		self.module: str = found["module"]
		self.open: bool = found["open"]
		self.main: bool = found["main"]
		self.conditional: bool = found["conditional"]
		self.positional: list[Any] = found["positional"]
		order = positional(self.name, script.release)
		named = dict(zip(order, self.positional, strict=False))
		self.given: Mapping[str, Any] = {**named, **found["arguments"]}
		self._places = {name: ("positional", number) for number, name in enumerate(order) if name in named}

	@property
	def parameters(self) -> Mapping[str, api.Parameter]:
		return api.parameters(self.name, self.script.release)

	def at(self, name: str = "", part: Literal["key", "value"] = "value") -> At:
		if not name or name not in self.given:
			return At(self.script.document, ("calls", self.place), "key")
		path = self._places.get(name, ("arguments", name))
		return At(self.script.document, ("calls", self.place, *path), part)

	def field(self, name: str) -> Field:
		"""What an argument comes to. None means for most plugins that the launcher's variable decides."""
		given = name in self.given
		value = self.given.get(name)
		source = api.sources(self.name, self.script.release).get(name)
		if value is OPEN or (not given and self.open):
			return Field(OPEN, given)
		parameter = self.parameters.get(name)
		if source is None or value is not None:
			plain = parameter.default if parameter else None
			return Field(value if given else plain, given)
		kind = parameter.type if parameter else ""
		if (known := self.launcher_sets(name)) is not None:
			return Field(OPEN if known.state == "open" else typed(kind, known.value), given)
		otherwise = typed(kind, source.otherwise) if source.known else OPEN
		return Field(otherwise, given, () if self.script.launched else source.variables)

	def launcher_sets(self, name: str) -> Setting | None:
		source = api.sources(self.name, self.script.release).get(name)
		names = source.variables if source else ()
		return next((found for one in names if (found := self.script.exported.get(one))), None)


class Script:
	"""The calls of one script. `launch` is what starts it and `exported` the variables that this sets, where known."""

	def __init__(
		self,
		document: Document,
		targets: Targets,
		context: Context,
		launch: Launch | None = None,
		exported: Mapping[str, Setting] | None = None,
	) -> None:
		self.document, self.targets, self.context, self.launch = document, targets, context, launch
		self.exported = exported or {}
		self.release = targets.accelerate
		self.deepspeed_file: Document | None = None
		self.trained: tuple[Document, list[Run]] | None = None

	@property
	def launched(self) -> bool:
		return self.launch is not None or self.context.launched

	@cached_property
	def calls(self) -> list[Call]:
		return [Call(self, place) for place in range(len(self.document.data["calls"]))]

	@cached_property
	def nodes(self) -> list[dict[Pointer, Node]]:
		found: list[dict[Pointer, Node]] = [{} for _ in self.calls]
		for pointer, node in self.document.nodes.items():
			if pointer[0] == "calls" and isinstance(pointer[1], int):
				found[pointer[1]][pointer] = node
		return found

	def of(self, *names: str) -> Iterator[Call]:
		return (call for call in self.calls if call.name in names)

	def made_by(self, value: Any) -> Call | None:
		return self.calls[value.call] if isinstance(value, Made) else None

	@cached_property
	def wrappers(self) -> dict[str, Call]:
		"""The plugins that decide who wraps the model, by the argument of `Accelerator` that they are given to."""
		found: dict[str, Call] = {}
		for call in self.of("Accelerator"):
			for name in ("deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin", "megatron_lm_plugin"):
				value = call.given.get(name)
				one = next(iter(value.values()), None) if isinstance(value, dict) and value else value
				if (made := self.made_by(one)) is not None:
					found.setdefault("deepspeed_plugin" if name == "deepspeed_plugins" else name, made)
		return found

	@cached_property
	def backend(self) -> Backend:
		"""Who wraps the models. A plugin of DeepSpeed decides, then the launcher's DeepSpeed, then other plugins; a
		single process is not wrapped by FSDP or Megatron-LM. Unknown where the script or the launcher leave it open."""
		route = self.launch.route if self.launch is not None else None
		if "deepspeed_plugin" in self.wrappers or route == "deepspeed":
			return "deepspeed"
		passed = [value for call in self.of("Accelerator") for value in map(call.given.get, PLUGINS)]
		if OPEN in passed or any(call.open for call in self.of("Accelerator")):
			return "unknown"
		if route == "simple":
			return "other"
		for name in ("megatron_lm_plugin", "fsdp_plugin"):
			if name in self.wrappers or route == PLUGINS[name]:
				return PLUGINS[name]
		return "other" if self.launched else "unknown"


def script_of(document: Document, launched: Launched, targets: Targets, context: Context) -> Script:
	runs = runs_beside(document, launched, targets, context)
	if len(runs) != 1:
		script = Script(document, targets, context)
	else:
		(run,) = runs
		script = Script(document, targets, context, run.launch, variables(run, arguments(run)))
		named = run.launch.value("deepspeed_config_file") if run.launch.route == "deepspeed" else None
		script.deepspeed_file = run.file(named)
	with_trainer = [run for run in runs if run.trainer and not run.trainer.idle]
	script.trained = (document, with_trainer) if with_trainer else None
	return script


def runs_beside(document: Document, launched: Launched, targets: Targets, context: Context) -> list[Run]:
	"""The runs of a script, or of a file of TrainingArguments where there is one, with the launches given beside it."""
	starts, beside = launched
	more: dict[str, list[Document]] = {kind: [] for kind in ("deepspeed", "environment", "fsdp")}
	for one in beside:
		more.get(one.kind, []).append(one)
	found: list[Run] = []
	for given in starts:
		scripts = scripts_of(given[-1], beside, targets.accelerate)
		if document.kind != "python" or any(one is document for one in scripts):
			documents = [*given, *more["environment"], *more["deepspeed"], *more["fsdp"], document]
			run = run_of(documents, targets.accelerate, context, targets.transformers)
			found += [run] if run else []
	return found if document.kind == "python" or len(found) == 1 else []


@lru_cache(maxsize=256)
def positional(name: str, release: str) -> tuple[str, ...]:
	known = api.parameters(name, release)
	return tuple(one for one in load_json(DATA)["positional"].get(name, ()) if not known or one in known)


def plain(value: Any, release: str) -> Any:
	if isinstance(value, Symbol) and value.dotted.startswith("accelerate."):
		return knowledge.for_release(release).enum(value.owner).get(str(value), value)
	return value


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
		trainer = Arguments(part, targets)
		inputs: dict[str, Any] = {"trainer": trainer}
		if isinstance(dict.get(part.data, "deepspeed"), dict):
			with suppress(OpenValueError):
				settings = part.part("deepspeed", kind="deepspeed")
				file = DeepSpeedFile(settings, "trainer", targets, context)
				inputs["deepspeed"] = file if single else deepspeed_of(trainer, None, context)
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
