"""ACC rules about the Accelerate config file as a whole, and about its keys at the top."""

from typing import Any

from ..flow.launch import BLOCKS, is_cluster
from ..flow.placement import homes
from ..knowledge import accelerate as knowledge
from ..model import Applicability, Severity, Targets
from ..sources.document import Document
from ..versions import describe, parse
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import as_written, removing, renaming, rewriting
from .suggest import closest, did_you_mean, listing, shown

ALIASES = {"DDP": "MULTI_GPU", "MEGATRON": "MEGATRON_LM", "FSDP2": "FSDP", "NONE": "NO", "SINGLE_GPU": "NO"}

# Settings that only DEEPSPEED takes from a config file, and where every other type has them.
OF_SCRIPT = {"gradient_accumulation_steps": "Accelerator(gradient_accumulation_steps=…)"}


def known_keys(document: Document, targets: Targets) -> frozenset[str]:
	known = knowledge.for_release(targets.accelerate)
	fields = known.cluster if is_cluster(document) else known.sagemaker
	return frozenset(fields) | {"fp16", "dynamo_backend"}


@rule("ACC001", error="*")
def unreadable_text(accelerate: Document) -> Hits:
	"""The file cannot be parsed.

	Accelerate reads a `.json` file with `json.load` and every other file with `yaml.safe_load`; neither takes the
	file, so `accelerate launch` ends with the parser's traceback. Source: 1.15.0, commands/config/config_args.py,
	`load_config_from_file`.
	"""
	for defect in accelerate.defects:
		if defect.name in ("syntax-error", "not-strict-json"):
			at = accelerate.stretch(defect.extent)
			yield Hit(at, f"the file cannot be parsed: {defect.detail or defect.name.replace('-', ' ')}")
			return


@rule("ACC002", error="*")
def not_a_mapping(accelerate: Document) -> Hits:
	"""The file is empty or holds something else than a mapping.

	Accelerate asks the parsed file for `compute_environment` and fails with an `AttributeError` that does not name
	the file. Source: 1.15.0, commands/config/config_args.py, `load_config_from_file`.
	"""
	if accelerate.parsed and not isinstance(accelerate.data, dict):
		what = "is empty" if accelerate.data is None else f"holds a {type(accelerate.data).__name__}"
		yield Hit(accelerate.value(), f"the file {what}; write a mapping of keys, beginning with distributed_type")


@rule("ACC003", error="*")
def unknown_key(accelerate: Document, targets: Targets) -> Hits:
	"""A key at the top that this release of Accelerate does not know.

	Accelerate refuses the whole file and lists the keys (up to 0.22 the dataclass raises a `TypeError`). Source:
	1.15.0, commands/config/config_args.py, `from_yaml_file`.
	"""
	known = known_keys(accelerate, targets)
	for key in accelerate.mapping:
		if key not in known:
			text, repair = explanation(accelerate, key, known, targets.accelerate)
			text = f"accelerate {targets.accelerate} refuses the key {shown(key)}; {text}"
			yield Hit(accelerate.key(key), text, repair)


def explanation(document: Document, key: Any, known: frozenset[str], release: str) -> tuple[str, Repair | None]:
	if not isinstance(key, str):
		return "keys are words: YAML reads this one as another type", None
	if spans := knowledge.spans("fields", "ClusterConfig", key):
		if key in knowledge.for_release(release).cluster:
			return "it is a key of LOCAL_MACHINE configs, and this is a SageMaker one: remove it", removing((key,))
		return lifetime_text(*spans[0], release), removing((key,))
	if key in OF_SCRIPT and document.get("distributed_type") != "DEEPSPEED":
		return f"the script sets it: {OF_SCRIPT[key]}", removing((key,))
	for block in homes(key, release):
		return f"it belongs into {block}", move(document, key, block)
	if len(longer := [name for name in known if name.startswith(f"{key}_")]) == 1 and longer[0] not in document.data:
		return f"did you mean {longer[0]}?", renaming((key,), longer[0])
	if (near := closest(key, known)) and near not in document.data:
		return f"did you mean {near}?", renaming((key,), near)
	if deepspeed_key(key):
		return "it is a key of a DeepSpeed JSON: put it into the file that deepspeed_config_file names", None
	return "remove it", removing((key,))


def lifetime_text(first: str, last: str | None, release: str) -> str:
	if parse(first) > parse(release):
		return f"it exists since {first}: upgrade accelerate or remove it"
	return f"it existed {describe(None, last)}: remove it"


