"""Tell what kind of config a text is, by the keys at its top; the name of the file only breaks ties."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..model import Kind


class Signs(NamedTuple):
    """What speaks for a kind: keys that hardly anything else has (three points each), keys that others have too
    (one point), a prefix that keys may carry, the share of the keys that must be known, and beginnings by which a key
    counts as known although it is misspelt."""

    strong: frozenset[str]
    weak: frozenset[str]
    share: float
    prefix: str = ""
    beginnings: tuple[str, ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BNB = "load_in_8bit load_in_4bit quant_method bnb_4bit_compute_dtype bnb_4bit_quant_type bnb_4bit_quant_storage"
SIGNS: dict[Kind, Signs] = {
    "accelerate": Signs(
        _words("""compute_environment distributed_type num_processes num_machines machine_rank main_process_ip
            main_process_port main_training_function downcast_bf16 rdzv_backend same_network deepspeed_config
            megatron_lm_config parallelism_config mpirun_config dynamo_config ipex_config fp8_config tp_config tpu_env
            tpu_name tpu_zone tpu_use_cluster tpu_use_sudo tpu_vm enable_cpu_affinity ec2_instance_type iam_role_name
            sagemaker_inputs_file sagemaker_metrics_file base_job_name"""),
        _words("""mixed_precision use_cpu debug gpu_ids fsdp_config command_file commands image_uri profile region
            additional_args py_version pytorch_version transformers_version dynamo_backend"""),
        0.3,
    ),
    "deepspeed": Signs(
        _words("""zero_optimization train_batch_size train_micro_batch_size_per_gpu zero_allow_untested_optimizer
            steps_per_print wall_clock_breakdown zero_force_ds_cpu_optimizer prescale_gradients
            gradient_predivide_factor sparse_gradients flops_profiler comms_logger progressive_layer_drop
            curriculum_learning data_efficiency compression_training hybrid_engine csv_monitor memory_breakdown
            communication_data_type bfloat16 torch_autocast elasticity autotuning data_types sparse_attention"""),
        _words("""gradient_accumulation_steps gradient_clipping fp16 bf16 amp optimizer scheduler
            activation_checkpointing aio tensorboard wandb comet pipeline checkpoint compile log_level dump_state
            tensor_parallel expert_parallel sequence_parallel_size dataloader_drop_last eigenvalue nebula"""),
        0.3,
    ),
    "fsdp": Signs(
        _words("""transformer_layer_cls_to_wrap min_num_params backward_prefetch backward_prefetch_policy
            forward_prefetch sync_module_states cpu_ram_efficient_loading limit_all_gathers use_orig_params
            state_dict_type xla_fsdp_v2 xla_fsdp_settings xla_fsdp_grad_ckpt reshard_after_forward auto_wrap_policy
            sharding_strategy offload_params"""),
        _words("xla version cpu_offload activation_checkpointing fsdp_version mixed_precision_policy mixed_precision"),
        0.5,
        "fsdp_",
    ),
    "parallelism": Signs(
        _words("dp_replicate_size dp_shard_size tp_size cp_size sp_size cp_comm_strategy cp_backend sp_backend"),
        _words("cp_handler sp_handler tp_handler sp_seq_length sp_attn_implementation sp_seq_length_is_variable"),
        0.6,
        "parallelism_config_",
    ),
    "fp8": Signs(
        _words("""amax_history_length amax_history_len amax_compute_algorithm amax_compute_algo fp8_format
            override_linear_precision use_autocast_during_eval enable_fsdp_float8_all_gather pad_inner_dim
            use_mxfp8_block_scaling"""),
        _words("backend margin interval opt_level format use_during_eval module_filter_func"),
        0.6,
        "fp8_",
    ),
    "quantization": Signs(
        _words(f"""{_BNB} bnb_4bit_use_double_quant llm_int8_threshold llm_int8_skip_modules
            llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight"""),
        _words("skip_modules keep_in_fp32_modules torch_dtype"),
        0.7,
        beginnings=("bnb_4bit_", "llm_int8_", "load_in_"),
    ),
    "trainer": Signs(
        _words("output_dir per_device_train_batch_size per_device_eval_batch_size num_train_epochs"),
        _words("""max_steps learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps warmup_ratio optim
            optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon gradient_accumulation_steps max_grad_norm
            bf16 fp16 tf32 bf16_full_eval fp16_full_eval label_smoothing_factor gradient_checkpointing
            gradient_checkpointing_kwargs torch_compile torch_compile_backend torch_compile_mode
            use_liger_kernel neftune_noise_alpha fsdp fsdp_config auto_find_batch_size logging_strategy
            logging_steps logging_first_step logging_dir log_level report_to log_level_replica disable_tqdm
            run_name eval_strategy evaluation_strategy eval_steps save_strategy save_steps
            eval_accumulation_steps save_total_limit save_only_model save_safetensors overwrite_output_dir
            do_train do_eval do_predict push_to_hub hub_model_id hub_strategy hub_token hub_private_repo
            load_best_model_at_end metric_for_best_model greater_is_better seed data_seed use_cpu
            accelerator_config parallelism_config dataloader_drop_last dataloader_num_workers
            dataloader_pin_memory dataloader_persistent_workers remove_unused_columns label_names
            group_by_length ddp_find_unused_parameters ddp_bucket_cap_mb ddp_backend ddp_timeout
            ddp_broadcast_buffers deepspeed debug resume_from_checkpoint local_rank model_name_or_path"""),
        0.6,
    ),
}
# keys of training recipes that other programs read: their presence outweighs likenesses
FOREIGN = _words("""finetuning_type cutoff_len base_model sequence_len sample_packing datasets _component_ defaults
    dataset_mixer dataset_dir plot_loss lora_target stage adapter micro_batch_size train_on_inputs hydra trainer""")
# what is a block with such a key in a DeepSpeed config is a flag, or another block, elsewhere
_BLOCKS = {"fp16": ("enabled", 2), "bf16": ("enabled", 2), "optimizer": ("type", 1), "scheduler": ("type", 1)}
# the values of a key that nothing but Accelerate has: one of them says enough, whatever stands beside it
_TYPES = r"NO|MULTI_[A-Z]+|FSDP|DEEPSPEED|MEGATRON_LM|TPU|XLA|TP"
_KEY_LINE = r"""(?m)^([ \t]*)(?:\{[ \t]*)?["']?([A-Za-z_]\w*)["']?[ \t]*:"""
MAX_KEY_LINES = 2000
_OUR_NAMES = r"(?i)accelerate|deepspeed|fsdp|(?:^|[_.-])(?:ds|zero\d?)(?:[_.-]|$)"


def detect(data: Any, text: str, path: str) -> Kind | None:
    """Name the kind of a config; None when it is none of ours. `data` is None when the text could not be parsed."""
    values = data if isinstance(data, Mapping) else dict.fromkeys(keys_by_sight(text)) if data is None else {}
    keys = [key for key in values if isinstance(key, str)]
    scores = {kind: _score(signs, keys) for kind, signs in SIGNS.items()}
    scores["deepspeed"] += sum(points for key, (inner, points) in _BLOCKS.items() if _holds(values.get(key), inner))
    ranked = sorted(scores, key=lambda kind: (scores[kind], _named(kind, path)), reverse=True)
    fitting = [kind for kind in ranked if scores[kind] >= 3 and _share(SIGNS[kind], keys) >= SIGNS[kind].share]
    if not fitting or (fitting[0] == "trainer" and not FOREIGN.isdisjoint(keys)):
        return "accelerate" if re.fullmatch(_TYPES, str(values.get("distributed_type"))) else None
    return fitting[0]


def _holds(value: Any, key: str) -> bool:
    return isinstance(value, Mapping) and key in value


def keys_by_sight(text: str) -> Iterable[str]:
    """Guess the keys at the top of a text that cannot be parsed: those with the least indentation."""
    found = [match.groups() for match, _ in zip(re.finditer(_KEY_LINE, text), range(MAX_KEY_LINES), strict=False)]
    least = min((len(indent) for indent, _ in found), default=0)
    return [key for indent, key in found if len(indent) == least]


def _bare(signs: Signs, key: str) -> str:
    return key.removeprefix(signs.prefix) if signs.prefix else key


def _score(signs: Signs, keys: list[str]) -> int:
    bare = {_bare(signs, key) for key in keys}
    return 3 * len(bare & signs.strong) + len(bare & signs.weak)


def _share(signs: Signs, keys: list[str]) -> float:
    known = sum(_is_known(signs, key) for key in keys)
    return known / len(keys) if keys else 0.0


def _is_known(signs: Signs, key: str) -> bool:
    bare = _bare(signs, key)
    return bare in signs.strong or bare in signs.weak or key.startswith(signs.beginnings)


def _named(kind: Kind, path: str) -> bool:
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return kind in name or (kind in ("deepspeed", "fsdp") and name.endswith(".json"))


def named_like_ours(path: str) -> bool:
    """Tell whether a file is called like a config of ours, whatever is in it."""
    return re.search(_OUR_NAMES, path.replace("\\", "/").rsplit("/", 1)[-1]) is not None


_LIBRARIES = r"(?:accelerate|transformers|trl|sentence_transformers)\b"
# at the beginning of a line; in a notebook, of a text of JSON or behind a line end in one
_IMPORT = rf"(?m)(?:^[ \t]*\"?|\"|\\n[ \t]*)(?:from|import)[ \t]+{_LIBRARIES}"


def named_like_python(path: str) -> bool:
    """Tell whether a file is called like a script or a notebook."""
    return path.lower().endswith((".py", ".ipynb"))


def imports_ours(text: str) -> bool:
    """Tell whether a line of a text may import one of the libraries; in a notebook, lines are texts of JSON."""
    return "import" in text and re.search(_IMPORT, text) is not None
