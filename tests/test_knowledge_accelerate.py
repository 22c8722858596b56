"""What the knowledge says of Accelerate, against what the real releases said when they were asked.

Expected options, fields and enums were printed by each release itself: `launch_command_parser()`,
`dataclasses.fields(ClusterConfig)` and the enum classes, imported from its wheel next to torch 2.13.0. What a
launcher reads and exports was seen in the environment that it handed to the workers.
"""

import json
from typing import Any

import pytest
from tests.tables import packed_table, table

from distributed_training_backends import versions
from distributed_training_backends.knowledge import accelerate, history
from distributed_training_backends.knowledge import accelerate_api as api
from distributed_training_backends.resources import load_json

at = accelerate.for_release
NEWEST = at("1.15.0")
FILES = ("deepspeed.json", "accelerate.json", "accelerate_reference.json", "accelerate_api.json", "transformers.json")


def runs_of(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], list[Any]]]:
	if isinstance(tree, list):
		return [(path, tree)]
	return [found for name, below in tree.items() for found in runs_of(below, (*path, name))]


@pytest.mark.parametrize("file", FILES)
def test_spans_are_in_order_apart_and_within_the_releases(file: str) -> None:
	content = load_json(file)
	order = {name: place for place, name in enumerate(content["releases"])}
	assert list(order) == sorted(order, key=versions.parse)
	kinds = {name: part for name, part in content.items() if isinstance(part, dict) and name not in ("read", "torch")}
	for path, runs in runs_of(kinds):
		before, previous = -1, None
		for first, last, value in runs:
			start, end = order[first], order[last] if last else len(order) - 1
			assert before < start <= end, path
			assert last != content["releases"][-1], path
			assert start > before + 1 or json.dumps(value) != json.dumps(previous) or before < 0, path
			before, previous = end, value


@table("""release, options, cluster, sagemaker
1.15.0, 125, 31, 21
1.10.1, 98, 32, 21
1.4.0, 92, 32, 21
0.34.2, 91, 31, 21
0.28.0, 78, 29, 20
0.21.0, 74, 27, 19""")
def test_there_are_as_many_options_and_keys_as_the_release_has(
	release: str, options: int, cluster: int, sagemaker: int
) -> None:
	known = at(release)
	# A release's own parser keeps one entry for two options that share a destination.
	assert (len(known.options), len(known.cluster), len(known.sagemaker)) == (options, cluster, sagemaker)


@packed_table(
	"knowledge_accelerate.an_option_is_as_the_release_declares_it",
	DYNAMO="no eager aot_eager inductor nvfuser aot_nvfuser aot_cudagraphs ofi fx2trt onnxrt ipex",
)
def test_an_option_is_as_the_release_declares_it(
	release: str, dest: str, flags: str, kind: str | None, choices: str | None, default: Any
) -> None:
	option = at(release).options[dest]
	assert (sorted(option.flags), option.type) == (flags.split(), kind)
	assert option.choices == (tuple(choices.split()) if choices else None)
	assert json.dumps(option.default) == json.dumps(default)


def test_an_option_that_is_switched_off_by_another_flag() -> None:
	option = NEWEST.options["tpu_use_cluster"]
	assert (option.flags, option.negated) == (
		("--tpu_cluster", "--tpu-cluster"),
		("--no_tpu_cluster", "--no-tpu-cluster"),
	)
	assert option.default is False  # parse_args(["train.py"]).tpu_use_cluster


def test_every_help_text_is_one_short_line() -> None:
	assert NEWEST.help.keys() == NEWEST.options.keys()
	for text in NEWEST.help.values():
		assert 0 < len(text) <= 120
		assert "\n" not in text