def move(document: Document, key: str, block: str) -> Repair | None:
	target = document.get(block)
	if not isinstance(target, dict) or key in target:
		return None
	return Repair(f"move into {block}", (Operation("move", (key,), target=(block,)),), Applicability.UNSAFE)


def deepspeed_key(key: str) -> bool:
	from ..knowledge import deepspeed  # seldom needed, and large

	return key in deepspeed.for_release(deepspeed.releases()[-1]).keys


@rule("ACC004", error="*")
def missing_distributed_type(accelerate: Document) -> Hits:
	"""The file does not say `distributed_type`.

	Every release refuses such a file (since 0.34.0 with "A `distributed_type` must be specified in the config file",
	before with a `TypeError`). Source: 1.15.0, commands/config/config_args.py, `BaseConfig.process_config`.
	"""
	if isinstance(accelerate.data, dict) and "distributed_type" not in accelerate.data:
		at, kind = accelerate.value(), guess(accelerate.data)
		entry = f"distributed_type: {as_written(at, kind)}"
		text = f"distributed_type is missing and accelerate refuses the file without it; write {entry}"
		add = Operation("add", (), "distributed_type", kind)
		yield Hit(at, text, Repair(f"add {entry}", (add,), Applicability.UNSAFE))


def guess(data: dict[Any, Any]) -> str:
	for kind in ("DEEPSPEED", "FSDP", "MEGATRON_LM"):
		if data.get(f"{kind.lower()}_config"):
			return kind
	processes = data.get("num_processes")
	return "MULTI_GPU" if isinstance(processes, int) and processes > 1 else "NO"


@rule("ACC013", error="*")
def missing_required_key(accelerate: Document, targets: Targets) -> Hits:
	"""A key that this release cannot do without, even if its value comes from the command line.

	Up to 0.33 a file without `num_processes` raises a `TypeError` while it is loaded; a SageMaker config needs
	`ec2_instance_type` and `iam_role_name` in every release. Source: 0.33.0 and 1.15.0,
	commands/config/config_args.py, fields of `ClusterConfig` and `SageMakerConfig`.
	"""
	if not isinstance(accelerate.data, dict):
		return
	known = knowledge.for_release(targets.accelerate)
	fields = known.cluster if is_cluster(accelerate) else known.sagemaker
	for name, field in fields.items():
		if field.required and name != "distributed_type" and name not in accelerate.data:
			text = f"{name} is missing, and accelerate {targets.accelerate} refuses the file without it"
			yield Hit(accelerate.value(), text)


@rule("ACC005", error="*")
def invalid_distributed_type(accelerate: Document, targets: Targets) -> Hits:
	"""`distributed_type` is not one of the release's values, which are compared letter by letter.

	`multi_gpu`, `DDP` or `fsdp` are refused with "is not a valid DistributedType". The values came and went: TPU
	became XLA in 0.28.0, TP existed from 1.4.0 to 1.9.0, the MULTI_* types of other devices came one by one.
	Source: 1.15.0, commands/config/config_args.py, `BaseConfig.__post_init__`.
	"""
	value = accelerate.get("distributed_type")
	if not isinstance(value, str) or not is_cluster(accelerate):
		return
	values = [str(item) for item in knowledge.for_release(targets.accelerate).enum("DistributedType").values()]
	if value not in values:
		near = nearest_type(value, values)
		at = accelerate.value("distributed_type")
		text = f"accelerate {targets.accelerate} has no distributed_type {shown(value)}"
		meant = did_you_mean(near and as_written(at, near))
		yield Hit(at, f"{text}{meant} (it has {listing(values)})", rewriting(at, near) if near else None)


def nearest_type(value: str, values: list[str]) -> str | None:
	plain = value.strip().upper().replace("-", "_")
	plain = ALIASES.get(plain, plain)
	plain = {"TPU": "XLA", "XLA": "TPU"}.get(plain, plain) if plain not in values else plain
	return plain if plain in values else closest(value, values)


@rule("ACC006", warning="*")
def distributed_type_not_text(accelerate: Document) -> Hits:
	"""`distributed_type` is not a text: an unquoted `NO`, `no` or `off` is a boolean in YAML 1.1.

	Accelerate converts only texts, so the value equals no distributed type: one process is started by the simple
	launcher, and `num_processes` has to be given. Quote it: `distributed_type: 'NO'`. Source: 1.15.0,
	commands/config/config_args.py, `BaseConfig.__post_init__`.
	"""
	value = accelerate.mapping.get("distributed_type", "")
	if isinstance(value, str) or not is_cluster(accelerate):
		return
	what = "a boolean" if isinstance(value, bool) else f"no text but {shown(value)}"
	text = f"YAML reads this as {what}, which is no distributed type: the simple launcher starts one process"
	at = accelerate.value("distributed_type")
	yield Hit(at, f"{text}; write 'NO' with quotes", rewriting(at, "NO") if value is False else None)


