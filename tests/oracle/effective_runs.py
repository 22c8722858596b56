"""Runs to compare what takes effect on: file, flags, environment and constructor arguments, drawn from dense tables."""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from distributed_training_backends.flow.placement import block_keys
from distributed_training_backends.knowledge import accelerate, accelerate_api


class Drawn(NamedTuple):
    """A run to compare."""

    config: dict[str, Any]
    flags: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    python: Mapping[str, Mapping[str, Any]] = {}
    deepspeed: dict[str, Any] | None = None


# --- the tables ----------------------------------------------------------------------------------------------

Table: TypeAlias = Mapping[str, tuple[Any, ...]]
BOOLS = (True, False)
FSDP: Table = {
    "fsdp_sharding_strategy": ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", 2),
    "fsdp_auto_wrap_policy": ("TRANSFORMER_BASED_WRAP", "NO_WRAP", "SIZE_BASED_WRAP"),
    "fsdp_transformer_layer_cls_to_wrap": ("LlamaDecoderLayer", "A,B"),
    "fsdp_min_num_params": (2000, 100_000_000),
    "fsdp_backward_prefetch": ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
    "fsdp_state_dict_type": ("FULL_STATE_DICT", "SHARDED_STATE_DICT"),
    "fsdp_offload_params": BOOLS,
    "fsdp_use_orig_params": BOOLS,
    "fsdp_cpu_ram_efficient_loading": BOOLS,
    "fsdp_activation_checkpointing": BOOLS,
    "fsdp_reshard_after_forward": BOOLS,
    "fsdp_ignored_modules": ("lm_head",),
}
DEEPSPEED: Table = {
    "zero_stage": (0, 1, 2, 3),
    "gradient_accumulation_steps": (1, 4),
    "gradient_clipping": (1.0, 0.5),
    "offload_optimizer_device": ("none", "cpu", "nvme", "CPU"),
    "offload_optimizer_nvme_path": ("/nvme",),
    "offload_param_device": ("none", "cpu"),
    "zero3_init_flag": BOOLS,
    "zero3_save_16bit_model": BOOLS,
    "deepspeed_moe_layer_cls_names": ("MoeLayer",),
}
MEGATRON: Table = {
    "megatron_lm_tp_degree": (1, 2),
    "megatron_lm_pp_degree": (1, 2),
    "megatron_lm_num_micro_batches": (2, 4),
    "megatron_lm_gradient_clipping": (0.5,),
    "megatron_lm_sequence_parallelism": BOOLS,
    "megatron_lm_recompute_activations": BOOLS,
    "megatron_lm_use_distributed_optimizer": BOOLS,
}
MEGATRON_13: Table = {
    "megatron_lm_context_parallel_size": (1, 4),
    "megatron_lm_attention_dropout": (0.1,),
    "megatron_lm_recompute_granularity": ("selective",),
    "megatron_lm_decoder_last_pipeline_num_layers": (3,),
    "megatron_lm_no_load_optim": BOOLS,
    "megatron_lm_attention_backend": BOOLS,
}
DYNAMO: Table = {
    "dynamo_backend": ("INDUCTOR", "eager"),
    "dynamo_mode": ("max-autotune", "default"),
    "dynamo_use_dynamic": BOOLS,
    "dynamo_use_fullgraph": BOOLS,
    "dynamo_use_regional_compilation": BOOLS,
}
FP8: Table = {"backend": ("TE", "MSAMP"), "margin": (1, 0), "amax_history_len": (16,), "opt_level": ("O1",)}
AROUND: Table = {
    "mixed_precision": ("no", "bf16", "fp16"),
    "debug": BOOLS,
    "gpu_ids": ("0,1,2,3", "all"),
    "main_process_port": (29501, 0),
    "machine_rank": (0,),
    "rdzv_backend": ("c10d", "static"),
    "same_network": BOOLS,
    "enable_cpu_affinity": BOOLS,
    "main_training_function": ("main",),
    "downcast_bf16": ("no",),
}
SHAPES = ({"dp_shard_size": 4}, {"dp_shard_size": 2, "cp_size": 2}, {"dp_replicate_size": 2, "dp_shard_size": 2})
FLAGS: tuple[tuple[str, ...], ...] = (
    ("--num_processes", "2"), ("--mixed_precision", "bf16"), ("--main_process_port", "29555"), ("--max_restarts", "3"),
    ("--gradient_accumulation_steps", "8"), ("--zero_stage", "1"), ("--dynamo_backend", "inductor"), ("--debug",),
    ("--fsdp_offload_params", "true"), ("--gpu_ids", "2,3"), ("--use_fsdp",), ("--use_deepspeed",), ("--multi_gpu",),
    ("--fsdp_state_dict_type", "SHARDED_STATE_DICT"), ("--monitor_interval", "2"), ("--rdzv_conf", "timeout=60"),
    ("--num_cpu_threads_per_process", "4"), ("--gradient_clipping", "2.0"), ("--megatron_lm_tp_degree", "4"),
)  # fmt: skip
VARIABLES: Table = {
    "ACCELERATE_MIXED_PRECISION": ("fp16", "no"),
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": ("3",),
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH": ("/fast",),
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": ("1",),
    "ACCELERATE_DYNAMO_MODE": ("reduce-overhead",),
    "ACCELERATE_DEBUG_MODE": ("true",),
    "CUDA_VISIBLE_DEVICES": ("0,1",),
    "FSDP_ACTIVATION_CHECKPOINTING": ("true",),
    "FSDP_IGNORED_MODULES": ("head",),
    "MEGATRON_LM_NUM_MICRO_BATCHES": ("8",),
    "NCCL_DEBUG": ("INFO",),
    "OMP_NUM_THREADS": ("6",),
    "PET_START_METHOD": ("fork",),
    "MASTER_PORT": ("12345",),
}
ACCELERATOR: Table = {
    "mixed_precision": ("bf16", "no"),
    "gradient_accumulation_steps": (2, 5),
    "dynamo_backend": ("eager",),
}
PYTHON: Mapping[str, Table] = {
    "FSDP": {
        "sharding_strategy": ("SHARD_GRAD_OP",), "backward_prefetch": ("BACKWARD_POST",), "use_orig_params": BOOLS,
        "state_dict_type": ("SHARDED_STATE_DICT",), "activation_checkpointing": BOOLS, "cpu_offload": BOOLS,
        "limit_all_gathers": BOOLS, "sync_module_states": BOOLS, "auto_wrap_policy": ("SIZE_BASED_WRAP",),
    },
    "DEEPSPEED": {
        "zero_stage": (1, 3), "gradient_clipping": (0.1,), "offload_param_device": ("cpu",), "zero3_init_flag": BOOLS,
        "gradient_accumulation_steps": (6,), "zero3_save_16bit_model": BOOLS,
    },
    "MEGATRON_LM": {"tp_degree": (2,), "num_micro_batches": (5,), "seq_length": (512,), "lr_decay_style": ("cosine",)},
    "DYNAMO": {"backend": ("eager", "INDUCTOR"), "mode": ("max-autotune",), "fullgraph": BOOLS, "dynamic": BOOLS},
    "ACCUMULATION": {"num_steps": (3, 7)},
    "PARALLELISM": {"dp_shard_size": (4,), "cp_backend": ("torch",)},
    "TE": {"margin": (2,), "fp8_format": ("E4M3",), "amax_history_len": (8,)},
}  # fmt: skip
CLASSES = {
    "FSDP": "FullyShardedDataParallelPlugin",
    "DEEPSPEED": "DeepSpeedPlugin",
    "MEGATRON_LM": "MegatronLMPlugin",
    "DYNAMO": "TorchDynamoPlugin",
    "ACCUMULATION": "GradientAccumulationPlugin",
    "PARALLELISM": "ParallelismConfig",
    "TE": "TERecipeKwargs",
}
TYPES = ("FSDP",) * 4 + ("DEEPSPEED",) * 4 + ("MULTI_GPU",) * 3 + ("MEGATRON_LM", "NO", "MULTI_CPU", "MULTI_NODE", "NO")


