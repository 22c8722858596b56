"""What a start costs: only what the given file needs is imported, and the same files get the same answer each time."""

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import RULES
from rule_examples import all_cases

catalog.load()

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "validate_backend_config.py"
PACKAGE = "distributed_training_backends"
# Each takes a good part of the time that a whole run may take.
HEAVY = {
	*("argparse", "ast", "copy", "dataclasses", "decimal", "difflib", "fractions", "hashlib", "importlib.metadata"),
	*(
		"inspect",
		"logging",
		"pathlib",
		"random",
		"shutil",
		"socket",
		"statistics",
		"subprocess",
		"tempfile",
		"textwrap",
	),
	"urllib.parse",
}
CONFIGS = {
	"fsdp.yaml": "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2, fsdp_offload_param: true}\n",
	"ddp.yaml": "distributed_type: MULTI_GPU\nnum_processes: 8\nrdzv_backend: c10d\n",
	"ds.json": '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_com": true}}',
}


# The script ends the process itself, so that its way out tells what is there.
LOOK = """
import os, sys
def told(status=0):
    print(*sys.modules, file=sys.stderr)
    sys.exit(status)
os._exit = told
exec(compile({program!r}, {file!r}, "exec"), {{"__name__": "__main__", "__file__": {file!r}}})
told()
"""


@cache
def imported(program: str, *arguments: str) -> frozenset[str]:
	command = [sys.executable, "-c", LOOK.format(program=program, file=str(SCRIPT)), *arguments]
	done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
	assert "Traceback" not in done.stderr
	assert "json.decoder" in done.stderr
	return frozenset(done.stderr.split())


def needed(path: Path) -> frozenset[str]:
	"""What the script imports for a file, beyond what every script of this kind does."""
	return imported(SCRIPT.read_text("utf-8"), str(path)) - imported("import json, yaml")


@pytest.fixture
def configs(tmp_path: Path) -> dict[str, Path]:
	for name, text in CONFIGS.items():
		(tmp_path / name).write_text(text)
	return {name: tmp_path / name for name in CONFIGS}


@pytest.mark.parametrize("name", CONFIGS)
def test_nothing_heavy_is_imported(name: str, configs: dict[str, Path]) -> None:
	assert needed(configs[name]) & HEAVY == set()


def test_a_json_file_needs_no_yaml(configs: dict[str, Path]) -> None:
	assert "yaml" not in imported(SCRIPT.read_text("utf-8"), str(configs["ds.json"]))


def test_only_the_rules_that_may_apply_are_imported(configs: dict[str, Path]) -> None:
	loaded = {
		name: {module for module in catalog.MODULES if f"{PACKAGE}.rules.{module}" in needed(path)}
		for name, path in configs.items()
	}
	assert {"fsdp_settings", "launch_counts", "accelerate_file"} <= loaded["fsdp.yaml"]
	assert not {"fsdp_run", "sagemaker", "quantization"} & loaded["ddp.yaml"]
	assert {module.split("_")[0] for module in loaded["ds.json"]} == {"deepspeed", "reported"}
	assert not any(module.startswith("deepspeed_") for module in loaded["fsdp.yaml"])


# What stands beside these inputs whenever they are there (flow/inputs.py).
IMPLIED: Mapping[str, tuple[str, ...]] = {
	"launch": ("accelerate",),
	"sagemaker": ("accelerate",),
	"missing_file": ("accelerate",),
	**dict.fromkeys(
		("fsdp", "megatron", "deepspeed_launch", "tpu", "simple", "multi_device", "tensor_parallel", "elastic"),
		("launch", "accelerate"),
	),
}


@pytest.mark.parametrize("code", sorted(RULES))
def test_the_inputs_of_a_rule_call_for_its_module(code: str) -> None:
	rule = RULES[code]
	there = {name for item in rule.inputs for name in (item, *IMPLIED.get(item, ()))} - {"targets", "context"}
	module = rule.check.__module__.rpartition(".")[2]
	assert there == {"reported_by_the_pipeline"} or there & set(catalog.MODULES[module])


def test_the_answer_does_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
	for code, cases in all_cases().items():
		for number, example in enumerate(cases):
			folder = tmp_path / f"{code}-{number}"
			folder.mkdir()
			for name, text in example.files:
				(folder / name).parent.mkdir(parents=True, exist_ok=True)
				(folder / name).write_text(text)
	answers = set()
	for seed in ("1", "2", "3"):
		command = [sys.executable, str(SCRIPT), ".", "--output-format", "json"]
		environment = {"PYTHONHASHSEED": seed}
		done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
		assert b"internal error" not in done.stderr
		answers.add(done.stdout)
	assert len(answers) == 1
	assert sum(answer.count(b'"code":') for answer in answers) > len(RULES)
