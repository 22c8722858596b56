"""Plugin objects of a training script as a config file, which starts the same run."""

from collections.abc import Callable, Mapping
from typing import Any

from ..flow.effect import same
from ..flow.placement import block_of
from ..flow.script import Call, Script
from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate_api import parameters, sources
from ..model_convert import Note, Status
from ..sources.document import OPEN, At, Document
from ..sources.python_values import Made, Symbol
from .draft import Draft, fresh
from .from_launch import place, start
from .python_code import Row, applies, option_of, rows
from .source import Settings, table

TYPES = {"deepspeed_plugin": "DEEPSPEED", "fsdp_plugin": "FSDP", "megatron_lm_plugin": "MEGATRON_LM"}
UNKNOWN = "only the script knows it: write it down"
Where = Callable[[str], At]
HANDLERS, STEPS = "kwargs_handlers", "gradient_accumulation_steps"


class Reader:
	def __init__(self, release: str, script: Script | None = None) -> None:
		self.release, self.script = release, script
		self.known = knowledge.for_release(release)
		self.notes: list[Note] = []
		self.options: dict[str, Any] = {}

	def note(self, status: Status, name: str, why: str, at: Where) -> None:
		place = at(name)
		self.notes.append(Note(status, name, why, place.document.place(place).line))

	def made_by(self, value: Any) -> Call | None:
		return self.script.made_by(value) if self.script else None

	def read(self, accelerator: Call) -> str:
		"""Take in the arguments of Accelerator; give the type of the run."""
		kind = "NO" if accelerator.given.get("cpu") is True else "MULTI_GPU"
		for name, value in accelerator.given.items():
			made, row = self.made_by(value), of_argument(name)
			if row and made is not None and made.name == row["class"]:
				kind = TYPES.get(name, kind)
				self.made(row, made)
			elif name == HANDLERS and isinstance(value, list):
				self.handlers(value, accelerator)
			elif name == "mixed_precision" and isinstance(value, str):
				self.options[name] = str(value)
			elif name == "cpu" and value is True:
				self.options["use_cpu"] = True
			elif value is OPEN:
				self.note("open", name, "only the script knows it", accelerator.at)
			elif name == STEPS and "deepspeed_plugin" in accelerator.given:
				self.options.setdefault(STEPS, value)
			elif name == STEPS:
				self.note("open", STEPS, f"no key sets it: {value} stays in the script", accelerator.at)
			elif name == "dynamo_backend" and isinstance(value, str):
				self.options[name] = str(value).upper()
			elif name in (*TYPES, "parallelism_config", "dynamo_plugin", "dynamo_backend"):
				self.note("open", name, "what makes it is not seen here", accelerator.at)
			else:
				self.note("open", name, "no key sets it: it stays in the script", accelerator.at)
		if accelerator.open:
			self.note("open", accelerator.name, "some of its arguments are not known by name here", accelerator.at)
		if kind not in TYPES.values():
			told = f"{kind}: how many processes there are decides, which the script does not say"
			self.note("open", "distributed_type", told, accelerator.at)
		return kind

	def handlers(self, values: list[Any], accelerator: Call) -> None:
		classes = {owner: backend for backend, owner in table("plugins", "fp8", "classes").items()}
		for value in values:
			made = self.made_by(value)
			if made is not None and made.name in classes:
				self.options["fp8_backend"] = classes[made.name]
				self.made(table("plugins", "fp8"), made)
			else:
				name = value.name if isinstance(value, Made) else HANDLERS
				self.note("open", name, "no key says it: it stays in the script", accelerator.at)

	def plugin(self, row: Row, owner: str, given: Mapping[str, Any], at: Where) -> None:
		for name, value in given.items():
			made, inner, option = self.made_by(value), of_argument(name), option_of(row, name)
			if inner and made is not None:
				self.made(inner, made)
			elif value is OPEN or (isinstance(value, (dict, Made)) and value):
				self.note("open", name, UNKNOWN, at)
			elif option not in self.known.options and option not in table("surfaces", "environment"):
				self.note("lost", name, "no key says it", at)
			elif value is not None:
				self.options[option] = spelled(row, name, value)
		self.options |= dict(self.defaults(row, owner, at))

	def made(self, row: Row, call: Call) -> None:
		if call.open or len(call.given) < len(call.positional):
			self.note("open", call.name, "some of its arguments are not known by name here", call.at)
		self.plugin(row, call.name, call.given, call.at)

	def defaults(self, row: Row, owner: str, at: Where) -> Settings:
		"""Options that the launcher would set to something else than the class takes by itself."""
		version = 2 if self.options.get("fsdp_version") == 2 else 1
		defaults = {name: option.default for name, option in self.known.options.items()}
		unset, both = sources(owner, self.release), {**defaults, **self.options}
		for name in parameters(owner, self.release):
			option = option_of(row, name)
			if option not in defaults or option in self.options or name not in unset or not unset[name].known:
				continue
			given, otherwise = defaults[option], unset[name].otherwise
			if None not in (given, otherwise) and not same(given, otherwise) and applies(row, name, both, version):
				self.note("added", option, f"{otherwise}, as the class takes it; the launcher takes {given}", at)
				yield option, otherwise

	def config(self, document: Document, kind: str) -> tuple[Document, tuple[Note, ...]]:
		"""The config that starts a run of this type with the options that were found."""
		draft, fields = Draft(fresh(document, start(kind))), self.known.cluster_fields
		options = (
			(name, value) for name, value in self.options.items() if block_of(name, self.release) or name in fields
		)
		place(draft, options, self.release)
		told = "the script does not say how many: write it, or give it at launch"
		return draft.document, (*self.notes, Note("open", "num_processes", told))


def of_argument(name: str) -> Row:
	return next((row for _, row in rows() if row["argument"] == name), {})


def spelled(row: Row, name: str, value: Any) -> Any:
	if name in row.get("lists", ()) and isinstance(value, list):
		return ",".join(map(str, value))
	if isinstance(value, Symbol) or name in row.get("lower", ()):
		return str(value).upper()
	return str(value) if isinstance(value, str) else value


def to_config(document: Document, script: Script, accelerator: Call) -> tuple[Document, tuple[Note, ...]]:
	reader = Reader(script.release, script)
	return reader.config(document, reader.read(accelerator))
