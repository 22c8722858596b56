"""What rules may ask for: the inputs of one unit of judgement, by parameter name.

A unit is one file with what belongs to it: an Accelerate config and the DeepSpeed file that it names, or a lone file.
An input that is None skips the rules that ask for it. `reading` is what DeepSpeed gets of a `deepspeed` file.
"""

from typing import Any, Literal

from ..model import Consumer, Context, Pointer, Targets
from ..sources.document import At, Document
from .launch import Launch, is_cluster, launch_of


class DeepSpeedFile:
	"""A DeepSpeed config in the hands of one reader. `launch` is the Accelerate config that names it, if any; `trained`
	tells that a Trainer of the same run fills it in before."""

	def __init__(
		self,
		document: Document,
		consumer: Consumer,
		targets: Targets,
		context: Context,
		launch: Launch | None = None,
		trained: bool = False,
	) -> None:
		self.document = document
		self.consumer: Consumer = consumer
		self.targets = targets
		self.context = context
		self.launch = launch
		self.trained = trained

	@property
	def release(self) -> str:
		return self.targets.deepspeed

	@property
	def huggingface(self) -> bool:
		"""Tell whether Accelerate's DeepSpeedPlugin is on the way (as it is for Accelerate and the Trainer)."""
		return self.consumer in ("accelerate", "trainer")


def trains(document: Document) -> bool:
	return document.kind == "trainer" or bool(document.get("trainers"))


ROUTES = {"fsdp": "fsdp", "megatron": "megatron", "deepspeed": "deepspeed_launch", "tpu": "tpu", "simple": "simple"}


class Variables:
	"""Environment variables, and where they stand in a document."""

	def __init__(self, document: Document, base: Pointer, targets: Targets) -> None:
		self.document, self.base, self.targets = document, base, targets
		self.values: dict[str, Any] = document.get(*base) or {}

	def at(self, name: str, part: Literal["key", "value"] = "value") -> At:
		return At(self.document, (*self.base, name), part)


def run_inputs(
	document: Document, command: Document | None, targets: Targets, context: Context, config_file: Any
) -> dict[str, Any]:
	"""The inputs that an Accelerate config and the command that reads it give, or one of them.

	accelerate: the config. launch: the merged launch, whatever its route; fsdp, megatron, deepspeed_launch, tpu,
	simple and multi_device: the same, where that is the route. elastic: the same, where torchrun's code starts the
	workers. sagemaker: the config, where it is one for SageMaker. commanded: the launch, where there are both.
	started: the command; command: the command line of accelerate; runner: a command of another launcher. variables:
	those set for it.
	"""
	config = document if document.kind == "accelerate" else None
	line = command or (document if config is None else None)
	inputs: dict[str, Any] = {"accelerate": config}
	if line is not None:
		inputs["started"] = line
		inputs["variables"] = Variables(line, ("environment",), targets) if line.data["environment"] else None
		if line.data["launcher"] != "accelerate":
			return {**inputs, "runner": line}
	read = None
	if line is not None:
		from .command import command_line  # most files come without a command

		read = inputs["command"] = command_line(line, targets.accelerate)
		inputs["config_file"] = config_file if config is None else None
	if config is None and config_file is not None:
		return inputs  # it has a config, which is not known
	if read is not None and config is not None and read.open_at is None:
		context = context._replace(launched=True)
		inputs["context"] = context
	launch = launch_of(config, targets.accelerate, context, read)
	return {**inputs, **launch_inputs(launch, config, read is not None and config is not None)}


def launch_inputs(launch: Launch | None, config: Document | None, both: bool) -> dict[str, Any]:
	if launch is not None:
		there = {"launch": launch, ROUTES.get(launch.route, launch.route): launch}
		return {**there, "elastic": launch if launch.elastic else None, "commanded": launch if both else None}
	sagemaker = config is not None and isinstance(config.data, dict) and not is_cluster(config)
	return {"sagemaker": config if sagemaker else None}


def lone_inputs(document: Document) -> dict[str, Any]:
	"""The inputs of a lone file: fsdp_file, parallelism_file, fp8_file or quantization; and lone for any.

	A file of TrainingArguments is `trainer`, in the hands of the Trainer (flow/trainer.py).
	"""
	name = "quantization" if document.kind == "quantization" else f"{document.kind}_file"
	return {name: document, "lone": document}
