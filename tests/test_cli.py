"""The command line: options, exit status, what goes to which stream, fixes, and trouble without tracebacks."""

import io
import json
import os
import re
import stat
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.conftest import Run, put
from tests.fake_judge import FakeJudge
from tests.reports import TARGETS
from tests.tables import packed_table, table

from distributed_training_backends import about, api, cli, cli_common, cli_parser, cli_run, installed, schemas
from distributed_training_backends.model import Report, Targets
from distributed_training_backends.sources.reading import Raw

ROOT = Path(__file__).resolve().parent.parent


@table("""text, status
fine, 0
odd, 0
warn, 0
confg, 1
limit, 2""")
def test_the_exit_status_tells_the_verdict(run: Run, text: str, status: int) -> None:
	put(text)
	assert run("x.yaml")[0] == status


def test_text_goes_to_stdout_alone(run: Run) -> None:
	put("a: confg\n")
	_, out, err = run("x.yaml")
	assert out.startswith("x.yaml:1:4: error[ACC001] confg is wrong\n 1 | a: confg\n   |    ^^^^^\n")
	assert err == ""


def test_endless_input_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
	with open("/dev/zero") as endless:
		monkeypatch.setattr("sys.stdin", endless)
		assert len(cli_run.read_stdin(["-"]) or b"") == cli_run.STDIN_LIMIT


@pytest.mark.parametrize("output_format", ["json", "sarif", "github"])
def test_machine_output_is_alone_on_stdout_and_in_files(run: Run, output_format: str) -> None:
	put("a: confg\n")
	status, out, err = run("x.yaml", "--output-format", output_format)
	assert status == 1
	assert err == ""
	assert "ACC001" in out
	assert run("x.yaml", "--output-format", output_format, "--output-file", "out") == (1, "", "")
	assert Path("out").read_text() == out


@table("""flags, shown
[], Ew
[-q], E
[--quiet], E
[--verbose], Ewi""")
def test_the_volume(run: Run, flags: list[str], shown: str) -> None:
	put("confg odd warn\n")
	_, out, _ = run("x.yaml", *flags)
	assert [severity[0] in shown.lower() for severity in ("error", "warning", "info")] == [
		f" {severity}[" in out for severity in ("error", "warning", "info")
	]


def test_statistics(run: Run) -> None:
	put("confg confg\n")
	assert run("x.yaml", "--statistics")[1].splitlines()[0] == "2  error    ACC001  unknown-key (2 fixable)"


@table("""environment, coloured
{}, no
{FORCE_COLOR: '1'}, yes
{FORCE_COLOR: '1', NO_COLOR: '1'}, no
{NO_COLOR: ''}, no""")
def test_colours(run: Run, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool) -> None:
	put("confg\n")
	for name, value in environment.items():
		monkeypatch.setenv(name, value)
	assert ("\x1b[" in run("x.yaml")[1]) is coloured
	run("x.yaml", "--output-file", "out")
	assert "\x1b" not in Path("out").read_text()


def test_a_terminal_gets_colours_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
	class Terminal(io.StringIO):
		def isatty(self) -> bool:
			return True

	for name in ("NO_COLOR", "FORCE_COLOR"):
		monkeypatch.delenv(name, raising=False)
	monkeypatch.setenv("TERM", "xterm")
	assert cli_common.wants_color(Terminal())
	monkeypatch.setenv("TERM", "dumb")
	assert not cli_common.wants_color(Terminal())
	monkeypatch.setenv("TERM", "xterm")
	monkeypatch.setenv("NO_COLOR", "1")
	assert not cli_common.wants_color(Terminal())


@packed_table("cli.a_wrong_call_ends_in_one_line")
def test_a_wrong_call_ends_in_one_line(run: Run, argv: str, message: str) -> None:
	put("fine", "x")
	status, out, err = run(*argv.split())
	assert (status, out) == (2, "")
	assert err.startswith("validate-backend-config: ")
	assert message in err
	assert err.count("\n") == 1


