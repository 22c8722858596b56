"""ACC rules about the `deepspeed_config` block of an Accelerate config."""

from ..flow.effect import normal
from ..flow.launch import Launch
from ..model import Targets
from ..versions import in_span
from .launch_counts import integer
from .registry import Hit, Hits, rule
from .suggest import shown
from .values import value_hits

VALUES = ("zero", "gradient_", "offload_", "deepspeed_config_file", "deepspeed_moe")


def block_stage(launch: Launch) -> int | None:
	if launch.value("deepspeed_config_file") is not None:
		return None
	value = launch.value("zero_stage")
	return 2 if value is None else int(value) if str(value) in ("0", "1", "2", "3") else None


def device(launch: Launch, name: str) -> str:
	return str(launch.value(name)).lower()


@rule("ACC040", warning="*")
def zero3_init_below_stage_3(deepspeed_launch: Launch) -> Hits:
	"""`zero3_init_flag: true` with a ZeRO stage other than 3.

	Accelerate warns and sets it to false: only stage 3 partitions the parameters while a model is built. Source:
	1.15.0, utils/dataclasses.py, `DeepSpeedPlugin.__post_init__`.
	"""
	stage = block_stage(deepspeed_launch)
	if stage in (0, 1, 2) and normal(deepspeed_launch.value("zero3_init_flag")) is True:
		text = f"zero3_init_flag has no effect at ZeRO stage {stage}; accelerate sets it to false"
		yield Hit(deepspeed_launch.at("zero3_init_flag"), text)


@rule("ACC041", warning="*")
def offload_param_below_stage_3(deepspeed_launch: Launch) -> Hits:
	"""`offload_param_device` with a ZeRO stage other than 3.

	DeepSpeed partitions, and therefore offloads, parameters at stage 3 only; they stay on the GPU. Source: deepspeed
	0.19.8, runtime/engine.py, `_configure_zero_optimizer`.
	"""
	stage, where = block_stage(deepspeed_launch), device(deepspeed_launch, "offload_param_device")
	if stage in (0, 1, 2) and where in ("cpu", "nvme"):
		text = f"parameters are not offloaded at ZeRO stage {stage}; write zero_stage: 3 or offload_param_device: none"
		yield Hit(deepspeed_launch.at("offload_param_device"), text)


@rule("ACC042", warning="*")
def offload_optimizer_at_stage_0(deepspeed_launch: Launch) -> Hits:
	"""`offload_optimizer_device` with ZeRO stage 0.

	Nothing is partitioned or offloaded at stage 0; only the optimizer is exchanged for DeepSpeed's CPU version.
	Source: deepspeed 0.19.8, runtime/engine.py, `_configure_zero_optimizer`.
	"""
	where = device(deepspeed_launch, "offload_optimizer_device")
	if block_stage(deepspeed_launch) == 0 and where in ("cpu", "nvme"):
		text = "the optimizer is not offloaded at ZeRO stage 0; write zero_stage: 1 or higher"
		yield Hit(deepspeed_launch.at("offload_optimizer_device"), text)


@rule("ACC043", warning="*")
def nvme_below_stage_3(deepspeed_launch: Launch) -> Hits:
	"""`offload_optimizer_device: nvme` at ZeRO stage 1 or 2.

	DeepSpeed treats every device but none as the CPU at these stages. Source: deepspeed 0.19.8, runtime/engine.py,
	`_configure_zero_optimizer`.
	"""
	stage = block_stage(deepspeed_launch)
	if stage in (1, 2) and device(deepspeed_launch, "offload_optimizer_device") == "nvme":
		text = f"at ZeRO stage {stage} the optimizer goes to CPU memory, not to NVMe; write cpu, or zero_stage: 3"
		yield Hit(deepspeed_launch.at("offload_optimizer_device"), text)


@rule("ACC044", warning="*")
def nvme_path_lost(deepspeed_launch: Launch) -> Hits:
	"""NVMe offload asked for in the block, where its path cannot arrive.

	The launcher does not export `offload_optimizer_nvme_path` and `offload_param_nvme_path`, so the path becomes the
	text "none": a folder of that name in the working directory. Use a file named by `deepspeed_config_file`. Source:
	1.15.0, utils/launch.py, `prepare_deepspeed_cmd_env`.
	"""
	for name in ("offload_optimizer_device", "offload_param_device"):
		if block_stage(deepspeed_launch) == 3 and device(deepspeed_launch, name) == "nvme":
			text = 'the NVMe path cannot be given here: DeepSpeed gets a folder "none" in the working directory'
			yield Hit(deepspeed_launch.at(name), f"{text}; name a DeepSpeed file with nvme_path")


