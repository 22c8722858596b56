"""What the PAR rules say about parallel sizes, Megatron-LM and TPU; the verdicts are those of the releases."""

from typing import Any

from tests.judging import codes, judged
from tests.tables import packed_table, table

FSDP2 = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}}
ULYSSES = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}


def sized(sizes: dict[str, Any], base: Any, release: str = "1.15.0", severity: str = "error") -> set[str]:
	base = base if isinstance(base, dict) else {"distributed_type": base}
	block = {f"parallelism_config_{name}": value for name, value in sizes.items()}
	config = {"num_processes": 8, "mixed_precision": "bf16", **base, "parallelism_config": block}
	return {code for code in codes(config, severity, accelerate=release) if code.startswith("PAR")}


@packed_table("rules_parallelism.sizes", FSDP2=FSDP2, ULYSSES=ULYSSES)
def test_sizes(release: str, base: Any, sizes: dict[str, Any], severity: str, code: str | None) -> None:
	assert sized(sizes, base, release, severity) == ({code} if code else set())


@table("""release, attention, refused
1.13.0, kernels-community/flash-attn2, yes
1.14.0, kernels-community/flash-attn2, no
1.15.0, flex_attention, yes
1.15.0, flash_attention_3, no
1.15.0, ~, yes""")
def test_attention_for_sequence_parallelism(release: str, attention: object, refused: bool) -> None:
	sizes = {"sp_size": 2, "dp_replicate_size": 4, "sp_attn_implementation": attention}
	assert ("PAR001" in sized(sizes, ULYSSES, release)) is refused


def test_the_same_number_starts_on_each_machine() -> None:
	base = {**FSDP2, "num_processes": 9, "num_machines": 2, "machine_rank": 0, "main_process_ip": "10.1.4.20"}
	assert "PAR003" not in sized({"dp_shard_size": 8}, base)
	assert "PAR003" in sized({"dp_shard_size": 9}, base)


@packed_table("rules_parallelism.megatron")
def test_megatron(release: str, block: dict[str, Any], expected: dict[str, str]) -> None:
	names = {f"megatron_lm_{name}": value for name, value in block.items()}
	config = {"distributed_type": "MEGATRON_LM", "num_processes": 8, "megatron_lm_config": names}
	found = judged({**config, "mixed_precision": "bf16"}, accelerate=release)
	assert {item.code: item.severity.value for item in found if item.code.startswith("PAR")} == expected


@packed_table("rules_parallelism.a_lone_file")
def test_a_lone_file(release: str, config: dict[str, Any], processes: int | None, code: str | None) -> None:
	found = judged(config, "parallelism", known={"num_processes": processes}, accelerate=release)
	assert {item.code for item in found} == ({code} if code else set())
