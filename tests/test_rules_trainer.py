"""What the TRN rules say about fsdp_config and about files of TrainingArguments, release by release.

The verdicts are those of the releases: TrainingArguments was built with each value as one of two processes, with a
GPU believed to be there, and then the FSDP plugin or the Trainer.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tables import table

from distributed_training_backends.api import default_targets, validate_text
from distributed_training_backends.knowledge import transformers
from distributed_training_backends.model import Finding, Kind, Targets
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import trainer_fsdp, trainer_values
from distributed_training_backends.validate import Options
from distributed_training_backends.versions import covers

DATA = Path(trainer_fsdp.__file__).parent.parent / "data"
NEWEST = "5.24.0"
CLASSES = ["LlamaDecoderLayer"]


def judged(data: dict[str, Any], release: str, kind: Kind = "trainer", name: str = "file.json") -> list[Finding]:
    """The findings about a file with this content."""
    newest = dict(default_targets().items())
    options = Options(Targets(**{**newest, "transformers": release}), kind=kind)
    return list(validate_text(json.dumps(data), options, name).files[0].findings)


def codes(data: dict[str, Any], release: str = NEWEST, severity: str = "error", kind: Kind = "trainer") -> set[str]:
    """The codes of one severity."""
    return {item.code for item in judged(data, release, kind) if item.severity.value == severity}


def arguments(release: str = NEWEST, severity: str = "error", **given: Any) -> set[str]:
    """The codes about these arguments."""
    return codes({"output_dir": "out", **given}, release, severity)


def test_every_row_is_about_something_that_a_release_has() -> None:
    for row in load_json("trainer.json")["values"]:
        assert row["read"] in trainer_values.READERS
        held = [name for name in transformers.RELEASES if covers(row["releases"], name)]
        assert any(row["argument"] in transformers.for_release(name).training_arguments for name in held), row
    for row in load_json("trainer_fsdp.json")["rows"]:
        held = [name for name in transformers.RELEASES if covers(row["releases"], name)]
        assert any(row["key"] in transformers.for_release(name).fsdp_keys for name in held), row


# --- fsdp_config in a file of its own ---


@table(
    """release, data, refused
4.40.2, {forward_prefetch: true}, yes
4.40.2, {forward_prefetch: 'true'}, no
4.41.2, {forward_prefetch: true}, no
4.40.2, {cpu_ram_efficient_loading: maybe}, no
4.46.3, {cpu_ram_efficient_loading: maybe}, yes
4.57.6, {version: x}, no
5.0.0, {version: x}, yes
5.0.0, {version: 2, use_orig_params: maybe}, no
5.0.0, {use_orig_params: maybe}, yes
5.0.0, {reshard_after_forward: true}, yes
5.10.4, {reshard_after_forward: true}, no
NEWEST, {reshard_after_forward: FULL_SHARD}, yes
NEWEST, {reshard_after_forward: shard_grad_op, version: 1}, no
NEWEST, {version: 1.5}, no
NEWEST, {version: '2.0'}, yes
NEWEST, {state_dict_type: LOCAL_STATE_DICT}, yes
NEWEST, {state_dict_type: LOCAL_STATE_DICT, version: 1}, no
NEWEST, {state_dict_type: 1}, no
NEWEST, {auto_wrap_policy: transformer_based_wrap}, yes
NEWEST, {min_num_params: 1e8}, no
NEWEST, {min_num_params: 1e8, auto_wrap_policy: SIZE_BASED_WRAP}, yes
4.57.6, {min_num_params: 1e8}, yes
4.57.6, {min_num_params: true}, yes
5.0.0, {min_num_params: true}, no
NEWEST, {transformer_layer_cls_to_wrap: [1, 2]}, yes
NEWEST, {transformer_layer_cls_to_wrap: {a: 1}}, no
NEWEST, {xla: true, xla_fsdp_settings: {compute_dtype: bf16}}, yes
NEWEST, {xla_fsdp_settings: {compute_dtype: bf16}}, no
NEWEST, {fsdp_use_orig_params: maybe, version: 1}, yes
NEWEST, {backward_prefetch: 1, version: 1}, yes
NEWEST, {backward_prefetch: 1}, no""",
    NEWEST=NEWEST,
)
def test_values_of_fsdp_config(release: str, data: dict[str, Any], refused: bool) -> None:
    assert ("TRN001" in codes(data, release, kind="fsdp")) is refused


@table("""release, data, refused
4.57.6, {min_num_params: 1000, transformer_layer_cls_to_wrap: [LlamaDecoderLayer]}, yes
5.10.4, {min_num_params: 1000, transformer_layer_cls_to_wrap: [LlamaDecoderLayer]}, no
4.40.2, {sync_module_states: 'false', cpu_ram_efficient_loading: 'true'}, no
4.41.2, {sync_module_states: 'false', cpu_ram_efficient_loading: 'True'}, yes
5.9.0, {sync_module_states: false, cpu_ram_efficient_loading: true}, yes
5.10.4, {sync_module_states: false, cpu_ram_efficient_loading: true}, no""")
def test_keys_that_exclude_each_other(release: str, data: dict[str, Any], refused: bool) -> None:
    assert ("TRN002" in codes(data, release, kind="fsdp")) is refused


@table(
    """release, data, key, severity
