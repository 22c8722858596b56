"""What the TRN rules say about fsdp_config and about files of TrainingArguments, release by release.

The verdicts are those of the releases: TrainingArguments was built with each value as one of two processes, with a
GPU believed to be there, and then the FSDP plugin or the Trainer.
"""

from typing import Any

import pytest
from tests.judging import codes, judged
from tests.tables import table

from distributed_training_backends.fix import splice
from distributed_training_backends.knowledge import transformers
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import trainer_arguments
from distributed_training_backends.versions import covers


def in_file(data: dict[str, Any], release: str | None = None, severity: str = "error") -> set[str]:
	return codes(data, severity, kind="fsdp", transformers=release)


def arguments(release: str | None = None, severity: str = "error", **given: Any) -> set[str]:
	return codes({"output_dir": "out", **given}, severity, kind="trainer", transformers=release)


def test_every_row_is_about_something_that_a_release_has() -> None:
	for row in load_json("trainer.json")["values"]:
		assert row["read"] in trainer_arguments.READERS
		held = [name for name in transformers.RELEASES if covers(row["releases"], name)]
		assert any(row["argument"] in transformers.for_release(name).training_arguments for name in held), row
	for row in load_json("trainer_fsdp.json")["rows"]:
		held = [name for name in transformers.RELEASES if covers(row["releases"], name)]
		assert any(row["key"] in transformers.for_release(name).fsdp_keys for name in held), row


@table("""data, code, refused, taken
{forward_prefetch: true}, TRN001, [4.40.2], [4.41.2]
{forward_prefetch: 'true'}, TRN001, [], [4.40.2]
{cpu_ram_efficient_loading: maybe}, TRN001, [4.46.3], [4.40.2]
{version: x}, TRN001, [5.0.0], [4.57.6]
{version: 2, use_orig_params: maybe}, TRN001, [], [5.0.0]
{use_orig_params: maybe}, TRN001, [5.0.0], []
{reshard_after_forward: true}, TRN001, [5.0.0], [5.10.4]
{reshard_after_forward: shard_grad_op, version: 1}, TRN001, [], [~]
{version: 1.5}, TRN001, [], [~]
{version: '2.0'}, TRN001, [~], []
{state_dict_type: LOCAL_STATE_DICT}, TRN001, [~], []
{state_dict_type: LOCAL_STATE_DICT, version: 1}, TRN001, [], [~]
{state_dict_type: 1}, TRN001, [], [~]
{auto_wrap_policy: transformer_based_wrap}, TRN001, [~], []
{min_num_params: 1e8}, TRN001, [4.57.6], [~]
{min_num_params: true}, TRN001, [4.57.6], [5.0.0]
{transformer_layer_cls_to_wrap: [1, 2]}, TRN001, [~], []
{transformer_layer_cls_to_wrap: {a: 1}}, TRN001, [], [~]
{xla: true, xla_fsdp_settings: {compute_dtype: bf16}}, TRN001, [~], []
{xla_fsdp_settings: {compute_dtype: bf16}}, TRN001, [], [~]
{fsdp_use_orig_params: maybe, version: 1}, TRN001, [~], []
{backward_prefetch: 1, version: 1}, TRN001, [~], []
{backward_prefetch: 1}, TRN001, [], [~]
{min_num_params: 1000, transformer_layer_cls_to_wrap: [LlamaDecoderLayer]}, TRN002, [4.57.6], [5.10.4]
{sync_module_states: 'false', cpu_ram_efficient_loading: 'true'}, TRN002, [], [4.40.2]
{sync_module_states: 'false', cpu_ram_efficient_loading: 'True'}, TRN002, [4.41.2], []
{sync_module_states: false, cpu_ram_efficient_loading: true}, TRN002, [5.9.0], [5.10.4]""")
def test_fsdp_config(data: dict[str, Any], code: str, refused: list[str | None], taken: list[str | None]) -> None:
	assert [in_file(data, release) for release in refused] == [{code}] * len(refused)
	assert [in_file(data, release) for release in taken] == [set()] * len(taken)


