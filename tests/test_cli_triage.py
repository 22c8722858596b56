"""The command line of triage: flags and files, streams and status, and files that are never lost."""

import io
import json
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.tables import packed_table, table

from distributed_training_backends import cli_trace, cli_triage
from distributed_training_backends.cli_triage_facts import leaves

FOUR = ("--model", "llama-3-8b", "--gpu", "A100-80GB", "--gpus-per-node", "4")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
	"""Run triage in an empty folder; gives status, stdout and stderr."""
	monkeypatch.chdir(tmp_path)
	for name in ("NO_COLOR", "FORCE_COLOR", "DTB_DEBUG"):
		monkeypatch.delenv(name, raising=False)

	def run(*argv: str) -> tuple[int, str, str]:
		status = cli_triage.main(argv)
		shown = capsys.readouterr()
		return status, shown.out, shown.err

	return run


def asked(run: Run, *argv: str) -> dict[str, Any]:
	status, out, err = run(*argv, "--output-format", "json")
	assert (status, err) == (0, "")
	facts: dict[str, Any] = json.loads(out)["facts"]
	return facts


def test_the_answer_goes_to_stdout(run: Run) -> None:
	status, out, err = run(*FOUR)
	assert status == 0
	assert err == ""
	assert "fsdp2" in out


def test_every_fact_has_a_flag() -> None:
	text = cli_triage.build_parser().format_help()
	for name, _ in leaves():
		word = {"model.name": "model", "task.kind": "task"}.get(name, name.rpartition(".")[2])
		flag = f"--{name.rpartition('.')[2]}-version" if name.startswith("versions.") else f"--{word}"
		assert flag.replace("_", "-") in text


def test_numbers_may_be_short(run: Run) -> None:
	sizes = ("--layers", "32", "--hidden", "4096", "--heads", "32", "--vocab", "128k", "--seq", "8k")
	facts = asked(run, *sizes, "--gpu", "H100", "--gpus-per-node", "8")
	assert facts["model"]["vocab"] == 128_000
	assert facts["batch"]["seq"] == 8192


def test_a_file_gives_facts_and_flags_win(run: Run) -> None:
	Path("facts.yaml").write_text(
		"model: {name: llama-3-8b}\nbatch: {seq: 4096}\nhardware: {gpu: H100, gpus_per_node: 8}\n"
	)
	facts = asked(run, "--facts", "facts.yaml", "--seq", "2048")
	assert facts["batch"]["seq"] == 2048
	assert facts["hardware"]["gpu"] == "H100-80GB"


def test_facts_come_through_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
	text = json.dumps({"model": {"name": "gpt2"}, "hardware": {"gpu": "T4"}})
	monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
	assert asked(run, "--facts", "-")["hardware"]["gpu"] == "T4"


def test_a_config_of_a_model_is_read(run: Run) -> None:
	sizes = {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "vocab_size": 32000}
	Path("config.json").write_text(json.dumps({"model_type": "llama", "intermediate_size": 8192, **sizes}))
	status, out, _ = run("--config", "config.json", "--gpu", "A100", "--output-format", "json")
	assert status == 0
	assert json.loads(out)["facts"]["model"]["layers"] == 16


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "", "model: {name: llama-3-8b}\nmodel2: 1\n", "model: 3\n"])
def test_files_that_hold_no_facts_end_in_a_line(run: Run, text: str) -> None:
	Path("facts.yaml").write_text(text)
	status, out, err = run("--facts", "facts.yaml")
	assert (status, out) == (2, "")
	assert err.strip()
	assert "Traceback" not in err
	assert "internal error" not in err


def test_nothing_fits_is_a_status_of_its_own(run: Run) -> None:
	assert run("--model", "llama-3-70b", "--gpu", "T4", "--cpu-ram-gib", "64")[0] == 1


def test_configs_are_written_into_a_folder_for_each_candidate(run: Run) -> None:
	status, out, _ = run(*FOUR, "--write", "out", "--output-format", "json")
	offered = [one for one in json.loads(out)["candidates"] if one["files"]]
	assert status == 0
	assert len(offered) == 3
	for one in offered:
		for file in one["files"]:
			assert Path("out", f"{one['rank']}-{one['name']}", file["name"]).read_text() == file["text"]


