"""One run as it was given, and the first step of what takes effect: the launcher's arguments, each with its origin."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import basename, normpath
from typing import Any, NamedTuple

from ..knowledge import accelerate as knowledge
from ..knowledge import transformers
from ..model import Extent, Place, Pointer
from ..model_effective import Loser, Setting, Surface
from ..resources import load_json
from ..sources.document import OPEN, At, Document, OpenValueError
from ..sources.python_values import Made
from ..versions import covers, in_span
from .arguments import Arg
from .launch import ELASTIC_ROUTES, Launch, destination
from .placement import LAUNCHERS, is_read

GAP = re.compile(r"\$(?:\w+|\{[^{}]*\}|\(\(.*?\)\)|\([^()]*\))?")
MOST = 60  # characters of an expression that is shown
ENVIRON = re.compile(r"(?m)^[ \t]*os\.environ(?:\[[^]\n]*\]\s*=(?!=)|\.(?:setdefault|update)\([^)]*|\s*\|=)[^\n]*")
NAMES: Mapping[str, Surface] = {
	"launch": "command line",
	"environment": "environment",
	"python": "python",
	"trainer": "trainer",
}


class Call(NamedTuple):
	"""A constructor as the script calls it: its arguments that are known, each as a setting; more if it is `open`."""

	name: str
	arguments: Mapping[str, Setting]
	place: Place | None
	open: bool = False


class Trainer(NamedTuple):
	"""TrainingArguments: those `given`, and those that are not known (`open`; None: all the others).

	`by` is who makes them, `calls` what is handed to them; entries of mappings go by their dotted names. `idle` are
	those of a script that has its own `Accelerator` and no Trainer: only their variables count.
	"""

	release: str
	given: Mapping[str, Setting]
	by: Setting
	open: frozenset[str] | None = frozenset()
	calls: Mapping[str, Call] = {}
	idle: bool = False

	def of(self, name: str) -> Setting:
		if name in self.given:
			return self.given[name]
		known = transformers.for_release(self.release).training_arguments.get(name)
		found = Setting("", known.default if known else None)
		if known is None or (self.open is not None and name not in self.open):
			return found
		return self.by._replace(value=f"{found.value}, unless {name} is set", state="open")

	def value(self, name: str) -> Any:
		found = self.of(name)
		return None if found.state == "open" else found.value

	def entry(self, source: str | None, asked: Setting, default: Any) -> Setting | None:
		"""An argument, or an entry with or without its prefix; else a default, which comes with what asks for it."""
		names = (str(source), str(source).replace("fsdp_config.", "fsdp_config.fsdp_"))
		found = next((self.given[name] for name in names if name in self.given), None)
		return found if found is not None or default is None else asked._replace(value=default)

	def covers(self, spans: str) -> bool:
		return covers(spans, self.release)

	def table(self, section: str) -> Any:
		return load_json("effective.json")["trainer"][section]


class Run(NamedTuple):
	"""Everything that is known of a run. `calls` are by the name of the class, `set_inside` variables that it sets."""

	launch: Launch
	environment: Mapping[str, Setting] = {}
	calls: Mapping[str, Call] = {}
	deepspeed: Sequence[Document] = ()
	trainer: Trainer | None = None
	set_inside: Mapping[str, Setting] = {}

	@property
	def release(self) -> str:
		return self.launch.release

	def covers(self, spans: str) -> bool:
		return covers(spans, self.release)

	def table(self, section: str) -> Any:
		return load_json("effective.json")[section]

	def file(self, name: Any) -> Document | None:
		"""The DeepSpeed file that goes by a name."""
		return next(iter(called(name, self.deepspeed) if isinstance(name, str) else ()), None)


def called(name: str, documents: Sequence[Document]) -> list[Document]:
	"""Those of this path, or else those of this name."""
	same = [one for one in documents if normpath(one.path) == normpath(name)]
	return same or [one for one in documents if basename(one.path) == basename(name)]


def place_of(document: Document, pointer: Pointer) -> Place:
	return document.place(At(document, pointer, "value"))


def setting_at(name: str, value: Any, document: Document, pointer: Pointer) -> Setting:
	found = Setting(name, value, NAMES.get(document.kind, "file"), place_of(document, pointer), (), "set")
	if value is OPEN:
		raw = document.raw(*pointer) or ""
		if raw == "$":  # of a word in a variable's value the place is known, and not the length
			raw = GAP.match(document.text, document.nodes[pointer].value.start)[0]  # type: ignore[index]
		return found._replace(value=f"known at run time: {raw[:MOST]}", state="open")
	return found


def runs_deepspeed(launch: Launch) -> bool:
	try:
		return launch.deepspeed_runner
	except OpenValueError:
		return launch.route == "deepspeed"


def elastic(launch: Launch) -> bool:
	return launch.route in ELASTIC_ROUTES or (launch.route == "deepspeed" and not runs_deepspeed(launch))


def variables_given(documents: list[Document]) -> dict[str, Setting]:
	"""The user's own environment; assignments before the command count more than a file of them."""
	found: dict[str, Setting] = {}
	for document in sorted(documents, key=lambda one: one.kind == "launch"):
		base: Pointer = ("environment",) if document.kind == "launch" else ()
		given = document.get(*base)
		for name, value in given.items() if isinstance(given, dict) else ():
			setting = setting_at(f"variable.{name}", value, document, (*base, name))._replace(surface="environment")
			beaten = found[name].beaten("assigned again before the command") if name in found else ()
			found[name] = setting._replace(losers=beaten)
	return found


