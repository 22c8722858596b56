"""What `accelerate launch` makes of a file: launchers and merged options.

Expected values were read off the real launcher (the oracle's `args` and routes) in the releases named.
"""

from typing import Any

import pytest
from tests.tables import packed_table, table

from distributed_training_backends.flow.effect import same
from distributed_training_backends.flow.launch import Launch, launch_of, precision_pointer, route_of
from distributed_training_backends.flow.placement import is_read
from distributed_training_backends.model import Context
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.yaml_source import parse_yaml


def launch(text: str, release: str = "1.15.0", **context: Any) -> Launch:
	found = launch_of(document(text), release, Context(**context))
	assert found is not None
	return found


def document(text: str) -> Document:
	return parse_yaml("config.yaml", text, "accelerate")


@packed_table("flow_launch.distributed_type_decides_the_launcher")
def test_distributed_type_decides_the_launcher(kind: object, release: str, route: str | None) -> None:
	assert route_of(kind, release) == route


@packed_table("flow_launch.where_options_come_from")
def test_where_options_come_from(release: str, text: str, option: str, value: object) -> None:
	assert launch(f"distributed_type: MULTI_GPU\nnum_processes: 4\n{text}", release).value(option) == value


def test_the_place_of_an_option() -> None:
	merged = launch("distributed_type: FSDP\nnum_processes: 4\nfsdp_config: {version: 2}\n")
	assert merged.at("fsdp_version").pointer == ("fsdp_config", "version")


def test_context_stands_for_the_command_line() -> None:
	merged = launch("distributed_type: MULTI_GPU\nnum_processes: 4\n", num_processes=8)
	assert merged.world == 8
	assert not merged.given("num_processes")


def test_num_processes_is_one_for_no() -> None:
	assert launch("distributed_type: 'NO'\n").value("num_processes") == 1
	assert launch("distributed_type: NO\n").value("num_processes") == -1


@table("""launcher, elastic
standard, yes
pdsh, no
~, no""")
def test_several_machines_with_deepspeed(launcher: str | None, elastic: bool) -> None:
	block = f"deepspeed_config:\n  deepspeed_multinode_launcher: {launcher}\n" if launcher else ""
	merged = launch(f"distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 16\n{block}")
	assert merged.elastic is elastic


@packed_table("flow_launch.which_options_a_launcher_reads")
def test_which_options_a_launcher_reads(text: str, option: str, read: bool) -> None:
	assert is_read(launch(f"num_processes: 4\ndistributed_type: {text}"), option) is read


@table("""one, other, equal
'no', no, yes
'False', ~, yes
1, '1', yes
FULL_SHARD, full_shard, yes
0, ~, no""")
def test_spellings_of_the_same_thing(one: object, other: object, equal: bool) -> None:
	assert same(one, other) is equal


@pytest.mark.parametrize("release", ["0.20.3", "0.34.2", "1.4.0", "1.10.1", "1.15.0"])
def test_backend_at_the_top_takes_the_place_of_the_block(release: str) -> None:
	block = "dynamo_config:\n  dynamo_backend: INDUCTOR\n  dynamo_mode: max-autotune\n"
	merged = launch(f"distributed_type: MULTI_GPU\nnum_processes: 4\n{block}dynamo_backend: EAGER\n", release)
	assert (merged.value("dynamo_backend"), merged.value("dynamo_mode")) == ("EAGER", "default")
	assert merged.at("dynamo_backend").pointer == ("dynamo_backend",)


@table(
	r"""blocks, precision, pointer
"deepspeed_config: {mixed_precision: bf16}", bf16, [deepspeed_config, mixed_precision]
"deepspeed_config: {mixed_precision: false}", fp16, [mixed_precision]
"fsdp_config: {mixed_precision: bf16}", fp16, [mixed_precision]
"megatron_lm_config: {mixed_precision: bf16}\ndeepspeed_config: {mixed_precision: 'no'}", bf16, \
[megatron_lm_config, mixed_precision]""".replace("\\\n", "")
)
@pytest.mark.parametrize("release", ["0.20.3", "1.4.0", "1.15.0"])
def test_precision_in_a_block_beats_the_one_at_the_top(
	blocks: str, precision: str, pointer: list[str], release: str
) -> None:
	text = f"distributed_type: DEEPSPEED\nnum_processes: 4\nmixed_precision: fp16\n{blocks}"
	merged = launch(text, release)
	assert merged.value("mixed_precision") == precision
	assert merged.at("mixed_precision").pointer == tuple(pointer) == precision_pointer(document(text), release)


def test_precision_of_the_command_line_beats_a_block() -> None:
	text = "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  mixed_precision: bf16\n"
	assert launch(text, mixed_precision="no").value("mixed_precision") == "no"
