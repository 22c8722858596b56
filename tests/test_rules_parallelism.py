"""What the PAR rules say about parallel sizes, Megatron-LM and TPU; the verdicts are those of the releases."""

import json
from typing import Any

import pytest
from tests.tables import table

from distributed_training_backends.api import default_targets, validate_text
from distributed_training_backends.model import Context, Finding, Kind, Targets
from distributed_training_backends.validate import Options

FSDP2 = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}}
ULYSSES = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}


def findings(config: dict[str, Any], release: str = "1.15.0", kind: Kind = "accelerate", **known: Any) -> list[Finding]:
    """The findings about a JSON config."""
    newest = default_targets()
    targets = Targets(release, newest.deepspeed, newest.transformers, newest.torch)
    options = Options(targets, Context(**known), kind)
    return list(validate_text(json.dumps(config), options, "config.json").files[0].findings)


def codes(sizes: dict[str, Any], base: dict[str, Any], release: str = "1.15.0", severity: str = "error") -> set[str]:
    """The PAR codes of one severity about these sizes, over 8 processes."""
    block = {f"parallelism_config_{name}": value for name, value in sizes.items()}
    config = {"num_processes": 8, "mixed_precision": "bf16", **base, "parallelism_config": block}
    found = {item.code for item in findings(config, release) if item.severity.value == severity}
    return {code for code in found if code.startswith("PAR")}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"dp_shard_size": 8}, set()),
        ({"dp_shard_size": "8"}, set()),
        ({"dp_replicate_size": 1, "dp_shard_size": 1}, set()),
        ({"dp_shard_size": 4}, {"PAR003"}),
        ({"dp_shard_size": 16}, {"PAR003"}),
        ({"dp_shard_size": 4, "tp_size": 2}, set()),
        ({"dp_shard_size": 2, "cp_size": 2, "sp_size": 2}, {"PAR007"}),
        ({"dp_shard_size": 8.0}, {"PAR001"}),
        ({"dp_shard_size": None}, {"PAR001"}),
        ({"dp_shard_size": True}, {"PAR001"}),
        ({"dp_shard_size": 8, "cp_comm_strategy": "ring"}, set()),
        ({"dp_shard_size": 8, "cp_backend": "Torch"}, {"PAR001"}),
        ({"sp_size": 2, "dp_shard_size": 2}, set()),
        ({"sp_size": 8}, {"PAR005"}),
    ],
)
def test_sizes_under_fsdp2(sizes: dict[str, Any], expected: set[str]) -> None:
    assert codes(sizes, FSDP2) == expected


@pytest.mark.parametrize("release", ["1.10.1", "1.14.0"])
def test_no_dimension_to_shard_before_it_was_checked(release: str) -> None:
    assert not codes({"tp_size": 8}, FSDP2, release)
    assert codes({"tp_size": 8}, FSDP2, release, "warning") == {"PAR005"}


def test_parallelism_does_not_exist_before() -> None:
    assert not codes({"dp_shard_size": 3}, FSDP2, "1.9.0")


def test_other_launchers() -> None:
    assert codes({"dp_shard_size": 8}, {"distributed_type": "FSDP"}) == {"PAR004"}
    assert codes({"dp_replicate_size": 8}, {"distributed_type": "MEGATRON_LM"}) == {"PAR004"}
    assert codes({"cp_size": 2, "dp_shard_size": 4}, {"distributed_type": "MULTI_GPU"}) == {"PAR004"}
    assert not codes({"dp_shard_size": 8}, {"distributed_type": "MULTI_GPU"})
    assert codes({"dp_shard_size": 8}, {"distributed_type": "MULTI_GPU"}, severity="warning") == {"PAR009"}
    assert not codes({"dp_shard_size": 3}, {"distributed_type": "NO"})


def test_sequence_parallelism_over_deepspeed() -> None:
    assert not codes({"sp_size": 3}, ULYSSES)
    assert codes({"sp_size": 3}, ULYSSES, "1.12.0") == {"PAR003"}
    assert codes({"sp_size": 2}, ULYSSES, severity="warning") == {"PAR010"}
    assert not codes({"sp_size": 2, "dp_replicate_size": 4}, ULYSSES, severity="warning")
    assert not codes({"dp_shard_size": 3}, ULYSSES, "1.11.0")
    assert codes({"dp_shard_size": 3}, ULYSSES, "1.12.0") == {"PAR003"}