def test_a_chosen_candidate_is_written_into_the_folder_itself(run: Run) -> None:
	assert run(*FOUR, "--candidate", "zero3", "--write", "out")[0] == 0
	assert {path.name for path in Path("out").iterdir()} >= {"accelerate.yaml", "ds_config.json", "launch.sh"}


def test_files_are_replaced_only_when_that_is_asked_for(run: Run) -> None:
	Path("out").mkdir()
	Path("out/launch.sh").write_text("mine")
	status, out, err = run(*FOUR, "--candidate", "zero3", "--write", "out")
	assert (status, out) == (2, "")
	assert "out/launch.sh exists; --force replaces it, and nothing has been written" in err
	assert [path.name for path in Path("out").iterdir()] == ["launch.sh"]
	assert run(*FOUR, "--candidate", "zero3", "--write", "out", "--force")[0] == 0
	assert "accelerate launch" in Path("out/launch.sh").read_text()


def test_a_broken_link_counts_as_a_file(run: Run) -> None:
	Path("out").mkdir()
	Path("out/launch.sh").symlink_to("elsewhere")
	assert run(*FOUR, "--candidate", "zero3", "--write", "out")[0] == 2


def test_a_page_is_written(run: Run) -> None:
	assert run(*FOUR, "--report", "page.html")[0] == 0
	assert Path("page.html").read_text().startswith("<!DOCTYPE html>")


@table("""model, said
[--model, llama-3-8b], 'single: no trace: torch is not installed here'
[--layers, '2', --hidden, '64', --heads, '2', --vocab, '100'], told by its sizes cannot be traced""")
def test_a_trace_that_cannot_be_is_a_note(
	run: Run, monkeypatch: pytest.MonkeyPatch, model: tuple[str, ...], said: str
) -> None:
	monkeypatch.setattr(cli_trace, "INTERPRETER", [sys.executable, "-S", "-I"])
	status, out, _ = run(*model, "--gpu", "B200", "--wish", "single", "--trace", "--output-format", "json")
	assert status == 0
	assert said in json.loads(out)["notes"][0]


def test_installed_releases_are_the_target(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
	from distributed_training_backends import installed

	monkeypatch.setattr(installed, "release_of", {"accelerate": "1.10.1"}.get)
	facts = asked(run, *FOUR, "--installed")
	assert facts["versions"]["accelerate"] == "1.10.1"


@packed_table("cli_triage.what_is_refused_is_named_in_a_line")
def test_what_is_refused_is_named_in_a_line(run: Run, monkeypatch: pytest.MonkeyPatch, argv: str, said: str) -> None:
	monkeypatch.setattr(sys, "stdin", None)
	Path("mine.html").write_text("mine")
	os.mkfifo("pipe")
	Path("out").mkdir()
	Path("out/launch.sh").symlink_to("../mine.html")
	Path("twice.yaml").write_text("model: {name: gpt2}\nmodel: {name: gpt2}\n")
	Path("short.yaml").write_text("model: {name: gpt2}\nbatch: {seq: 8k}\n")
	Path("wrong.yaml").write_text("model: {name: gpt2}\nbatch: [\n")
	Path("other.yaml").write_text("".join(f"k{number}: 1\n" for number in range(24)))
	Path("deep.json").write_text("[" * 100_000)
	status, out, err = run(*shlex.split(argv.replace("FOUR", shlex.join(FOUR))))
	assert (status, out) == (2, "")
	assert said in err
	assert err.count("\n") == 1
	assert Path("mine.html").read_text() == "mine"


def test_powers_of_ten_are_numbers(run: Run) -> None:
	sizes = ("--layers", "32", "--hidden", "4096", "--heads", "32", "--vocab", "32000", "--intermediate", "11008")
	assert asked(run, *sizes, "--params", "6.7e9", "--gpu", "H100")["model"]["params"] == 6_700_000_000


def test_closed_streams(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
	with open("/dev/full", "w") as full:
		for stream in (None, full):
			monkeypatch.setattr(sys, "stderr", stream)
			assert cli_triage.main(("--nonsense",)) == 2
			assert capsys.readouterr().out == ""
		with suppress(OSError):
			full.close()
	monkeypatch.undo()
	monkeypatch.setattr(sys, "stdout", None)
	assert cli_triage.main(FOUR) == 2
	assert "--output-file" not in capsys.readouterr().err
