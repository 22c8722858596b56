"""Conversions of launch commands, shell scripts and plugin objects."""

import shlex

import yaml
from tests.oracle.commands import parsed
from tests.test_convert import FSDP1, ZERO3, convert, fsdp1, said, words_of

from distributed_training_backends import api
from distributed_training_backends.convert.from_launch import to_config


def test_what_stays_on_the_command_line() -> None:
    document = parsed(
        shlex.split("--multi_gpu --num_processes 4 --max_restarts 3 --same_network t.py"), "1.15.0"
    ).document
    hub, notes = to_config(document, None, "1.15.0")
    assert yaml.safe_load(hub.text) == {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU",
        "num_processes": 4,
    }
    assert {note.setting for note in notes} == {"max_restarts", "same_network"}


SHELL = """\
#!/bin/bash
export FSDP_IGNORED_MODULES='.*norm'
accelerate launch --use_fsdp --fsdp_version 2 \\
  --num_processes 8 --max_restarts 2 $MORE \\
  train.py --lr 1e-4
"""


def test_a_shell_script() -> None:
    options = api.Options(api.default_targets(), kind="launch")
    report = api.convert_text(SHELL, "accelerate", options)
    assert yaml.safe_load(report.text)["fsdp_config"] == {"fsdp_version": 2, "fsdp_ignored_modules": ".*norm"}
    assert said(report) == {"max_restarts": "open", "$MORE": "open"}
    again = words_of(api.convert_text(SHELL, "launch", options))
    assert again[0] == "FSDP_IGNORED_MODULES=.*norm"
    assert again[-3:] == ["train.py", "--lr", "1e-4"]


UNREAD = {
    f"fsdp_{name}" for name in ("sharding_strategy", "backward_prefetch", "sync_module_states", "use_orig_params")
}


def test_code_and_back() -> None:
    options = api.Options(api.default_targets(), kind="python")
    for text in (FSDP1, ZERO3, fsdp1(fsdp_version=2, fsdp_offload_params=True)):
        again = yaml.safe_load(api.convert_text(convert(text, "python").text, "accelerate", options).text)
        first = yaml.safe_load(text)
        block = "deepspeed_config" if "deepspeed_config" in first else "fsdp_config"
        both = first[block].keys() & again[block].keys()
        assert {name: again[block][name] for name in both} == {name: first[block][name] for name in both}
        assert first[block].keys() - both <= UNREAD  # by the class of FSDP2
        assert again["mixed_precision"] == first["mixed_precision"]


def test_what_the_class_takes_by_itself_is_said() -> None:
    code = (
        "from accelerate import Accelerator, FullyShardedDataParallelPlugin\n"
        "plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy='transformer_based_wrap')\n"
        "accelerator = Accelerator(fsdp_plugin=plugin, mixed_precision=chosen, gradient_accumulation_steps=2)\n"
    )
    report = api.convert_text(code, "accelerate", api.Options(api.default_targets(), kind="python"))
    assert yaml.safe_load(report.text)["fsdp_config"] == {
        "fsdp_version": 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_cpu_ram_efficient_loading": False,  # on in the launcher
    }
    assert {name for name, status in said(report).items() if status == "open"} == {
        "mixed_precision",
        "gradient_accumulation_steps",
        "num_processes",
    }
