"""What the TRN rules say about fsdp_config and about files of TrainingArguments, release by release.

The verdicts are those of the releases: TrainingArguments was built with each value as one of two processes, with a
GPU believed to be there, and then the FSDP plugin or the Trainer.
"""

from typing import Any

import pytest
from tests.judging import codes, judged
from tests.tables import packed_table, table

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


@packed_table("rules_trainer.fsdp_config")
def test_fsdp_config(data: dict[str, Any], code: str, refused: list[str | None], taken: list[str | None]) -> None:
	assert [in_file(data, release) for release in refused] == [{code}] * len(refused)
	assert [in_file(data, release) for release in taken] == [set()] * len(taken)


@packed_table("rules_trainer.keys_that_nothing_reads")
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


@packed_table("rules_trainer.arguments")
def test_arguments(given: dict[str, Any], code: str, refused: list[str | None], taken: list[str | None]) -> None:
	assert [arguments(release, **given) for release in refused] == [{code}] * len(refused)
	assert [arguments(release, **given) for release in taken] == [set()] * len(taken)


# transformers 5.24.0: str_to_bool("full_shard") for version 2, FSDP_STATE_DICT_TYPE for the type.
@packed_table("rules_trainer.what_to_write_in_fsdp_config")
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
