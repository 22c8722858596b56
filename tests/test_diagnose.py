"""Diagnosis: real failures are named, other failures are not, and every signature is sound and shows itself."""

import ast
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.capture_failures import CASES, Case, logs
from tests.tables import table

import packed
from distributed_training_backends import api, cli_diagnose
from distributed_training_backends.diagnose.circumstances import holds
from distributed_training_backends.diagnose.memory import read_memory
from distributed_training_backends.diagnose.ranking import ANOTHER
from distributed_training_backends.diagnose.templates import Template, plain
from distributed_training_backends.knowledge.signatures import CONSEQUENCE, REMARK, by_id, families, signatures
from distributed_training_backends.lookup.sections import slug
from distributed_training_backends.model_diagnose import SYMPTOMS
from distributed_training_backends.render.diagnose import diagnose_data
from distributed_training_backends.resources import load_json

ROOT = Path(__file__).resolve().parent.parent
LOGS = logs()
FOLDER = ROOT / "tests" / "cases" / "diagnose"
WRITTEN = re.split(r"^=== (\S+)\n", packed.unpacked(FOLDER / "logs.txt.gz"), flags=re.MULTILINE)[1:]
UNRELATED = {name: log for name, log in zip(WRITTEN[::2], WRITTEN[1::2], strict=True) if not name.startswith("is:")}
NAMED = {name: log for name, log in zip(WRITTEN[::2], WRITTEN[1::2], strict=True) if name not in UNRELATED}
SECRET = "hf_" + "AbCdEf0123456789" * 2
OOM = (
	"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a total capacity of 79.15 GiB"
	" of which {free} is free. Process 7 has 60.00 GiB memory in use. Of the allocated memory {held} GiB is allocated "
	"by PyTorch, and {idle} GiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failure_that_was_produced_for_real_is_named_first(case: Case) -> None:
	report = api.diagnose(LOGS[case.name])
	assert report.causes[0].code in case.families.split(), report.summary
	assert all(evidence.text for evidence in report.causes[0].evidence)


@pytest.mark.parametrize(("name", "log"), UNRELATED.items())
def test_no_backend_is_blamed_for_what_it_has_nothing_to_do_with(name: str, log: str) -> None:
	report = api.diagnose(log)
	assert report.causes == (), report.summary
	assert report.verdict == ("no-failure" if name.startswith("healthy") else "unknown")


@pytest.mark.parametrize(("name", "log"), NAMED.items())
def test_a_failure_that_was_written_down_is_named_first(name: str, log: str) -> None:
	assert api.diagnose(log).causes[0].id == name.split(":")[1]


def test_what_failed_first_is_no_consequence() -> None:
	watchdog = api.diagnose(NAMED["is:collective-timeout:watchdog"])
	assert watchdog.failure is not None
	assert (watchdog.failure.line, watchdog.failure.rank, watchdog.failure.exit_code) == (2, 3, -6)
	assert "aborted" not in {cause.id for cause in watchdog.causes}
	own = api.diagnose(UNRELATED["key-error-under-elastic"])
	assert own.summary.startswith("an error in the script's own code (/srv/project/train.py)")
	assert not any("ChildFailedError" in note for note in own.notes)
	assert "completed at line 7 after line 4" in api.diagnose(UNRELATED["healthy-found-batch-size"]).summary


def test_beside_what_is_sure_nothing_unlikely_is_named() -> None:
	assert [cause.level for cause in api.diagnose(NAMED["is:port-in-use:old"]).causes] == ["high"]


def test_there_are_thirty_logs_of_others() -> None:
	assert len(UNRELATED) >= 30
	assert len(CASES) >= 25


def test_signatures_refer_to_what_is_there() -> None:
	rules = {rule.code for rule in api.rules()}
	for one in signatures():
		assert one.family in families(), one.id
		assert set(one.rules) <= rules, one.id
		assert {one.like, *one.explains} - {""} <= set(by_id()), one.id
		assert set(one.symptoms) <= set(SYMPTOMS), one.id
		for condition in (*one.needs, *one.likelier, *one.unlikelier, *one.known):
			holds(condition, {})
		assert one.messages or one.words or one.origins or one.like or one.id == ANOTHER, one.id


def slugs(page: str) -> set[str]:
	heads = re.findall(r"^#+ (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
	return {slug(head.replace("`", "").strip()) for head in heads}


def test_references_are_sections() -> None:
	for reference in {one.reference for one in signatures()} | {one.reference for one in families().values()}:
		page, _, anchor = reference.partition("#")
		assert (ROOT / page).is_file(), reference
		assert not anchor or anchor in slugs(page), reference


def test_every_signature_that_has_messages_has_a_sample() -> None:
	shown = {cause.id for case in CASES for cause in api.diagnose(LOGS[case.name]).causes}
	for one in signatures():
		if one.messages and not one.like and one.level not in (CONSEQUENCE, REMARK) and one.id not in shown:
			assert any(Template(text).find(plain(one.sample)) for text in one.messages), one.id
			assert one.family in {cause.code for cause in api.diagnose(one.sample).causes}, one.id


def test_patterns_cannot_backtrack() -> None:
	for text in (text for one in signatures() for text in (*one.messages, *one.hints)):
		for pattern in (one for one in Template(text).patterns if not isinstance(one, bytes)):
			bare = pattern.pattern.decode()
			assert not re.search(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]", bare), bare


@given(st.text(st.sampled_from("abz 0*#:/\n\\[]()\x00é"), max_size=300))
@settings(max_examples=100)
def test_any_text_is_answered(text: str) -> None:
	Draft202012Validator(load_json("schemas/diagnose_report.schema.json")).validate(
		json.loads(json.dumps(diagnose_data(api.diagnose(text, [text] if len(text) % 2 else []))))
	)


@table(
	"""text, times
"", 1
"x", 3_000_000
"zero ", 400_000
"expected a string path to an existing ", 40_000
"Traceback (most recent call last):\\n", 20_000
'{"message": ', 30_000
"[rank0]: ", 100_000
"\\e[31m", 200_000"""
)
def test_odd_logs_have_an_answer(text: str, times: int) -> None:
	assert api.diagnose(text * times).verdict == "no-failure"


def test_memory_is_bounded() -> None:

	def peak(times: int) -> int:
		line = b"[rank0]: step 10 loss 2.1 and nothing else to tell about the distributed run here\n"
		chunks = (line * 800 for _ in range(times))
		tracemalloc.start()
		api.diagnose(chunks)
		most = tracemalloc.get_traced_memory()[1]
		tracemalloc.stop()
		return most

	api.diagnose("warm")
	assert peak(90) < 1.2 * peak(30) + 300_000


def test_a_failure_counts_before_what_follows_from_it() -> None:
	report = api.diagnose("step 1\n" * 50 + LOGS["unused-parameters"])
	assert report.causes[0].id == "unused-parameters"
	assert report.causes[0].evidence[0].line > 50
	assert report.failure is not None
	assert report.failure.rank == 1


@table(
	"""asked, free, held, idle, kind
2.00, 512 MiB, 50.00, 25.00, fragmentation
2.00, 0.5 GiB, 20.00, 0.10, another process
2.00, 0.5 GiB, 77.00, 0.10, really full
0.02, 0.0 GiB, 77.00, 0.50, soon used up"""
)
def test_the_numbers_of_out_of_memory_are_read(asked: float, free: str, held: float, idle: float, kind: str) -> None:
	text = OOM.format(asked=asked, free=free, held=held, idle=idle)
	memory = read_memory([text])
	assert memory is not None
	assert kind in memory.said
	report = api.diagnose(text)
	assert report.causes[0].code == "C13"
	assert any(kind in note for note in report.notes)
	assert (report.causes[0].id == "gpu-memory-fragmented") == (kind == "fragmentation")


def test_releases_raise_or_rule_out_a_cause() -> None:
	asked = ["the loss is NaN under DeepSpeed with overlap_comm"]
	for release, bad in (("0.14.2", True), ("0.19.8", False)):
		causes = api.diagnose("", asked, {}, "", f"deepspeed {release}").causes
		assert ("zero2-overlap-nan" in {cause.id for cause in causes}) == bad
	asked = ["the ranks end with a mismatch in deepspeed 0.9.3, and it works with 0.9.2"]
	assert api.diagnose("", asked).causes[0].code == "C22"


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_alone_gives_hypotheses_and_checks(symptom: str) -> None:
	report = api.diagnose("", [symptom])
	assert report.causes
	assert report.causes[0].level != "high"
	assert all(cause.verify for cause in report.causes)
	assert report.collect


@pytest.mark.parametrize("head", ["Traceback (most recent call last):\n", ""])
def test_what_breaks_inside_a_library_may_be_its_defect(head: str) -> None:
	frame = '  File "/lib/python3.11/site-packages/accelerate/utils/other.py", line 7, in get_all\n    x\n'
	causes = api.diagnose(f"{head}{frame}KeyError: 'SOME_NAME'\n").causes
	assert [(cause.id, cause.level, len(cause.evidence)) for cause in causes] == [("another-release", "low", 1)]


def test_the_tail_of_a_log_is_enough_and_a_config_that_is_garbage_no_obstacle() -> None:
	tail = "\n".join(LOGS["batch-arithmetic"].splitlines()[-6:])
	for config in ("\x00\x01", "{[", "- [", "a: &a [*a]", "x" * 100_000):
		assert api.diagnose(tail, (), {"c.yaml": config}).causes[0].code == "C04"


def test_what_cannot_be_used_is_told() -> None:
	report = api.diagnose("RuntimeError: CUDA out of memory.", (), {"a.yaml": "a: [b\n c: d"}, "python t.py", "banana")
	assert [note.split(":")[0] for note in report.notes[:3]] == [
		"a.yaml",
		"the launch command that was given names no launcher, count or setting that is known here",
		"the versions that were given name no release of a library that is known here",
	]
	told = api.diagnose("RuntimeError: CUDA out of memory.", launch="torchrun t.py", versions="accelerate 1.15.0")
	assert not [note for note in told.notes if "given" in note]


def test_the_fix_is_an_edit_of_the_config() -> None:
	config = "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precison: bf16\n"
	log = "ValueError: The config file at acc.yaml had unknown keys (['mixed_precison']), please try upgrading"
	report = api.diagnose(log, (), {"acc.yaml": config})
	assert report.causes[0].id == "unknown-key-in-accelerate-file"
	assert [edit.text for fix in report.causes[0].fixes for edit in fix.fix.edits] == ["mixed_precision"]


def test_secrets_are_masked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
	log = tmp_path / "run.log"
	log.write_text(f"token={SECRET}\nRuntimeError: Duplicate GPU detected : rank 0 token={SECRET}\n", "utf-8")
	for output in ("text", "json"):
		cli_diagnose.main([str(log), "--output-format", output, "--detail", "full"])
		assert SECRET not in capsys.readouterr().out


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
	assert cli_diagnose.main([str(tmp_path / "missing.log")]) == 2
	assert capsys.readouterr().err.count("\n") == 1
	assert cli_diagnose.main([]) == 2
	assert cli_diagnose.main(["--symptom", ""]) == 2
	capsys.readouterr()
	assert cli_diagnose.main(["--symptom", "hang"]) == 0
	assert not [line for line in capsys.readouterr().out.splitlines() if len(line) > 120 and "   see:" not in line]
	log = tmp_path / "run.log"
	log.write_text("step 1\nall done\n", "utf-8")
	assert cli_diagnose.main([str(log)]) == 1
	assert cli_diagnose.main([str(log), "--output-file", str(log)]) == 2
	assert log.read_text("utf-8") == "step 1\nall done\n"
	log.write_bytes(bytes(range(8)) * 1_000)
	assert cli_diagnose.main([str(log)]) == 2
	capsys.readouterr()
	log.write_text(LOGS["killed"], "utf-8")
	assert cli_diagnose.main([str(log), "--output-format", "json"]) == 0
	data = json.loads(capsys.readouterr().out)
	Draft202012Validator(load_json("schemas/diagnose_report.schema.json")).validate(data)


def test_what_is_no_file_and_what_would_be_overwritten_is_refused(
	capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
	log = tmp_path / "run.log"
	log.write_text(LOGS["killed"], "utf-8")
	os.mkfifo(tmp_path / "pipe")
	for config in ("", str(tmp_path / "pipe"), str(tmp_path)):
		assert cli_diagnose.main([str(log), "--config", config]) == 2
		assert "no regular one" in capsys.readouterr().err
	command = [sys.executable, str(ROOT / "scripts" / "diagnose_failure.py"), "-", "--output-file", str(log)]
	with log.open() as stream:
		done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
	assert (done.returncode, "is standard input" in done.stderr) == (2, True)
	assert log.read_text("utf-8") == LOGS["killed"]
	monkeypatch.setattr("sys.stdin", None)
	assert cli_diagnose.main(["-"]) == 2
	assert "standard input is closed" in capsys.readouterr().err


def test_captured_scripts_are_python() -> None:
	for case in CASES:
		ast.parse(case.script)
