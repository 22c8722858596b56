"""--fix and --diff on the command line."""

from pathlib import Path

import pytest
from tests.conftest import Run, put
from tests.fake_judge import FakeJudge

from distributed_training_backends import cli_fix, mending
from distributed_training_backends.fix import WriteFailure, write_atomically


def test_fixes_are_applied_until_none_is_left(run: Run) -> None:
	Path("x.yaml").write_bytes(b"a: confg # mine\r\nb: confg\r\nc: risk\r\n")
	status, out, err = run("x.yaml", "--fix")
	assert Path("x.yaml").read_bytes() == b"a: config # mine\r\nb: config\r\nc: risk\r\n"
	assert status == 1  # the unsafe one is left
	assert "risk is wrong" in out
	assert err.splitlines()[0] == "x.yaml: 4 findings fixed"
	assert err.splitlines()[1] == "  1: ACC001 write config_"


def test_unsafe_fixes_only_when_asked_for(run: Run) -> None:
	put("c: risk\n")
	assert run("x.yaml", "--fix", "--unsafe-fixes")[0] == 0
	assert Path("x.yaml").read_text() == "c: calm\n"


def test_a_file_without_fixes_is_not_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(cli_fix, "write_atomically", lambda *_: pytest.fail("written"))
	put("c: risk\n")
	assert run("x.yaml", "--fix")[0] == 1
	put("limit confg\n", "y.yaml")
	assert run("y.yaml", "--fix")[0] == 2


def test_a_file_that_cannot_be_written_leaves_the_others_fixed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
	def write(path: str, text: str) -> WriteFailure | None:
		return WriteFailure(path, "it is sealed") if path == "a.yaml" else write_atomically(path, text)

	monkeypatch.setattr(cli_fix, "write_atomically", write)
	put("confg\n", "a.yaml")
	put("confg\n", "b.yaml")
	status, _, err = run("a.yaml", "b.yaml", "--fix")
	assert (status, Path("a.yaml").read_text(), Path("b.yaml").read_text()) == (2, "confg\n", "config\n")
	assert err.startswith("a.yaml: not fixed: it is sealed\nb.yaml: 2 findings fixed\n")


def test_fixes_that_make_things_worse_are_not_written(run: Run) -> None:
	put("a: trap\n")
	status, _, err = run("x.yaml", "--fix")
	assert Path("x.yaml").read_text() == "a: trap\n"
	assert status == 1
	assert err == "x.yaml:1: ACC001 not fixed: write limit would lead to a file that cannot be judged\n"


def test_a_fix_may_uncover_another_error_of_a_refused_file(run: Run) -> None:
	put("a: veil confg\n")
	status, _, err = run("x.yaml", "--fix")
	assert (status, Path("x.yaml").read_text()) == (1, "a: risk config\n")
	assert "ACC001 write risk" in err


def test_a_fix_that_leads_an_accepted_file_to_an_error_is_not_written(run: Run) -> None:
	put("a: bait\n")
	status, _, err = run("x.yaml", "--fix")
	assert (status, Path("x.yaml").read_text()) == (0, "a: bait\n")
	assert err == "x.yaml:1: ACC001 not fixed: write risk would lead to ACC001\n"


def test_fixes_that_never_end_are_bounded(run: Run, judge: FakeJudge) -> None:
	put("loop")
	run("x.yaml", "--diff")
	assert len(judge.calls) == 1 + mending.ROUNDS


def test_a_diff_writes_nothing(run: Run) -> None:
	put("a: confg\nb: 1")
	status, out, err = run("x.yaml", "--diff")
	assert status == 1
	assert out == (
		"--- x.yaml\n+++ x.yaml\n@@ -1,2 +1,2 @@\n-a: confg\n+a: config\n b: 1\n\\ No newline at end of file\n"
	)
	assert err == "2 findings would be fixed in 1 file\n"
	assert Path("x.yaml").read_text() == "a: confg\nb: 1"
	put("c: risk\n", "y.yaml")
	assert run("y.yaml", "--diff") == (0, "", "")


def test_a_diff_keeps_line_ends_and_hides_secrets(run: Run) -> None:
	Path("x.yaml").write_bytes(b"password: tiger\r\na: confg\r\n")
	_, out, _ = run("x.yaml", "--diff")
	assert " password: *****\r\n-a: confg\r\n+a: config\r\n" in out


def test_a_diff_of_an_unreadable_file_says_so(run: Run) -> None:
	put("limit")
	assert run("x.yaml", "--diff") == (2, "", "x.yaml: could not be judged; it is too large\n")


def test_fixing_one_file_sees_the_others(run: Run, judge: FakeJudge) -> None:
	put("confg")
	put("{}", "ds.json")
	run("x.yaml", "./ds.json", "--diff")
	assert judge.calls[1] == ("x.yaml", {"./ds.json": "{}", "ds.json": "{}"})


def test_a_harmful_fix_leaves_the_others_alone(run: Run) -> None:
	put("a: bait\nb: dull\n")
	status, _, err = run("x.yaml", "--fix")
	assert (status, Path("x.yaml").read_text()) == (0, "a: bait\nb: keen\n")
	assert "x.yaml:1: ACC001 not fixed: write risk would lead to ACC001\n" in err


def test_a_report_never_replaces_a_config(run: Run) -> None:
	put("a: confg\n")
	for extra in ((), ("--fix",), ("--diff",)):
		status, _, err = run("x.yaml", "--output-file", "./x.yaml", *extra)
		assert (status, Path("x.yaml").read_text()) == (2, "a: confg\n")
		assert "--output-file ./x.yaml is one of the configs" in err


def test_a_read_only_file_stays_as_it_is(run: Run) -> None:
	put("a: confg\n")
	Path("x.yaml").chmod(0o444)
	status, _, err = run("x.yaml", "--fix")
	assert (status, Path("x.yaml").read_text()) == (2, "a: confg\n")
	assert "read-only" in err