@table("""release, attention, refused
1.13.0, kernels-community/flash-attn2, yes
1.14.0, kernels-community/flash-attn2, no
1.15.0, flex_attention, yes
1.15.0, flash_attention_3, no
1.15.0, ~, yes""")
def test_attention_for_sequence_parallelism(release: str, attention: object, refused: bool) -> None:
    sizes = {"sp_size": 2, "dp_replicate_size": 4, "sp_attn_implementation": attention}
    assert ("PAR001" in codes(sizes, ULYSSES, release)) is refused


def test_the_same_number_starts_on_each_machine() -> None:
    base = {**FSDP2, "num_processes": 9, "num_machines": 2, "machine_rank": 0, "main_process_ip": "10.1.4.20"}
    assert "PAR003" not in codes({"dp_shard_size": 8}, base)
    assert "PAR003" in codes({"dp_shard_size": 9}, base)


def megatron(release: str, **block: Any) -> set[tuple[str, str]]:
    """(code, severity) of the PAR findings about a Megatron-LM block over 8 processes."""
    names = {f"megatron_lm_{name}": value for name, value in block.items()}
    config = {"distributed_type": "MEGATRON_LM", "num_processes": 8, "megatron_lm_config": names}
    found = findings({**config, "mixed_precision": "bf16"}, release)
    return {(item.code, item.severity.value) for item in found if item.code.startswith("PAR")}


def test_megatron_values() -> None:
    assert not megatron("1.15.0", tp_degree="2", context_parallel_size=1, gradient_clipping="1e-1")
    assert megatron("1.15.0", tp_degree=None, context_parallel_size=1) == {("PAR030", "error")}
    assert not megatron("1.15.0", num_micro_batches=None, context_parallel_size=1)
    assert megatron("1.15.0", sequence_parallelism="maybe", context_parallel_size=1) == {("PAR030", "error")}
    assert megatron("1.15.0", attention_backend="flash", context_parallel_size=1) == {("PAR030", "error")}
    assert megatron("1.15.0", use_custom_fsdp=None, context_parallel_size=1) == {("PAR030", "error")}


def test_megatron_degrees_and_defaults() -> None:
    assert megatron("1.12.0", tp_degree=3) == {("PAR032", "warning")}
    assert not megatron("1.12.0", tp_degree=8)
    assert megatron("1.15.0", tp_degree=8) == {("PAR032", "warning"), ("PAR033", "warning")}
    assert megatron("0.24.1", tp_degree=8, recompute_activations="maybe") == {("PAR031", "warning")}


def test_a_lone_file() -> None:
    def lone(config: dict[str, Any], release: str = "1.15.0", **known: Any) -> set[str]:
        return {item.code for item in findings(config, release, "parallelism", **known)}

    assert not lone({"tp_size": 2, "dp_shard_size": 4})
    assert not lone({"tp_size": 2, "dp_shard_size": 4}, num_processes=8)
    assert lone({"tp_size": 2, "dp_shard_size": 4}, num_processes=6) == {"PAR052"}
    assert lone({"tp_size": 0}) == {"PAR052"}
    assert lone({"tp_sizes": 2}) == {"PAR051"}
    assert lone({"tp_size": 2}, "1.9.0") == {"PAR050"}
    assert lone({"sp_size": 2}, "1.10.1") == {"PAR051"}


@table("""release, told
5.0.0, no
5.1.0, yes
5.24.0, yes""")
def test_tensor_parallelism_beside_fsdp2_needs_an_older_transformers(release: str, told: bool) -> None:
    text = (
        "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\n"
        "parallelism_config: {parallelism_config_dp_shard_size: 4, parallelism_config_tp_size: 2}\n"
    )
    report = validate_text(text, Options(default_targets()._replace(transformers=release)))
    [message] = [one.message for one in report.files[0].findings if one.code == "PAR011"]
    assert (f"fails with transformers {release}" in message) is told
