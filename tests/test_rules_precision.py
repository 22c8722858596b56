"""What the PRC rules say about precision, FP8, compilation and bitsandbytes files, release by release.

The verdicts are those of the libraries: each refused config was refused by the release named, with every optional
package at hand, and each accepted one got through `Accelerator()`, `BitsAndBytesConfig` or `BnbQuantizationConfig`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tables import table

from distributed_training_backends.api import default_targets, validate_text
from distributed_training_backends.knowledge import accelerate as knowledge
from distributed_training_backends.model import Context, Finding, Kind, Targets
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import precision_fp8, quantization
from distributed_training_backends.rules.precision_fp8 import BLOCK
from distributed_training_backends.validate import Options
from distributed_training_backends.versions import covers

DATA = Path(quantization.__file__).parent.parent / "data"
NEWEST = knowledge.RELEASES[-1]
OLD_KEYS = {"compute_environment": "LOCAL_MACHINE", "num_machines": 1, "machine_rank": 0, "use_cpu": False}
SHARDED = {"fsdp_auto_wrap_policy": "NO_WRAP", "fsdp_sharding_strategy": "FULL_SHARD"}
LOADS_ALL = {**SHARDED, "fsdp_cpu_ram_efficient_loading": False}


def judged(data: dict[str, Any], kind: Kind = "accelerate", name: str = "config.json", **targets: str) -> list[Finding]:
    """The findings about a file with this content."""
    newest = dict(default_targets().items())
    options = Options(Targets(**{**newest, **targets}), Context(), kind=kind)
    return list(validate_text(json.dumps(data), options, name).files[0].findings)


def codes(data: dict[str, Any], severity: str = "error", **how: Any) -> set[str]:
    """The codes of one severity."""
    return {item.code for item in judged(data, **how) if item.severity.value == severity}


def launch(kind: str = "MULTI_GPU", precision: Any = "fp8", **more: Any) -> dict[str, Any]:
    """A config for one machine."""
    return {**OLD_KEYS, "distributed_type": kind, "num_processes": 8, "mixed_precision": precision, **more}


# --- mixed_precision ---


@pytest.mark.parametrize("value", ["no", "NO", "fp16", "Bf16", None])
@pytest.mark.parametrize("kind", ["MULTI_GPU", "NO", "DEEPSPEED"])
def test_precisions_that_are_taken_in_any_case(kind: str, value: str | None) -> None:
    assert not codes(launch(kind, value))


@pytest.mark.parametrize("value", ["fp32", "", True, False, 0, 16, 1.5, ["bf16"]])
@pytest.mark.parametrize("release", ["0.34.2", NEWEST])
def test_precisions_that_are_refused(release: str, value: Any) -> None:
    assert codes(launch(precision=value), accelerate=release) == {"PRC001"}


def test_an_unquoted_no_of_old_yaml_files() -> None:
    text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in launch(precision=False).items())
    newest = dict(default_targets().items())
    for release, refused in (("0.20.3", False), ("0.33.0", False), ("0.34.0", True)):
        options = Options(Targets(**{**newest, "accelerate": release}), kind="accelerate")
        report = validate_text(text, options, "config.yaml").files[0]
        assert (report.verdict == "rejected") is refused
    assert codes(launch(precision=False), accelerate="0.33.0") == {"PRC001"}, "JSON files were never converted"


def test_the_command_line_decides() -> None:
    newest = default_targets()
    options = Options(newest, Context(mixed_precision="bf16"), kind="accelerate")
    assert validate_text(json.dumps(launch(precision="fp32")), options, "c.json").files[0].verdict == "accepted"


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        (launch("MULTI_CPU", "fp16"), True),
        (launch("NO", "fp16", use_cpu=True), True),
        (launch("NO", "fp16"), False),
        (launch("MULTI_CPU", "bf16"), False),
    ],
)
def test_fp16_on_a_cpu(config: dict[str, Any], warned: bool) -> None:
    assert ("PRC002" in codes(config, "warning")) is warned


# --- FP8 ---


@pytest.mark.parametrize(
    ("release", "config", "refused"),
    [
        ("0.20.3", launch(), False),
        ("0.33.0", launch("FSDP", fsdp_config=SHARDED), True),
        ("0.34.2", launch("FSDP", fsdp_config=SHARDED), False),
        ("0.26.1", launch("DEEPSPEED", deepspeed_config={"zero_stage": 2}), True),
        ("0.30.1", launch("DEEPSPEED", deepspeed_config={"zero_stage": 2}), False),
        ("1.3.0", launch(), False),
        ("1.4.0", launch(), True),
        ("1.4.0", launch(fp8_config={"override_linear_precision": "(false,false,false)"}), False),
        ("1.4.0", launch(fp8_config={"override_linear_precision": "false"}), True),
        ("1.4.0", launch(fp8_config={"override_linear_precision": None}), False),
        ("1.5.2", launch(), False),
        ("1.5.2", launch("NO"), True),
        ("1.7.0", launch("NO", fp8_config={"override_linear_precision": ["false", "false", "false"]}), False),
        ("1.7.0", launch("NO", fp8_config={"override_linear_precision": None}), False),
        ("1.8.1", launch(), True),
        ("1.8.1", launch("FSDP", fsdp_config=LOADS_ALL), False),
        ("1.8.1", launch("DEEPSPEED", deepspeed_config={"zero_stage": 2}), False),
        ("1.9.0", launch(), False),
        ("1.9.0", launch("NO"), False),
    ],
)
def test_fp8_release_by_release(release: str, config: dict[str, Any], refused: bool) -> None:
    assert bool(codes(config, accelerate=release)) is refused


@table(
    """kind, block, backend, refused
