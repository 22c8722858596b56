"""The plugin calls of a script, as one release of Accelerate takes them, and what the launcher has set beside them.

A field that the caller leaves empty gets its value from an environment variable, so what a call comes to is known only
with the launch. Where that is not known, a field is as without the variable, and the answer is marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..model import Context, Pointer, Targets
from ..model_effective import Setting
from ..resources import load_json
from ..sources.document import OPEN, At, Document, Node
from ..sources.python_values import Made, Symbol
from .effective import run_of
from .effective_run import Run, arguments
from .effective_start import variables
from .launch import Launch

DATA = "python_calls.json"
Backend = Literal["deepspeed", "fsdp", "megatron", "other", "unknown"]

PLUGINS: Mapping[str, Backend] = {
	"deepspeed_plugin": "deepspeed",
	"megatron_lm_plugin": "megatron",
	"fsdp_plugin": "fsdp",
}


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
			return Field(OPEN if known.state == "open" else typed(known.value, kind), given)
		otherwise = typed(source.otherwise, kind) if source.known else OPEN
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
		self.trained: tuple[Document, Run] | None = None

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


def script_of(document: Document, beside: Sequence[Document], targets: Targets, context: Context) -> Script:
	run = run_beside(document, beside, targets, context)
	if run is None:
		return Script(document, targets, context)
	script = Script(document, targets, context, run.launch, variables(run, arguments(run)))
	script.deepspeed_file, script.trained = run.deepspeed, (document, run) if run.trainer else None
	return script


def run_beside(document: Document, beside: Sequence[Document], targets: Targets, context: Context) -> Run | None:
	"""The run of a script, or of a file of TrainingArguments, where one config or command is given with it."""
	launchers = [one for one in beside if one.kind == "accelerate" or one.get("launcher") == "accelerate"]
	environment = [one for one in beside if one.kind == "environment"]
	if len({one.kind for one in launchers}) != len(launchers) or not launchers:
		return None
	run = run_of([*launchers, *environment, document], targets.accelerate, context, targets.transformers)
	files = [one for one in beside if one.kind == "deepspeed" and isinstance(one.data, dict)]
	named = run and run.launch.route == "deepspeed" and run.launch.value("deepspeed_config_file") is not None
	return run and run._replace(deepspeed=files[0] if named and len(files) == 1 else None)


@lru_cache(maxsize=256)
def positional(name: str, release: str) -> tuple[str, ...]:
	known = api.parameters(name, release)
	return tuple(one for one in load_json(DATA)["positional"].get(name, ()) if not known or one in known)


def typed(value: Any, kind: str) -> Any:
	if not isinstance(value, str):
		return value
	if "int" in kind and value.isascii() and value.isdigit():
		return int(value)
	return value.lower() == "true" if "bool" in kind and value.lower() in ("true", "false") else value


def plain(value: Any, release: str) -> Any:
	if isinstance(value, Symbol) and value.dotted.startswith("accelerate."):
		return knowledge.for_release(release).enum(value.owner).get(str(value), value)
	return value
