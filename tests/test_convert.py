"""Conversions: what the results say, what is said about them, and the doors.

What the libraries make of the results is asked by tests/oracle/conversions.py.
"""

import ast
import json
import shlex
from contextlib import nullcontext
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.oracle.commands import parsed
from tests.tables import packed_table, table

from distributed_training_backends import api
from distributed_training_backends.convert.launch import to_config
from distributed_training_backends.model_convert import BadConversionError, ConvertReport
from distributed_training_backends.render.convert import convert_data
from distributed_training_backends.resources import load_json

FSDP1 = """\
# 7B on one node
distributed_type: FSDP  # sharded
fsdp_config:
  # what is sharded
  fsdp_sharding_strategy: FULL_SHARD  # all
  fsdp_backward_prefetch: BACKWARD_PRE
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sync_module_states: true
  fsdp_use_orig_params: true
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
ZERO3 = """\
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3  # all of it
  offload_optimizer_device: cpu
  offload_param_device: cpu
  gradient_accumulation_steps: 4
  gradient_clipping: 0.5
  zero3_init_flag: false
  zero3_save_16bit_model: true
mixed_precision: bf16
num_processes: 8
"""
FILE = """\
distributed_type: DEEPSPEED
deepspeed_config: {deepspeed_config_file: ds.json, zero3_init_flag: true}
num_processes: 8
"""
JSON: dict[str, Any] = {
	"train_micro_batch_size_per_gpu": "auto",
	"gradient_accumulation_steps": 2,
	"bf16": {"enabled": True},
	"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
	"zero_optimization": {"stage": 2, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}},
}


def convert(
	text: str, to: str, release: str = "1.15.0", deepspeed: str | None = None, kind: Any = None, **targets: str
) -> ConvertReport:
	options = api.Options(api.default_targets()._replace(accelerate=release, **targets), kind=kind)
	return api.convert_text(text, to, options, deepspeed=deepspeed)


def said(report: ConvertReport) -> dict[str, str]:
	"""What is said about each setting: its status."""
	return {note.setting: note.status for note in reversed(report.notes)}


def fsdp1(**entries: Any) -> str:
	data = yaml.safe_load(FSDP1)
	for name, value in entries.items():
		(data["fsdp_config"] if name.startswith("fsdp_") else data)[name] = value
	return yaml.safe_dump(data, sort_keys=False)


def test_fsdp2_in_the_same_file_with_its_comments() -> None:
	wanted = """\
# 7B on one node
distributed_type: FSDP  # sharded
fsdp_config:
  # what is sharded
  fsdp_reshard_after_forward: true  # all
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_version: 2
  fsdp_state_dict_type: FULL_STATE_DICT
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
	assert convert(FSDP1, "fsdp2").text == wanted
	assert convert(FSDP1.replace("\n", "\r\n"), "fsdp2").text == wanted.replace("\n", "\r\n")


HYBRID = {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 8}
TWO_NODES = {"num_machines": 2, "num_processes": 16, "machine_rank": 0, "main_process_ip": "10.0.0.1"}
TWO_NODES["fsdp_sharding_strategy"] = "HYBRID_SHARD"


# In the last one, FSDP1 runs FULL_SHARD whatever the first key says.
@packed_table("convert.each_setting_of_fsdp1", TWO_NODES=TWO_NODES, HYBRID=HYBRID)
def test_each_setting_of_fsdp1(changes: dict[str, Any], expected: dict[str, Any], status: dict[str, str]) -> None:
	report = convert(fsdp1(**changes), "fsdp2")
	data = yaml.safe_load(report.text)
	flat = {**data, **data.get("fsdp_config", {}), **data.get("parallelism_config", {})}
	assert {name: flat.get(name) for name in expected} == expected
	assert {name: said(report).get(name) for name in status} == status


def test_a_hybrid_that_cannot_be_said_is_lost_aloud() -> None:
	report = convert(fsdp1(**TWO_NODES), "fsdp2", "1.8.1")
	assert "1.10.0" in next(note.message for note in report.notes if note.status == "lost")
	assert not report.equivalent


