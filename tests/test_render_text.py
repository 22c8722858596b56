"""The report for people: source lines, carets, summaries, and what a hostile file cannot do to a terminal."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports import CONFIG, file_report, finding, misspelt, place, report

from distributed_training_backends.model import Applicability, Finding, Fix, Severity
from distributed_training_backends.render.characters import cells, visible
from distributed_training_backends.render.dispatch import render
from distributed_training_backends.render.excerpt import CUT, excerpt
from distributed_training_backends.render.style import Style

LINES = st.text(st.characters(exclude_characters="\n"), max_size=300)


def text_of(*findings: Finding, **style: Any) -> str:
	return render(report(file_report(CONFIG, *findings)), "text", Style(**style))


def test_a_finding_is_shown_with_its_line_carets_help_and_reference() -> None:
	shown = text_of(misspelt())
	assert shown == (
		"cfg.yaml:3:1: error[ACC001] `fsdp_confg` is not a key of an Accelerate config; did you mean `fsdp_config`?\n"
		" 3 | fsdp_confg:\n"
		"   | ^^^^^^^^^^\n"
		"   = help: rename to fsdp_config (--fix does it)\n"
		"   = see: references/rules/accelerate.md#acc001\n"
		"\n"
		"1 error in 1 file; targets: accelerate 1.15.0, deepspeed 0.19.8, transformers 5.24.0, torch 2.13.0; "
		"1 fixable with --fix\n"
	)


def test_line_numbers_keep_the_gutter_straight() -> None:
	text = "a: 1\n" * 120
	start = len("a: 1\n") * 104
	shown = render(report(file_report(text, finding(place(text, start + 3, start + 4)))), "text").splitlines()
	assert shown[1:3] == [" 105 | a: 1", "     |    ^"]
	assert shown[3].startswith("     = see")


def test_hidden_hints_are_counted_in_the_summary() -> None:
	shown = text_of(finding(place(CONFIG, 0, 3), Severity.INFO))
	assert shown.startswith("No errors or warnings in 1 file; targets: ")
	assert shown.endswith("; 1 hint with --verbose\n")


def test_quiet_says_nothing_when_there_is_no_error() -> None:
	shown = text_of(finding(place(CONFIG, 0, 3), Severity.WARNING), least=Severity.ERROR)
	assert shown == ""


def test_an_unreadable_file_says_why_even_when_quiet() -> None:
	limit = finding(place("", 0, 0), Severity.INFO, "it is larger than 2 MiB, which is the limit")
	unread = file_report(None, limit, path="big.yaml", verdict="unreadable")
	shown = render(report(unread), "text", Style(least=Severity.ERROR))
	assert "unreadable[ACC001] it is larger than 2 MiB" in shown
	assert "1 file could not be judged" in shown
	bare = render(report(file_report(None, path="odd.yaml", verdict="unreadable")), "text")
	assert bare.startswith("odd.yaml: it could not be judged\n")


def test_unsafe_fixes_are_offered_apart_from_safe_ones() -> None:
	unsafe = finding(place(CONFIG, 0, 3), fix=Fix(Applicability.UNSAFE, "drop it", ()))
	shown = text_of(misspelt(), unsafe)
	assert "= help: drop it (--unsafe-fixes does it)" in shown
	assert shown.endswith("; 1 fixable with --fix; 1 more with --fix --unsafe-fixes\n")


def test_related_places_are_named() -> None:
	other = place("{\n 1}", 3, 4, path="ds.json")
	shown = text_of(finding(place(CONFIG, 0, 3), related=(other,)))
	assert "   = also: ds.json:2:2\n" in shown


def test_a_span_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
	shown = text_of(finding(place(CONFIG, 35, len(CONFIG)))).splitlines()
	assert shown[1:3] == [" 2 | distributed_type: FSDP", "   | " + "^" * 22]


def test_statistics_count_by_code() -> None:
	findings = [misspelt(), misspelt(), finding(place(CONFIG, 0, 3), Severity.WARNING, code="FSD003", name="no-effect")]
	shown = text_of(*findings, statistics=True).splitlines()
	assert shown[:2] == ["2  error    ACC001  unknown-key (2 fixable)", "1  warning  FSD003  no-effect"]
	assert shown[2].startswith("2 errors, 1 warning in 1 file; targets")


def test_colours_only_on_demand() -> None:
	plain = text_of(misspelt())
	coloured = text_of(misspelt(), color=True)
	assert "\x1b" not in plain
	assert "\x1b[1;31merror[ACC001]\x1b[0m" in coloured
	assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(
	("line", "start", "end", "shown", "carets"),
	[
		("abc: def", 5, 8, "abc: def", "     ^^^"),
		("\tkey: 1", 1, 4, "    key: 1", "    ^^^"),
		("ab\tkey", 3, 6, "ab  key", "    ^^^"),
		("名前: x", 4, 5, "名前: x", "      ^"),
		("名前: x", 0, 2, "名前: x", "^^^^"),
		("e\u0301a: 1", 2, 3, "e\u0301a: 1", " ^"),
		("a\x1b[31mb", 6, 7, "a\\x1b[31mb", "         ^"),
		("a\u202eb", 2, 3, "a\\u202eb", "       ^"),
		("a\u00a0b", 1, 2, "a\\xa0b", " ^^^^"),
		("abc", 3, 3, "abc", "   ^"),
		("", 0, 0, "", "^"),
	],
)
def test_carets_stand_below_what_they_mark(line: str, start: int, end: int, shown: str, carets: str) -> None:
	assert excerpt(line, start, end, 80) == (shown, carets)


def on_a_grid(shown: str) -> list[str]:
	return [part for cell in cells(shown) if cell.width for part in (cell.shown, *[""] * (cell.width - 1))]


@given(st.text(st.sampled_from("ab: é名前🙂\x1b\u202e\u00a0"), max_size=300), st.data(), st.integers(24, 200))
def test_carets_cover_exactly_the_marked_code_points(line: str, data: st.DataObject, width: int) -> None:
	start = data.draw(st.integers(0, len(line)))
	end = data.draw(st.integers(start, min(len(line), start + 10)))
	shown, carets = excerpt(line, start, end, width)
	assert re.fullmatch(r" *\^+", carets)
	assert len(on_a_grid(shown)) <= width
	above = "".join(on_a_grid(shown)[carets.count(" ") : len(carets)])
	marked = visible(line[start:end])
	if len(on_a_grid(marked)) < width // 2:
		assert above == marked or (start == end and carets.endswith("^"))
	else:
		assert above
		assert marked.startswith(above)


@given(LINES, st.data(), st.integers(24, 200))
def test_any_line_is_shown_within_the_width(line: str, data: st.DataObject, width: int) -> None:
	start = data.draw(st.integers(0, len(line)))
	end = data.draw(st.integers(start, len(line)))
	shown, carets = excerpt(line, start, end, width)
	assert shown.isprintable()
	assert len(on_a_grid(shown)) <= width
	assert len(carets) <= width


@given(st.text())
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
	assert visible(text).isprintable()
	where = place("x: 1", 0, 1, path=f"dir/{text}.yaml")
	shown = render(report(file_report(text.replace("\n", " ") or None, finding(where, message=text or "-"))), "text")
	assert all(char == "\n" or char.isprintable() for char in shown)
	assert render(report(file_report("x: 1", finding(where, message=text or "-"))), "text").count("\n") == 6


def test_long_lines_are_cut_around_the_mark() -> None:
	line = "a" * 5000 + "KEY" + "b" * 5000
	shown, carets = excerpt(line, 5000, 5003, 100)
	assert len(shown) <= 100
	assert shown[0] == shown[-1] == CUT
	assert shown[carets.index("^") : carets.rindex("^") + 1] == "KEY"


def test_a_mark_longer_than_the_window_ends_with_it() -> None:
	shown, carets = excerpt("v" * 1000, 0, 1000, 60)
	assert len(shown) <= 60
	assert len(carets) <= 60


def test_the_end_of_a_long_line_fills_the_window() -> None:
	shown, carets = excerpt("a" * 500 + "END", 500, 503, 60)
	assert shown == CUT + "a" * 55 + "END"
	assert carets == " " * 56 + "^^^"