def test_defaults_of_a_file_are_those_that_take_effect() -> None:
	assert NEWEST.cluster["compute_environment"].default == "LOCAL_MACHINE"
	assert NEWEST.cluster["num_processes"].default == -1
	assert NEWEST.cluster["rdzv_backend"].default == "static"
	assert NEWEST.sagemaker["region"].default == "us-east-1"
	assert NEWEST.sagemaker["base_job_name"].default == "accelerate-sagemaker-1"
	assert {name for name, field in NEWEST.cluster.items() if field.required} == {"distributed_type"}
	assert at("0.28.0").cluster["num_processes"].required
	assert {name for name, field in NEWEST.sagemaker.items() if field.required} == {
		"distributed_type",
		"ec2_instance_type",
		"iam_role_name",
	}


def test_what_the_loader_does_with_a_file() -> None:
	assert NEWEST.section("loading") == {"unknown_keys": "ValueError", "missing distributed_type": "ValueError"}
	assert at("0.22.0").section("loading") == {"unknown_keys": "TypeError", "mixed_precision_false": "no"}
	assert NEWEST.section("old_keys") == {"fp16": "mixed_precision", "dynamo_backend": "dynamo_config"}
	assert NEWEST.fills["num_processes"]["value"] == 1
	assert "when" in NEWEST.fills["num_processes"]
	assert "num_processes" not in at("0.33.0").fills


@packed_table("knowledge_accelerate.where_a_key_of_a_block_goes")
def test_where_a_key_of_a_block_goes(release: str, block: str, key: str, argument: str | None) -> None:
	assert at(release).destination(block, key) == argument


def test_when_the_command_line_wins_over_a_block() -> None:
	assert not at("1.4.0").merging["given_option_wins"]
	assert at("1.5.0").merging["given_option_wins"]
	assert NEWEST.merging["set_apart"] == ["compute_environment", "mixed_precision", "distributed_type"]


def test_what_reaches_the_training_processes() -> None:
	multi_gpu = NEWEST.reads_through("multi_gpu_launcher")
	assert {
		"fsdp_version",
		"megatron_lm_tp_degree",
		"parallelism_config_cp_size",
		"fp8_margin",
		"rdzv_backend",
	} <= multi_gpu
	assert not {"zero_stage", "deepspeed_hostfile", "use_cpu", "offload_optimizer_nvme_path"} & multi_gpu
	deepspeed = NEWEST.reads_through("deepspeed_launcher")
	assert {"zero_stage", "deepspeed_hostfile", "parallelism_config_sp_size"} <= deepspeed
	assert not {"dynamo_backend", "fsdp_version", "offload_optimizer_nvme_path"} & deepspeed
	assert {"use_cpu", "mpirun_hostfile"} <= NEWEST.reads_through("simple_launcher")
	assert "parallelism_config_sp_size" not in at("1.11.0").reads_through("deepspeed_launcher")


def test_the_variables_that_carry_an_option() -> None:
	assert NEWEST.exports["fsdp_transformer_layer_cls_to_wrap"] == ("FSDP_TRANSFORMER_CLS_TO_WRAP",)
	assert NEWEST.exports["fp8_margin"] == ("ACCELERATE_FP8_MARGIN",)
	assert set(NEWEST.exports["fp8_override_linear_precision"]) == {
		"ACCELERATE_FP8_OVERRIDE_FPROP",
		"ACCELERATE_FP8_OVERRIDE_DGRAD",
		"ACCELERATE_FP8_OVERRIDE_WGRAD",
	}
	assert at("1.3.0").exports["fp8_override_linear_precision"] == ("ACCELERATE_FP8_OVERRIDE_LINEAR_PRECISION",)
	assert "fsdp_activation_checkpointing" not in at("0.30.1").exports
	assert at("1.10.0").exports["parallelism_config_tp_size"] == ("PARALLELISM_CONFIG_TP_SIZE",)
	# `accelerate config` writes this key, and it is exported, but nothing reads the variable.
	(variable,) = NEWEST.exported_as("setup_fp8_env", "fp8_amax_history_length")
	assert variable == "ACCELERATE_FP8_AMAX_HISTORY_LENGTH"
	assert NEWEST.read_from_environment(variable) == ()
	assert NEWEST.read_from_environment("ACCELERATE_FP8_MARGIN") == ("utils/dataclasses:TERecipeKwargs.__post_init__",)


