"""The hooks for pre-commit."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from distributed_training_backends import cli

ROOT = Path(__file__).resolve().parent.parent
USUAL = [
	"fsdp.yaml",
	"configs/fsdp2_llama.yml",
	"accelerate_config.yaml",
	"default_config.yaml",
	"deepspeed_zero3.yaml",
]
USUAL += ["zero3.json", "ds_config.json", "configs/ds_z3_offload.json", "zero_stage2_config.json", "multi_gpu.yaml"]
OTHER = ["package.json", "tsconfig.json", "docker-compose.yml", ".github/workflows/ci.yml", "mkdocs.yml", "fsdp.py"]


def hooks() -> list[dict[str, Any]]:
	loaded: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
	return loaded


def test_hooks_call_a_command_of_the_wheel_with_options_that_exist() -> None:
	commands = re.findall(
		r'^([\w-]+) = "distributed_training_backends\.', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
	)
	assert [hook["id"] for hook in hooks()] == ["validate-backend-config", "fix-backend-config"]
	for hook in hooks():
		command, *flags = hook["entry"].split()
		assert command in commands
		assert cli.build_parser().read([*flags, "x.yaml"]).paths == ["x.yaml"]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["id"])
def test_hooks_take_the_usual_names_and_no_others(hook: dict[str, Any]) -> None:
	assert [name for name in USUAL if not re.search(hook["files"], name)] == []
	assert [name for name in OTHER if re.search(hook["files"], name)] == []