# --- drawing -------------------------------------------------------------------------------------------------


def some(rng: random.Random, table: Table, share: float) -> dict[str, Any]:
    """A part of a table, with one value for each key."""
    return {key: rng.choice(values) for key, values in table.items() if rng.random() < share}


def known_keys(block: str, release: str, entries: dict[str, Any]) -> dict[str, Any]:
    """What the release has an option for, now and then something else."""
    return {key: value for key, value in entries.items() if key in block_keys(block, release)}


def drawn(rng: random.Random, release: str) -> Drawn:
    """One run for a release."""
    kind = rng.choice(TYPES)
    config = config_of(rng, kind, release)
    deepspeed = deepspeed_file(rng) if kind == "DEEPSPEED" and rng.random() < 0.4 else None
    if deepspeed is not None:
        config.pop("mixed_precision", None)
        config["deepspeed_config"] = {"deepspeed_config_file": "ds.json", "zero3_init_flag": rng.choice(BOOLS)}
    options = accelerate.for_release(release).options
    flags = [flag for flag in FLAGS if rng.random() < 0.06 and flag[0][2:] in options] if rng.random() < 0.6 else []
    variables = some(rng, VARIABLES, 0.12) if rng.random() < 0.6 else {}
    python = python_of(rng, kind, release, config.get("mixed_precision") == "fp8") if rng.random() < 0.6 else {}
    return Drawn(config, tuple(word for flag in flags for word in flag), variables, python, deepspeed)