def test_deepspeed_to_fsdp_and_back() -> None:
	there = convert(ZERO3, "fsdp")
	assert yaml.safe_load(there.text)["fsdp_config"] == {
		"fsdp_reshard_after_forward": True,
		"fsdp_offload_params": True,
		"fsdp_cpu_ram_efficient_loading": False,
		"fsdp_state_dict_type": "FULL_STATE_DICT",
		"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
		"fsdp_version": 2,
	}
	assert "fsdp_reshard_after_forward: true  # all of it" in there.text
	lost = {note.setting: note.message for note in there.notes if note.status == "lost"}
	assert "gradient_accumulation_steps=4" in lost["gradient_accumulation_steps"]
	assert "0.5" in lost["gradient_clipping"]
	back = yaml.safe_load(convert(there.text, "deepspeed").text)
	first = yaml.safe_load(ZERO3)
	block = first.pop("deepspeed_config")
	assert back.pop("deepspeed_config") == {key: block[key] for key in block if not key.startswith("gradient")}
	assert back == first


def test_a_deepspeed_file_counts_instead_of_the_block() -> None:
	report = convert(FILE, "fsdp", deepspeed=json.dumps(JSON))
	data = yaml.safe_load(report.text)
	fsdp = data["fsdp_config"]
	made = data["mixed_precision"], fsdp["fsdp_reshard_after_forward"], fsdp["fsdp_offload_params"]
	assert made == ("bf16", False, True)
	messages = {note.setting: note.message for note in report.notes if note.status in ("lost", "changed")}
	assert "AdamW" in messages["optimizer"]
	# FSDP moves more than the optimizer
	assert {"zero_optimization.overlap_comm", "offload_optimizer_device"} <= messages.keys()


def test_older_releases_get_fsdp1() -> None:
	text = convert(ZERO3, "fsdp", "1.4.0").text
	assert ("fsdp_sharding_strategy: FULL_SHARD" in text, "fsdp_version" in text) == (True, False)


def test_a_block_that_stood_beside_gives_way() -> None:
	assert "fsdp_offload_params: true" in convert(ZERO3 + "fsdp_config: {}\n", "fsdp").text


def words_of(report: ConvertReport) -> list[str]:
	return shlex.split(report.text.replace("\\\n", " "))


@pytest.mark.parametrize("text", [FSDP1, ZERO3, fsdp1(fsdp_version=2, fsdp_offload_params=True)])
def test_flags_and_back(text: str) -> None:
	words = words_of(convert(text, "launch"))
	assert words[:2] == ["accelerate", "launch"]
	command = parsed(words[2:], "1.15.0")
	assert command.faults == []
	hub, notes = to_config(command.document, None, "1.15.0")
	assert notes == ()
	first, last = yaml.safe_load(text), yaml.safe_load(hub.text)
	assert {**last, "num_machines": 1} == {**last, "num_machines": 1, **first}


def test_what_flags_cannot_say() -> None:
	text = fsdp1(fsdp_ignored_modules=".*norm", rdzv_backend="c10d", fsdp_typo=1)
	report = convert(text, "launch")
	assert words_of(report)[0] == "FSDP_IGNORED_MODULES=.*norm"
	assert said(report)["rdzv_backend"] == "open"  # not taken from a file, and so not given here
	assert "--rdzv_backend" not in report.text
	assert said(report)["fsdp_typo"] == "lost"


def call_of(code: str, name: str) -> dict[str, Any]:
	calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
	found = next(node for node in calls if isinstance(node.func, ast.Name) and node.func.id == name)
	return {
		keyword.arg or "": ast.literal_eval(keyword.value)
		for keyword in found.keywords
		if isinstance(keyword.value, ast.Constant | ast.List)
	}


def test_code_says_what_the_launcher_would() -> None:
	text = convert(fsdp1(fsdp_transformer_layer_cls_to_wrap="LlamaDecoderLayer,Conv"), "python").text
	assert "torchrun --nproc_per_node 8" in text.splitlines()[0]
	assert call_of(text, "FullyShardedDataParallelPlugin") == {
		"sharding_strategy": "FULL_SHARD",
		"backward_prefetch": "BACKWARD_PRE",
		"auto_wrap_policy": "transformer_based_wrap",
		"transformer_cls_names_to_wrap": ["LlamaDecoderLayer", "Conv"],
		**dict.fromkeys(["sync_module_states", "use_orig_params"], True),
		"cpu_ram_efficient_loading": True,  # on in the launcher, off in the plugin
	}