def set_inside(script: Document) -> dict[str, Setting]:
	"""The variables that a script sets itself: when, and to what, only a run can tell."""
	found: dict[str, Setting] = {}
	for one in ENVIRON.finditer(script.text):
		place, text = script.place(script.stretch(Extent(*one.span()))), " ".join(one[0].split())[:MOST]
		for name in re.findall(r"\b(?:ACCELERATE|FSDP|MEGATRON_LM|PARALLELISM_CONFIG)_[A-Z0-9_]+", one[0]):
			found[name] = Setting(f"variable.{name}", f"known at run time: {text}", "python", place, state="open")
	return found


def calls_of(document: Document) -> dict[str, Call]:
	"""The constructors that make up the accelerator: the last `Accelerator`, and what is handed to it.

	Where the script hands over what cannot be followed, the last call of each class is taken.
	"""
	calls = document.get("calls") or []
	last = {call["name"]: number for number, call in enumerate(calls)}
	if "Accelerator" in last:
		main = calls[last["Accelerator"]]
		handed = {calls[number]["name"]: number for number in made(calls, last["Accelerator"])}
		last = last | handed if main.get("open") or OPEN in main["arguments"].values() else handed
	return {name: call_at(document, number) for name, number in last.items()}


def made(calls: Sequence[Mapping[str, Any]], number: int) -> list[int]:
	"""A call, and those whose objects it is handed, or they are."""
	found, seen = [number], {number}
	for place in found:
		for value in [*calls[place]["arguments"].values(), *calls[place].get("positional", ())]:
			for item in value if type(value) is list else [value]:
				if isinstance(item, Made) and item.call not in seen:
					seen.add(item.call)
					found.append(item.call)
	return found


def call_at(document: Document, number: int) -> Call:
	call, at = document.data["calls"][number], ("calls", number)
	given = {name: value for name, value in call["arguments"].items() if not isinstance(value, Made)}
	arguments = {name: setting_at(name, value, document, (*at, "arguments", name)) for name, value in given.items()}
	more = bool(call.get("open") or call.get("positional"))
	return Call(call["name"], arguments, place_of(document, at), more)


def arguments(run: Run) -> dict[str, Setting]:
	launch = run.launch
	found = {name: argument(launch, name, arg) for name, arg in launch.arguments.items()}
	for name, lost in beaten(launch):
		found[name] = found[name]._replace(losers=(*found[name].losers, lost))
	found |= threads(run, found)
	return {name: setting._replace(reader=reader(launch, name)) for name, setting in found.items()}


def reader(launch: Launch, name: str) -> str:
	with suppress(OpenValueError):
		if not is_read(launch, name):
			return ""
	return LAUNCHERS[launch.route][0]


def argument(launch: Launch, name: str, arg: Arg) -> Setting:
	title = f"argument.{name}"
	if name == "num_processes" and arg.value in (None, -1):
		return Setting(title, "as the launch command says, or as there are devices", state="open")
	if arg.pointer is not None:
		return setting_at(title, arg.value, arg.document or launch.document, arg.pointer)
	if arg.value is OPEN:
		return Setting(title, "as there are devices", state="open")
	given = getattr(launch.context, name, None) is not None
	return Setting(title, arg.value, "command line" if given else "default", state="set" if given else "default")


def beaten(launch: Launch) -> Iterator[tuple[str, Loser]]:
	"""What the config says of arguments that have their value from somewhere else."""
	document = launch.document
	blocks = document.data if document.kind == "accelerate" and isinstance(document.data, dict) else {}
	for key, value in blocks.items():
		entries = value.items() if isinstance(value, dict) else [(None, value)]
		for inner, item in entries:
			name = str(key) if inner is None else destination(str(key), str(inner), launch.release)
			pointer: Pointer = (key,) if inner is None else (key, inner)
			arg = launch.arguments.get(name)
			merged = inner is None or knowledge.for_release(launch.release).merges(str(key))
			if merged and arg is not None and (arg.pointer != pointer or arg.document not in (None, document)):
				yield name, Loser("file", item, place_of(document, pointer), why_beaten(launch, name, arg))


def why_beaten(launch: Launch, name: str, arg: Arg) -> str:
	if getattr(launch.context, name, None) is not None or arg.document not in (None, launch.document):
		return "the command line counts more"
	if arg.pointer is not None:
		return "another entry of the config sets the same argument"
	return "the option has its own default, which a file cannot change"


def threads(run: Run, found: Mapping[str, Setting]) -> dict[str, Setting]:
	"""`num_cpu_threads_per_process`, which the launcher makes up: OMP_NUM_THREADS since 0.30.1, or a share of cores."""
	name = "num_cpu_threads_per_process"
	given, variable = found[name], run.environment.get("OMP_NUM_THREADS")
	if given.value is not None:
		return {}
	if variable is not None and in_span(run.release, "0.30.1", None):
		known = variable.value
		return {name: variable.becomes(int(known) if str(known).isdecimal() else known, given.name)}
	if found.get("use_cpu", found["cpu"]).value and variable is None:
		return {name: given._replace(value="the machine's cores shared out among the processes", state="open")}
	return {name: given.becomes(1)._replace(surface="accelerate")}
