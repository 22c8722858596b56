"""What the TRN rules say about fsdp_config and about files of TrainingArguments, release by release.

The verdicts are those of the releases: TrainingArguments was built with each value as one of two processes, with a
GPU believed to be there, and then the FSDP plugin or the Trainer.
"""

import json
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("release", "data", "refused"),
    [
        ("4.40.2", {"forward_prefetch": True}, True),
        ("4.40.2", {"forward_prefetch": "true"}, False),
        ("4.41.2", {"forward_prefetch": True}, False),
        ("4.40.2", {"cpu_ram_efficient_loading": "maybe"}, False),
        ("4.46.3", {"cpu_ram_efficient_loading": "maybe"}, True),
        ("4.57.6", {"version": "x"}, False),
        ("5.0.0", {"version": "x"}, True),
        ("5.0.0", {"version": 2, "use_orig_params": "maybe"}, False),
        ("5.0.0", {"use_orig_params": "maybe"}, True),
        ("5.0.0", {"reshard_after_forward": True}, True),
        ("5.10.4", {"reshard_after_forward": True}, False),
        (NEWEST, {"reshard_after_forward": "FULL_SHARD"}, True),
        (NEWEST, {"reshard_after_forward": "shard_grad_op", "version": 1}, False),
        (NEWEST, {"version": 1.5}, False),
        (NEWEST, {"version": "2.0"}, True),
        (NEWEST, {"state_dict_type": "LOCAL_STATE_DICT"}, True),
        (NEWEST, {"state_dict_type": "LOCAL_STATE_DICT", "version": 1}, False),
        (NEWEST, {"state_dict_type": 1}, False),
        (NEWEST, {"auto_wrap_policy": "transformer_based_wrap"}, True),
        (NEWEST, {"min_num_params": "1e8"}, False),
        (NEWEST, {"min_num_params": "1e8", "auto_wrap_policy": "SIZE_BASED_WRAP"}, True),
        ("4.57.6", {"min_num_params": "1e8"}, True),
        ("4.57.6", {"min_num_params": True}, True),
        ("5.0.0", {"min_num_params": True}, False),
        (NEWEST, {"transformer_layer_cls_to_wrap": [1, 2]}, True),
        (NEWEST, {"transformer_layer_cls_to_wrap": {"a": 1}}, False),
        (NEWEST, {"xla": True, "xla_fsdp_settings": {"compute_dtype": "bf16"}}, True),
        (NEWEST, {"xla_fsdp_settings": {"compute_dtype": "bf16"}}, False),
        (NEWEST, {"fsdp_use_orig_params": "maybe", "version": 1}, True),
        (NEWEST, {"backward_prefetch": 1, "version": 1}, True),
        (NEWEST, {"backward_prefetch": 1}, False),
    ],
)
def test_values_of_fsdp_config(release: str, data: dict[str, Any], refused: bool) -> None:
    assert ("TRN001" in codes(data, release, kind="fsdp")) is refused


@pytest.mark.parametrize(
    ("release", "data", "refused"),
    [
        ("4.57.6", {"min_num_params": 1000, "transformer_layer_cls_to_wrap": CLASSES}, True),
        ("5.10.4", {"min_num_params": 1000, "transformer_layer_cls_to_wrap": CLASSES}, False),
        ("4.40.2", {"sync_module_states": "false", "cpu_ram_efficient_loading": "true"}, False),
        ("4.41.2", {"sync_module_states": "false", "cpu_ram_efficient_loading": "True"}, True),
        ("5.9.0", {"sync_module_states": False, "cpu_ram_efficient_loading": True}, True),
        ("5.10.4", {"sync_module_states": False, "cpu_ram_efficient_loading": True}, False),
    ],
)
def test_keys_that_exclude_each_other(release: str, data: dict[str, Any], refused: bool) -> None:
    assert ("TRN002" in codes(data, release, kind="fsdp")) is refused