FSDP, SHARDED, AO, yes
FSDP, LOADS_ALL, AO, no
FSDP, SHARDED, TE, no
FSDP, LOADS_ALL, MSAMP, yes
DEEPSPEED, {zero_stage: 3}, MSAMP, yes
DEEPSPEED, {zero_stage: 2}, MSAMP, no
DEEPSPEED, {zero_stage: 3}, AO, no""",
    SHARDED=SHARDED,
    LOADS_ALL=LOADS_ALL,
)
@pytest.mark.parametrize("release", ["1.9.0", NEWEST])
def test_backends_and_launchers(release: str, kind: str, block: dict[str, Any], backend: str, refused: bool) -> None:
    name = "fsdp_config" if kind == "FSDP" else "deepspeed_config"
    config = launch(kind, **{name: block, BLOCK: {"backend": backend}})
    assert ("PRC011" in codes(config, accelerate=release)) is refused


@table("""backend, key, value, refused
TE, margin, '3', no
TE, margin, yes, yes
AO, margin, x, no
TE, amax_history_len, 1000.0, yes
TE, fp8_format, hybrid, no
TE, format, E3M4, yes
TE, amax_compute_algo, MAX, no
TE, use_autocast_during_eval, maybe, yes
MSAMP, opt_level, o2, yes
TE, opt_level, o2, no
AO, pad_inner_dim, maybe, yes
AO, override_linear_precision, [a, b, c], no
AO, override_linear_precision, {a: 1}, yes
TE, override_linear_precision, nnn, no
TE, override_linear_precision, [~, ~, ~], yes
te, margin, 1, yes
'NO', margin, 1, no""")
def test_values_of_the_block(backend: str, key: str, value: Any, refused: bool) -> None:
    config = launch(fp8_config={"backend": backend, key: value})
    assert ("PRC010" in codes(config)) is refused


@table(
    """release, backend, key, value, severity
NEWEST, TE, amax_history_length, 1024, warning
NEWEST, TE, opt_level, O1, warning
NEWEST, TE, margin, 3, ~
NEWEST, AO, margin, 3, warning
NEWEST, AO, margin, 0, info
NEWEST, TE, use_mxfp8_block_scaling, yes, ~
1.10.1, TE, use_mxfp8_block_scaling, yes, warning
1.12.0, AO, pad_inner_dim, no, warning
1.3.0, TE, margin, 3, warning
1.3.0, TE, margin, 0, info
1.7.0, TE, margin, 3, warning""",
    NEWEST=NEWEST,
)
def test_keys_that_nothing_reads(release: str, backend: str, key: str, value: Any, severity: str | None) -> None:
    config = launch(fp8_config={"backend": backend, key: value})
    said = [item for item in judged(config, accelerate=release) if item.place.pointer == f"/{BLOCK}/{key}"]
    assert [item.severity.value for item in said if item.code == "PRC015"] == ([severity] if severity else [])


def test_a_name_that_the_library_itself_writes_is_mended() -> None:
    config = launch(fp8_config={"backend": "TE", "amax_history_length": 16})
    (finding,) = [item for item in judged(config) if item.code == "PRC015"]
    assert finding.fix is not None
    assert finding.fix.title == "rename to amax_history_len"


def test_every_row_of_the_table_applies_somewhere() -> None:
    known = {name for release in knowledge.RELEASES for name in knowledge.for_release(release).options}
    for row in load_json(precision_fp8.DATA)["fp8"]:
        assert any(covers(row["releases"], release) for release in knowledge.RELEASES), row
        assert set(row.get("when", {})) <= known


@table("""data, refused, warned
{backend: AO, pad_inner_dim: maybe}, yes, no
{amax_history_len: x}, yes, no
{backend: AO, amax_history_len: x}, no, yes
{fp8_backend: te}, yes, no
{backend: TE, optimization_level: O1}, no, yes
{opt_level: O1}, no, no""")
def test_a_lone_file(data: dict[str, Any], refused: bool, warned: bool) -> None:
    assert ("PRC020" in codes(data, kind="fp8")) is refused
    assert ("PRC021" in codes(data, "warning", kind="fp8")) is warned


# --- torch.compile ---


@table(
    """release, kind, block, refused
