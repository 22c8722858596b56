"""The command line convert-backend-config."""

import json
from pathlib import Path

import pytest
import yaml
from tests.test_convert import FSDP1, convert

from distributed_training_backends import cli_convert
from distributed_training_backends.render.convert import convert_json


def run(*words: str) -> int:
    return cli_convert.main(words)


def test_the_command_line_writes_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, out = tmp_path / "a.yaml", tmp_path / "b.yaml"
    config.write_text(FSDP1)
    assert run("--to", "fsdp2", str(config), "-o", str(out)) == 0
    assert yaml.safe_load(out.read_text())["fsdp_config"]["fsdp_version"] == 2
    assert "fsdp_state_dict_type: FULL_STATE_DICT" in capsys.readouterr().err
    assert run("--to", "fsdp2", str(config), "--diff") == 0
    assert "+  fsdp_version: 2" in capsys.readouterr().out
    assert run("--to", "fsdp2", str(config), "--output-format", "json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "converted"
    for words, message in (
        (("--to", "fsdp2", str(config), "-o", str(config)), "would be overwritten"),
        (("--to", "launch", str(config), "--diff"), "another format"),
        (("--to", "fsdp2", str(config), str(out)), "one run"),
        (("--to", "fsdp3", str(config)), "invalid choice"),
        ((str(config),), "--to"),
        (("--to", "fsdp2"), "give a config, or --launch"),
        (("--to", "fsdp2", str(tmp_path / "none.yaml")), "none.yaml"),
    ):
        assert run(*words) == 2, words
        assert message in capsys.readouterr().err
    assert config.read_text() == FSDP1


def test_a_refused_config_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "a.yaml"
    config.write_text(FSDP1 + "no_such_key: 1\n")
    assert run("--to", "fsdp2", str(config)) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{config}:13: error[ACC0" in shown.err
    report = convert(config.read_text(), "fsdp2")
    assert json.loads(convert_json(report))["verdict"] == "rejected"