@pytest.mark.parametrize(
    ("release", "data", "key", "severity"),
    [
        (NEWEST, {"offload_params": True}, "offload_params", "warning"),
        (NEWEST, {"cpu_offload": True}, "cpu_offload", None),
        ("5.9.0", {"cpu_offload": True}, "cpu_offload", "warning"),
        (NEWEST, {"forward_prefetch": True}, "forward_prefetch", "warning"),
        (NEWEST, {"forward_prefetch": False}, "forward_prefetch", "info"),
        (NEWEST, {"forward_prefetch": True, "version": 1}, "forward_prefetch", None),
        ("5.0.0", {"forward_prefetch": True}, "forward_prefetch", None),
        ("4.57.6", {"version": 2}, "version", "warning"),
        (NEWEST, {"xla": True, "transformer_layer_cls_to_wrap": CLASSES}, "transformer_layer_cls_to_wrap", None),
        (NEWEST, {"xla_fsdp_grad_ckpt": True}, "xla_fsdp_grad_ckpt", "warning"),
    ],
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


@pytest.mark.parametrize(
    ("release", "name", "value", "refused"),
    [
        ("4.40.2", "evaluation_strategy", "epoch", False),
        ("4.50.3", "evaluation_strategy", "epoch", False),
        ("4.51.3", "evaluation_strategy", "epoch", True),
        ("4.57.6", "save_safetensors", True, False),
        ("5.0.0", "save_safetensors", True, True),
        ("5.14.1", "warmup_ratio", 0.1, False),
        ("5.15.1", "warmup_ratio", 0.1, True),
        ("5.1.0", "group_by_length", True, False),
        ("5.2.0", "group_by_length", True, True),
        ("5.22.2", "activation_checkpointing", True, True),
        (NEWEST, "activation_checkpointing", True, False),
        (NEWEST, "_n_gpu", 1, False),
    ],
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


@pytest.mark.parametrize(
    ("release", "given", "refused"),
    [
        (NEWEST, {"eval_strategy": False}, True),
        (NEWEST, {"save_strategy": "best", "metric_for_best_model": "loss"}, False),
        ("4.46.3", {"save_strategy": "best", "metric_for_best_model": "loss"}, True),
        (NEWEST, {"optim": "adamw_hf"}, True),
        ("4.49.0", {"optim": "adamw_hf"}, False),
        (NEWEST, {"debug": "x y"}, True),
        (NEWEST, {"debug": ["x"]}, False),
        (NEWEST, {"ddp_timeout": None}, True),
        (NEWEST, {"dataloader_num_workers": "2"}, True),
        ("4.46.3", {"dataloader_num_workers": "2"}, False),
        ("4.49.0", {"torch_empty_cache_steps": 0}, False),
        ("4.50.3", {"torch_empty_cache_steps": 0}, True),
        ("4.57.6", {"warmup_ratio": 2}, True),
        ("5.0.0", {"warmup_steps": 0.5}, False),
        ("4.57.6", {"warmup_steps": 0.5}, True),
        (NEWEST, {"warmup_steps": -1}, True),
        (NEWEST, {"seed": 1.5}, True),
        (NEWEST, {"max_steps": "10"}, True),
        (NEWEST, {"report_to": None}, True),
        ("4.57.6", {"report_to": None}, False),
        (NEWEST, {"report_to": ["wandb", "tensorboard"]}, False),
        (NEWEST, {"lr_scheduler_kwargs": "{bad"}, True),
        (NEWEST, {"lr_scheduler_kwargs": '{"min_lr": 1}'}, False),
        (NEWEST, {"output_dir": 5}, True),
    ],
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


@pytest.mark.parametrize(
    ("release", "given", "code"),
    [
        (NEWEST, {"logging_steps": 0, "logging_strategy": "no"}, None),
        (NEWEST, {"save_steps": 1.5}, "TRN030"),
        (NEWEST, {"save_steps": "x", "save_strategy": "epoch"}, None),
        (NEWEST, {"eval_strategy": "steps", "eval_steps": 0, "logging_steps": 0, "logging_strategy": "no"}, "TRN030"),
        ("4.50.3", {"load_best_model_at_end": True, "evaluation_strategy": "steps"}, None),
        (NEWEST, {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "best"}, None),
        ("4.47.1", {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "best"}, "TRN031"),
        (
            NEWEST,
            {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 0.2},
            None,
        ),
        (
            NEWEST,
            {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 100},
            "TRN031",
        ),
        (NEWEST, {"lr_scheduler_type": "greedy", "eval_strategy": "epoch"}, None),
        (NEWEST, {"dataloader_prefetch_factor": 2, "dataloader_num_workers": 2}, None),
        (NEWEST, {"accelerator_config": {"bogus": 1}}, "TRN035"),
        (NEWEST, {"accelerator_config": {"split_batches": "x"}}, None),
        (NEWEST, {"accelerator_config": {"gradient_accumulation_kwargs": {"bogus": 4}}}, "TRN035"),
        ("4.57.6", {"accelerator_config": {"gradient_accumulation_kwargs": {"bogus": 4}}}, None),
        (NEWEST, {"auto_find_batch_size": True, "fsdp": True}, None),
        ("4.44.2", {"auto_find_batch_size": True, "fsdp": "full_shard"}, "TRN037"),
        (NEWEST, {"torch_compile_backend": "Inductor"}, None),
        (NEWEST, {"torch_compile_backend": "bogus"}, "TRN039"),
    ],
)
def test_arguments_together(release: str, given: dict[str, Any], code: str | None) -> None:
    assert arguments(release, **given) == ({code} if code else set())


@pytest.mark.parametrize(
    ("release", "value", "refused"),
    [
        (NEWEST, "full_shard auto_wrap", False),
        (NEWEST, "FULL_SHARD", True),
        (NEWEST, "hybrid_shard", True),
        (NEWEST, ["bogus"], True),
        ("4.46.3", ["bogus"], False),
        (NEWEST, "offload", False),
        ("4.57.6", "offload", True),
        (NEWEST, "full_shard shard_grad_op", False),
        ("4.57.6", "full_shard shard_grad_op", True),
        ("4.46.3", False, False),
        ("4.57.6", False, True),
        (NEWEST, False, False),
        ("4.46.3", None, True),
        ("4.57.6", None, False),
        ("4.46.3", 1, True),
        (NEWEST, 1, False),
    ],
)
def test_the_fsdp_argument(release: str, value: Any, refused: bool) -> None:
    assert ("TRN040" in arguments(release, fsdp=value)) is refused


@pytest.mark.parametrize(
    ("release", "given", "code"),
    [
        (NEWEST, {"fsdp": True, "fsdp_config": {"reshard_after_forward": "maybe"}}, "TRN041"),
        (NEWEST, {"fsdp": False, "fsdp_config": {"reshard_after_forward": "maybe"}}, None),
        (NEWEST, {"fsdp": True, "fsdp_config": []}, "TRN041"),
        ("4.46.3", {"fsdp_config": {"min_num_params": "x"}}, "TRN041"),
        (NEWEST, {"fsdp_config": {"min_num_params": "x"}}, None),
        (NEWEST, {"fsdp": "hybrid_shard", "fsdp_config": {"version": 1}}, None),
        (NEWEST, {"fsdp": True, "deepspeed": "ds.json"}, "TRN044"),
        (
            NEWEST,
            {"fsdp": True, "fsdp_config": {"activation_checkpointing": True}, "gradient_checkpointing": True},
            "TRN044",
        ),
        (
            NEWEST,
            {"fsdp": True, "fsdp_config": {"activation_checkpointing": "false"}, "gradient_checkpointing": True},
            None,
        ),
        (
            "4.46.3",
            {
                "fsdp": "full_shard",
                "fsdp_config": {"activation_checkpointing": "false"},
                "gradient_checkpointing": True,
            },
            "TRN044",
        ),
        (NEWEST, {"fsdp": True, "save_only_model": True}, None),
        (
            NEWEST,
            {"fsdp": True, "save_only_model": True, "fsdp_config": {"state_dict_type": "SHARDED_STATE_DICT"}},
            "TRN044",
        ),
    ],
)
def test_fsdp_among_the_arguments(release: str, given: dict[str, Any], code: str | None) -> None:
    assert arguments(release, **given) == ({code} if code else set())


# transformers 5.24.0: str_to_bool("full_shard") for version 2, FSDP_STATE_DICT_TYPE for the type.
@pytest.mark.parametrize(
    ("data", "advice", "title"),
    [
        ({"reshard_after_forward": "full_shard"}, "; write true", "write true"),
        ({"reshard_after_forward": "SHARD_GRAD_OP"}, "; write false", "write false"),
        ({"version": 1, "reshard_after_forward": True}, '; write "FULL_SHARD"', 'write "FULL_SHARD"'),
        ({"state_dict_type": "SHARDED"}, "; did you mean SHARDED_STATE_DICT?", 'write "SHARDED_STATE_DICT"'),
        ({"state_dict_type": "ful_state_dict"}, "; did you mean FULL_STATE_DICT?", 'write "FULL_STATE_DICT"'),
    ],
)
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
