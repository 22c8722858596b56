"""What is written for a setup: clean for the releases it is for, and the same run in every form."""

import ast
import json
import subprocess

import pytest
import yaml
from tests.triage_facts import SETUPS, TWO_NODES, facts

from distributed_training_backends import api
from distributed_training_backends.model import Severity
from distributed_training_backends.triage.compatibility import obstacles
from distributed_training_backends.triage.emit import files
from distributed_training_backends.triage.emit_accelerate import accelerate_config, accelerate_yaml
from distributed_training_backends.triage.emit_deepspeed import deepspeed_config
from distributed_training_backends.triage.emit_launch import launch_script, slurm_script
from distributed_training_backends.triage.emit_plugins import plugins_code
from distributed_training_backends.triage.emit_script import script_code
from distributed_training_backends.triage.setup import Setup

EVERY = pytest.mark.parametrize("name", list(SETUPS))
SHARDED = Setup("fsdp2", shard=8)


def written(name: str) -> dict[str, str]:
	setup, groups = SETUPS[name]
	return {file.name: file.text for file in files(facts(**groups), setup)}


@EVERY
def test_the_setup_is_possible(name: str) -> None:
	setup, groups = SETUPS[name]
	assert list(obstacles(facts(**groups), setup)) == []


@EVERY
def test_the_validator_has_nothing_to_say(name: str) -> None:
	_, groups = SETUPS[name]
	texts = written(name)
	companions = {key: text for key, text in texts.items() if key.endswith(".json")}
	options = api.Options(facts(**groups).versions)
	report = api.validate_text(texts["accelerate.yaml"], options, "accelerate.yaml", companions)
	loud = [finding for file in report.files for finding in file.findings if finding.severity is not Severity.INFO]
	assert loud == []
	assert report.exit_code == 0


@EVERY
def test_the_file_says_what_was_meant(name: str) -> None:
	setup, groups = SETUPS[name]
	data = yaml.safe_load(accelerate_yaml(facts(**groups), setup))
	assert data == accelerate_config(facts(**groups), setup)
	assert data["num_processes"] == setup.world
	assert data["num_machines"] == (groups.get("hardware", {}).get("nodes", 1) if setup.world > 1 else 1)


@EVERY
def test_code_is_code_and_commands_are_commands(name: str) -> None:
	texts = written(name)
	ast.parse(texts["plugins.py"])
	ast.parse(texts["script_lines.py"])
	for script in ("launch.sh", "slurm.sbatch"):
		if script in texts:
			assert subprocess.run(["bash", "-n"], input=texts[script], text=True, check=False).returncode == 0


def test_sharding_of_fsdp() -> None:
	config = accelerate_config(facts(hardware=TWO_NODES), Setup("fsdp2", shard=8, replicate=2))
	assert config["parallelism_config"] == {
		"parallelism_config_dp_replicate_size": 2,
		"parallelism_config_dp_shard_size": 8,
	}
	assert config["fsdp_config"]["fsdp_reshard_after_forward"] is True
	first = accelerate_config(facts(hardware=TWO_NODES), Setup("fsdp1", shard=8, replicate=2))
	assert first["fsdp_config"]["fsdp_sharding_strategy"] == "HYBRID_SHARD"


def test_old_releases_get_the_keys_they_know() -> None:
	old = accelerate_config(facts(versions={"accelerate": "0.25.0"}), Setup("fsdp1", shard=8))
	assert old["fsdp_config"]["fsdp_sharding_strategy"] == 1
	assert "fsdp_version" not in old["fsdp_config"]
	tpu = facts(hardware={"gpu": "v5e-8"}, versions={"accelerate": "0.27.2"})
	assert accelerate_config(tpu, Setup("xla", replicate=8))["distributed_type"] == "TPU"


@pytest.mark.parametrize(
	("precision", "block"), [("bf16", {"bf16": {"enabled": True}}), ("fp32", {}), ("fp16", {"fp16": {"enabled": True}})]
)
def test_precision_of_deepspeed(precision: str, block: dict[str, dict[str, bool]]) -> None:
	config = deepspeed_config(facts(precision=precision), Setup("zero2", shard=8))
	assert config is not None
	kept = {name: {"enabled": config[name]["enabled"]} for name in ("bf16", "fp16") if name in config}
	assert kept == block


def test_mixed_precision_stays_out_of_a_file_beside_deepspeeds() -> None:
	assert "mixed_precision" not in accelerate_config(facts(), Setup("zero3", shard=8))