def test_options_reach_the_judge(run: Run, judge: FakeJudge) -> None:
	put("fine")
	codes = sorted({rule.code for rule in api.rules()})
	run(
		*("x.yaml", "--format", "fsdp", "--accelerate-version", "1.10.1", "--deepspeed-version", "0.16.0"),
		*("--torch-version", "2.6.0", "--num_processes=8", "--num-machines", "2", "--machine_rank", "1"),
		*("--main-process-ip", "10.0.0.1", "--main_process_port", "29500", "--mixed-precision", "bf16"),
		*("--launch-complete", "--consumer", "trainer", "--check-imports"),
		*("--select", f"{codes[0].lower()},ACC", "--select", codes[-1], "--ignore", codes[1]),
	)
	[(paths, options)] = judge.calls
	assert paths == ["x.yaml"]
	assert options.targets == Targets("1.10.1", "0.16.0", TARGETS.transformers, "2.6.0")
	context = options.context
	assert (context.num_processes, context.num_machines, context.machine_rank) == (8, 2, 1)
	assert (context.main_process_ip, context.main_process_port) == ("10.0.0.1", 29500)
	assert (context.mixed_precision, context.launched, context.consumer) == ("bf16", True, "trainer")
	assert (options.kind, options.check_imports) == ("fsdp", True)
	assert (options.select, options.ignore) == ((codes[0], "ACC", codes[-1]), (codes[1],))


def test_underscores_in_values_stay() -> None:
	assert cli_parser.dashed("--main_process_ip=my_host") == "--main-process-ip=my_host"
	assert cli_parser.dashed("my_file.yaml") == "my_file.yaml"


def test_installed_releases_are_the_targets(run: Run, judge: FakeJudge, monkeypatch: pytest.MonkeyPatch) -> None:
	found = {"accelerate": "1.9.0", "deepspeed": None, "transformers": "4.57.1", "torch": "2.8.0+cpu"}
	monkeypatch.setattr(installed, "releases", lambda libraries: {name: found[name] for name in libraries})
	put("fine")
	_, _, err = run("x.yaml", "--installed", "--torch-version", "2.7.0")
	assert judge.calls[0][1].targets == Targets("1.9.0", TARGETS.deepspeed, "4.57.1", "2.7.0")
	assert err == f"deepspeed is not installed here: judged against deepspeed {TARGETS.deepspeed}\n"


def test_a_release_beyond_what_is_known_is_said(run: Run) -> None:
	put("fine")
	status, _, err = run("x.yaml", "--accelerate-version", "9.0.0")
	assert status == 0
	assert err == f"accelerate 9.0.0 is newer than what is known here: judged like {TARGETS.accelerate}\n"


def test_installed_reads_metadata_and_search_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	(tmp_path / "a_folder_only").mkdir()
	(tmp_path / "explosive.py").write_text("raise SystemExit('imported')")
	monkeypatch.syspath_prepend(tmp_path)
	assert installed.missing(["json", "explosive", "a_folder_only", "no_such_package", "a_folder_only.x"]) == [
		"a_folder_only",
		"no_such_package",
		"a_folder_only.x",
	]
	assert installed.releases(["pytest", "no-such-distribution"]) == {
		"pytest": pytest.__version__,
		"no-such-distribution": None,
	}


def test_rules_are_listed_as_text_and_json(run: Run) -> None:
	status, text, _ = run("--list-rules")
	listed = json.loads(run("--list-rules", "--output-format", "json")[1])
	assert status == 0
	assert (
		[line[:6] for line in text.splitlines()] == [rule["code"] for rule in listed] == [r.code for r in api.rules()]
	)
	assert set(listed[0]["severities"][0]) == {"severity", "releases"}


def test_a_rule_is_explained_by_code_or_name(run: Run) -> None:
	rule = api.rules()[0]
	status, out, err = run("--explain", rule.code.lower())
	assert (status, err) == (0, "")
	assert rule.code in out
	assert run("--explain", rule.name)[1] == out


