"""The command line convert-backend-config."""

import json
from pathlib import Path

import pytest
import yaml
from tests.test_convert import FSDP1, convert

from distributed_training_backends import cli_convert
from distributed_training_backends.render.convert import convert_json


def run(line: str) -> int:
	return cli_convert.main(line.split())


def test_the_command_line_writes_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
	config, out = tmp_path / "a.yaml", tmp_path / "b.yaml"
	config.write_text(FSDP1)
	assert run(f"--to fsdp2 {config} -o {out}") == 0
	assert yaml.safe_load(out.read_text())["fsdp_config"]["fsdp_version"] == 2
	assert "fsdp_state_dict_type: FULL_STATE_DICT" in capsys.readouterr().err
	assert run(f"--to fsdp2 {config} --diff") == 0
	assert "+  fsdp_version: 2" in capsys.readouterr().out
	assert run(f"--to fsdp2 {config} --output-format json") == 0
	assert json.loads(capsys.readouterr().out)["verdict"] == "converted"
	for line, message in {
		f"--to fsdp2 {config} -o {config}": "would be overwritten",
		f"--to launch {config} --diff": "another format",
		f"--to fsdp2 {config} {out}": "one run",
		f"--to launch {config} -o {out}": "--overwrite replaces it",
		f"--to launch {config} -o {tmp_path}": "s a directory",
		f"--to fsdp3 {config}": "invalid choice",
		f"{config}": "--to",
		"--to fsdp2": "give a config, or --launch",
		f"--to fsdp2 {tmp_path}/none.yaml": "none.yaml",
	}.items():
		assert run(line) == 2, line
		shown = capsys.readouterr().err
		assert (message in shown, "converted;" in shown) == (True, False)
	assert config.read_text() == FSDP1
	assert run(f"--to launch {config} -o {out} --overwrite") == 0
	assert "accelerate launch" in out.read_text()


def test_a_refused_config_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
	config = tmp_path / "a.yaml"
	config.write_text(FSDP1 + "no_such_key: 1\n")
	assert run(f"--to fsdp2 {config}") == 1
	shown = capsys.readouterr()
	assert shown.out == ""
	assert f"{config}:13: error[ACC0" in shown.err
	assert json.loads(convert_json(convert(config.read_text(), "fsdp2")))["verdict"] == "rejected"