def test_offload_of_deepspeed() -> None:
	setup, groups = SETUPS["zero3-nvme"]
	config = deepspeed_config(facts(**groups), setup)
	assert config is not None
	assert config["zero_optimization"]["offload_param"]["device"] == "nvme"
	assert "aio" in config
	assert json.dumps(config)


def test_accelerate_before_0_31_gets_numbers_where_it_would_fill_in_fractions() -> None:
	config = deepspeed_config(facts(versions={"accelerate": "0.30.1"}), Setup("zero3", shard=8))
	assert config is not None
	assert config["zero_optimization"]["stage3_prefetch_bucket_size"] == int(0.9 * 4096 * 4096)


def test_plugins_say_the_same_in_code() -> None:
	code = plugins_code(facts(), Setup("fsdp2", shard=8, reshard=False, offload_params="cpu"))
	assert code is not None
	call = next(
		node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and "Plugin" in ast.unparse(node.func)
	)
	arguments = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
	assert arguments["fsdp_version"] == 2
	assert arguments["reshard_after_forward"] is False
	assert arguments["cpu_offload"] is True


def test_releases_whose_plugins_take_objects_get_no_plugin_code() -> None:
	assert plugins_code(facts(versions={"accelerate": "0.33.0"}), Setup("fsdp1", shard=8)) is None


def test_several_machines_need_a_rank_and_an_address() -> None:
	text = launch_script(facts(hardware=TWO_NODES), Setup("fsdp2", shard=16))
	assert '--machine_rank "$RANK" --main_process_ip "$MAIN_ADDRESS"' in text
	batch = slurm_script(facts(hardware=TWO_NODES), Setup("fsdp2", shard=16))
	assert batch is not None
	assert "#SBATCH --nodes=2" in batch
	assert "#SBATCH --gpus-per-node=8" in batch
	assert '--machine_rank "$SLURM_PROCID"' in batch


def test_slurm_starts_no_tpus() -> None:
	setup, groups = SETUPS["xla"]
	assert slurm_script(facts(**groups), setup) is None


def test_checkpointing_by_the_model_stands_in_the_script_and_by_the_plugin_in_the_file() -> None:
	by_model = Setup("fsdp2", shard=8, checkpointing="full", checkpointed_by="model")
	by_plugin = by_model._replace(checkpointed_by="backend")
	assert "gradient_checkpointing_enable" in script_code(facts(), by_model)
	assert "gradient_checkpointing_enable" not in script_code(facts(), by_plugin)
	assert accelerate_config(facts(), by_plugin)["fsdp_config"]["fsdp_activation_checkpointing"] is True


def test_sharded_4_bit_weights_are_stored_as_floats() -> None:
	quantized = facts(task={"kind": "qlora"})
	sharded = script_code(quantized, Setup("fsdp2", shard=8))
	assert "bnb_4bit_quant_storage=torch.bfloat16" in sharded
	assert "device_map" not in sharded
	assert "prepare_model_for_kbit_training" not in sharded
	replicated = script_code(quantized, Setup("ddp", replicate=8))
	assert "bnb_4bit_quant_storage" not in replicated
	assert '"": accelerator.local_process_index' in replicated


def test_the_release_that_upcasts_nothing_says_so_in_its_file() -> None:
	text = accelerate_yaml(facts(versions={"accelerate": "1.13.0"}), Setup("fsdp2", shard=8))
	assert "# dtb: ignore[FSD026]" in text
	assert "dtb:" not in accelerate_yaml(facts(versions={"accelerate": "1.14.0"}), Setup("fsdp2", shard=8))


def test_no_fused_optimizer_on_tpus() -> None:
	assert "fused" not in written("xla")["script_lines.py"]
	told = facts(hardware={"gpu": "v5e-8"}, optimizer="adamw_torch_fused")
	assert any("no fused optimizers for XLA" in one.reason for one in obstacles(told, Setup("xla", replicate=8)))


@pytest.mark.parametrize(("kind", "dtype"), [("full", "float32"), ("lora", "float16"), ("qlora", "float16")])
def test_hardware_without_bf16_loads_no_bf16(kind: str, dtype: str) -> None:
	code = script_code(facts(task={"kind": kind}, hardware={"gpu": "V100-32GB", "gpus_per_node": 8}), SHARDED)
	assert f" dtype=torch.{dtype}" in code
	assert "bfloat16" not in code
	assert ("bnb_4bit_quant_storage=torch.float16" in code) == (kind == "qlora")


def test_cpus_load_fp32_and_invent_no_address() -> None:
	assert "dtype=torch.float32" in written("cpu")["script_lines.py"]
	assert '--main_process_ip "$MAIN_ADDRESS"' in written("cpu")["launch.sh"]