def config_of(rng: random.Random, kind: str, release: str) -> dict[str, Any]:
    """A file for `accelerate launch`; the first pages of it fit the release."""
    fields = accelerate.for_release(release).cluster_fields
    base = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "num_processes": 4,
        **some(rng, AROUND, 0.25),
    }
    blocks = {"FSDP": ("fsdp_config", FSDP), "DEEPSPEED": ("deepspeed_config", DEEPSPEED)}
    blocks["MEGATRON_LM"] = ("megatron_lm_config", {**MEGATRON, **MEGATRON_13})
    if kind == "MULTI_NODE":
        base |= {"distributed_type": rng.choice(("MULTI_GPU", "DEEPSPEED", "FSDP")), "num_machines": 2}
        base |= {"main_process_ip": "10.0.0.1", "machine_rank": rng.choice((0, 1))}
        base.setdefault("main_process_port", 29600)
    if kind in ("NO", "MULTI_CPU"):
        base["num_processes"] = 1 if kind == "NO" else 2
        base["use_cpu"] = kind == "MULTI_CPU" or rng.choice(BOOLS)
    for block, table in [blocks[kind]] if kind in blocks else ():
        base[block] = known_keys(block, release, some(rng, table, 0.45))
    if kind == "FSDP" and "parallelism_config" in fields and rng.random() < 0.5:
        base["fsdp_config"]["fsdp_version"] = 2
        if rng.random() < 0.7:
            shape = rng.choice(SHAPES)
            base["parallelism_config"] = {f"parallelism_config_{key}": size for key, size in shape.items()}
    if rng.random() < 0.3:
        base["dynamo_config"] = known_keys("dynamo_config", release, some(rng, DYNAMO, 0.6))
    if "fp8_config" in fields and kind == "MULTI_GPU" and rng.random() < 0.4:
        base |= {"mixed_precision": "fp8", "fp8_config": some(rng, FP8, 0.6)}
    return {key: value for key, value in base.items() if key in fields}


def deepspeed_file(rng: random.Random) -> dict[str, Any]:
    """A config of DeepSpeed, with and without values for Accelerate to fill in."""
    zero: dict[str, Any] = {"stage": rng.choice((1, 2, 3, "auto"))}
    zero |= some(rng, {"offload_optimizer": ({"device": "cpu"}, {"device": "auto"}), "overlap_comm": BOOLS}, 0.5)
    config: dict[str, Any] = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": zero}
    config |= some(rng, {"gradient_accumulation_steps": (1, 2, "auto"), "gradient_clipping": ("auto", 1.0)}, 0.7)
    config |= some(rng, {"bf16": ({"enabled": "auto"}, {"enabled": True}), "steps_per_print": (10,)}, 0.5)
    return config


def python_of(rng: random.Random, kind: str, release: str, fp8: bool) -> dict[str, dict[str, Any]]:
    """Constructor calls of the script."""
    calls: dict[str, dict[str, Any]] = {}
    taken = accelerate_api.parameters("Accelerator", release)
    more = ("PARALLELISM",) if kind == "FSDP" else ("TE",) if fp8 else ()
    for name in (kind, rng.choice(("DYNAMO", "ACCUMULATION", *more, ""))):
        owner = CLASSES.get(name, "")
        known = accelerate_api.parameters(owner, release)
        if known and (owner != "TorchDynamoPlugin" or "dynamo_plugin" in taken):
            calls[owner] = {key: value for key, value in some(rng, PYTHON[name], 0.4).items() if key in known}
    given = some(rng, ACCELERATOR, 0.4)
    dropped = {"GradientAccumulationPlugin": "gradient_accumulation_steps", "TorchDynamoPlugin": "dynamo_backend"}
    return {**calls, "Accelerator": {k: v for k, v in given.items() if k not in [dropped.get(one) for one in calls]}}
