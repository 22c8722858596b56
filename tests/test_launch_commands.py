"""Launch commands in shell scripts and pages, and what belongs together in one call."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.tables import packed_table, table

import packed
from distributed_training_backends import api
from distributed_training_backends.fix import apply
from distributed_training_backends.flow.command import command_line
from distributed_training_backends.flow.launch import launch_of
from distributed_training_backends.model import Context
from distributed_training_backends.render.dispatch import render
from distributed_training_backends.render.effective import lines
from distributed_training_backends.resources import load_json
from distributed_training_backends.sources.command import launch_documents
from distributed_training_backends.sources.document import OPEN, Document
from distributed_training_backends.sources.limits import Unreadable
from distributed_training_backends.sources.load import load_all
from distributed_training_backends.sources.reading import Raw

RUN = "accelerate launch"
OPTIONS = api.Options(api.default_targets())
FSDP = "distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n  fsdp_version: 2\n"


def commands(text: str, path: str = "run.sh") -> list[str]:
	"""Launchers and tokens; what is open is a question mark."""
	found = [one.data for one in launch_documents(path, text)]
	return ["|".join([one["launcher"], *("?" if token is OPEN else token for token in one["tokens"])]) for one in found]


# Expected words as bash 5 gives them to the program (`printf '%s\n' "$@"` in its place); ? is what only a run tells.
# What the shell of a job fills in is the same for all tasks of srun; a shell of each task tells them apart.
CASES = packed.unpacked(Path(__file__).parent / "cases" / "scripts.txt.gz")
SCRIPTS, FILLED = (part.strip().split("\n\n") for part in CASES.split("===="))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", SCRIPTS)
def test_words_of_commands(block: str, end: str) -> None:
	script, *expected = block.replace("RUN ", f"{RUN} ").split("\n=> ")
	assert commands(script.replace("\n", end)) == expected


def test_commands_of_a_page_stand_in_its_fences() -> None:
	page = f"Use {RUN} as follows:\n```bash\n$ {RUN} a.py\n```\nor\n```\ntorchrun b.py\n```\n"
	assert commands(page, "README.md") == ["accelerate|a.py", "torchrun|b.py"]


def test_variables_wrappers_and_the_job_are_told() -> None:
	text = "#!/bin/bash\n#SBATCH --ntasks-per-node=4\n#SBATCH -N 2\nexport A=1\nB=2\nC=3 srun -l env D=4 torchrun x\n"
	(one,) = launch_documents("job", text)
	assert one.data["environment"] == {"A": "1", "D": "4", "C": "3"}
	assert [one.raw("environment", name) for name in "ADC"] == ["1", "4", "3"]
	assert one.data["prefix"] == ["srun", "-l", "env", "D=4"]
	assert one.data["scheduler"] == {"ntasks-per-node": "4", "nodes": "2"}
	(one,) = launch_documents("job", "srun -l bash -c 'torchrun a' b")
	assert one.data["prefix"] == ["srun", "-l", "bash", "-c"]


@packed_table("launch_commands.what_an_open_word_may_be")
def test_what_an_open_word_may_be(words: str, script: str | None, given: list[str], faults: list[str]) -> None:
	line = command_line(launch_documents("-", f"{RUN} {words}")[0], "1.15.0")
	assert (line.text(line.script) if line.script is not None else None) == script
	assert list(line.given) == given
	assert [fault.name for fault in line.faults] == faults
	assert all(fault.sure != words.startswith("$") for fault in line.faults)


def test_rules_say_nothing_of_a_value_that_is_open() -> None:
	report = api.validate_paths([], OPTIONS, launch=f"{RUN} --num_machines 2 --num_processes $N --machine_rank $R t.py")
	assert [one.code for one in report.files[0].findings if one.severity.value != "info"] == []


@pytest.mark.parametrize("block", FILLED)
def test_ranks_that_are_filled_in_before_srun(block: str) -> None:
	line, *expected = block.replace("RUN ", f"{RUN} ").split("\n=> ")
	for by, there in (("srun", expected), ("nohup", [])):
		given = "export R=$SLURM_NODEID\nA=(--node_rank $SLURM_NODEID)\n"
		text = f"{given}C='{RUN} --node_rank $SLURM_PROCID t.py'\n{by} {line}\n"
		(file,) = api.validate_text(text, OPTIONS, "run.sh").files
		assert [text[slice(*one.place.extent)] for one in file.findings if one.code == "LCH119"] == there


@pytest.mark.parametrize("path", ["run.sh", "run.cmd", "README.md"])
def test_line_ends_of_windows_are_told_once_and_mended(path: str) -> None:
	text = f"{RUN} --cpu \\\n  t.py\n{RUN} --cpu u.py\n".replace("\n", "\r\n")
	(file,) = api.validate_text(text, OPTIONS, path).files
	fixes = [one.fix for one in file.findings if one.code == "LCH118" and one.fix]
	assert apply(text, fixes).text == (text.replace("\r", "") if path == "run.sh" else text)
	assert len(fixes) == (path == "run.sh")


@table(r"""text, told
"cat > a.bat <<E\n@echo off\r\nE\nRUN\n", 0
"X='a\r\nb'\n# c\r\nRUN\n", 0
"RUN a\nRUN \\\r\n b\n", 1
"# a\r\nRUN", 1""")
def test_a_carriage_return_that_bash_takes_for_a_part_of_a_command(text: str, told: int) -> None:
	(file,) = api.validate_text(text.replace("RUN", f"{RUN} t.py"), OPTIONS, "run.sh").files
	found = [one.fix for one in file.findings if one.code == "LCH118"]
	assert len(found) == told
	assert all(fix is None or "\n" not in text.replace("\r\n", "") for fix in found)


def findings(text: str, **files: str) -> set[tuple[str, str]]:
	report = api.validate_text(text, OPTIONS, "run.sh", files)
	return {(file.path, one.code) for file in report.files for one in file.findings if one.severity.value != "info"}


@table(r"""text, code, advice
A=1 RUN --num_proces 2 t.py, LCH100, '--num_processes?'
RUN --tpu --tpu_use_cluster t.py, LCH100, "--tpu_cluster?"
RUN --cpu --num_processes 2 t.py, LCH024, mpirun
"A=(\n--cpu\nB=(\nRUN t.py\n", LCH107, bracket""")
def test_advice(text: str, code: str, advice: str) -> None:
	(file,) = api.validate_text(text.replace("RUN", RUN), OPTIONS, "run.sh").files
	(found,) = (one for one in file.findings if one.severity.value != "info")
	assert (found.code, advice in found.message) == (code, True)


def test_the_config_that_a_command_names_is_judged_with_it() -> None:
	named = f"{RUN} --config_file c.yaml --use_deepspeed --zero_stage 2 t.py\n"
	assert findings(named, **{"c.yaml": FSDP}) == {("run.sh", "XCF010"), ("c.yaml", "ACC021")}
	assert findings(named) == set()
	written = f"cat > c.yaml <<EOF\n{FSDP}EOF\n{named}"
	assert ("run.sh", "XCF010") in findings(written)
	assert findings(f"{RUN} --config_file key t.py\n", key="user: me\npassword: x\n") == set()


def test_the_deepspeed_file_that_a_command_names_is_judged_for_it() -> None:
	text = f"{RUN} --use_deepspeed --num_processes 2 --deepspeed_config_file d.json t.py\n"
	config = '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}'
	assert findings(text, **{"d.json": config}) == set()
	betas = config[:-1] + ', "optimizer": {"type": "Adam", "params": {"betas": "auto"}}}'
	assert findings(text, **{"d.json": betas}) == {("d.json", "DSP023")}
	trains = "cat > t.py <<'E'\nfrom transformers import Trainer\nTrainer(model)\nE\n"
	assert findings(trains + text, **{"d.json": betas}) == set()
	assert {path for path, _ in findings(text, **{"d.json": '{"zero_optimization": {"stage": 9}}'})} == {"d.json"}


def test_a_default_config_leaves_nothing_to_a_command_alone() -> None:
	launch = launch_of(None, "1.15.0", Context(), command_line(launch_documents("-", f"{RUN} --cpu t.py")[0], "1.15.0"))
	assert launch is not None
	assert (launch.route, launch.value("mixed_precision"), launch.has_config) == ("simple", "no", False)
	assert launch.arguments["num_processes"].value is OPEN


@packed_table(
	"launch_commands.environments_and_what_accelerate_env_prints",
	ENV="- Numpy version: 2\n- `Accelerate` default config:\n\t- distributed_type: FSDP\n\t- gpu_ids: None\n",
	OPEN=OPEN,
)
def test_environments_and_what_accelerate_env_prints(path: str, text: str, kind: str, data: dict[str, Any]) -> None:
	(one,) = load_all(Raw(path, text, "\n", False), None)
	assert isinstance(one, Document)
	assert (one.kind, one.data) == (kind, data)
	name = next(iter(data))
	extent = one.extent_of(one.value(name))
	assert text[extent.start : extent.end].strip("'") == str(data[name])


def test_fixes_of_commands_change_one_word() -> None:
	text = f'{RUN} --num-proceses 2 --mixed_precision="BF16" --fsdp_version=2 t.py'
	report = api.validate_paths([], OPTIONS, launch=text)
	edits = [edit for one in report.files[0].findings if one.fix for edit in one.fix.edits]
	assert {(text[edit.start : edit.end], edit.text) for edit in edits} >= {("--num-proceses", "--num-processes")}


@pytest.mark.parametrize(
	"piece",
	[
		"$(",
		'"$(',
		"((",
		"cat <<A\n",
		"A+=y\n",
		"a \\\n#\n",
		"${",
		"`",
		'bash -c "',
		"if x; then ",
		"{a",
		"<<-\t",
		"a[ ",
	],
)
def test_hostile_scripts_take_linear_time(piece: str) -> None:
	ranks = "--rank $SLURM_PROCID " * 5000
	text = f"#!/bin/sh\nA=x\n{piece * 30_000}\nsrun {RUN} {ranks} a.py\n"  # quadratic work would take hours here
	assert load_all(Raw("run.sh", text, "\n", False), None)


@pytest.mark.parametrize(
	"line",
	[r'eval "$C" || eval "$C" # accelerate', r'bash -c "$C" accelerate; sh -c "$C"', r'ssh h accelerate "$C" "$C"'],
)
def test_command_lines_in_command_lines_come_to_an_end(line: str) -> None:
	assert not commands(f"C='{line}'\n{line}\n")


def test_more_commands_than_are_looked_at() -> None:
	found = load_all(Raw("run.sh", f"export A=1\n{RUN} a.py\n" * 600, "\n", False), None)
	assert len([one for one in found if not isinstance(one, Unreadable)]) == 500


def test_each_command_is_a_run_of_its_own(tmp_path: Path) -> None:
	(script := tmp_path / "run.sh").write_text(f"{RUN} --cpu t.py\nexport A=1\n{RUN} --use_fsdp $X t.py\n", "utf-8")
	options = OPTIONS._replace(effective=True, compare="1.5.0")
	report = api.validate_paths([str(script)], options, launch=f"{RUN} --num_processes 2 t.py")
	text, data = render(report, "text"), json.loads(render(report, "json"))
	Draft202012Validator(load_json("schemas/report.schema.json")).validate(data)
	runs = [data["effective"], *data["effective"]["others"]]
	assert [one["route"] for one in runs] == ["simple", "fsdp", "multi_device"]
	assert all(f"(run: {one['place']}, route: {one['route']})" in text for one in runs)
	assert {one["run"] for one in data["comparison"]["settings"]} == {one["place"] for one in runs}
	assert [sum(row["name"] == "variable.A" for row in one["settings"]) for one in runs][1:] == [1, 0]
	assert report.effective is not None
	assert "; 2 other runs" in lines(report.effective, full=False)[0]


@packed_table("launch_commands.what_an_open_word_may_set_is_open")
def test_what_an_open_word_may_set_is_open(words: str, precision: str, state: str) -> None:
	found = api.validate_together({"launch": f"{RUN} {words}"}, OPTIONS._replace(effective=True)).effective
	settings = {one.name: one for one in found.settings} if found else {}
	assert settings["accelerator.mixed_precision"].value == precision
	assert (settings["argument.monitor_interval"].state, settings["argument.monitor_interval"].told) == (state, False)
