"""A setup as the config file of `accelerate launch`, in the keys that the targeted release reads."""

import re
from collections.abc import Iterator
from typing import Any

from ..knowledge import accelerate as knowledge
from ..sources.writing import block_lines
from ..versions import in_span
from .facts import Facts
from .setup import FSDP, Setup

REMARK = "dtb: ignore[FSD026] weights stay in the dtype they are loaded in: load fp32 for master weights"
Config = dict[str, Any]
DEEPSPEED_FILE = "ds_config.json"
HOSTFILE = "hostfile"
PORT = 29500  # torchrun's own
MULTI = {device: f"MULTI_{device.upper()}" for device in ("xpu", "hpu", "npu", "mlu", "musa", "cpu")}
ZERO_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}
TYPES = {"single": "NO", "megatron": "MEGATRON_LM", **dict.fromkeys(ZERO_STAGES, "DEEPSPEED")}
TYPES |= {"fsdp1": "FSDP", "fsdp2": "FSDP"}
# FSDP's names, and the numbers that stood for them before Accelerate 0.26.
STRATEGIES = {"FULL_SHARD": 1, "SHARD_GRAD_OP": 2, "HYBRID_SHARD": 4, "HYBRID_SHARD_ZERO2": 5}
MIXED = {"fp32": "no", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8", "pure_bf16": "no"}


def accelerate_config(facts: Facts, setup: Setup) -> Config:
	"""The content of the file; what differs between machines (rank, address) is left to the launch command."""
	config: Config = {"compute_environment": "LOCAL_MACHINE", "distributed_type": distributed_type(facts, setup)}
	config |= {name: block for name, block in blocks(facts, setup) if block}
	nodes = machines(facts, setup)
	# beside a DeepSpeed file the key is refused, and the TPU launcher does not hand it on
	if setup.backend not in (*ZERO_STAGES, "xla"):
		# pure bf16 is none, with weights that are loaded in bf16
		config["mixed_precision"] = "fp8" if setup.fp8 else MIXED[facts.precision or "bf16"]
	config["num_machines"] = nodes
	if nodes > 1:
		config["main_process_port"] = PORT
	if setup.backend == "xla":
		config["main_training_function"] = "main"
	config["num_processes"] = setup.world
	if facts.hardware.device == "cpu":
		config["use_cpu"] = True
	known = knowledge.for_release(facts.versions.accelerate).cluster
	return {name: value for name, value in config.items() if name in known}


def accelerate_yaml(facts: Facts, setup: Setup) -> str:
	"""The file as text; a warning that cannot be mended in it is answered where it would stand."""
	text = "".join(block_lines(accelerate_config(facts, setup)))
	# this release leaves weights under FSDP2 in the dtype that they are loaded in
	upcast = facts.precision in ("bf16", "fp16", "fp8")
	if setup.backend == "fsdp2" and upcast and in_span(facts.versions.accelerate, "1.13.0", "1.13.0"):
		return re.sub(r"(?m)^(mixed_precision: .*)$", rf"\1  # {REMARK}", text)
	return text


def machines(facts: Facts, setup: Setup) -> int:
	return (facts.hardware.nodes or 1) if setup.world > 1 else 1


def distributed_type(facts: Facts, setup: Setup) -> str:
	if setup.backend == "xla":
		return "XLA" if in_span(facts.versions.accelerate, "0.28.0", None) else "TPU"
	return TYPES.get(setup.backend) or MULTI.get(facts.hardware.device or "cuda", "MULTI_GPU")


def blocks(facts: Facts, setup: Setup) -> Iterator[tuple[str, Config]]:
	if setup.backend in ZERO_STAGES:
		yield "deepspeed_config", deepspeed_block(facts, setup)
	if setup.backend in FSDP:
		yield "fsdp_config", fsdp_block(facts, setup)
	if setup.backend == "megatron":
		yield "megatron_lm_config", megatron_block(facts, setup)
	if setup.compile:
		yield "dynamo_config", dynamo_block(facts)
	if setup.fp8:
		yield "fp8_config", {"backend": "AO"}
	if setup.backend == "cpu":
		yield "mpirun_config", {"mpirun_hostfile": HOSTFILE}
	yield "parallelism_config", parallelism_block(facts, setup)


def deepspeed_block(facts: Facts, setup: Setup) -> Config:
	block: Config = {"deepspeed_config_file": DEEPSPEED_FILE}
	if (facts.hardware.nodes or 1) > 1:
		block["deepspeed_multinode_launcher"] = "standard"
	block["zero3_init_flag"] = setup.backend == "zero3" and setup.ram_efficient and facts.task.trains
	return block


def fsdp_block(facts: Facts, setup: Setup) -> Config:
	second = setup.backend == "fsdp2"
	block: Config = {
		"fsdp_activation_checkpointing": setup.checkpointing == "full" and setup.checkpointed_by == "backend",
		"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
		"fsdp_cpu_ram_efficient_loading": setup.ram_efficient,
		"fsdp_offload_params": setup.offload_params == "cpu",
		"fsdp_state_dict_type": "SHARDED_STATE_DICT",
		"fsdp_version": 2 if second else 1,
	}
	if second:
		block["fsdp_reshard_after_forward"] = setup.reshard
	else:
		block["fsdp_backward_prefetch"] = "BACKWARD_PRE"
		block["fsdp_sharding_strategy"] = strategy(facts, setup)
		block["fsdp_sync_module_states"] = True
		# PEFT's wrap policy keeps frozen and trained weights apart, which flat parameters need
		block["fsdp_use_orig_params"] = not facts.task.adapts
	return known_options(block, facts)


def strategy(facts: Facts, setup: Setup) -> str | int:
	"""FSDP1's sharding strategy: a number until 0.25."""
	name = "FULL_SHARD" if setup.reshard else "SHARD_GRAD_OP"
	if setup.replicate > 1:
		name = "HYBRID_SHARD" if setup.reshard else "HYBRID_SHARD_ZERO2"
	return name if in_span(facts.versions.accelerate, "0.26.0", None) else STRATEGIES[name]


def megatron_block(facts: Facts, setup: Setup) -> Config:
	block: Config = {
		"megatron_lm_context_parallel_size": 1,
		"megatron_lm_gradient_clipping": 1.0,
		"megatron_lm_num_micro_batches": setup.accumulation or facts.batch.accumulation or 1,
		"megatron_lm_pp_degree": setup.pp,
		"megatron_lm_sequence_parallelism": setup.tp > 1,
		"megatron_lm_tp_degree": setup.tp,
		"megatron_lm_use_distributed_optimizer": setup.shard > 1,
	}
	return known_options(block | recomputing(facts, setup), facts)


def known_options(block: Config, facts: Facts) -> Config:
	known = knowledge.for_release(facts.versions.accelerate).options
	return {name: value for name, value in sorted(block.items()) if name in known}


def recomputing(facts: Facts, setup: Setup) -> Config:
	"""Megatron-LM's activation checkpointing: how much of it only where the release can say."""
	if setup.checkpointing in (None, "none"):
		return {}
	if not known_options({"megatron_lm_recompute_granularity": None}, facts):
		return {"megatron_lm_recompute_activations": True}
	method = {"megatron_lm_recompute_method": "uniform", "megatron_lm_recompute_num_layers": 1}
	whole = method if setup.checkpointing == "full" else {}
	return {"megatron_lm_recompute_granularity": setup.checkpointing, **whole}


def dynamo_block(facts: Facts) -> Config:
	return known_options({"dynamo_backend": "INDUCTOR", "dynamo_use_regional_compilation": True}, facts)


def parallelism_block(facts: Facts, setup: Setup) -> Config:
	if setup.backend == "fsdp2" and setup.replicate * setup.tp * setup.cp > 1:
		return sizes(dp_replicate_size=setup.replicate, dp_shard_size=setup.shard, tp_size=setup.tp, cp_size=setup.cp)
	if setup.backend in ZERO_STAGES and setup.sp > 1:
		block = sizes(dp_shard_size=setup.shard, sp_size=setup.sp)
		kind = {"parallelism_config_sp_attn_implementation": facts.attention or "sdpa"}
		return {**block, "parallelism_config_sp_backend": "deepspeed", **kind}
	return {}


def sizes(**named: int) -> Config:
	return {f"parallelism_config_{name}": size for name, size in named.items() if size > 1}