NEWEST, {offload_params: true}, offload_params, warning
NEWEST, {cpu_offload: true}, cpu_offload, ~
5.9.0, {cpu_offload: true}, cpu_offload, warning
NEWEST, {forward_prefetch: true}, forward_prefetch, warning
NEWEST, {forward_prefetch: false}, forward_prefetch, info
NEWEST, {forward_prefetch: true, version: 1}, forward_prefetch, ~
5.0.0, {forward_prefetch: true}, forward_prefetch, ~
4.57.6, {version: 2}, version, warning
NEWEST, {xla: true, transformer_layer_cls_to_wrap: [LlamaDecoderLayer]}, transformer_layer_cls_to_wrap, ~
NEWEST, {xla_fsdp_grad_ckpt: true}, xla_fsdp_grad_ckpt, warning""",
    NEWEST=NEWEST,
)
def test_keys_that_nothing_reads(release: str, data: dict[str, Any], key: str, severity: str | None) -> None:
    said = [item for item in judged(data, release, "fsdp") if item.place.pointer == f"/{key}"]
    assert [item.severity.value for item in said if item.code == "TRN003"] == ([severity] if severity else [])


def test_what_goes_to_xla_as_it_is() -> None:
    data = {"xla": True, "xla_fsdp_settings": {"shard_param_on_dim_0": True}}
    assert codes(data, kind="fsdp", severity="warning") == set()


def test_the_prefix_is_taken_off_in_files_earlier_than_in_arguments() -> None:
    settings = {"fsdp_transformer_layer_cls_to_wrap": CLASSES}
    assert codes(settings, "4.46.3", "warning", "fsdp") == set()
    inside = {"fsdp": "full_shard auto_wrap", "fsdp_config": settings}
    assert arguments("4.46.3", "warning", **inside) == {"TRN042"}
    assert arguments("4.52.4", "warning", **inside) == set()


# --- names of arguments ---


@table(
    """release, name, value, refused
4.40.2, evaluation_strategy, epoch, no
4.50.3, evaluation_strategy, epoch, no
4.51.3, evaluation_strategy, epoch, yes
4.57.6, save_safetensors, yes, no
5.0.0, save_safetensors, yes, yes
5.14.1, warmup_ratio, 0.1, no
5.15.1, warmup_ratio, 0.1, yes
5.1.0, group_by_length, yes, no
5.2.0, group_by_length, yes, yes
5.22.2, activation_checkpointing, yes, yes
NEWEST, activation_checkpointing, yes, no
NEWEST, _n_gpu, 1, no""",
    NEWEST=NEWEST,
)
def test_arguments_come_and_go(release: str, name: str, value: Any, refused: bool) -> None:
    assert ("TRN010" in arguments(release, **{name: value})) is refused


def test_a_slip_is_an_error_unless_the_file_is_shared() -> None:
    slip: dict[str, Any] = {"per_device_train_batchsize": 4}
    assert arguments(**slip) == {"TRN011"}
    shared: dict[str, Any] = {**slip, "my_own_switch": True}
    assert arguments(**shared) == set()
    assert arguments(severity="warning", **shared) == {"TRN011", "TRN012"}


def test_a_file_that_is_shared_on_purpose_gets_no_warning() -> None:
    given = {"model_name_or_path": "my-org/my-model", "dataset_name": "my-org/my-dataset", "response_key": "text"}
    assert arguments(severity="warning", **given) == set()
    assert "TRN012" in arguments(severity="info", **given)


@pytest.mark.parametrize(("release", "refused"), [("4.48.3", True), ("4.49.0", False), (NEWEST, False)])
def test_the_output_folder(release: str, refused: bool) -> None:
    assert ("TRN013" in codes({"bf16": True}, release)) is refused


# --- values ---


@table(
    """release, given, refused
