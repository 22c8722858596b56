"""What the oracle and the validator are asked about, and how a case's open questions are answered for the oracle.

A config leaves open what the launch command or the training script gives. The oracle must be told something, and
what it is told must never be what it refuses: eight processes where the file names no number, or as many as its
parallel sizes ask for; an address where there are several machines; a plain ZeRO-2 file in the place of one that is
not at hand, and such files and keys as SageMaker wants; arguments of the script that equal what a DeepSpeed file says
already. The validator gets no such answers: it must not need them.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

import yaml
from tests.oracle.environment import ROOT

Kind: TypeAlias = Literal["accelerate", "deepspeed", "fsdp", "quantization"]
Question: TypeAlias = dict[str, Any]
READERS = ("deepspeed", "accelerate", "trainer")
CORPUS_FOLDERS: dict[str, Kind] = {
	"accelerate": "accelerate",
	"deepspeed": "deepspeed",
	"deepspeed_yaml": "deepspeed",
	"fsdp_config": "fsdp",
}
PROCESSES = 8
MOST_PROCESSES = 4096
ADDRESS = "10.0.0.1"
# Sizes of groups that the number of processes has to be a multiple of.
GROUPS = (
	("expert_parallel", "autoep_size"),
	("zero_optimization", "zero_hpz_partition_size"),
	("zero_optimization", "mics_shard_size"),
)
ZERO_2 = json.dumps(
	{
		"train_micro_batch_size_per_gpu": "auto",
		"gradient_accumulation_steps": "auto",
		"zero_optimization": {"stage": 2},
		"bf16": {"enabled": "auto"},
		"fp16": {"enabled": "auto"},
	}
)

# Files of a SageMaker config: a heading, then a name and a value in each line.
SAGEMAKER_FILES = ("sagemaker_inputs_file", "sagemaker_metrics_file")
TABLE = "name\tvalue\ntrain\ts3://data/train\n"


@dataclass(frozen=True)
class Case:
	"""A config with the files that it refers to; `group` says where it comes from (corpus, own, a mutation)."""

	name: str
	kind: Kind
	text: str
	suffix: str = ".yaml"
	group: str = "corpus"
	files: Mapping[str, str] = field(default_factory=dict, hash=False)

	@cached_property
	def data(self) -> Any:
		if self.kind == "deepspeed":  # whose own reader forgives comments and trailing commas, nearly as YAML does
			return first_parse(self.text, json.loads, yaml.safe_load)
		return first_parse(self.text, json.loads if self.suffix == ".json" else yaml.safe_load)

	@property
	def file(self) -> str:
		return f"config{self.suffix}"

	@cached_property
	def companions(self) -> dict[str, str]:
		"""The files beside it, with plain ones for relative paths that lead nowhere."""
		if self.kind != "accelerate" or not isinstance(self.data, dict):
			return dict(self.files)
		block = self.data.get("deepspeed_config")
		named = [(block.get("deepspeed_config_file"), ZERO_2)] if isinstance(block, dict) else []
		named += [(self.data.get(key), TABLE) for key in SAGEMAKER_FILES]
		relative = {path: text for path, text in named if isinstance(path, str) and path and not os.path.isabs(path)}
		return {**relative, **self.files}


def first_parse(text: str, *parsers: Callable[[str], Any]) -> Any:
	for parse in parsers:
		with contextlib.suppress(ValueError, yaml.YAMLError, RecursionError):
			return parse(text)
	return None


# --- what the oracle is asked ---


def questions(case: Case) -> dict[str, Question]:
	files = {**case.companions, case.file: case.text}
	asked: Question = {"files": files, "config": case.file}
	if case.kind == "accelerate":
		gpus = max(PROCESSES, processes(case.data))
		return {"launch": {"mode": "launch", **asked, "flags": flags(case.data), "gpus": gpus}}
	if case.kind == "quantization":
		asked = {"mode": "quantization", "fields": case.data}
		return {reader: {**asked, "reader": reader} for reader in ("accelerate", "transformers")}
	if case.kind == "fsdp":  # TrainingArguments reads the file as JSON whatever its name is
		fsdp: Question = {"mode": "fsdp", "files": {"fsdp.json": case.text}, "config": "fsdp.json"}
		return {"trainer": {**fsdp, "world_size": 2, "arguments": {"fsdp": True}}}
	config = case.data if isinstance(case.data, dict) else {}
	batch = Batch.of(config)
	accelerate = {"batch_size": batch.micro, "gradient_accumulation_steps": batch.steps}
	arguments: dict[str, Question] = {"deepspeed": {}, "accelerate": accelerate, "trainer": same_values(config, batch)}
	return {
		reader: {"mode": reader, **asked, "world_size": batch.processes, "arguments": arguments[reader]}
		for reader in READERS
	}


def flags(config: Any) -> list[str]:
	"""The flags of `accelerate launch` that answer what a file leaves open."""
	if not isinstance(config, dict):
		return []
	given: list[str] = []
	environment = config.get("compute_environment", "LOCAL_MACHINE")
	if environment == "AMAZON_SAGEMAKER" and config.get("profile") is None:
		given += ["--aws_access_key_id", "id", "--aws_secret_access_key", "secret"]
	if environment == "LOCAL_MACHINE" and config.get("num_processes") in (None, -1, "auto"):
		given += ["--num_processes", str(processes(config))]
	machines, address = config.get("num_machines"), config.get("main_process_ip")
	# A mapping is taken for a block of other settings, and leaves the address open
	if is_integer(machines) and machines > 1 and (not address or isinstance(address, dict)):
		given += ["--main_process_ip", ADDRESS]
	return given


def processes(config: Any) -> int:
	"""As many processes as the parallel sizes of a file ask for, one for distributed_type NO, or else PROCESSES."""
	if isinstance(config, dict) and config.get("distributed_type") == "NO":
		return 1
	block = config.get("parallelism_config") if isinstance(config, dict) else None
	texts = {key: str(size) for key, size in block.items()} if isinstance(block, dict) else {}  # as they are exported
	sizes = [int(size) for key, size in texts.items() if str(key).endswith("_size") and size.isdecimal()]
	product = math.prod(size for size in sizes if size)
	return product if 1 < product <= MOST_PROCESSES else PROCESSES


@dataclass(frozen=True)
class Batch:
	"""Batch arithmetic that comes out even with what a DeepSpeed file says."""

	micro: int
	steps: int
	processes: int

	@classmethod
	def of(cls, config: Mapping[str, Any]) -> Batch:
		total, micro = config.get("train_batch_size"), positive(config.get("train_micro_batch_size_per_gpu"))
		steps = positive(config.get("gradient_accumulation_steps")) or 1
		model = size(config, "tensor_parallel", "autotp_size")
		group = math.lcm(*(size(config, *place) for place in GROUPS))
		if micro is None:
			return cls(max(1, total // steps), steps, model) if is_integer(total) else cls(2, steps, model * group)
		if is_integer(total) and total >= micro * steps and total % (micro * steps) == 0:
			return cls(micro, steps, model * (total // (micro * steps)))
		return cls(micro, steps, model * group)


def size(config: Mapping[str, Any], block: str, key: str) -> int:
	"""How many processes a feature of a DeepSpeed file takes together."""
	found = config.get(block)
	asked = positive(found.get(key)) if isinstance(found, dict) else None
	return asked if asked is not None and asked <= MOST_PROCESSES else 1


def same_values(config: Mapping[str, Any], batch: Batch) -> dict[str, Any]:
	"""Arguments for `TrainingArguments` that equal the literals of a DeepSpeed file, which the Trainer compares."""
	optimizer, scheduler = parameters(config, "optimizer"), parameters(config, "scheduler")
	given: dict[str, Any] = {"per_device_train_batch_size": batch.micro, "gradient_accumulation_steps": batch.steps}
	numbers = (("lr", "learning_rate"), ("weight_decay", "weight_decay"), ("eps", "adam_epsilon"))
	given |= {argument: optimizer[key] for key, argument in numbers if isinstance(optimizer.get(key), int | float)}
	betas = optimizer.get("betas")
	if isinstance(betas, list) and len(betas) == 2:
		given["adam_beta1"], given["adam_beta2"] = betas
	counts = (("warmup_num_steps", "warmup_steps"), ("total_num_steps", "max_steps"))
	given |= {argument: scheduler[key] for key, argument in counts if is_integer(scheduler.get(key))}
	if is_number(scheduler.get("warmup_max_lr")):
		given.setdefault("learning_rate", scheduler["warmup_max_lr"])
	if is_number(config.get("gradient_clipping")):
		given["max_grad_norm"] = config["gradient_clipping"]
	for precision in ("fp16", "bf16"):
		block = config.get(precision)
		if isinstance(block, dict) and block.get("enabled") is True:
			given[precision] = True
	return given


def parameters(config: Mapping[str, Any], section: str) -> dict[str, Any]:
	block = config.get(section)
	found = block.get("params") if isinstance(block, dict) else None
	return found if isinstance(found, dict) else {}


def is_integer(value: Any) -> TypeGuard[int]:
	return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
	return is_integer(value) or isinstance(value, float)


def positive(value: Any) -> int | None:
	return value if is_integer(value) and value > 0 else None


# --- where cases come from ---


def shared_folder() -> Path:
	return Path(os.environ.get("DTB_SHARED") or ROOT.parent / "shared")


def corpus() -> list[Case]:
	return [
		Case(
			f"{folder}/{file.name}",
			kind,
			file.read_bytes().decode("utf-8", "surrogateescape"),
			".json" if kind == "fsdp" else file.suffix,
		)
		for folder, kind in CORPUS_FOLDERS.items()
		for file in sorted((shared_folder() / "corpus" / folder).glob("*"))
	]


def own() -> Iterator[Case]:
	import rule_examples  # in tools/

	for code, examples in sorted(rule_examples.all_cases().items()):
		for number, example in enumerate(examples):
			name, text = example.files[0]
			if kind := kind_of(name, text, example.options):
				suffix = Path(name).suffix
				yield Case(f"{code}/{number}", kind, text, suffix, "own", dict(example.files[1:]))


def kind_of(name: str, text: str, options: tuple[str, ...]) -> Kind | None:
	"""The kind that the validator takes an example for, if the oracle has one that reads it."""
	from distributed_training_backends import api

	forced: Any = options[options.index("--format") + 1] if "--format" in options else None
	report = api.validate_text(text, api.Options(api.default_targets(), kind=forced), name)
	kind = report.files[0].kind
	return kind if kind in ("accelerate", "deepspeed", "fsdp", "quantization") else None
