"""XCF rules: an Accelerate config and the DeepSpeed file that it names."""

from os.path import isabs

from ..flow.launch import Launch
from ..flow.trainer import Arguments
from ..model import Pointer, Severity
from .registry import Hit, Hits, rule
from .rewriting import removing
from .suggest import shown

# The names in `_deepspeed_config_checks`; the same in all releases from 0.20.0 to 1.15.0.
OVERRULED = (
	"gradient_accumulation_steps",
	"gradient_clipping",
	"zero_stage",
	"offload_optimizer_device",
	"offload_param_device",
	"offload_param_nvme_path",
	"offload_optimizer_nvme_path",
	"zero3_save_16bit_model",
	"mixed_precision",
)
PRECISION = "mixed_precision"


def file_of(launch: Launch) -> str | None:
	value = launch.value("deepspeed_config_file")
	return None if value is None or str(value) == "none" else str(value)


@rule("XCF001", error="*")
def deepspeed_file_and_settings(deepspeed_launch: Launch) -> Hits:
	"""`deepspeed_config_file` together with settings that belong into that file.

	Accelerate refuses the config, whatever the values are: "When using `deepspeed_config_file`, the following
	accelerate config variables will be ignored". Keep only `zero3_init_flag` and the launcher settings beside the
	file, and leave `mixed_precision` out too (any value counts, also no): write `"bf16": {"enabled": true}` in the
	file, or "auto" there and `--mixed_precision bf16` on the command line. Source: 1.15.0, utils/dataclasses.py,
	`DeepSpeedPlugin._deepspeed_config_checks`.
	"""
	launch = deepspeed_launch
	if file_of(launch) is None or not isinstance(launch.document.get("deepspeed_config"), dict):
		return
	for key in launch.document.get("deepspeed_config"):
		if isinstance(key, str) and key.lower() in OVERRULED:
			pointer: Pointer = ("deepspeed_config", key)
			advice = "set it in that file" if key != PRECISION else precision_advice(launch.document.get(*pointer))
			yield refusal(launch, pointer, advice)
	pointer = launch.arguments[PRECISION].pointer or ()
	value = launch.document.get(*pointer) if len(pointer) == 1 else None
	if value is not None:
		yield refusal(launch, pointer, precision_advice(launch.value(PRECISION)))


def refusal(launch: Launch, pointer: Pointer, advice: str) -> Hit:
	text = f"{pointer[-1]} is refused beside deepspeed_config_file; {advice}"
	return Hit(launch.document.key(*pointer), text, removing(pointer))


def precision_advice(value: object) -> str:
	word = str(value).lower()
	if word in ("fp16", "bf16"):
		return f'remove it, and write "{word}": {{"enabled": true}} in that file'
	return "pass --mixed_precision fp8 at launch" if word == "fp8" else "remove it: that file decides"


@rule("XCF002", error="*")
def deepspeed_file_not_found(deepspeed_launch: Launch, missing_file: str) -> Hits:
	"""The file that `deepspeed_config_file` names is not here.

	Accelerate looks from the working directory of the run, not from the config's folder, and refuses the run if the
	file is missing there. Source: 1.15.0, utils/deepspeed.py, `HfDeepSpeedConfig.__init__`.
	"""
	where = "" if isabs(missing_file) else "; accelerate looks from the directory of the launch"
	text = f"there is no file {shown(missing_file)} here, so it is not judged{where}"
	severity = None if deepspeed_launch.context.launched else Severity.INFO
	yield Hit(deepspeed_launch.at("deepspeed_config_file"), text, severity=severity)


@rule("XCF005", info="*", of="transformers")
def argument_file_not_found(trainer: Arguments, absent_file: str) -> Hits:
	"""The file that `deepspeed` among TrainingArguments names is not here.

	The Trainer looks from the working directory of the run, and fails where the file is missing there. Source: 5.24.0,
	training_args.py, `__post_init__`; accelerate 1.15.0, utils/deepspeed.py, `HfDeepSpeedConfig.__init__`.
	"""
	where = "" if isabs(absent_file) else "; the Trainer looks from the directory of the run"
	yield Hit(trainer.value("deepspeed"), f"there is no file {shown(absent_file)} here, so it is not judged{where}")


@rule("XCF003", error="*")
def deepspeed_file_not_a_path(deepspeed_launch: Launch) -> Hits:
	"""`deepspeed_config_file` is no text.

	The value is exported as text and then sought as a file, or read as base64; a number or a truth value is neither.
	Source: 1.15.0, utils/deepspeed.py, `HfDeepSpeedConfig.__init__`.
	"""
	value = deepspeed_launch.value("deepspeed_config_file")
	if value is not None and not isinstance(value, str):
		text = f"deepspeed_config_file {shown(value)} is no path, and accelerate refuses it; write a file name"
		yield Hit(deepspeed_launch.at("deepspeed_config_file"), text)