NEWEST, {eval_strategy: false}, yes
NEWEST, {save_strategy: best, metric_for_best_model: loss}, no
4.46.3, {save_strategy: best, metric_for_best_model: loss}, yes
NEWEST, {optim: adamw_hf}, yes
4.49.0, {optim: adamw_hf}, no
NEWEST, {debug: x y}, yes
NEWEST, {debug: [x]}, no
NEWEST, {ddp_timeout: ~}, yes
NEWEST, {dataloader_num_workers: '2'}, yes
4.46.3, {dataloader_num_workers: '2'}, no
4.49.0, {torch_empty_cache_steps: 0}, no
4.50.3, {torch_empty_cache_steps: 0}, yes
4.57.6, {warmup_ratio: 2}, yes
5.0.0, {warmup_steps: 0.5}, no
4.57.6, {warmup_steps: 0.5}, yes
NEWEST, {warmup_steps: -1}, yes
NEWEST, {seed: 1.5}, yes
NEWEST, {max_steps: '10'}, yes
NEWEST, {report_to: ~}, yes
4.57.6, {report_to: ~}, no
NEWEST, {report_to: [wandb, tensorboard]}, no
NEWEST, {lr_scheduler_kwargs: '{bad'}, yes
NEWEST, {lr_scheduler_kwargs: '{"min_lr": 1}'}, no
NEWEST, {output_dir: 5}, yes""",
    NEWEST=NEWEST,
)
def test_values_of_arguments(release: str, given: dict[str, Any], refused: bool) -> None:
    assert ("TRN020" in arguments(release, **given)) is refused


def test_texts_that_stay_texts() -> None:
    assert arguments(severity="warning", learning_rate="5e-5") == {"TRN021"}
    assert arguments(severity="warning", learning_rate=5e-5) == set()
    assert arguments(severity="warning", bf16="no") == {"TRN022"}
    (finding,) = [item for item in judged({"output_dir": "o", "learning_rate": "5e-5"}, NEWEST) if item.fix]
    assert finding.fix is not None
    assert finding.fix.title == "write 5e-05"  # as JSON has it; YAML gets 5.0e-05


# --- what does not go together ---


@table(
    """release, given, code
NEWEST, {logging_steps: 0, logging_strategy: 'no'}, ~
NEWEST, {save_steps: 1.5}, TRN030
NEWEST, {save_steps: x, save_strategy: epoch}, ~
NEWEST, {eval_strategy: steps, eval_steps: 0, logging_steps: 0, logging_strategy: 'no'}, TRN030
4.50.3, {load_best_model_at_end: true, evaluation_strategy: steps}, ~
NEWEST, {load_best_model_at_end: true, eval_strategy: steps, save_strategy: best}, ~
4.47.1, {load_best_model_at_end: true, eval_strategy: steps, save_strategy: best}, TRN031
NEWEST, {load_best_model_at_end: true, eval_strategy: steps, eval_steps: 0.1, save_steps: 0.2}, ~
NEWEST, {load_best_model_at_end: true, eval_strategy: steps, eval_steps: 0.1, save_steps: 100}, TRN031
NEWEST, {lr_scheduler_type: greedy, eval_strategy: epoch}, ~
NEWEST, {dataloader_prefetch_factor: 2, dataloader_num_workers: 2}, ~
NEWEST, {accelerator_config: {bogus: 1}}, TRN035
NEWEST, {accelerator_config: {split_batches: x}}, ~
NEWEST, {accelerator_config: {gradient_accumulation_kwargs: {bogus: 4}}}, TRN035
4.57.6, {accelerator_config: {gradient_accumulation_kwargs: {bogus: 4}}}, ~
NEWEST, {auto_find_batch_size: true, fsdp: true}, ~
4.44.2, {auto_find_batch_size: true, fsdp: full_shard}, TRN037
NEWEST, {torch_compile_backend: Inductor}, ~
NEWEST, {torch_compile_backend: bogus}, TRN039""",
    NEWEST=NEWEST,
)
def test_arguments_together(release: str, given: dict[str, Any], code: str | None) -> None:
    assert arguments(release, **given) == ({code} if code else set())


@table(
    """release, value, refused
