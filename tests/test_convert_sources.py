"""Conversions of launch commands, shell scripts and plugin objects."""

import shlex
from pathlib import Path

import pytest
import yaml
from tests.oracle.commands import parsed
from tests.test_convert import FSDP1, ZERO3, convert, fsdp1, said, words_of

from distributed_training_backends import api
from distributed_training_backends.convert.from_launch import to_config
from distributed_training_backends.model_convert import BadConversionError


def test_what_stays_on_the_command_line() -> None:
	words = shlex.split("--multi_gpu --num_processes 4 --max_restarts 3 --same_network t.py")
	hub, notes = to_config(parsed(words, "1.15.0").document, None, "1.15.0")
	wanted = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "num_processes": 4}
	assert yaml.safe_load(hub.text) == wanted
	assert {note.setting for note in notes} == {"max_restarts", "same_network"}


SHELL = """\
#!/bin/bash
export FSDP_IGNORED_MODULES='.*norm'
accelerate launch --use_fsdp --fsdp_version 2 \\
  --num_processes 8 --max_restarts 2 $MORE \\
  train.py --lr 1e-4
"""


def test_a_shell_script() -> None:
	report = convert(SHELL, "accelerate", kind="launch")
	assert yaml.safe_load(report.text)["fsdp_config"] == {"fsdp_version": 2, "fsdp_ignored_modules": ".*norm"}
	assert said(report) == {"max_restarts": "open", "$MORE": "open"}
	again = words_of(convert(SHELL, "launch", kind="launch"))
	assert again[0] == "FSDP_IGNORED_MODULES=.*norm"
	assert again[-3:] == ["train.py", "--lr", "1e-4"]


UNREAD = {f"fsdp_{one}" for one in ("sharding_strategy", "backward_prefetch", "sync_module_states", "use_orig_params")}


def test_code_and_back() -> None:
	for text in (FSDP1, ZERO3, fsdp1(fsdp_version=2, fsdp_offload_params=True)):
		again = yaml.safe_load(convert(convert(text, "python").text, "accelerate", kind="python").text)
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
	report = convert(code, "accelerate", kind="python")
	assert yaml.safe_load(report.text)["fsdp_config"] == {
		"fsdp_version": 2,
		"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
		"fsdp_cpu_ram_efficient_loading": False,  # on in the launcher
	}
	settings = {name for name, status in said(report).items() if status == "open"}
	assert settings == {"mixed_precision", "gradient_accumulation_steps", "num_processes"}


def test_the_config_that_a_command_names_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.chdir(tmp_path)
	Path("fsdp.yaml").write_text(FSDP1)
	Path("run.sh").write_text("accelerate launch --config_file fsdp.yaml train.py\n")
	options = api.Options(api.default_targets())
	assert yaml.safe_load(api.convert_paths(["run.sh"], "accelerate", options).text) == yaml.safe_load(FSDP1)
	Path("fsdp.yaml").unlink()
	with pytest.raises(BadConversionError, match=r"reads fsdp\.yaml, which is not here: give it too"):
		api.convert_paths(["run.sh"], "accelerate", options)


def test_below_stage_3_loading_and_saving_are_told() -> None:
	loading = {"fsdp_state_dict_type": "FULL_STATE_DICT", "fsdp_cpu_ram_efficient_loading": True}
	told = said(convert(fsdp1(fsdp_sharding_strategy="SHARD_GRAD_OP", **loading), "deepspeed"))
	assert told.items() >= {"fsdp_state_dict_type": "same", "fsdp_cpu_ram_efficient_loading": "lost"}.items()
