"""What the PRC rules say about precision, FP8, compilation and bitsandbytes files, release by release.

The verdicts are those of the libraries: each refused config was refused by the release named, with every optional
package at hand, and each accepted one got through `Accelerator()`, `BitsAndBytesConfig` or `BnbQuantizationConfig`.
"""

import json
from typing import Any

import pytest
from tests.judging import codes, judged
from tests.tables import packed_table, table

from distributed_training_backends.knowledge import accelerate as knowledge
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import precision_fp8, quantization
from distributed_training_backends.rules.precision_fp8 import BLOCK
from distributed_training_backends.versions import covers

SHARDED = {"fsdp_auto_wrap_policy": "NO_WRAP", "fsdp_sharding_strategy": "FULL_SHARD"}
LOADS_ALL = {**SHARDED, "fsdp_cpu_ram_efficient_loading": False}


def launch(kind: str = "MULTI_GPU", precision: Any = "fp8", **more: Any) -> dict[str, Any]:
	return {
		"num_machines": 1,
		"machine_rank": 0,
		"use_cpu": False,
		"distributed_type": kind,
		"num_processes": 8,
		"mixed_precision": precision,
		**more,
	}


@pytest.mark.parametrize("value", ["no", "NO", "fp16", "Bf16", None])
@pytest.mark.parametrize("kind", ["MULTI_GPU", "NO", "DEEPSPEED"])
def test_precisions_that_are_taken_in_any_case(kind: str, value: str | None) -> None:
	assert not codes(launch(kind, value))


@pytest.mark.parametrize("value", ["fp32", "", True, False, 0, 16, 1.5, ["bf16"]])
@pytest.mark.parametrize("release", ["0.34.2", None])
def test_precisions_that_are_refused(release: str | None, value: Any) -> None:
	assert codes(launch(precision=value), accelerate=release) == {"PRC001"}


def test_an_unquoted_no_of_old_yaml_files() -> None:
	text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in launch(precision=False).items())
	for release, refused in (("0.20.3", set()), ("0.33.0", set()), ("0.34.0", {"PRC001"})):
		assert codes(text, accelerate=release) == refused
	assert codes(launch(precision=False), accelerate="0.33.0") == {"PRC001"}, "JSON files were never converted"


def test_the_command_line_decides() -> None:
	assert codes(launch(precision="fp32"), known={"mixed_precision": "bf16"}) == set()


def test_fp16_on_a_cpu() -> None:
	assert "PRC002" in codes(launch("NO", "fp16", use_cpu=True), "warning")
	assert "PRC002" not in codes(launch("NO", "fp16"), "warning") | codes(launch("MULTI_CPU", "bf16"), "warning")


@packed_table("rules_precision.fp8_release_by_release", SHARDED=SHARDED, LOADS_ALL=LOADS_ALL)
def test_fp8_release_by_release(kind: str, more: dict[str, Any], refused: list[str], taken: list[str]) -> None:
	assert all(codes(launch(kind, **more), accelerate=release) for release in refused)
	assert not any(codes(launch(kind, **more), accelerate=release) for release in taken)


@table(
	"""kind, block, backend
FSDP, LOADS_ALL, AO
FSDP, SHARDED, TE
DEEPSPEED, {zero_stage: 2}, MSAMP
DEEPSPEED, {zero_stage: 3}, AO""",
	SHARDED=SHARDED,
	LOADS_ALL=LOADS_ALL,
)
def test_backends_that_go_with_a_launcher(kind: str, block: dict[str, Any], backend: str) -> None:
	name = "fsdp_config" if kind == "FSDP" else "deepspeed_config"
	config = launch(kind, **{name: block, BLOCK: {"backend": backend}})
	assert "PRC011" not in codes(config) | codes(config, accelerate="1.9.0")


@packed_table("rules_precision.values_of_the_block")
def test_values_of_the_block(backend: str, key: str, value: Any, refused: bool) -> None:
	config = launch(fp8_config={"backend": backend, key: value})
	assert ("PRC010" in codes(config)) is refused


@packed_table("rules_precision.keys_that_nothing_reads")
def test_keys_that_nothing_reads(release: Any, backend: str, key: str, value: Any, severity: str | None) -> None:
	config = launch(fp8_config={"backend": backend, key: value})
	said = [item for item in judged(config, accelerate=release) if item.place.pointer == f"/{BLOCK}/{key}"]
	assert [item.severity.value for item in said if item.code == "PRC015"] == ([severity] if severity else [])


def test_every_row_of_the_table_applies_somewhere() -> None:
	known = {name for release in knowledge.RELEASES for name in knowledge.for_release(release).options}
	for row in load_json(precision_fp8.DATA)["fp8"]:
		assert any(covers(row["releases"], release) for release in knowledge.RELEASES), row
		assert set(row.get("when", {})) <= known


@packed_table("rules_precision.a_lone_file")
def test_a_lone_file(data: dict[str, Any], refused: bool, warned: bool) -> None:
	assert ("PRC020" in codes(data, kind="fp8")) is refused
	assert ("PRC021" in codes(data, "warning", kind="fp8")) is warned


@packed_table("rules_precision.values_for_the_compiler")
def test_values_for_the_compiler(kind: str, block: dict[str, Any], refused: list[Any], taken: list[Any]) -> None:
	config = launch(kind, "bf16", dynamo_config=block)
	assert all("PRC030" in codes(config, accelerate=release) for release in refused)
	assert not any("PRC030" in codes(config, accelerate=release) for release in taken)


@table("""value, refused
'NO', no
'no', no
inductor, no
no, yes
~, no
x, yes""")
def test_the_old_spelling_of_the_backend(value: Any, refused: bool) -> None:
	config = launch(precision="bf16", dynamo_backend=value)
	assert ("PRC030" in codes(config)) is refused


@packed_table("rules_precision.quantization_files")
def test_quantization_files(data: dict[str, Any], refused: bool) -> None:
	assert bool(codes(data, kind="quantization")) is refused


# BnbQuantizationConfig refuses these; BitsAndBytesConfig passes over every field that it does not have
@table("""data
{load_in_4bit: true, skip_modules: lm_head}
{load_in_4bit: true, keep_in_fp32_modules: [x], bits: 4}""")
@pytest.mark.parametrize("release", ["0.24.1", "1.15.0"])
def test_a_file_for_accelerate_that_transformers_takes(data: dict[str, Any], release: str) -> None:
	assert codes(data, kind="quantization", accelerate=release) == set()
	assert "PRC050" in codes(data, "warning", kind="quantization", accelerate=release)


def test_a_file_for_either_reader_that_one_refuses() -> None:
	data = {"load_in_8bit": True, "llm_int8_threshold": 6}
	assert codes(data, "warning", kind="quantization") == {"PRC050"}
	nothing_on = {"bnb_4bit_quant_type": "nf4"}
	assert codes(nothing_on, kind="quantization") == set()
	assert "PRC050" in codes(nothing_on, "info", kind="quantization")


@packed_table("rules_precision.dtypes_by_their_other_name", TORCH_NAME=quantization.TORCH_NAME)
def test_dtypes_by_their_other_name(value: Any, expected: str, better: Any) -> None:
	assert quantization.meant(value, expected) == better


def test_the_long_names_of_fp8_backends_are_understood() -> None:
	for word, name in (("TransformerEngine", "TE"), ("TORCHAO", "AO")):
		found = judged(launch(fp8_config={"backend": word}))
		(refused,) = [item for item in found if item.severity.value == "error"]
		assert refused.fix is not None
		assert [edit.text for edit in refused.fix.edits] == [f'"{name}"']