@pytest.mark.parametrize(("release", "value"), [("0.34.2", "BACKWARD_POST"), ("1.15.0", "BACKWARD_PRE")])
def test_an_old_name_counts_where_it_is_read(release: str, value: str) -> None:
	code = convert(fsdp1(fsdp_backward_prefetch_policy="BACKWARD_POST"), "python", release).text
	assert call_of(code, "FullyShardedDataParallelPlugin")["backward_prefetch"] == value


def test_deepspeed_in_code_counts_accumulation_twice() -> None:
	code = convert(ZERO3, "python").text
	assert call_of(code, "DeepSpeedPlugin")["gradient_accumulation_steps"] == 4
	assert call_of(code, "Accelerator") == {"mixed_precision": "bf16", "gradient_accumulation_steps": 4}


@table(
	"""text, transformers, expected
FSDP2, 5.24.0, {fsdp: true, version: 2, cpu_ram_efficient_loading: true}
FSDP1, 4.57.0, {fsdp: full_shard auto_wrap, bf16: true}
ZERO3, 5.24.0, {gradient_accumulation_steps: 4, max_grad_norm: 0.5, bf16: true}""",
	FSDP2=fsdp1(fsdp_version=2),
	FSDP1=FSDP1,
	ZERO3=ZERO3,
)
def test_training_arguments(text: str, transformers: str, expected: dict[str, Any]) -> None:
	data = yaml.safe_load(convert(text, "trainer", transformers=transformers).text)
	data |= data.get("fsdp_config", {})
	assert {name: data[name] for name in expected} == expected


def test_a_deepspeed_file_alone() -> None:
	report = convert(json.dumps(JSON), "fsdp2", kind="deepspeed")
	assert yaml.safe_load(report.text)["fsdp_config"]["fsdp_reshard_after_forward"] is False
	assert {note.status for note in report.notes} == {"same", "changed", "lost", "open"}


CASES = [(FSDP1, to) for to in ("fsdp2", "deepspeed", "launch", "python", "trainer")]
CASES += [(ZERO3, to) for to in ("fsdp", "fsdp2", "launch", "python", "trainer")]


@pytest.mark.parametrize("release", ["0.34.2", "1.0.1", "1.6.0", "1.10.1", "1.12.0", "1.15.0"])
@pytest.mark.parametrize(("text", "to"), CASES)
def test_every_result_validates_clean(text: str, to: str, release: str) -> None:
	if to == "fsdp2" and release in ("0.34.2", "1.0.1"):
		with pytest.raises(BadConversionError, match="FSDP2") if text == FSDP1 else nullcontext():
			convert(text, to, release)
		return
	report = convert(text, to, release)
	known_bug = "get_state_dict takes the wrapper off"  # of every FSDP run with 0.34.2
	checks = [note.message for note in report.notes if note.status == "check"]
	assert all(known_bug in message for message in checks)
	Draft202012Validator(load_json("schemas/convert_report.schema.json")).validate(convert_data(report))


@packed_table("convert.what_cannot_be_converted_is_refused_in_one_line", FSDP1=FSDP1, ZERO3=ZERO3, FILE=FILE)
def test_what_cannot_be_converted_is_refused_in_one_line(text: str, to: str, message: str) -> None:
	with pytest.raises(BadConversionError, match=message) as caught:
		convert(text, to)
	assert "\n" not in str(caught.value)


@pytest.mark.parametrize("to", ["fsdp2", "launch", "python"])
def test_json_and_flow_style_are_converted_too(to: str) -> None:
	data = yaml.safe_load(FSDP1)
	flow = yaml.safe_dump(data, default_flow_style=None, sort_keys=False)
	assert "fsdp_config: {" in flow
	wanted = convert(FSDP1, to).text
	for text in (json.dumps(data), flow):
		found = convert(text, to).text
		assert yaml.safe_load(found) == yaml.safe_load(wanted) if to == "fsdp2" else set(found) == set(wanted)
