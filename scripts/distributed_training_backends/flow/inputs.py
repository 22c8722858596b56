"""What rules may ask for: the inputs of one unit of judgement, by parameter name.

A unit is one file with what belongs to it: an Accelerate config and the DeepSpeed file that it names, or a lone file.
An input that is None skips the rules that ask for it.
"""

from typing import Any

from ..model import Consumer, Context, Targets
from ..sources.document import Document
from .launch import Launch, is_cluster, launch_of


class DeepSpeedFile:
    """A DeepSpeed config in the hands of one reader. `launch` is the Accelerate config that names it, if any."""

    def __init__(
        self, document: Document, consumer: Consumer, targets: Targets, context: Context, launch: Launch | None = None
    ) -> None:
        self.document = document
        self.consumer: Consumer = consumer
        self.targets = targets
        self.context = context
        self.launch = launch

    @property
    def release(self) -> str:
        """The DeepSpeed release that is judged."""
        return self.targets.deepspeed

    @property
    def huggingface(self) -> bool:
        """Tell whether Accelerate's DeepSpeedPlugin is on the way (as it is for Accelerate and the Trainer)."""
        return self.consumer in ("accelerate", "trainer")


def cluster_inputs(document: Document, targets: Targets, context: Context) -> dict[str, Any]:
    """The inputs that an Accelerate config gives.

    accelerate: the document. launch: the merged launch, whatever its route; fsdp, megatron, deepspeed_launch, tpu,
    simple and multi_device: the same, where that is the route. elastic: the same, where torchrun's code starts the
    workers. sagemaker: the document, where it is a SageMaker config.
    """
    launch = launch_of(document, targets.accelerate, context)
    routes = {"fsdp": "fsdp", "megatron": "megatron", "deepspeed": "deepspeed_launch", "tpu": "tpu", "simple": "simple"}
    inputs: dict[str, Any] = {"accelerate": document, "launch": launch}
    if launch is not None:
        inputs[routes.get(launch.route, launch.route)] = launch
        inputs["elastic"] = launch if launch.elastic else None
    elif isinstance(document.data, dict) and not is_cluster(document):
        inputs["sagemaker"] = document
    return inputs


def lone_inputs(document: Document) -> dict[str, Any]:
    """The inputs of a lone file: fsdp_file, parallelism_file, fp8_file, quantization or trainer; and lone for any."""
    names = {
        "fsdp": "fsdp_file",
        "parallelism": "parallelism_file",
        "fp8": "fp8_file",
        "quantization": "quantization",
        "trainer": "trainer",
    }
    return {names[document.kind]: document, "lone": document}
