"""`DeepSpeedPlugin` in the worker: its fields, and the config that it hands to DeepSpeed.

Follows `__post_init__` and `set_mixed_precision` of utils/dataclasses.py.
"""

from typing import Any

from ..model_effective import Setting
from .effective_plugins import Fields, Variables, fields
from .effective_run import Run, place_of
from .effective_trainer import filled

OWNER, TITLE = "DeepSpeedPlugin", "deepspeed_plugin"
CONFIG = f"{TITLE}.deepspeed_config"
MAPPED = {
	"gradient_accumulation_steps": "gradient_accumulation_steps",
	"gradient_clipping": "gradient_clipping",
	"zero_stage": "zero_optimization.stage",
	"offload_optimizer_device": "zero_optimization.offload_optimizer.device",
	"offload_param_device": "zero_optimization.offload_param.device",
	"offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
	"offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
	"zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
}
MADE = Setting("", None, "accelerate", state="set")  # by the library itself
Config = dict[str, Setting]


def plugin(run: Run, variables: Variables, precision: Setting, processes: Setting) -> Fields:
	found = fields(run, variables, OWNER, TITLE)
	file = found.pop("hf_ds_config")
	given = entries(run, file)
	if given is None and file.value not in (None, "none"):
		for name in {*MAPPED, "zero3_init_flag"} & found.keys():
			found[name] = found[name]._replace(value=f"{found[name].value}, unless {file.value} sets it", state="open")
		return {**found, "config.": Setting(CONFIG, f"what {file.value} says", state="open")}
	called = "DeepSpeedPlugin" in run.calls  # by TrainingArguments, which fills the file before
	if given is not None and called:
		filled(run, given, processes)
	config = from_fields(found) if given is None else from_file(given, found)
	finish(config, found, precision)
	if not called:
		filled(run, config, processes)
	stage3 = config["zero_optimization.stage"].value == 3 if "zero_optimization.stage" in config else False
	flag = found["zero3_init_flag"]
	if flag.value is None:
		found["zero3_init_flag"] = flag._replace(value=stage3)
	elif flag.value and not stage3:
		found["zero3_init_flag"] = MADE._replace(name=flag.name, value=False, losers=flag.beaten("only for ZeRO 3"))
	return {**found, **{f"config.{path}": entry._replace(name=f"{CONFIG}.{path}") for path, entry in config.items()}}


def entries(run: Run, file: Setting) -> Config | None:
	"""The entries of the config that the plugin is given, by dotted path: a file that is at hand, or a mapping."""
	found: Config = {}
	document = run.file(file.value)

	def walk(value: Any, pointer: tuple[str, ...]) -> None:
		if isinstance(value, dict) and (value or not pointer):
			for key, inner in value.items():
				walk(inner, (*pointer, str(key)))
		elif document is not None:
			place = place_of(document, pointer)
			found[".".join(pointer)] = Setting("", value, "deepspeed file", place, (), "set")
		else:
			found[".".join(pointer)] = file.becomes(value)

	data = file.value if isinstance(file.value, dict) else document.data if document is not None else None
	walk(data, ())
	return None if data is None else found


def from_file(config: Config, found: Fields) -> Config:
	config.setdefault("gradient_accumulation_steps", MADE._replace(value=1, state="default"))
	for name, path in MAPPED.items():
		if name not in found or path not in config:
			continue
		if config[path].value == "auto" and found[name].value is not None:
			config[path] = found[name]._replace(losers=())
		value = config[path].value
		if value is not None and value != "auto" and config[path].surface != found[name].surface:
			lost = found[name].beaten("the DeepSpeed file counts more") if value != found[name].value else ()
			found[name] = config[path]._replace(name=found[name].name, losers=lost)
	return config


def from_fields(found: Fields) -> Config:
	auto = Setting("", "auto")
	config = {"train_batch_size": auto, "train_micro_batch_size_per_gpu": auto}
	config |= {path: found[name]._replace(losers=()) for name, path in MAPPED.items() if name in found}
	for part in ("optimizer", "param"):
		path = f"zero_optimization.offload_{part}"
		if config[f"{path}.device"].value != "nvme":
			config[f"{path}.nvme_path"] = Setting("", None)
	if not config["gradient_clipping"].value:
		del config["gradient_clipping"]
	return config


def finish(config: Config, found: Fields, precision: Setting) -> None:
	printed = config.get("steps_per_print")
	lost = printed.beaten("Accelerate stops DeepSpeed's own printing") if printed else ()
	config["steps_per_print"] = MADE._replace(value="inf", losers=lost)
	msamp = found.get("enable_msamp")
	if msamp is not None and msamp.value is True and not any(path.startswith("msamp.") for path in config):
		config["msamp.enabled"] = msamp.becomes(True)
		config["msamp.opt_level"] = found["msamp_opt_level"]
	set_precision(config, precision)


def set_precision(config: Config, precision: Setting) -> None:
	wanted = {"fp16": precision.value == "fp16", "bf16": precision.value in ("bf16", "fp8")}
	for kind, on in wanted.items():
		path = f"{kind}.enabled"
		if not any(entry == kind or entry.startswith(f"{kind}.") for entry in config):
			config[path] = precision.becomes(on)._replace(losers=())
			if on and kind == "fp16":
				config["fp16.auto_cast"] = MADE._replace(value=True)
		elif path in config and config[path].value == "auto":
			config[path] = precision.becomes(on)._replace(losers=())
		elif path in config and on and config[path].value is not True:
			config[path] = config[path]._replace(losers=precision.beaten("the DeepSpeed file counts more"))
