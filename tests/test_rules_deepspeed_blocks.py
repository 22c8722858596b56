"""What the DSP rules make of blocks read key by key: compression, expert parallelism, pipeline, data."""

from typing import Any

import pytest
from tests.tables import table
from tests.test_rules_deepspeed import PLAIN, hits, said


# runtime/config.py hands the block to compression/config.py, the same in its last release as in its first
@pytest.mark.parametrize("release", ["0.9.0", "0.12.6", "0.19.6"])
@table("""technique, given, wanted
weight_quantization, {start_bits: 8}, target_bits
activation_quantization, {}, bits
sparse_pruning, {}, dense_ratio
row_pruning, {}, dense_ratio
head_pruning, {}, dense_ratio
channel_pruning, {}, dense_ratio""")
def test_a_group_of_compression_needs_its_parameters(
    release: str, technique: str, given: dict[str, Any], wanted: str
) -> None:
    def data(params: dict[str, Any]) -> dict[str, Any]:
        return {**PLAIN, "compression_training": {technique: {"different_groups": {"mine": {"params": params}}}}}

    (message,) = [hit.message for code, _, hit in hits(data(given), release=release) if code == "DSP012"]
    assert f"`{wanted}`" in message
    assert not said(data({**given, wanted: 4}), release=release)


# Each of them ended in an error of deepspeed.initialize, or went through, in the release that is named.
@table("""settings, release, refused
{preset_model: llama}, 0.19.8, yes
{preset_model: minimax_m3}, 0.19.2, yes
{preset_model: minimax_m3}, 0.19.8, no
{preset_model: ~}, 0.19.8, no
{autoep_size: '2'}, 0.19.2, yes
{autoep_size: 0}, 0.19.2, yes
{autoep_size: -1}, 0.19.8, yes
{expert_tensor_parallel_size: 0}, 0.19.8, yes
{num_limited_groups: 4, num_expert_groups: 2}, 0.19.8, yes
{num_limited_groups: '2'}, 0.19.8, yes
{expert_w1: ''}, 0.19.8, yes
{expert_w1: mlp.up}, 0.19.8, yes
{expert_w3: ~}, 0.19.8, no
{top_k_attr: 3}, 0.19.8, yes
{routed_scaling_factor: x}, 0.19.8, yes
{routed_scaling_factor: 2.5}, 0.19.8, no
{comm_num_sm: 12.0}, 0.19.8, no
{comm_max_tokens_per_rank: -1}, 0.19.8, yes""")
def test_expert_parallel_is_checked_as_the_release_does(settings: dict[str, Any], release: str, refused: bool) -> None:
    found = said({**PLAIN, "expert_parallel": {"enabled": True, **settings}}, release=release)
    assert any(severity == "error" for _, severity in found) is refused
    assert not said({**PLAIN, "expert_parallel": {"enabled": False, **settings}}, release=release)


@table("""block, code
{pipe_partitioned: 'true'}, DSP063
{grad_partitioned: 1}, DSP063
{activation_checkpoint_interval: '1'}, DSP063
{activation_checkpoint_intervals: 1}, DSP004
{seed_layer: true}, DSP004
{pipe_partitioned: false, activation_checkpoint_interval: 2}, ~
{my_own_note: 2}, ~""")
def test_the_pipeline_block_is_judged_though_any_key_is_stored(block: dict[str, Any], code: str | None) -> None:
    # runtime/pipe/engine.py of 0.19.8 asserts two truth values and compares the interval with 0
    assert said({**PLAIN, "pipeline": block}) == ({(code, "warning")} if code else set())


def test_slips_in_data_efficiency_are_told() -> None:
    sampling = {"enabled": True, "num_epoch": 2, "curriculum_learning": {"enable": True}}
    data = {**PLAIN, "data_efficiency": {"data_sampling": sampling, "data_routing": {"random_ltd": {"enable": True}}}}
    slips = [hit.at.pointer[-1] for code, _, hit in hits(data) if code == "DSP004"]
    assert sorted(map(str, slips)) == ["enable", "enable", "num_epoch"]


def test_one_cause_is_one_finding() -> None:
    # json.load has stopped at the comment; and Accelerate refuses the "auto" of the key that is misspelt
    assert said('{"train_batch_size": 8, // all\n "bf16": {"enabled": true}}', "accelerate") == {("DSP001", "error")}
    found = hits({**PLAIN, "bf16": {"enable": "auto"}}, "accelerate")
    (only,) = [hit for _, severity, hit in found if severity != "info"]
    assert "did you mean `enabled`?" in only.message
    assert only.repair is not None
