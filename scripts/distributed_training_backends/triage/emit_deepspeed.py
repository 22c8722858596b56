"""A setup as DeepSpeed's JSON, in the keys that the targeted release reads."""

import json
from typing import Any

from ..knowledge import deepspeed as knowledge
from ..versions import in_span
from .emit_accelerate import ZERO_STAGES
from .facts import Facts
from .setup import Setup

Config = dict[str, Any]
NVME = "/local_nvme"
AIO = {"block_size": 1048576, "queue_depth": 8, "single_submit": False, "overlap_events": True}


def deepspeed_config(facts: Facts, setup: Setup) -> Config | None:
	"""The content of the file; None for a backend that has none. Accelerate and the Trainer fill every "auto"."""
	if setup.backend not in ZERO_STAGES:
		return None
	config: Config = {
		"train_batch_size": "auto",
		"train_micro_batch_size_per_gpu": "auto",
		"gradient_accumulation_steps": "auto",
		"gradient_clipping": 1.0,
		**precision(facts),
		"zero_optimization": zero(facts, setup),
	}
	if "nvme" in (setup.offload_optimizer, setup.offload_params):
		config["aio"] = dict(AIO)
	return config


def deepspeed_json(facts: Facts, setup: Setup) -> str | None:
	config = deepspeed_config(facts, setup)
	return None if config is None else json.dumps(config, indent=2) + "\n"


def precision(facts: Facts) -> Config:
	if facts.precision == "fp16":
		return {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}}
	return {} if facts.precision == "fp32" else {"bf16": {"enabled": True}}


def zero(facts: Facts, setup: Setup) -> Config:
	stage = ZERO_STAGES[setup.backend]
	block: Config = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": "auto"}
	if stage == 3:
		block |= {
			# before 0.31 Accelerate fills in a fraction, which DeepSpeed 0.15 and newer refuse
			"stage3_prefetch_bucket_size": "auto"
			if in_span(facts.versions.accelerate, "0.31.0", None)
			else int(0.9 * (facts.model.hidden or 4096) ** 2),
			"stage3_param_persistence_threshold": "auto",
			"stage3_gather_16bit_weights_on_model_save": True,
		}
	devices = {"offload_optimizer": setup.offload_optimizer, "offload_param": setup.offload_params}
	block |= {name: offload(device) for name, device in devices.items() if device != "none"}
	if setup.hpz > 1:
		block["zero_hpz_partition_size"] = setup.hpz
	known = knowledge.for_release(facts.versions.deepspeed).children("zero_optimization")
	return {name: value for name, value in block.items() if name in known}


def offload(device: str) -> Config:
	return {"device": device, "nvme_path": NVME} if device == "nvme" else {"device": device, "pin_memory": True}
