"""A DeepSpeed config below `deepspeed` in a file of TrainingArguments: what is said, and where."""

import json
from typing import Any

import pytest
from tests.tables import table

from distributed_training_backends.api import default_targets, validate_text
from distributed_training_backends.fix import splice
from distributed_training_backends.model import Context, Finding, Severity
from distributed_training_backends.validate import Options


def judged(data: dict[str, Any]) -> list[Finding]:
    """The findings about a file with this content, for two processes."""
    options = Options(default_targets(), Context(num_processes=2), kind="trainer")
    return list(validate_text(json.dumps(data), options, "file.json").files[0].findings)


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
    arguments: dict[str, Any], block: dict[str, Any], pointers: set[str]
) -> None:
    data = {"output_dir": "o", **arguments, "deepspeed": {**STAGE_2, **block}}
    places = {item.place.pointer for item in judged(data) if item.code == "DSP051"}
    assert places == {f"/deepspeed/{pointer}" for pointer in pointers}


def test_inline_deepspeed_is_judged_and_mended_where_it_stands() -> None:
    text = "output_dir: o\ndeepspeed:\n  train_micro_batch_size_per_gpu: auto\n  zero_optimization:\n    stag: 2\n"
    (found,) = [
        item for item in validate_text(text, Options(default_targets()), "t.yaml").files[0].findings if item.fix
    ]
    assert (found.code, found.place.line, found.place.pointer) == ("DSP004", 5, "/deepspeed/zero_optimization/stag")
    assert found.fix is not None
    assert splice(text, found.fix.edits) == text.replace("stag:", "stage:")


def test_inline_deepspeed_without_zero_points_at_the_block() -> None:
    data = {"output_dir": "o", "deepspeed": {"train_micro_batch_size_per_gpu": "auto"}}
    (found,) = [item for item in judged(data) if item.code == "DSP050"]
    assert found.place.pointer == "/deepspeed"


# 5.24.0: an empty value is none, anything else is opened as a file
@table("""value, refused
no, no
[], no
yes, yes
[1], yes
5, yes
ds.json, no""")
def test_deepspeed_argument_is_a_mapping_or_a_path(value: object, refused: bool) -> None:
    found = judged({"output_dir": "o", "deepspeed": value})
    assert ([item.code for item in found if item.severity is Severity.ERROR] == ["TRN020"]) is refused
