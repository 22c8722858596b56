"""A setup as plugin objects in Python: what the config file says, for a script that is started with bare torchrun."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..knowledge.accelerate_api import parameters
from ..versions import in_span
from .emit_accelerate import Config, accelerate_config
from .facts import Facts
from .setup import Setup

OLDEST = "0.34.0"  # before it FSDP's plugin took torch's own objects instead of names
# By block of the config file: the class, the argument of Accelerator, and keys that have another name there.
PLUGINS: dict[str, tuple[str, str, Mapping[str, str]]] = {
    "fsdp_config": ("FullyShardedDataParallelPlugin", "fsdp_plugin", {"offload_params": "cpu_offload"}),
    "deepspeed_config": ("DeepSpeedPlugin", "deepspeed_plugin", {"deepspeed_config_file": "hf_ds_config"}),
    "megatron_lm_config": ("MegatronLMPlugin", "megatron_lm_plugin", {}),
    "dynamo_config": ("TorchDynamoPlugin", "dynamo_plugin", {}),
    "parallelism_config": ("ParallelismConfig", "parallelism_config", {}),
}
PREFIXES = {
    "fsdp_config": "fsdp_",
    "megatron_lm_config": "megatron_lm_",
    "dynamo_config": "dynamo_",
    "parallelism_config": "parallelism_config_",
}
KEPT = ("fsdp_version",)  # a prefix that belongs to the name


def plugins_code(facts: Facts, setup: Setup) -> str | None:
    """The code, or None where this release takes no names in its plugins."""
    release = facts.versions.accelerate
    if not in_span(release, OLDEST, None):
        return None
    config = accelerate_config(facts, setup)
    made = [(owner, name, call(owner, given)) for owner, name, given in objects(config, release)]
    handlers = list(kwargs_handlers(setup))
    names = sorted({owner for owner, _, _ in made} | {name for name, _ in handlers} | set(extra_names(setup)))
    lines = ["from accelerate import Accelerator"]
    lines += [f"from accelerate.utils import {', '.join(names)}"] if names else []
    lines += [""] + [f"{name} = {text}" for _, name, text in made]
    arguments = {**accelerator_arguments(facts, setup, config), **{name: Name(name) for _, name, _ in made}}
    if handlers:
        arguments["kwargs_handlers"] = Name("[" + ", ".join(text for _, text in handlers) + "]")
    return "\n".join([*lines, f"accelerator = {call('Accelerator', arguments)}"]) + "\n"


class Name(str):
    """A text that is code already."""


def call(owner: str, arguments: Mapping[str, Any], *first: Name) -> str:
    """A call with one argument a line, or on one line where that is short."""
    words = [*first, *(f"{name}={code(value)}" for name, value in arguments.items())]
    short = f"{owner}({', '.join(words)})"
    if len(short) <= 80:
        return short
    return "\n".join([f"{owner}(", *(f"    {word}," for word in words), ")"])


def code(value: Any) -> str:
    """A value as Python, with double quotes."""
    if isinstance(value, Name):
        return value
    return json.dumps(value) if isinstance(value, (str, list)) else repr(value)


def objects(config: Config, release: str) -> Iterator[tuple[str, str, Config]]:
    """(class, argument of Accelerator, arguments) for each block of the file."""
    for block, (owner, argument, renamed) in PLUGINS.items():
        if block in config:
            known = parameters(owner, release)
            entries = dict(bare(block, config[block]))
            given = {renamed.get(name, name): value for name, value in [*entries.items(), *inner(entries, block)]}
            yield owner, argument, {name: spelled(name, value) for name, value in given.items() if name in known}


def inner(entries: Config, block: str) -> Iterator[tuple[str, Any]]:
    """What the launcher says besides, or what is an object of its own in code."""
    if block == "dynamo_config":
        yield "dynamic", False
    if block == "parallelism_config" and "sp_attn_implementation" in entries:
        kind = {"sp_attn_implementation": entries["sp_attn_implementation"]}
        yield "sp_handler", Name(call("DeepSpeedSequenceParallelConfig", kind))


def bare(block: str, entries: Config) -> Iterator[tuple[str, Any]]:
    """The entries of a block under the names that the class has."""
    prefix = PREFIXES.get(block, "")
    for name, value in entries.items():
        yield name if name in KEPT else name.removeprefix(prefix), value


def spelled(name: str, value: Any) -> Any:
    """The classes want some names in small letters."""
    return value.lower() if name in ("auto_wrap_policy", "backend") else value


def accelerator_arguments(facts: Facts, setup: Setup, config: Config) -> Config:
    """What Accelerator itself takes."""
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


def extra_names(setup: Setup) -> Iterator[str]:
    """Names beside classes of plugins."""
    if setup.comm_hook != "no":
        yield "DDPCommunicationHookType"
    if setup.sp > 1:
        yield "DeepSpeedSequenceParallelConfig"