def test_names_with_values() -> None:
	assert "XLA" in NEWEST.enum("DistributedType").values()
	assert "TPU" not in NEWEST.enum("DistributedType").values()
	assert "TPU" in at("0.27.2").enum("DistributedType").values()
	assert "TPU" not in at("0.28.0").enum("DistributedType").values()  # a descriptor, no member
	assert len(NEWEST.enum("DistributedType")) == 14
	assert list(NEWEST.enum("FP8BackendType").values()) == ["AO", "MSAMP", "NO", "TE"]
	assert NEWEST.literal("OptLevel") == ("O1", "O2")
	assert NEWEST.constant("FSDP2_PYTORCH_VERSION") == "2.6.0"
	assert at("1.6.0").constant("FSDP2_PYTORCH_VERSION") == "2.5.1"
	assert at("0.20.0").constant("FSDP2_PYTORCH_VERSION") is None
	assert at("0.20.0").enum("FP8BackendType") == {}


@table("""asked, applies
1.15.0, 1.15.0
1.15.1, 1.15.0
1.16.0.dev0, 1.15.0
'0.19', 0.20.0
'1.0', 1.0.0
0.24.2, 0.24.1""")
def test_the_knowledge_that_applies_to_a_release(asked: str, applies: str) -> None:
	assert accelerate.nearest(asked) == applies
	assert at(asked) is at(applies)


def test_how_long_something_has_been_known() -> None:
	assert accelerate.spans("options", "fsdp_version") == [("1.6.0", None)]
	assert accelerate.spans("fields", "ClusterConfig", "ipex_config") == [("0.20.0", "1.12.0")]
	assert accelerate.spans("fields", "ClusterConfig", "tp_config") == [("1.4.0", "1.6.0")]
	assert accelerate.spans("options", "fp8_format") == [("0.34.0", None)]  # its choices changed meanwhile
	assert accelerate.spans("options", "fsdp_verzion") == []
	assert history.presence("accelerate.json", ("options",)) == []


def test_the_python_surface() -> None:
	plugin = api.parameters("FullyShardedDataParallelPlugin", "1.15.0")
	assert plugin["fsdp_version"].default is None
	assert "fsdp_version" not in api.parameters("FullyShardedDataParallelPlugin", "1.5.2")
	assert api.parameters("FP8RecipeKwargs", "1.15.0")["margin"].type == "Optional[int]"  # inherited
	assert api.parameters("Accelerator.prepare", "1.15.0")["*args"].required is False
	assert api.parameters("NoSuchPlugin", "1.15.0") == {}
	assert "LocalSGD" in api.owners("1.15.0")
	assert api.spans("Accelerator", "parallelism_config") == [("1.10.0", None)]


def test_where_fields_come_from() -> None:
	plugin = api.sources("FullyShardedDataParallelPlugin", "1.15.0")
	assert plugin["cpu_offload"] == api.Source(("FSDP_OFFLOAD_PARAMS",), False, True)
	assert plugin["state_dict_type"].known is False
	assert "min_num_params" not in api.sources("FullyShardedDataParallelPlugin", "0.33.0")
	recipe = api.sources("FP8RecipeKwargs", "1.15.0")
	assert recipe["opt_level"].variables == ("ACCELERATE_FP8_OPT_LEVEL",)  # inherited
	assert recipe["override_linear_precision"].variables[0] == "ACCELERATE_FP8_OVERRIDE_FPROP"
	assert api.sources("NoSuchPlugin", "1.15.0") == {}


def test_what_bitsandbytes_quantization_takes() -> None:
	fields = api.parameters("BnbQuantizationConfig", "1.15.0")
	assert len(fields) == 9
	assert fields["bnb_4bit_quant_type"].allowed == ("fp4", "nf4")
	assert fields["torch_dtype"].allowed == ("fp32", "fp16", "bf16")
	assert fields["llm_int8_threshold"].instance == ("int", "float")
	assert fields["load_in_8bit"].default is False
	assert api.parameters("BnbQuantizationConfig", "0.20.3") == {}