NEWEST, MULTI_GPU, {dynamo_backend: Inductor}, no
NEWEST, MULTI_GPU, {dynamo_backend: false}, yes
NEWEST, MULTI_GPU, {dynamo_backend: ~}, no
NEWEST, MULTI_GPU, {dynamo_backend: torhchxla_trace_once}, yes
NEWEST, DEEPSPEED, {dynamo_backend: bogus}, no
1.12.0, 'NO', {dynamo_backend: ipex}, no
1.13.0, 'NO', {dynamo_backend: ipex}, yes
0.23.0, 'NO', {dynamo_backend: nvfuser}, no
0.24.1, 'NO', {dynamo_backend: nvfuser}, yes
NEWEST, 'NO', {dynamo_mode: ~}, yes
NEWEST, MULTI_GPU, {dynamo_mode: ~}, no
NEWEST, MULTI_GPU, {dynamo_use_dynamic: ~}, yes
1.13.0, MULTI_GPU, {backend: bogus}, no
1.14.0, MULTI_GPU, {backend: bogus}, yes""",
    NEWEST=NEWEST,
)
def test_values_for_the_compiler(release: str, kind: str, block: dict[str, Any], refused: bool) -> None:
    config = launch(kind, "bf16", dynamo_config=block)
    assert ("PRC030" in codes(config, accelerate=release)) is refused


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


# --- bitsandbytes ---


@table("""data, refused
{load_in_8bit: true, llm_int8_skip_modules: [lm_head], llm_int8_threshold: 6}, yes
{load_in_8bit: true, llm_int8_skip_modules: [lm_head], llm_int8_threshold: 6.0}, no
{load_in_8bit: true, skip_modules: [lm_head], llm_int8_threshold: 6}, no
{load_in_4bit: true, bnb_4bit_compute_dtype: bfloat16}, no
{load_in_4bit: true, bnb_4bit_compute_dtype: bf16}, no
{load_in_4bit: true, bnb_4bit_compute_dtype: bf-16}, yes
{load_in_4bit: true, bnb_4bit_compute_dtype: bf16, llm_int8_skip_modules: [x]}, yes
{load_in_4bit: true, bnb_4bit_compute_dtype: torch.bfloat16, quant_method: bitsandbytes}, yes
{load_in_4bit: true, load_in_8bit: true}, yes
{load_in_4bit: 'true'}, yes
{quant_method: gptq, bits: 4, load_in_4bit: 'true'}, no""")
def test_quantization_files(data: dict[str, Any], refused: bool) -> None:
    assert bool(codes(data, kind="quantization")) is refused


# BnbQuantizationConfig refuses these; BitsAndBytesConfig passes over every field that it does not have
@table("""data
{load_in_4bit: true, skip_modules: lm_head}
{load_in_4bit: true, keep_in_fp32_modules: [x], bits: 4}
{skip_modules: [lm_head], torch_dtype: fp16}""")
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


def test_before_accelerate_had_such_a_class() -> None:
    data = {"load_in_8bit": True, "llm_int8_threshold": 6}
    assert codes(data, kind="quantization", accelerate="0.20.3") == {"PRC050"}


@table(
    """value, expected, better
bf16, TORCH_NAME, bfloat16
torch.float16, TORCH_NAME, float16
bfloat16, 'fp32, fp16 or bf16', bf16
half, 'fp32, fp16 or bf16', fp16
float128, TORCH_NAME, ~
6, a number with a decimal point, 6.0
yes, a number with a decimal point, ~""",
    TORCH_NAME=quantization.TORCH_NAME,
)
def test_dtypes_by_their_other_name(value: Any, expected: str, better: Any) -> None:
    assert quantization.meant(value, expected) == better


def test_the_long_names_of_fp8_backends_are_understood() -> None:
    for word, name in (("TransformerEngine", "TE"), ("TORCHAO", "AO")):
        text = json.dumps({"distributed_type": "MULTI_GPU", "num_processes": 4, "mixed_precision": "fp8"})
        text = f'{text[:-1]}, "fp8_config": {{"backend": "{word}"}}}}'
        options = Options(default_targets(), kind="accelerate")
        found = validate_text(text, options, "config.json").files[0].findings
        (refused,) = [item for item in found if item.severity.value == "error"]
        assert refused.fix is not None
        assert [edit.text for edit in refused.fix.edits] == [f'"{name}"']