@pytest.mark.parametrize("kind", cli.SCHEMAS)
def test_schemas_are_printed_for_the_chosen_release(run: Run, kind: str) -> None:
	status, newest, err = run("--schema", kind)
	assert (status, err) == (0, "")
	Draft202012Validator.check_schema(json.loads(newest))
	if kind == "accelerate":
		older = run("--schema", kind, "--accelerate-version", "1.0.0")[1]
		assert '"parallelism_config"' in newest
		assert '"parallelism_config"' not in older


def test_every_exported_schema_can_be_printed() -> None:
	assert tuple(schemas.EXPORTED) == cli.SCHEMAS


def test_one_broken_file_does_not_take_the_others_with_it(run: Run) -> None:
	put("crash", "a.yaml")
	put("confg", "b.yaml")
	status, out, err = run("a.yaml", "b.yaml", "--output-format", "json")
	assert status == 2
	assert [(file["path"], file["verdict"]) for file in json.loads(out)["files"]] == [
		("a.yaml", "unreadable"),
		("b.yaml", "rejected"),
	]
	assert err.startswith("a.yaml: internal error, please report it with the file: RuntimeError: no\\nway")
	assert err.count("\n") == 1


def test_one_broken_file_does_not_take_its_folder_with_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(api, "read_all", lambda path, _stdin, _kind: [Raw(f"{path}/{name}.yaml", "") for name in "ab"])
	Path("configs").mkdir()
	put("crash", "configs/a.yaml")
	put("confg", "configs/b.yaml")
	status, out, _ = run("configs", "--output-format", "json")
	verdicts = {file["path"]: file["verdict"] for file in json.loads(out)["files"]}
	assert (status, verdicts) == (2, {"configs/a.yaml": "unreadable", "configs/b.yaml": "rejected"})


TROUBLE = [
	(ModuleNotFoundError("No module named 'yaml'", name="yaml"), 2, r"PyYAML is missing.* -m pip install PyYAML"),
	(KeyboardInterrupt(), 130, "^$"),
	(PermissionError(13, "Permission denied", "x.yaml"), 2, "x.yaml: Permission denied"),
]


@pytest.mark.parametrize(("error", "status", "message"), TROUBLE, ids=lambda value: type(value).__name__)
def test_trouble_ends_in_one_line(
	run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, message: str
) -> None:
	def fail(*_: object) -> Report:
		raise error

	monkeypatch.setattr(cli_run, "judge", fail)
	put("fine")
	code, out, err = run("x.yaml")
	assert (code, out) == (status, "")
	assert re.search(message, err)
	assert err.count("\n") <= 1


def test_a_result_that_cannot_be_written_is_one_line(run: Run) -> None:
	put("fine")
	status, out, err = run("x.yaml", "--output-file", "no/such/folder/out")
	assert (status, out, err.count("\n")) == (2, "", 1)
	assert "No such file or directory" in err


def test_a_device_is_written_to_and_stays_one(run: Run) -> None:
	put("fine")
	os.mkfifo("pipe")
	reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
	assert run("x.yaml", "--output-format", "json", "--output-file", "pipe") == (0, "", "")
	assert json.loads(os.read(reader, 100_000))["summary"]["files"] == 1
	os.close(reader)
	assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_secrets_stay_out_of_every_stream(run: Run) -> None:
	put("token: hush-hush confg\n")
	for flags in ("", "--diff", "--output-format json", "--output-format sarif", "--output-format github"):
		_, out, err = run("x.yaml", *flags.split())
		assert "hush" not in out + err


def test_the_version_is_the_one_of_the_package(run: Run) -> None:
	declared = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
	assert declared == about.VERSION
	assert run("--version") == (0, f"validate-backend-config {declared}\n", "")


def test_help_shows_examples_that_parse(run: Run) -> None:
	status, out, _ = run("--help")
	examples = re.findall(r"^  validate_backend_config\.py (.*)$", out, re.MULTILINE)
	assert status == 0
	assert len(examples) == 2
	for example in examples:
		assert cli.build_parser().read(example.split()).paths


@pytest.mark.parametrize("words", [["a.yaml"], ["-"], ["a b", "c.json"]])
def test_paths_alone_are_read_as_the_parser_reads_them(words: list[str]) -> None:
	assert vars(cli.read(words)) == vars(cli.build_parser().read(words))
