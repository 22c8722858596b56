"""Plugin objects of a training script as a config file, which starts the same run."""

from typing import Any

from ..flow.effect import same
from ..flow.script import Call, Script
from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate_api import parameters, sources
from ..model import Context, Targets
from ..model_convert import BadConversionError, Note, Status
from ..sources.document import OPEN, Document
from ..sources.python_values import Made, Symbol
from .draft import Draft, fresh
from .from_launch import block_of, place, start
from .plugins import Row, applies, option_of, rows
from .source import Settings, table

TYPES = {"deepspeed_plugin": "DEEPSPEED", "fsdp_plugin": "FSDP", "megatron_lm_plugin": "MEGATRON_LM"}
HANDLERS, STEPS = "kwargs_handlers", "gradient_accumulation_steps"


class Reader:
	def __init__(self, script: Script) -> None:
		self.script, self.release = script, script.release
		self.known = knowledge.for_release(script.release)
		self.notes: list[Note] = []
		self.options: dict[str, Any] = {}

	def note(self, status: Status, name: str, why: str, call: Call) -> None:
		self.notes.append(Note(status, name, why, self.script.document.place(call.at(name)).line))

	def read(self, accelerator: Call) -> str:
		"""Take in the arguments of Accelerator; give the type of the run."""
		kind = "NO" if accelerator.given.get("cpu") is True else "MULTI_GPU"
		for name, value in accelerator.given.items():
			made, row = self.script.made_by(value), of_argument(name)
			if row and made is not None and made.name == row["class"]:
				kind = TYPES.get(name, kind)
				self.plugin(row, made)
			elif name == HANDLERS and isinstance(value, list):
				self.handlers(value, accelerator)
			elif name == "mixed_precision" and isinstance(value, str):
				self.options[name] = str(value)
			elif name == "cpu" and value is True:
				self.options["use_cpu"] = True
			elif value is OPEN:
				self.note("open", name, "only the script knows it", accelerator)
			elif name == STEPS and "deepspeed_plugin" in accelerator.given:
				self.options.setdefault(STEPS, value)
			elif name == STEPS:
				self.note("open", STEPS, f"no key sets it: {value} stays in the script", accelerator)
			elif name in (*TYPES, "parallelism_config", "dynamo_plugin", "dynamo_backend"):
				self.note("open", name, "what makes it is not seen here", accelerator)
		if kind not in TYPES.values():
			told = f"{kind}: how many processes there are decides, which the script does not say"
			self.note("open", "distributed_type", told, accelerator)
		return kind

	def handlers(self, values: list[Any], accelerator: Call) -> None:
		classes = {owner: backend for backend, owner in table("plugins", "fp8", "classes").items()}
		for value in values:
			made = self.script.made_by(value)
			if made is not None and made.name in classes:
				self.options["fp8_backend"] = classes[made.name]
				self.plugin(table("plugins", "fp8"), made)
			else:
				name = value.name if isinstance(value, Made) else HANDLERS
				self.note("open", name, "no key says it: it stays in the script", accelerator)

	def plugin(self, row: Row, call: Call) -> None:
		if call.open or len(call.given) < len(call.positional):
			self.note("open", call.name, "some of its arguments are not known by name here", call)
		for name, value in call.given.items():
			made, inner, option = self.script.made_by(value), of_argument(name), option_of(row, name)
			if inner and made is not None:
				self.plugin(inner, made)
			elif value is OPEN or (isinstance(value, (dict, Made)) and value):
				self.note("open", name, "only the script knows it: write it down", call)
			elif option not in self.known.options and option not in table("surfaces", "environment"):
				self.note("lost", name, "no key says it", call)
			elif value is not None:
				self.options[option] = spelled(row, name, value)
		self.options |= dict(self.defaults(row, call))

	def defaults(self, row: Row, call: Call) -> Settings:
		"""Options that the launcher would set to something else than the class takes by itself."""
		version = 2 if self.options.get("fsdp_version") == 2 else 1
		defaults = {name: option.default for name, option in self.known.options.items()}
		unset, both = sources(call.name, self.release), {**defaults, **self.options}
		for name in parameters(call.name, self.release):
			option = option_of(row, name)
			if option not in defaults or option in self.options or name not in unset or not unset[name].known:
				continue
			given, otherwise = defaults[option], unset[name].otherwise
			if None not in (given, otherwise) and not same(given, otherwise) and applies(row, name, both, version):
				self.note("added", option, f"{otherwise}, as the class takes it; the launcher takes {given}", call)
				yield option, otherwise


def of_argument(name: str) -> Row:
	return next((row for _, row in rows() if row["argument"] == name), {})


def spelled(row: Row, name: str, value: Any) -> Any:
	if name in row.get("lists", ()) and isinstance(value, list):
		return ",".join(map(str, value))
	if isinstance(value, Symbol) or name in row.get("lower", ()):
		return str(value).upper()
	return str(value) if isinstance(value, str) else value


def to_config(document: Document, targets: Targets) -> tuple[Document, tuple[Note, ...]]:
	script = Script(document, targets, Context())
	found = list(script.of("Accelerator"))
	if len(found) != 1:
		count = len(found) or "no"
		raise BadConversionError(f"{document.path} makes {count} Accelerator: one run is converted at a time")
	reader = Reader(script)
	draft = Draft(fresh(document, start(reader.read(found[0]))))
	fields = reader.known.cluster_fields
	placed = ((name, value) for name, value in reader.options.items() if block_of(name) or name in fields)
	place(draft, placed, script.release)
	told = "the script does not say how many: write it, or give it at launch"
	return draft.document, (*reader.notes, Note("open", "num_processes", told))