@rule("ACC007", error="*")
def unknown_compute_environment(accelerate: Document) -> Hits:
	"""`compute_environment` is neither LOCAL_MACHINE nor AMAZON_SAGEMAKER, letter by letter.

	Accelerate takes every other value for SageMaker, reads the file as a `SageMakerConfig`, and then complains about
	unknown keys such as `machine_rank`, which are not at fault. Source: 1.15.0, commands/config/config_args.py,
	`load_config_from_file`.
	"""
	value = accelerate.mapping.get("compute_environment", "LOCAL_MACHINE")
	if value in ("LOCAL_MACHINE", "AMAZON_SAGEMAKER"):
		return
	near = "AMAZON_SAGEMAKER" if isinstance(value, str) and "SAGEMAKER" in value.upper() else "LOCAL_MACHINE"
	at, text = accelerate.value("compute_environment"), f"compute_environment {shown(value)} makes accelerate read"
	yield Hit(at, f"{text} the file as a SageMaker config and refuse its keys; write {near}", rewriting(at, near))


@rule("ACC008", warning="*")
def duplicate_key(accelerate: Document) -> Hits:
	"""A key stands twice in the same mapping.

	Both YAML and JSON readers keep the last one without a word, so the first has no effect. Source: PyYAML
	`safe_load` and `json.load`, as 1.15.0, commands/config/config_args.py calls them.
	"""
	for defect in accelerate.defects:
		if defect.name == "duplicate-key":
			name = shown(defect.pointer[-1]) if defect.pointer else "this key"
			text = f"{name} stands twice in this mapping; the last one counts and this one has no effect"
			yield Hit(accelerate.stretch(defect.extent, defect.pointer), text)


@rule("ACC009", warning="*")
def variable_not_expanded(accelerate: Document) -> Hits:
	"""A value holds a shell or template variable.

	Accelerate expands nothing in its config file: `${MASTER_ADDR}` arrives as these very letters. Fill the file in
	before the launch (for instance with envsubst), or give the value on the command line. Source: 1.15.0,
	commands/config/config_args.py, `from_yaml_file`.
	"""
	for defect in accelerate.defects:
		if defect.name == "template":
			value = shown(accelerate.get(*defect.pointer)) if accelerate.parsed else defect.detail
			text = f"accelerate does not expand {value}, but takes it as it stands; fill it in before the launch"
			yield Hit(accelerate.stretch(defect.extent, defect.pointer), text)


@rule("ACC010", info="*")
def old_spelling(accelerate: Document) -> Hits:
	"""`fp16` or `dynamo_backend` at the top: spellings of old files that are still converted.

	`fp16: true` becomes `mixed_precision: fp16` where that is missing, and `dynamo_backend` becomes a
	`dynamo_config`. Source: 1.15.0, commands/config/config_args.py, `BaseConfig.process_config`.
	"""
	data = accelerate.mapping
	if "fp16" in data and "mixed_precision" in data:
		text = "fp16 is an old spelling and has no effect beside mixed_precision"
		yield Hit(accelerate.key("fp16"), text, removing(("fp16",)), Severity.WARNING if data["fp16"] else None)
	elif "fp16" in data:
		yield Hit(accelerate.key("fp16"), "fp16 is an old spelling; write mixed_precision: fp16")
	if "dynamo_backend" in data:
		text = "dynamo_backend at the top is an old spelling; write dynamo_config with dynamo_backend in it"
		yield Hit(accelerate.key("dynamo_backend"), text)


@rule("ACC011", warning="*")
def block_not_a_mapping(accelerate: Document, targets: Targets) -> Hits:
	"""A `*_config` block is a list or a single value.

	The launcher copies blocks only if they are mappings, so what stands there is ignored (where it is not refused:
	see ACC012). Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	fields = knowledge.for_release(targets.accelerate).cluster
	for block in BLOCKS:
		value = accelerate.get(block)
		if block in fields and value is not None and not isinstance(value, dict) and is_cluster(accelerate):
			text = f"{block} is no mapping, so accelerate ignores it; write key: value lines"
			yield Hit(accelerate.value(block), text)