@table("""release, data, key, severity
~, {offload_params: true}, offload_params, warning
~, {cpu_offload: true}, cpu_offload, ~
5.9.0, {cpu_offload: true}, cpu_offload, warning
~, {forward_prefetch: true, version: 1}, forward_prefetch, ~
5.0.0, {forward_prefetch: true}, forward_prefetch, ~
4.57.6, {version: 2}, version, warning
~, {xla: true, transformer_layer_cls_to_wrap: [LlamaDecoderLayer]}, transformer_layer_cls_to_wrap, ~
~, {xla_fsdp_grad_ckpt: true}, xla_fsdp_grad_ckpt, warning""")
def test_keys_that_nothing_reads(release: str | None, data: dict[str, Any], key: str, severity: str | None) -> None:
	said = [item for item in judged(data, "fsdp", transformers=release) if item.place.pointer == f"/{key}"]
	assert [item.severity.value for item in said if item.code == "TRN003"] == ([severity] if severity else [])


def test_what_goes_to_xla_as_it_is() -> None:
	data = {"xla": True, "xla_fsdp_settings": {"shard_param_on_dim_0": True}}
	assert in_file(data, severity="warning") == set()


def test_the_prefix_is_taken_off_in_files_earlier_than_in_arguments() -> None:
	settings = {"fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
	assert in_file(settings, "4.46.3", "warning") == set()
	inside = {"fsdp": "full_shard auto_wrap", "fsdp_config": settings}
	assert arguments("4.46.3", "warning", **inside) == {"TRN042"}
	assert arguments("4.52.4", "warning", **inside) == set()


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


@pytest.mark.parametrize(("release", "refused"), [("4.48.3", True), ("4.49.0", False), (None, False)])
def test_the_output_folder(release: str | None, refused: bool) -> None:
	assert ("TRN013" in codes({"bf16": True}, kind="trainer", transformers=release)) is refused


def test_texts_that_stay_texts() -> None:
	assert arguments(severity="warning", learning_rate="5e-5") == {"TRN021"}
	assert arguments(severity="warning", learning_rate=5e-5) == set()
	assert arguments(severity="warning", bf16="no") == {"TRN022"}
	(finding,) = [item for item in judged({"output_dir": "o", "learning_rate": "5e-5"}, "trainer") if item.fix]
	assert finding.fix is not None
	assert finding.fix.title == "write 5e-05"  # as JSON has it; YAML gets 5.0e-05


@table("""given, code, refused, taken
{evaluation_strategy: epoch}, TRN010, [4.51.3], [4.40.2, 4.50.3]
{save_safetensors: true}, TRN010, [5.0.0], [4.57.6]
{warmup_ratio: 0.1}, TRN010, [5.15.1], [5.14.1]
{group_by_length: true}, TRN010, [5.2.0], [5.1.0]
{activation_checkpointing: true}, TRN010, [5.22.2], [~]
{_n_gpu: 1}, TRN010, [], [~]
{eval_strategy: false}, TRN020, [~], []
{save_strategy: best, metric_for_best_model: loss}, TRN020, [4.46.3], [~]
{optim: adamw_hf}, TRN020, [~], [4.49.0]
{debug: [x]}, TRN020, [], [~]
{ddp_timeout: ~}, TRN020, [~], []
{dataloader_num_workers: '2'}, TRN020, [~], [4.46.3]
{torch_empty_cache_steps: 0}, TRN020, [4.50.3], [4.49.0]
{warmup_ratio: 2}, TRN020, [4.57.6], []
{warmup_steps: 0.5}, TRN020, [4.57.6], [5.0.0]
{warmup_steps: -1}, TRN020, [~], []
{seed: 1.5}, TRN020, [~], []
{max_steps: '10'}, TRN020, [~], []
{report_to: ~}, TRN020, [~], [4.57.6]
{report_to: [wandb, tensorboard]}, TRN020, [], [~]
{lr_scheduler_kwargs: '{bad'}, TRN020, [~], []
{lr_scheduler_kwargs: '{"min_lr": 1}'}, TRN020, [], [~]
{output_dir: 5}, TRN020, [~], []
{fsdp: full_shard auto_wrap}, TRN040, [], [~]
{fsdp: FULL_SHARD}, TRN040, [~], []
{fsdp: [bogus]}, TRN040, [~], [4.46.3]
{fsdp: offload}, TRN040, [4.57.6], [~]
{fsdp: full_shard shard_grad_op}, TRN040, [4.57.6], [~]
{fsdp: false}, TRN040, [4.57.6], [4.46.3, ~]
{fsdp: ~}, TRN040, [4.46.3], [4.57.6]
{fsdp: 1}, TRN040, [4.46.3], [~]
{logging_steps: 0, logging_strategy: 'no'}, ~, [], [~]
{save_steps: 1.5}, TRN030, [~], []
{save_steps: x, save_strategy: epoch}, ~, [], [~]
{eval_strategy: steps, eval_steps: 0, logging_steps: 0, logging_strategy: 'no'}, TRN030, [~], []
{load_best_model_at_end: true, evaluation_strategy: steps}, ~, [], [4.50.3]
{load_best_model_at_end: true, eval_strategy: steps, save_strategy: best}, TRN031, [4.47.1], [~]
{load_best_model_at_end: true, eval_strategy: steps, eval_steps: 0.1, save_steps: 0.2}, ~, [], [~]
{load_best_model_at_end: true, eval_strategy: steps, eval_steps: 0.1, save_steps: 100}, TRN031, [~], []
{lr_scheduler_type: greedy, eval_strategy: epoch}, ~, [], [~]
{dataloader_prefetch_factor: 2, dataloader_num_workers: 2}, ~, [], [~]
{accelerator_config: {bogus: 1}}, TRN035, [~], []
{accelerator_config: {split_batches: x}}, ~, [], [~]
{fsdp: full_shard, fsdp_config: '{"min_num_params": "5"}'}, ~, [], [4.46.3]
{accelerator_config: {gradient_accumulation_kwargs: {bogus: 4}}}, TRN035, [~], [4.57.6]
{auto_find_batch_size: true, fsdp: true}, ~, [], [~]
{auto_find_batch_size: true, fsdp: full_shard}, TRN037, [4.44.2], []
{torch_compile_backend: Inductor}, ~, [], [~]
{torch_compile_backend: bogus}, TRN039, [~], []
{fsdp: true, fsdp_config: {reshard_after_forward: maybe}}, TRN041, [~], []
{fsdp: false, fsdp_config: {reshard_after_forward: maybe}}, ~, [], [~]
{fsdp: true, fsdp_config: []}, TRN041, [~], []
{fsdp_config: {min_num_params: x}}, TRN041, [4.46.3], [~]
{fsdp: hybrid_shard, fsdp_config: {version: 1}}, ~, [], [~]
{fsdp: true, fsdp_config: {activation_checkpointing: true}, gradient_checkpointing: true}, TRN044, [~], []
{fsdp: true, fsdp_config: {activation_checkpointing: 'false'}, gradient_checkpointing: true}, ~, [], [~]
{fsdp: full_shard, fsdp_config: {activation_checkpointing: 'false'}, gradient_checkpointing: true}, TRN044, [4.46.3], []
{fsdp: true, save_only_model: true}, ~, [], [~]
{fsdp: true, save_only_model: true, fsdp_config: {state_dict_type: SHARDED_STATE_DICT}}, TRN044, [~], []""")
def test_arguments(given: dict[str, Any], code: str, refused: list[str | None], taken: list[str | None]) -> None:
	assert [arguments(release, **given) for release in refused] == [{code}] * len(refused)
	assert [arguments(release, **given) for release in taken] == [set()] * len(taken)


# transformers 5.24.0: str_to_bool("full_shard") for version 2, FSDP_STATE_DICT_TYPE for the type.
@table("""data, advice, title
{reshard_after_forward: full_shard}, ; write true, write true
{reshard_after_forward: SHARD_GRAD_OP}, ; write false, write false
{version: 1, reshard_after_forward: true}, ; write "FULL_SHARD", write "FULL_SHARD"
{state_dict_type: SHARDED}, '; did you mean SHARDED_STATE_DICT?', write "SHARDED_STATE_DICT"
{state_dict_type: ful_state_dict}, '; did you mean FULL_STATE_DICT?', write "FULL_STATE_DICT"
""")
def test_what_to_write_in_fsdp_config(data: dict[str, Any], advice: str, title: str) -> None:
	(found,) = [item for item in judged(data, "fsdp") if item.code == "TRN001"]
	assert found.message.endswith(advice)
	assert found.fix is not None
	assert found.fix.title == title


# transformers 5.24.0 on infinity: int(float("inf")) raises OverflowError in both places
def test_infinity_is_no_number_of_anything() -> None:
	assert in_file({"version": float("inf")}) == {"TRN001"}
	assert arguments(logging_steps=float("inf")) == {"TRN030"}


def test_nothing_is_said_of_fsdp_settings_whose_control_is_refused() -> None:
	data = {"auto_wrap_policy": "SIZE_BASED", "min_num_params": 2000000, "version": 2}
	assert [item.code for item in judged(data, "fsdp") if item.severity.value != "info"] == ["TRN001"]


STAGE_2 = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
ADAMW = {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}}


