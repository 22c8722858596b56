"""The log reader: what a line is, whose it is, and that neither the cutting nor the noise changes what is found."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import packed_table

from distributed_training_backends.diagnose import reading, templates
from distributed_training_backends.diagnose.reading import (
	Source,
	clean_lines,
	decoded,
	encoding_of,
	looks_binary,
	raw_lines,
	split_prefix,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x1b"), max_size=40)
LINES = st.lists(TEXTS, max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
	ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
	return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def numbered(data: bytes, places: list[int]) -> list[tuple[int, str]]:
	return list(raw_lines(decoded(cut(data, places))))


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=300)
def test_lines_are_those_of_the_text_wherever_the_bytes_are_cut(lines: list[str], end: str, places: list[int]) -> None:
	data = end.join([*lines, ""]).encode()
	bare = [(number, line.removeprefix("\ufeff") if number == 1 else line) for number, line in enumerate(lines, 1)]
	bare = [(number, line.replace("\0", "")) for number, line in bare]
	before = ["x", *(line for _, line in bare)]
	assert numbered(data, places) == [one for one, last in zip(bare, before, strict=False) if one[1] or last]


def test_repeated_and_blank_lines_take_no_time_and_keep_the_numbers() -> None:
	found = numbered(b"a\n" + b"\n" * 100_000 + b"step\n" * 100_000 + b"b\n", [70_000, 300_000])
	assert found[:2] == [(1, "a"), (2, "")]
	assert [line for _, line in found].count("step") == reading.REPEATED
	assert found[-1] == (200_002, "b")


def test_holes_of_zero_bytes_are_passed_over() -> None:
	assert numbered(b"one" + bytes(5000) + b"\ntwo\n", [9]) == [(1, "one"), (2, "two")]


@given(st.lists(TEXTS.map(lambda text: text.lstrip("\ufeff")), min_size=1, max_size=6))
def test_utf_16_says_the_same_as_utf_8(lines: list[str]) -> None:
	text = "\n".join(lines) + "\n"
	assert numbered(text.encode("utf-16"), []) == list(raw_lines([text.replace("\0", "")]))


@given(st.lists(st.text("abc \r", max_size=20), max_size=6), st.lists(st.integers(0, 200), max_size=6))
def test_states_of_a_progress_bar_are_on_the_line_of_the_bar(lines: list[str], places: list[int]) -> None:
	data = "".join(f"{line}x\n" for line in lines).encode()
	found = numbered(data, places)
	assert found == numbered(data, [])
	assert max((number for number, _ in found), default=0) == len(lines)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
def test_any_bytes_can_be_read(data: bytes, places: list[int]) -> None:
	numbers = [line.number for line in clean_lines(decoded(cut(data, places)))]
	assert numbers == sorted(numbers)


@given(st.integers(1, 60_000), st.sampled_from(["x", "word ", "é "]))
@settings(max_examples=30)
def test_a_long_line_comes_in_pieces_that_make_it_up(times: int, word: str) -> None:
	text = word * times
	pieces = list(raw_lines([text, "\n"]))
	assert "".join(piece for _, piece in pieces) == text
	assert {number for number, _ in pieces} == {1}
	assert all(len(piece) <= reading.LONGEST for _, piece in pieces)


@given(LINES, st.integers(0, 4000))
def test_colours_and_prefixes_do_not_change_what_a_line_says(lines: list[str], rank: int) -> None:
	bare = [line for line in lines if line.isascii() and line.isprintable() and split_prefix(line)[1] == 0]
	bare = [line for line in bare if line.lstrip()[:1] not in ('"', "{")]
	noisy = "".join(f"[rank{rank}]: \x1b[1;31m{line}\x1b[0m\n" for line in bare)
	found = list(clean_lines([noisy]))
	assert [line.text for line in found] == bare
	assert {line.source for line in found} <= {Source("", rank)}


@packed_table("diagnose_reading.prefixes_of_launchers_and_schedulers")
def test_prefixes_of_launchers_and_schedulers(prefix: str, host: str, rank: int | None, rest: str) -> None:
	assert split_prefix(prefix + rest) == (Source(host, rank), len(prefix))


def test_records_of_a_json_log_give_their_message_and_rank() -> None:
	record = {"time": "…", "level": "ERROR", "rank": 5, "message": "ValueError: no\nsecond line"}
	docker = {"log": "\u001b[31mRuntimeError: x\u001b[0m\n", "stream": "stderr"}
	found = list(clean_lines([json.dumps(record) + "\n" + json.dumps(docker) + "\n"]))
	assert [(line.number, line.source.rank, line.text) for line in found] == [
		(1, 5, "ValueError: no"),
		(1, 5, "second line"),
		(2, None, "RuntimeError: x"),
		(2, None, ""),
	]


@packed_table("diagnose_reading.lines_that_inform_are_told_from_those_that_complain")
def test_lines_that_inform_are_told_from_those_that_complain(line: str, quiet: bool) -> None:
	assert reading.is_quiet(line) == quiet


@packed_table("diagnose_reading.templates_find_words", FAR=f"port {'x ' * templates.REACH} is in use")
def test_templates_find_words(template: str, text: str, found: bool) -> None:
	assert bool(templates.Template(template).find(templates.plain(text))) == found


def test_the_traceback_in_a_notebook_is_read_line_by_line() -> None:
	notebook = json.dumps({"outputs": [{"traceback": ["\u001b[0;31mValueError\u001b[0m: no"]}]}, indent=1)
	assert "ValueError: no" in [line.text for line in clean_lines([notebook])]


def test_a_config_on_a_line_of_its_own_is_no_record() -> None:
	line = '{"train_batch_size": 8, "bf16": {"enabled": true}}'
	assert [found.text for found in clean_lines([line])] == [line]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-16"])
def test_the_encoding_is_that_of_the_first_bytes(encoding: str) -> None:
	assert encoding_of("text of a log\n".encode(encoding)) == encoding
	assert encoding_of(b"\0" * 64) == encoding_of(b"plain text") == "utf-8-sig"


def test_what_is_no_text_is_told_from_text() -> None:
	assert looks_binary(bytes(range(256)).decode("utf-8", "replace") * 10)
	assert not looks_binary("Zeile mit Umlauten äöü\n" * 10 + "\x1b[31mred\x1b[0m")
	assert not looks_binary("")
