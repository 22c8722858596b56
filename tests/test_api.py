"""What the doors call: targets, files that belong together, selection, comments that silence, companions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributed_training_backends import api
from distributed_training_backends.knowledge import accelerate, deepspeed, transformers
from distributed_training_backends.model import Context, Report, Severity
from distributed_training_backends.versions import parse

OPTIONS = api.Options(targets=api.default_targets())
LINKED = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
DEEPSPEED = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2, "overlap_com": True}}


def codes(report: Report, severity: Severity | None = None) -> list[tuple[str, str]]:
    """(path, code) of the findings, of one severity or of all."""
    return [
        (file.path, finding.code)
        for file in report.files
        for finding in file.findings
        if severity in (None, finding.severity)
    ]


def test_default_targets_are_the_newest_that_are_known() -> None:
    newest = api.default_targets()
    assert newest.accelerate == accelerate.RELEASES[-1]
    assert newest.deepspeed == deepspeed.releases()[-1]
    assert parse(newest.transformers) == parse(transformers.RELEASES[-1])


def test_a_file_that_another_one_names_is_judged_for_accelerate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text(LINKED)
    (tmp_path / "ds.json").write_text(json.dumps(DEEPSPEED))
    monkeypatch.chdir(tmp_path)
    report = api.validate_paths(["config.yaml"], OPTIONS)
    assert [file.path for file in report.files] == ["config.yaml", "ds.json"]
    assert codes(report, Severity.ERROR) == [("ds.json", "DSP004")]


def test_a_named_file_is_sought_from_the_working_directory_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "config.yaml").write_text(LINKED)
    (folder / "ds.json").write_text(json.dumps(DEEPSPEED))
    good = {**DEEPSPEED, "zero_optimization": {"stage": 2}}
    (tmp_path / "ds.json").write_text(json.dumps(good))
    monkeypatch.chdir(tmp_path)
    assert codes(api.validate_paths(["configs/config.yaml"], OPTIONS), Severity.ERROR) == []
    (tmp_path / "ds.json").unlink()
    found = codes(api.validate_paths(["configs/config.yaml"], OPTIONS), Severity.ERROR)
    assert found == [("configs/ds.json", "DSP004")]


def test_companions_of_a_text_come_from_the_caller_only() -> None:
    report = api.validate_text(LINKED, OPTIONS, files={"ds.json": json.dumps(DEEPSPEED)})
    assert ("ds.json", "DSP004") in codes(report, Severity.ERROR)
    alone = api.validate_text(LINKED, OPTIONS)
    assert ("<text>", "XCF002") in codes(alone, Severity.INFO)


def test_a_missing_companion_is_an_error_once_the_launch_is_complete() -> None:
    complete = OPTIONS._replace(context=Context(launched=True))
    assert ("<text>", "XCF002") in codes(api.validate_text(LINKED, complete), Severity.ERROR)


WRONG = (
    "distributed_type: FSDP\nnum_processes: 8\nrdzv_backend: c10d{comment}\nfsdp_config:\n  fsdp_ofload_params: true\n"
)


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        ((), (), {"ACC020", "ACC030"}),
        (("ACC03",), (), {"ACC030"}),
        ((), ("ACC030",), {"ACC020"}),
        (("ACC",), ("ACC02",), {"ACC030"}),
        (("ACC020",), ("ACC",), {"ACC020"}),
        (("DSP",), (), set()),
    ],
)
def test_codes_are_selected_by_prefix(select: tuple[str, ...], ignore: tuple[str, ...], expected: set[str]) -> None:
    options = OPTIONS._replace(select=select, ignore=ignore)
    found = {code for _, code in codes(api.validate_text(WRONG.format(comment=""), options), Severity.WARNING)}
    assert found & {"ACC020", "ACC030"} == expected


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [("  # dtb: ignore[ACC030]", True), ("  # dtb: ignore", True), ("  # dtb: ignore[ACC020]", False), ("", False)],
)
def test_comments_silence_findings_of_their_line(comment: str, silenced: bool) -> None:
    found = {code for _, code in codes(api.validate_text(WRONG.format(comment=comment), OPTIONS))}
    assert ("ACC030" not in found) is silenced
    assert "ACC020" in found


def test_rules_are_listed_once_and_explained() -> None:
    listed = [rule.code for rule in api.rules()]
    assert listed == sorted(set(listed))
    assert "rdzv_backend" in str(api.explain("acc030"))
    assert api.explain("ACC999") is None