# transformers 5.24.0: HfTrainerDeepSpeedConfig(...).mismatches after TrainingArguments(**arguments), with two processes
@pytest.mark.parametrize(
	("arguments", "block", "pointers"),
	[
		({}, {"train_micro_batch_size_per_gpu": 8}, set()),
		({}, {"train_micro_batch_size_per_gpu": 4}, {"train_micro_batch_size_per_gpu"}),
		({"per_device_train_batch_size": 4}, {"train_micro_batch_size_per_gpu": 4}, set()),
		({"per_device_train_batch_size": 4}, {"gradient_clipping": 0.5}, {"gradient_clipping"}),
		(
			{"bf16": True},
			{"bf16": {"enabled": False}, "optimizer": ADAMW},
			{"bf16/enabled", "optimizer/params/lr", "optimizer/params/betas"},
		),
		({"bf16_full_eval": True}, {"bf16": {"enabled": True}}, set()),
		({"fp16": True}, {"fp16": {"enabled": "auto"}}, set()),
		({}, {"train_batch_size": 16}, set()),
		({}, {"train_batch_size": 24}, {"train_batch_size"}),
	],
)
def test_inline_deepspeed_is_compared_with_the_arguments(
	arguments: dict[str, Any], block: dict[str, Any], pointers: list[str]
) -> None:
	data = {"output_dir": "o", **arguments, "deepspeed": {**STAGE_2, **block}}
	places = {
		item.place.pointer for item in judged(data, "trainer", known={"num_processes": 2}) if item.code == "DSP051"
	}
	assert places == {f"/deepspeed/{pointer}" for pointer in pointers}


