"""JSON Schemas of the configs for one set of releases, made from the same knowledge that the key rules use.

For editors (yaml-language-server) and check-jsonschema. A schema says which keys there are, what they hold and what
they default to; that keys fit each other, and a release's oddities, only the validator knows.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from .flow.launch import BLOCKS, merged_blocks
from .flow.placement import block_keys, block_of
from .knowledge import accelerate, deepspeed, transformers
from .model import Targets

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXPORTED = ("accelerate", "deepspeed", "fsdp")
LEGACY = {
	"fp16": {"description": "Old spelling of mixed_precision: fp16."},
	"dynamo_backend": {"description": "Old spelling: write it into dynamo_config."},
}
ENUMS = {
	"distributed_type": "DistributedType",
	"compute_environment": "ComputeEnvironment",
	"mixed_precision": "PrecisionType",
}


def schema(kind: str, targets: Targets) -> Schema:
	"""The schema of one kind in EXPORTED. Raises KeyError for another kind."""
	makers = {"accelerate": accelerate_schema, "deepspeed": deepspeed_schema, "fsdp": fsdp_schema}
	return {"$schema": DIALECT, **makers[kind](targets)}


def accelerate_schema(targets: Targets) -> Schema:
	"""An Accelerate config: a cluster config, or one for SageMaker where `compute_environment` says so."""
	release = targets.accelerate
	known = accelerate.for_release(release)
	cluster = {name: top_level(name, release) for name in known.cluster}
	sagemaker = {name: top_level(name, release, "SageMakerDistributedType") for name in known.sagemaker}
	environment = "compute_environment"
	return {
		"title": f"Accelerate config ({known.release})",
		"type": "object",
		"if": {"properties": {environment: {"const": "AMAZON_SAGEMAKER"}}, "required": [environment]},
		"then": closed({**sagemaker, **LEGACY}, required(known.sagemaker)),
		"else": closed({**cluster, **LEGACY}, required(known.cluster)),
	}


def required(fields: Mapping[str, accelerate.Field]) -> list[str]:
	return sorted(name for name, field in fields.items() if field.required)


def closed(properties: Mapping[str, Schema], needed: Iterable[str] = ()) -> Schema:
	wanted = sorted(needed)
	made: Schema = {"properties": dict(sorted(properties.items())), "additionalProperties": False}
	return {**made, "required": wanted} if wanted else made


def top_level(name: str, release: str, types: str = "DistributedType") -> Schema:
	known = accelerate.for_release(release)
	if name in BLOCKS:
		return {"type": ["object", "null"], "description": f"Settings of {name}.", **block_schema(name, release)}
	option = known.options.get(name)
	described = description(known, option)
	enum = types if name == "distributed_type" else ENUMS.get(name)
	values = [str(value) for value in known.enum(enum).values()] if enum else []
	if not values:
		return described
	# a boolean is what YAML makes of an unquoted NO or no; the validator says what becomes of it
	return {**described, "anyOf": [{"enum": values}, {"type": ["boolean", "null"]}]}


def block_schema(block: str, release: str) -> Schema:
	if block == "fp8_config" or block not in merged_blocks(release):
		return {}
	known = accelerate.for_release(release)
	properties = {key: option_schema(known, known.options.get(key)) for key in block_keys(block, release)}
	names = accelerate.TORCHRUN_OPTIONS | set(known.options)
	shared: dict[str, Schema] = {name: {} for name in names if block_of(name, release) is None}
	return closed({**shared, **properties})


def description(known: accelerate.AccelerateRelease, option: accelerate.Option | None) -> Schema:
	text = known.help.get(option.dest) if option else None
	return {"description": text} if text else {}


def option_schema(known: accelerate.AccelerateRelease, option: accelerate.Option | None) -> Schema:
	if option is None:
		return {}
	made = description(known, option)
	return {**made, "default": option.default} if option.default is not None else made


def deepspeed_schema(targets: Targets) -> Schema:
	known = deepspeed.for_release(targets.deepspeed)
	made = deepspeed_section("", known)
	return {"title": f"DeepSpeed config ({known.release})", "type": "object", **made}


def deepspeed_section(path: str, known: deepspeed.DeepSpeedRelease) -> Schema:
	section = known.section_at(path)
	properties = {name: deepspeed_key(key, known) for name, key in known.children(path).items()}
	takes_any = section is None or section.unknown in ("stored", "kwargs") or "*" in properties
	pattern = properties.pop("*", {})
	return {"properties": dict(sorted(properties.items())), "additionalProperties": pattern if takes_any else False}


def deepspeed_key(key: deepspeed.Key, known: deepspeed.DeepSpeedRelease) -> Schema:
	made: Schema = {} if key.default is None else {"default": key.default}
	if key.deprecated:
		made["deprecated"] = True
	if key.replaced_by:
		made["description"] = f"Replaced by {key.replaced_by}."
	if known.section_at(key.path) is not None and known.children(key.path):
		return {**made, **deepspeed_section(key.path, known)}
	return made


def fsdp_schema(targets: Targets) -> Schema:
	known = transformers.for_release(targets.transformers)
	names = {name.partition(".")[0] for name in known.fsdp_keys}
	# blocks inside are handed on whole (xla_fsdp_settings), so they stay open
	spelled: dict[str, Schema] = {spelling: {} for name in names for spelling in (name, f"fsdp_{name}")}
	return {"title": f"Transformers fsdp_config ({known.release})", "type": "object", **closed(spelled)}
