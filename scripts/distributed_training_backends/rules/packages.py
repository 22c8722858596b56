"""XCF rules about optional packages, for `--check-imports`. `absent` holds the features whose package is missing."""

from collections.abc import Iterator
from typing import Any

from ..flow.inputs import DeepSpeedFile
from ..flow.launch import Launch
from ..resources import load_json
from ..sources.document import At, Document
from .registry import Hit, Hits, rule

DATA = "packages.json"
BY_TYPE = {
	"DEEPSPEED": "deepspeed",
	"MEGATRON_LM": "megatron-lm",
	"XLA": "torch-xla",
	"TPU": "torch-xla",
	"MULTI_NPU": "npu",
	"MULTI_MLU": "mlu",
	"MULTI_MUSA": "musa",
	"MULTI_SDAA": "sdaa",
	"MULTI_HPU": "hpu",
	"MULTI_NEURON": "neuron",
}
BY_OPTION = {
	"fp8_backend": {"AO": "torchao", "TE": "transformer-engine", "MSAMP": "ms-amp"},
	"dynamo_backend": {"TENSORRT": "tensorrt", "TVM": "tvm"},
}
MONITORS = ("tensorboard", "wandb", "comet")


@rule("XCF910", info="*")
def package_missing(launch: Launch, absent: frozenset[str]) -> Hits:
	"""This Python lacks a package that the config needs (with `--check-imports` only).

	A hint about the interpreter that runs the validator; nothing is imported, and the verdict does not change: the
	training may run in another environment. Source: 1.15.0, utils/imports.py.
	"""
	for feature, at in features(launch):
		if feature in absent:
			yield Hit(at, text_of(feature))


def features(launch: Launch) -> Iterator[tuple[str, At]]:
	if feature := BY_TYPE.get(str(launch.distributed_type)):
		yield feature, launch.at("distributed_type")
	for option, values in BY_OPTION.items():
		if feature := values.get(str(launch.value(option)).upper()):
			yield feature, launch.at(option)


@rule("XCF911", info="*")
def package_missing_for_deepspeed(deepspeed: DeepSpeedFile, absent: frozenset[str]) -> Hits:
	"""This Python lacks DeepSpeed, or a monitor that the DeepSpeed file switches on (with `--check-imports` only).

	Source: deepspeed 0.19.8, monitor/utils.py.
	"""
	document = deepspeed.document
	if "deepspeed" in absent and deepspeed.launch is None:
		yield Hit(document.value(), text_of("deepspeed"))
	for monitor in MONITORS:
		if monitor in absent and document.get(monitor, "enabled") is True:
			yield Hit(document.key(monitor), text_of(monitor))


@rule("XCF912", info="*")
def package_missing_for_quantization(quantization: Document, absent: frozenset[str]) -> Hits:
	"""This Python lacks bitsandbytes, which the quantization config needs (with `--check-imports` only).

	Source: 1.15.0, utils/bnb.py, `load_and_quantize_model`.
	"""
	if "bitsandbytes" in absent:
		yield Hit(quantization.value(), text_of("bitsandbytes"))


def text_of(feature: str) -> str:
	record: dict[str, Any] = load_json(DATA)["features"][feature]
	return f"this Python has no {record['module']} (for {record['needed_by']}): {record['install']}"