def test_inline_deepspeed_is_judged_and_mended_where_it_stands() -> None:
	text = "output_dir: o\ndeepspeed:\n  train_micro_batch_size_per_gpu: auto\n  zero_optimization:\n    stag: 2\n"
	(found,) = [item for item in judged(text, None) if item.fix]
	assert (found.code, found.place.line, found.place.pointer) == ("DSP004", 5, "/deepspeed/zero_optimization/stag")
	assert found.fix is not None
	assert splice(text, found.fix.edits) == text.replace("stag:", "stage:")


def test_keys_that_are_no_text_are_unknown() -> None:
	block = "{train_micro_batch_size_per_gpu: auto, zero_optimization: {stage: 2, on: 1}, 3: {x: 1}}"
	found = judged(f"output_dir: o\ndeepspeed: {block}\n", "trainer")
	assert {one.severity.value for one in found if one.code == "DSP004"} == {"error", "warning"}


@pytest.mark.parametrize(("text", "column"), [("'{\"stag\": true}'", 23), ('"{\\"stag\\": true}"', 21)])
def test_a_mapping_may_be_a_text(text: str, column: int) -> None:
	(found,) = judged(f"output_dir: o\naccelerator_config: {text}\n", "trainer")
	place = found.place
	assert (found.code, place.line, place.column, place.pointer) == ("TRN035", 2, column, "/accelerator_config/stag")


# 5.24.0: an empty value is none, anything else is opened as a file
@table(
	"""value, refused
no, no
[], no
yes, yes
[1], yes
5, yes
DEEP, yes
ds.json, no""",
	DEEP='{"a":' * 3000 + "1" + "}" * 3000,
)
def test_deepspeed_argument_is_a_mapping_or_a_path(value: object, refused: bool) -> None:
	assert (codes({"output_dir": "o", "deepspeed": value}, kind="trainer") == {"TRN020"}) is refused
