"""Plugin objects or TrainingArguments, in a script or a file, as a config file that starts the same run."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ..flow.effect import same
from ..flow.effective_run import Trainer, setting_at
from ..flow.effective_trainer import writes
from ..flow.placement import block_of
from ..flow.script import Call, Script, is_open
from ..knowledge import accelerate as knowledge
from ..knowledge import transformers
from ..knowledge.accelerate_api import parameters, sources
from ..model import Context, Targets
from ..model_convert import BadConversionError, Note, Status
from ..sources.document import OPEN, At, Document
from ..sources.python_values import Made, Symbol
from .launch import place, start
from .python_code import Row, applies, option_of, rows
from .source import PRECISIONS, Draft, Settings, fresh, leaves, reread, strategy_named, table, truth, written

TYPES = {"deepspeed_plugin": "DEEPSPEED", "fsdp_plugin": "FSDP", "megatron_lm_plugin": "MEGATRON_LM"}
UNKNOWN = "only the script knows it: write it down"
Where = Callable[[str], At]
HANDLERS, STEPS = "kwargs_handlers", "gradient_accumulation_steps"
DEEPSPEED_FILE = "ds_config.json"
NO_KEYS = "no key sets them, and the Trainer still reads them; those that the config says now may go"
COUNT = Note("open", "num_processes", "nothing here says how many: write it, or give it at launch")
BASE, RESHARD = "TrainingArguments", "reshard_after_forward"
FSDP_PLUGIN = "FullyShardedDataParallelPlugin"


class Reader:
	def __init__(self, release: str, to: str, script: Script | None = None) -> None:
		self.release, self.to, self.script = release, to, script
		self.known = knowledge.for_release(release)
		self.notes: list[Note] = []
		self.options: dict[str, Any] = {}

	def note(self, status: Status, name: str, why: str, at: Where) -> None:
		place = at(name)
		self.notes.append(Note(status, name, why, place.document.place(place).line))

	def unnamed(self, call: Call) -> None:
		self.note("open", call.name, "some of its arguments are not known by name here", call.at)

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
			elif name in TYPES and value is not None:
				raise undecided(name, accelerator.at)
			elif value is OPEN:
				self.note("open", name, "only the script knows it", accelerator.at)
			elif name == STEPS and "deepspeed_plugin" in accelerator.given:
				self.options.setdefault(STEPS, value)
			elif name == STEPS:
				self.note("open", STEPS, f"no key sets it: {value} stays in the script", accelerator.at)
			elif name == "dynamo_backend" and isinstance(value, str):
				self.options[name] = str(value).upper()
			elif name in ("parallelism_config", "dynamo_plugin", "dynamo_backend"):
				self.note("open", name, "what makes it is not seen here", accelerator.at)
			else:
				self.note("open", name, "no key sets it: it stays in the script", accelerator.at)
		if accelerator.open:
			if kind == "MULTI_GPU":
				raise undecided("a plugin", accelerator.at)
			self.unnamed(accelerator)
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
			self.unnamed(call)
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
			unsaid = given is None or (otherwise is None and self.to == "trainer")
			if unsaid or not applies(row, name, both, version):
				continue
			if otherwise is None:
				told = f"{given}, as accelerate launch sets it; it was None if torchrun started the script"
				self.note("changed", option, told, at)
			elif not same(given, otherwise):
				self.note("added", option, f"{otherwise}, as the class takes it; the launcher takes {given}", at)
				yield option, otherwise

	def config(self, document: Document, kind: str) -> tuple[Document, tuple[Note, ...]]:
		"""The config that starts a run of this type with the options that were found."""
		draft, fields = Draft(fresh(document, start(kind))), self.known.cluster
		options = (
			(name, value) for name, value in self.options.items() if block_of(name, self.release) or name in fields
		)
		place(draft, options, self.release)
		return draft.document, (*self.notes, COUNT)


def undecided(name: str, at: Where) -> BadConversionError:
	document, line = at(name).document, at(name).document.place(at(name)).line
	told = f"{name} decides what runs, and only the script knows it: write it down"
	return BadConversionError(f"{document.path}:{line}: {told}")


def of_argument(name: str) -> Row:
	return next((row for _, row in rows() if row["argument"] == name), {})


def spelled(row: Row, name: str, value: Any) -> Any:
	if name in row.get("lists", ()) and isinstance(value, list):
		return ",".join(map(str, value))
	if isinstance(value, Symbol) or name in row.get("lower", ()):
		return str(value).upper()
	return str(value) if isinstance(value, str) else value


class Hub(NamedTuple):
	"""The config that a source comes to, what is said about it, and the DeepSpeed config that stands in the source.

	`own` is what Accelerator takes in code besides, where the source is the Trainer's; None if it is another one.
	"""

	document: Document
	notes: tuple[Note, ...] = ()
	companion: Document | None = None
	own: Mapping[str, Any] | None = None


def hub_of(document: Document, fsdp: Document | None, targets: Targets, to: str) -> Hub:
	"""What a script or a file of the Trainer comes to; `fsdp` is the file that its `fsdp_config` may name."""
	if document.kind != "python":
		own = {"fsdp": True, "fsdp_config": document.data} if document.kind == "fsdp" else document.data
		return Arguments(targets, own, document.key, to).hub(document, fsdp)
	script = Script(document, targets, Context())
	calls = [call for call in script.calls if call.module != "accelerate"]
	runs = calls + [call for call in script.of("Accelerator") if call.given or not calls]
	if len(runs) != 1:
		told = ", ".join(f"{call.name} in line {document.place(call.at()).line}" for call in runs[:3])
		told = told or "no Accelerator and no TrainingArguments (what a parser makes is not in the script)"
		raise BadConversionError(f"{document.path} makes {told}: one run is converted at a time")
	call = runs[0]
	if not calls:
		reader = Reader(script.release, to, script)
		return Hub(*reader.config(document, reader.read(call)))
	made = Arguments(targets, call.given, call.at, to, script)
	if call.name != BASE and not {*PRECISIONS} & call.given.keys():
		made.note("open", "mixed_precision", f"{call.name} may have a default of its own", call.at)
	if call.open:
		if not (call.given.get("fsdp") or call.given.get("deepspeed")):
			raise undecided("fsdp or deepspeed", call.at)
		made.unnamed(call)
	return made.hub(document, fsdp)


class Arguments(Reader):
	"""Takes in what decides about the run; what is `left` stays in the arguments."""

	def __init__(
		self, targets: Targets, given: Mapping[str, Any], at: Where, to: str, script: Script | None = None
	) -> None:
		super().__init__(targets.accelerate, to, script)
		self.trainer, self.at, self.left = transformers.for_release(targets.transformers), at, dict(given)

	def get(self, name: str, decisive: bool = False) -> Any:
		value = self.left.pop(name, None)
		if value is OPEN or isinstance(value, Made) or (isinstance(value, list) and OPEN in value):
			if decisive:
				raise undecided(name, self.at)
			self.note("open", name, UNKNOWN, self.at)
			return None
		if isinstance(value, str) and value.lstrip().startswith("{"):
			with suppress(ValueError, RecursionError):
				return json.loads(value)
		return value

	def hub(self, document: Document, file: Document | None) -> Hub:
		fsdp, deepspeed = self.get("fsdp", decisive=True), self.get("deepspeed", decisive=True)
		precision = next((name for name in PRECISIONS[::-1] if self.get(name)), None)
		own = {"mixed_precision": precision, STEPS: self.get(STEPS)} if self.to == "python" else {}
		cpu, config, companion = self.get("use_cpu") or self.get("no_cuda"), self.fsdp_config(file), None
		kind = "DEEPSPEED" if deepspeed else "FSDP" if fsdp else "NO" if cpu else "MULTI_GPU"
		self.options |= {"use_cpu": True} if cpu else {}
		if deepspeed:
			companion = self.deepspeed(document, deepspeed, precision)
		elif fsdp:
			self.made_of("fsdp_plugin", self.fsdp(document, fsdp, config))
		else:
			told = f"{kind}: how many processes there are decides, which nothing here says"
			self.note("open", "distributed_type", told, self.at)
		if precision and "deepspeed_config_file" not in self.options:
			self.options["mixed_precision"] = precision
		compiled = {name: self.get(f"torch_compile_{name}") for name in ("backend", "mode")}
		if self.get("torch_compile") or any(compiled.values()):
			self.made_of("dynamo_plugin", {**compiled, "backend": compiled["backend"] or "inductor"})
		if (parallel := self.made_by(self.left.get("parallelism_config"))) is not None:
			del self.left["parallelism_config"]
			self.made(of_argument("parallelism_config"), parallel)
		names, told = ", ".join(sorted(map(str, self.left))), NO_KEYS
		if self.to == "python":  # no Trainer any more
			clips = "" if deepspeed else ", and clip at max_grad_norm (1.0 by default)"
			names, told = names or "Trainer", f"this code has no Trainer: the loop has to do what it did{clips}"
		self.notes += [Note("open", names, told)] if names else []
		return Hub(*self.config(document, kind), companion, {name: one for name, one in own.items() if one})

	def made_of(self, argument: str, fields: Mapping[str, Any]) -> None:
		row = of_argument(argument)
		given = {name: value for name, value in fields.items() if value is not None}
		self.plugin(row, row["class"], given, self.at)

	def fsdp_config(self, file: Document | None) -> dict[str, Any]:
		own = self.get("fsdp_config")
		if isinstance(own, str) and file is None:
			raise BadConversionError(f"fsdp_config names the file {own}: write its mapping there, or give it too")
		value = file.data if isinstance(own, str) and file else own or {}
		short = "fsdp_" if self.trainer.strips_prefix == "always" or value is not own else ""
		config = {str(key).removeprefix(short): item for key, item in value.items()} if isinstance(value, dict) else {}
		for key in [key for key, item in config.items() if item is OPEN]:
			self.note("open", key, UNKNOWN, self.at)
			del config[key]
		return config

	def fsdp(self, document: Document, asked: Any, config: dict[str, Any]) -> dict[str, Any]:
		"""What the Trainer gives to the plugin, or says in variables before 5.0."""
		if truth(config.get("xla")):
			raise BadConversionError("fsdp_config asks for FSDP of XLA, of which no config of Accelerate says anything")
		by = setting_at("", None, document, ())
		given = {"fsdp": asked, **{f"fsdp_config.{key}": value for key, value in config.items()}}
		trainer = Trainer(self.trainer.release, {name: by._replace(value=value) for name, value in given.items()}, by)
		names = {"TRANSFORMER_CLS_TO_WRAP": "transformer_layer_cls_to_wrap"}
		fields: dict[str, Any] = {"activation_checkpointing": config.get("activation_checkpointing")}
		for target, one in writes(trainer, {}):
			owner, _, name = target.partition(".")
			name = name.removeprefix("FSDP_")
			if owner == FSDP_PLUGIN or (target.startswith("variable.FSDP_") and trainer.covers("..4.57")):
				fields[names.get(name, name.lower())] = one.value
		version = fields["fsdp_version"] = int(fields.get("fsdp_version", 1))
		reshard = fields.pop(RESHARD, None) if version == 1 else None
		if version == 1:
			strategy = strategy_named(fields.setdefault("sharding_strategy", "FULL_SHARD"))
			fields["sharding_strategy"] = strategy.name if strategy else "FULL_SHARD"
			if truth(fields.get("cpu_ram_efficient_loading")):
				fields["sync_module_states"] = True  # as the plugin does; the launcher refuses one without the other
		if reshard and trainer.covers("5.4..") and not same(reshard, fields["sharding_strategy"]):
			told = f"FULL_SHARD, as the Trainer's plugin is: write {reshard} if the run exports FSDP_SHARDING_STRATEGY"
			self.note("open", "fsdp_sharding_strategy", told, self.at)
		only, known = table("plugins", "fsdp", "only"), self.trainer.fsdp_keys
		if unread := ", ".join(key for key in config if key not in known or only.get(key) not in (None, version)):
			self.note("same", "fsdp_config", f"the Trainer does not read {unread}", self.at)
		if fields.get("auto_wrap_policy") != "SIZE_BASED_WRAP":
			fields["min_num_params"] = None
		if truth(fields.get("limit_all_gathers")):
			fields["limit_all_gathers"] = None
		return {name: value for name, value in fields.items() if only.get(name) in (None, version)}

	def deepspeed(self, document: Document, config: Any, precision: str | None) -> Document | None:
		"""Take in a DeepSpeed config; give it as a document where only a file can hold it."""
		if isinstance(config, str):
			self.options["deepspeed_config_file"] = config
			if self.to == "python":
				self.options |= {"gradient_clipping": clip} if (clip := self.get("max_grad_norm")) is not None else {}
			elif precision:
				told = f"refused in a config beside a DeepSpeed file: keep {precision} an argument, or write it there"
				self.note("open", "mixed_precision", told, self.at)
			return None
		if any(is_open(value) for _, value in leaves(config)):
			raise BadConversionError("a part of deepspeed is known to the script only: write it to a file")
		config, steps = json.loads(json.dumps(config, default=str)), table("trainer", "deepspeed")
		filled = {key: value for key, name in steps.items() if config.get(key) == "auto" and (value := self.get(name))}
		block = self.block({**config, **filled}, precision)
		if block is not None:
			self.options |= block
			return None
		config |= filled | ({precision: {**config.get(precision, {}), "enabled": True}} if precision else {})
		self.note("open", "deepspeed", f"write this to {DEEPSPEED_FILE}: {json.dumps(config)}", self.at)
		self.options["deepspeed_config_file"] = DEEPSPEED_FILE
		return reread(document, written(config, "json"), "deepspeed", "json")

	def block(self, config: Mapping[str, Any], precision: str | None) -> dict[str, Any] | None:
		"""A mapping in the keys of `deepspeed_config`; None where they do not say all of it."""
		rows = [*(row["deepspeed"] for row in table("backends")), *(row["keys"] for row in table("only_deepspeed"))]
		options = {row[-1]: row[0] for row in rows if len(row) > 1}
		found, steps = dict[str, Any](), {*table("trainer", "deepspeed")}
		fine = {"train_batch_size", "train_micro_batch_size_per_gpu", *steps, *(f"{one}.enabled" for one in PRECISIONS)}
		for path, value in leaves(config):
			if options.get(path) and value != "auto":
				found[options[path]] = value
			elif (value != "auto" or path not in fine) and (path, value) != (f"{precision}.enabled", True):
				return None
		return found if steps <= config.keys() and "zero_stage" in found else None
