"""A setup as plugin objects in Python: what the config file says, for a script that is started with bare torchrun."""

from collections.abc import Iterator

from ..convert.python_code import OLDEST, Name, call, class_arguments, rows
from ..knowledge.accelerate import for_release
from ..versions import in_span
from .emit_accelerate import Config, accelerate_config
from .facts import Facts
from .setup import Setup

OWN = ("cp", "sp", "fp8")  # objects inside others, made below


def plugins_code(facts: Facts, setup: Setup) -> str | None:
	"""The code, or None where this release takes no names in its plugins."""
	release = facts.versions.accelerate
	if not in_span(release, OLDEST, None):
		return None
	config = accelerate_config(facts, setup)
	made = [(owner, name, call(owner, given)) for owner, name, given in objects(config, release)]
	handlers = list(kwargs_handlers(setup))
	names = sorted(
		{owner for owner, _, _ in made}
		| {name for name, _ in handlers}
		| ({"DDPCommunicationHookType"} if setup.comm_hook != "no" else set())
		| ({"DeepSpeedSequenceParallelConfig"} if setup.sp > 1 else set())
	)
	lines = ["from accelerate import Accelerator"]
	lines += [f"from accelerate.utils import {', '.join(names)}"] if names else []
	lines += [""] + [f"{name} = {text}" for _, name, text in made]
	arguments = {**accelerator_arguments(facts, setup, config), **{name: Name(name) for _, name, _ in made}}
	if handlers:
		arguments["kwargs_handlers"] = Name("[" + ", ".join(text for _, text in handlers) + "]")
	return "\n".join([*lines, f"accelerator = {call('Accelerator', arguments)}"]) + "\n"


def objects(config: Config, release: str) -> Iterator[tuple[str, str, Config]]:
	"""(class, argument of Accelerator, arguments) for each block of the file."""
	known = for_release(release)
	for kind, row in rows():
		block = row["block"]
		if block in config and kind not in OWN:
			options = {known.destination(block, key): value for key, value in config[block].items()}
			options |= {"dynamo_use_dynamic": False} if kind == "dynamo" else {}  # as the launcher says besides
			named = {str(option): value for option, value in options.items()}
			yield row["class"], row["argument"], {**class_arguments(row, named, release), **inner(kind, named)}


def inner(kind: str, options: Config) -> Config:
	name = "sp_attn_implementation"
	if kind == "parallelism" and f"parallelism_config_{name}" in options:
		handler = {name: options[f"parallelism_config_{name}"]}
		return {"sp_handler": Name(call("DeepSpeedSequenceParallelConfig", handler))}
	return {}


def accelerator_arguments(facts: Facts, setup: Setup, config: Config) -> Config:
	arguments: Config = {}
	if setup.backend == "xla":
		arguments["mixed_precision"] = "bf16" if facts.precision == "bf16" else "no"
	elif "mixed_precision" in config:
		arguments["mixed_precision"] = config["mixed_precision"]
	steps = setup.accumulation or facts.batch.accumulation or 1
	# Megatron-LM accumulates by its own micro batches
	if steps > 1 and setup.backend != "megatron":
		arguments["gradient_accumulation_steps"] = steps
	if config.get("use_cpu"):
		arguments["cpu"] = True
	return arguments


def kwargs_handlers(setup: Setup) -> Iterator[tuple[str, str]]:
	"""(class, code) of the handlers: what has no key in the file, or is an object there too."""
	if setup.comm_hook != "no":
		hook = Name(f"DDPCommunicationHookType.{setup.comm_hook.upper()}")
		yield "DistributedDataParallelKwargs", call("DistributedDataParallelKwargs", {"comm_hook": hook})
	if setup.fp8:
		yield "AORecipeKwargs", "AORecipeKwargs()"