@rule("ACC045", warning="*")
def save_16bit_below_stage_3(deepspeed_launch: Launch) -> Hits:
	"""`zero3_save_16bit_model: true` with a ZeRO stage other than 3.

	It gathers partitioned weights on saving, which only stage 3 has. Source: deepspeed 0.19.8, runtime/engine.py,
	`save_16bit_model`.
	"""
	stage = block_stage(deepspeed_launch)
	if stage in (0, 1, 2) and str(deepspeed_launch.value("zero3_save_16bit_model")).lower() == "true":
		text = f"zero3_save_16bit_model has no effect at ZeRO stage {stage}"
		yield Hit(deepspeed_launch.at("zero3_save_16bit_model"), text)


@rule("ACC046", info="*")
def accumulation_beats_script(deepspeed_launch: Launch) -> Hits:
	"""`gradient_accumulation_steps` in the block beats the script.

	The value is exported and `Accelerator(gradient_accumulation_steps=…)` is overruled without a word; `accelerate
	config` writes 1. Source: 1.15.0, accelerator.py, `Accelerator.__init__`.
	"""
	value = deepspeed_launch.value("gradient_accumulation_steps")
	if deepspeed_launch.given("gradient_accumulation_steps") and value is not None:
		text = f"gradient_accumulation_steps {shown(value)} beats what the script passes to Accelerator"
		yield Hit(deepspeed_launch.at("gradient_accumulation_steps"), text)


@rule("ACC047", info="0.30.0..")
def clipping_by_default(deepspeed_launch: Launch) -> Hits:
	"""No `gradient_clipping`: gradients are clipped at 1.0.

	Since 0.30.0 Accelerate fills in 1.0, and `accelerator.clip_grad_norm_` in the script does not decide. Source:
	1.15.0, accelerator.py, `_prepare_deepspeed`.
	"""
	if deepspeed_launch.value("gradient_clipping") is None and block_stage(deepspeed_launch) is not None:
		text = "no gradient_clipping: gradients are clipped at norm 1.0"
		yield Hit(deepspeed_launch.at("distributed_type"), text)


@rule("ACC048", info="*")
def stage_2_by_default(deepspeed_launch: Launch) -> Hits:
	"""Neither `zero_stage` nor a DeepSpeed file: ZeRO stage 2.

	Source: 1.15.0, utils/dataclasses.py, `DeepSpeedPlugin.__post_init__`.
	"""
	if deepspeed_launch.value("zero_stage") is None and deepspeed_launch.value("deepspeed_config_file") is None:
		yield Hit(deepspeed_launch.at("distributed_type"), "no zero_stage and no DeepSpeed file: ZeRO stage 2 is used")


@rule("ACC049", error="*")
def deepspeed_value(deepspeed_launch: Launch) -> Hits:
	"""A value in `deepspeed_config` that is refused or taken for something else.

	The launcher exports every value as text; the plugin in the workers reads the stage and the accumulation steps as
	integers (so `auto` is refused here, unlike in a DeepSpeed file), the clipping as a number, the flags as truth
	words; DeepSpeed checks stages and offload devices. Source: 1.15.0, utils/dataclasses.py,
	`DeepSpeedPlugin.__post_init__`, and accelerator.py, `Accelerator.__init__`.
	"""
	yield from value_hits(deepspeed_launch, VALUES)


@rule("ACC060", warning="..1.8.1")
def accumulation_asserts(deepspeed_launch: Launch, targets: Targets) -> Hits:
	"""Gradient accumulation at ZeRO stage 2 or 3 with DeepSpeed 0.16.0 or later and Accelerate before 1.9.0.

	Since 0.16.0 DeepSpeed's engine has a `no_sync` of its own, which asserts that gradients are not partitioned;
	Accelerate calls it inside `accelerator.accumulate` until 1.8.1. Upgrade Accelerate, or take an older DeepSpeed.
	Source: accelerate 1.8.1, accelerator.py, `no_sync`; deepspeed 0.16.0, runtime/engine.py, `no_sync`.
	"""
	steps, stage = deepspeed_launch.value("gradient_accumulation_steps"), block_stage(deepspeed_launch)
	if (integer(steps) or 0) > 1 and stage in (2, 3) and in_span(targets.deepspeed, "0.16.0", None):
		text = f"accumulating at ZeRO stage {stage} fails in deepspeed {targets.deepspeed} with accelerate"
		text += f" {targets.accelerate} (no_sync is incompatible with gradient partitioning); use accelerate 1.9.0"
		yield Hit(deepspeed_launch.at("gradient_accumulation_steps"), text)
