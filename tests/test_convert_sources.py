"""Conversions of launch commands, shell scripts and plugin objects."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.oracle.commands import parsed
from tests.tables import packed_table, table
from tests.test_convert import FSDP1, ZERO3, call_of, convert, fsdp1, said, words_of

from distributed_training_backends import api
from distributed_training_backends.convert.launch import to_config
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


@table(
	"""flags, block
--use_tp --tp_size 4, {tp_config: {tp_size: 4}}
--multi_gpu --use_xpu, {ipex_config: {use_xpu: true}}"""
)
def test_every_option_has_its_block(flags: str, block: dict[str, Any]) -> None:
	command = f"accelerate launch {flags} --num_processes 4 train.py\n"
	made = convert(command, "accelerate", "1.5.0", kind="launch")
	assert yaml.safe_load(made.text).items() >= block.items()
	assert {*flags.split()} <= {*words_of(convert(made.text, "launch", "1.5.0"))}


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


def test_blocks_that_a_flag_beats_go_aloud(tmp_path: Path) -> None:
	(tmp_path / "fsdp.yaml").write_text(FSDP1)
	(tmp_path / "run.sh").write_text("accelerate launch --use_deepspeed --zero_stage 2 train.py\n")
	names = [str(tmp_path / name) for name in ("run.sh", "fsdp.yaml")]
	report = api.convert_paths(names, "accelerate", api.Options(api.default_targets()))
	assert yaml.safe_load(report.text).keys().isdisjoint({"fsdp_config"})
	assert said(report) == {"fsdp_config": "same", "comment": "lost"}


ZERO = {"stage": 3, "offload_optimizer": {"device": "cpu"}}
AUTO = dict.fromkeys(["train_batch_size", "gradient_accumulation_steps", "gradient_clipping"], "auto")
DEEPSPEED = {**AUTO, "bf16": {"enabled": "auto"}, "zero_optimization": ZERO}


# What the Trainer of each release gives to the plugin: `_process_fsdp_args` of training_args.py
@packed_table("convert_sources.fsdp_of_the_trainer")
def test_fsdp_of_the_trainer(release: str, arguments: dict[str, Any], block: dict[str, Any]) -> None:
	code = f"from transformers import *\nTrainingArguments(**{arguments})\n"
	for kind, text in {"trainer": yaml.safe_dump(arguments), "python": code}.items():
		made = yaml.safe_load(convert(text, "accelerate", kind=kind, transformers=release).text)["fsdp_config"]
		assert made.items() >= {f"fsdp_{name}": value for name, value in block.items()}.items()


@table(
	"""zero, block, companion
{}, {zero_stage: 3, offload_optimizer_device: cpu, gradient_accumulation_steps: 4}, false
{overlap_comm: true}, {deepspeed_config_file: ds_config.json}, true"""
)
def test_deepspeed_of_the_trainer(zero: dict[str, Any], block: dict[str, Any], companion: bool) -> None:
	config = {**DEEPSPEED, "zero_optimization": {**ZERO, **zero}}
	given = {"bf16": True, "gradient_accumulation_steps": 4, "learning_rate": 1e-4, "deepspeed": config}
	report = convert(yaml.safe_dump(given), "accelerate", kind="trainer")
	made = yaml.safe_load(report.text)
	assert (made["deepspeed_config"], made.get("mixed_precision")) == (block, None if companion else "bf16")
	assert said(report).get("deepspeed") == ("open" if companion else None)
	assert any("learning_rate" in note.setting for note in report.notes)
	report = convert(yaml.safe_dump(given), "fsdp", kind="trainer")
	assert said(report)["gradient_clipping"] == "same"  # the Trainer clips
	sharded = yaml.safe_load(report.text)
	assert (sharded["mixed_precision"], sharded["fsdp_config"]["fsdp_offload_params"]) == ("bf16", True)


# One process is not started by torchrun: MULTI_GPU would be refused as a flag
@packed_table("convert_sources.the_number_of_processes_is_taken_from_the_caller")
def test_the_number_of_processes_is_taken_from_the_caller(kind: Any, text: str, count: int, distributed: str) -> None:
	assert said(convert(text, "accelerate", kind=kind))["num_processes"] == "open"
	options = api.Options(api.default_targets(), api.Context(num_processes=count), kind)
	report = api.convert_text(text, "accelerate", options)
	made = yaml.safe_load(report.text)
	assert (made["num_processes"], made["distributed_type"]) == (count, distributed)
	assert said(report).keys().isdisjoint({"num_processes", "distributed_type"})


@table(
	"""given, plugin
{deepspeed: ds.json, max_grad_norm: 0.5}, {hf_ds_config: ds.json, gradient_clipping: 0.5}
{deepspeed: DEEPSPEED, max_grad_norm: 0.5}, {zero_stage: 3, offload_optimizer_device: cpu, gradient_clipping: 0.5}
{}, {}""",
	DEEPSPEED=DEEPSPEED,
)
def test_code_has_no_trainer(given: dict[str, Any], plugin: dict[str, Any]) -> None:
	given = {"fp16": True, "gradient_accumulation_steps": 8, "lr_scheduler_type": "cosine", **given}
	report = convert(yaml.safe_dump(given), "python", kind="trainer", deepspeed=json.dumps(DEEPSPEED))
	wanted = {"mixed_precision": "fp16", "gradient_accumulation_steps": 8}
	assert call_of(report.text, "Accelerator") == wanted
	assert not plugin or call_of(report.text, "DeepSpeedPlugin") == plugin
	assert "this code has no Trainer" in {note.setting: note.message for note in report.notes}["lr_scheduler_type"]


@pytest.mark.parametrize(("to", "status"), [("accelerate", None), ("python", "check")])
def test_the_trainer_fills_in_more_than_accelerate(to: str, status: str | None) -> None:
	config = {**DEEPSPEED, "optimizer": {"type": "AdamW", "params": {"betas": "auto"}}}
	report = convert("deepspeed: ds.json", to, kind="trainer", deepspeed=json.dumps(config))
	assert said(report).get("DSP023") == status


# TorchDynamoPlugin read USE_DYNAMIC as False where the variable is absent, before 1.7.0
@pytest.mark.parametrize(("release", "status"), [("1.15.0", "changed"), ("1.6.0", None)])
def test_the_launcher_says_more_of_compiling_than_torchrun(release: str, status: str | None) -> None:
	report = convert("torch_compile: true", "accelerate", release, kind="trainer")
	assert said(report).get("dynamo_use_dynamic") == status
	there = convert("distributed_type: MULTI_GPU\ndynamo_config: {dynamo_backend: INDUCTOR}\n", "trainer", release)
	assert ("dynamo_use_dynamic" in said(there)) is bool(status)


IMPORTS = "from trl import SFTConfig\nfrom accelerate import Accelerator\n"


@packed_table("convert_sources.arguments_that_are_not_known")
def test_arguments_that_are_not_known(code: str, message: str) -> None:
	with pytest.raises(BadConversionError, match=message):
		convert(IMPORTS + code + "\n", "accelerate", kind="python")


def test_what_only_the_script_knows_is_told() -> None:
	report = convert(
		f"{IMPORTS}Accelerator()\nSFTConfig(fsdp=True, fsdp_config={{'state_dict_type': n}}, **more)\n",
		"launch",
		kind="python",
	)
	told = {note.setting: note.message for note in report.notes if note.status == "open"}
	assert {"state_dict_type", "mixed_precision", "SFTConfig"} <= told.keys()
