"""A DeepSpeed config below `deepspeed` in a file of TrainingArguments: what is said, and where."""

from typing import Any

import pytest
from tests.judging import codes, judged
from tests.tables import table

from distributed_training_backends.fix import splice

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


# 5.24.0: an empty value is none, anything else is opened as a file
@table("""value, refused
no, no
[], no
yes, yes
[1], yes
5, yes
ds.json, no""")
def test_deepspeed_argument_is_a_mapping_or_a_path(value: object, refused: bool) -> None:
    assert (codes({"output_dir": "o", "deepspeed": value}, kind="trainer") == {"TRN020"}) is refused
