"""The list of rule modules. Importing one registers its rules."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

# Each module with the inputs (flow/inputs.py) that call for it: importing only those halves the time of a start.
MODULES: Mapping[str, tuple[str, ...]] = {
	"reported": ("targets",),
	"accelerate_file": ("accelerate",),
	"accelerate_blocks": ("launch",),
	"accelerate_unread": ("launch",),
	"accelerate_deepspeed": ("deepspeed_launch",),
	"sagemaker": ("sagemaker",),
	"cross_file": ("deepspeed_launch", "absent_file"),
	"packages": ("absent",),
	"command_line": ("command",),
	"command_run": ("command", "runner", "started"),
	"environment": ("variables",),
	"lone_text": ("lone",),
	"launch_counts": ("launch",),
	"launch_machines": ("launch",),
	"fsdp_settings": ("fsdp",),
	"fsdp_run": ("fsdp",),
	"parallelism_sizes": ("launch",),
	"parallelism_other": ("launch",),
	"parallelism_file": ("parallelism_file",),
	"precision_value": ("accelerate",),
	"precision_fp8": ("launch",),
	"precision_fp8_file": ("fp8_file",),
	"precision_compile": ("launch",),
	"quantization": ("quantization",),
	"trainer_fsdp_config": ("fsdp_file", "trainer"),
	"trainer_arguments": ("trainer",),
	"trainer_combinations": ("trainer",),
	"python_arguments": ("script",),
	"python_run": ("script",),
	"cross_script": ("beside", "trained"),
	"deepspeed_text": ("deepspeed",),
	"deepspeed_keys": ("deepspeed", "reading"),
	"deepspeed_values": ("deepspeed",),
	"deepspeed_batch": ("reading",),
	"deepspeed_auto": ("deepspeed",),
	"deepspeed_optimizer": ("reading",),
	"deepspeed_scheduler": ("reading",),
	"deepspeed_conflicts": ("reading",),
	"deepspeed_huggingface": ("deepspeed",),
	"deepspeed_effect": ("deepspeed", "reading"),
}


def load(inputs: Mapping[str, object] | None = None) -> None:
	"""Register the rules that these inputs may call for; without inputs, all rules."""
	for name, wanted in MODULES.items():
		if inputs is None or any(inputs.get(item) is not None for item in wanted):
			register(name)


@cache
def register(name: str) -> None:
	import_module(f"distributed_training_backends.rules.{name}")