NEWEST, full_shard auto_wrap, no
NEWEST, FULL_SHARD, yes
NEWEST, hybrid_shard, yes
NEWEST, [bogus], yes
4.46.3, [bogus], no
NEWEST, offload, no
4.57.6, offload, yes
NEWEST, full_shard shard_grad_op, no
4.57.6, full_shard shard_grad_op, yes
4.46.3, no, no
4.57.6, no, yes
NEWEST, no, no
4.46.3, ~, yes
4.57.6, ~, no
4.46.3, 1, yes
NEWEST, 1, no""",
    NEWEST=NEWEST,
)
def test_the_fsdp_argument(release: str, value: Any, refused: bool) -> None:
    assert ("TRN040" in arguments(release, fsdp=value)) is refused


@table(
    """release, given, code
NEWEST, {fsdp: true, fsdp_config: {reshard_after_forward: maybe}}, TRN041
NEWEST, {fsdp: false, fsdp_config: {reshard_after_forward: maybe}}, ~
NEWEST, {fsdp: true, fsdp_config: []}, TRN041
4.46.3, {fsdp_config: {min_num_params: x}}, TRN041
NEWEST, {fsdp_config: {min_num_params: x}}, ~
NEWEST, {fsdp: hybrid_shard, fsdp_config: {version: 1}}, ~
NEWEST, {fsdp: true, deepspeed: ds.json}, TRN044
NEWEST, {fsdp: true, fsdp_config: {activation_checkpointing: true}, gradient_checkpointing: true}, TRN044
NEWEST, {fsdp: true, fsdp_config: {activation_checkpointing: 'false'}, gradient_checkpointing: true}, ~
4.46.3, {fsdp: full_shard, fsdp_config: {activation_checkpointing: 'false'}, gradient_checkpointing: true}, TRN044
NEWEST, {fsdp: true, save_only_model: true}, ~
NEWEST, {fsdp: true, save_only_model: true, fsdp_config: {state_dict_type: SHARDED_STATE_DICT}}, TRN044""",
    NEWEST=NEWEST,
)
def test_fsdp_among_the_arguments(release: str, given: dict[str, Any], code: str | None) -> None:
    assert arguments(release, **given) == ({code} if code else set())


# transformers 5.24.0: str_to_bool("full_shard") for version 2, FSDP_STATE_DICT_TYPE for the type.
@table("""data, advice, title
{reshard_after_forward: full_shard}, ; write true, write true
{reshard_after_forward: SHARD_GRAD_OP}, ; write false, write false
{version: 1, reshard_after_forward: true}, ; write "FULL_SHARD", write "FULL_SHARD"
{state_dict_type: SHARDED}, '; did you mean SHARDED_STATE_DICT?', write "SHARDED_STATE_DICT"
{state_dict_type: ful_state_dict}, '; did you mean FULL_STATE_DICT?', write "FULL_STATE_DICT"
""")
def test_what_to_write_in_fsdp_config(data: dict[str, Any], advice: str, title: str) -> None:
    (found,) = [item for item in judged(data, NEWEST, "fsdp") if item.code == "TRN001"]
    assert found.message.endswith(advice)
    assert found.fix is not None
    assert found.fix.title == title


# transformers 5.24.0 on infinity: int(float("inf")) raises OverflowError in both places
def test_infinity_is_no_number_of_anything() -> None:
    assert codes({"version": float("inf")}, kind="fsdp") == {"TRN001"}
    assert arguments(logging_steps=float("inf")) == {"TRN030"}


def test_nothing_is_said_of_fsdp_settings_whose_control_is_refused() -> None:
    text = '{"auto_wrap_policy": "SIZE_BASED", "min_num_params": 2000000, "version": 2}'
    targets = default_targets()
    report = validate_text(text, Options(targets, kind="fsdp"), "fsdp.json")
    assert [item.code for item in report.files[0].findings if item.severity.value != "info"] == ["TRN001"]
