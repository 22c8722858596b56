"""JSON: the data of `json.loads`, the tolerance of Hjson for DeepSpeed, and the extent of every entry."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import JSON_TOKENS, damaged, json_documents, json_soups, pointers
from tests.tables import packed_table, table

from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.json_source import parse_json
from distributed_training_backends.sources.limits import MAX_NODES, LimitError

texts = st.one_of(json_soups, damaged(json_documents(), JSON_TOKENS), st.text())
REFUSED = object()

# Texts that strict JSON refuses, and what hjson 3.1.0 makes of them (line ends as DeepSpeed's text mode gives them).
HJSON: list[tuple[str, object]] = [
	("", {}),
	("# c\n", {}),
	("a: 1", {"a": 1}),
	("a: 1\nb: x y\n", {"a": 1, "b": "x y"}),
	("{a: 1}", {"a": 1}),
	('{"a": 1,}', {"a": 1}),
	('{"a": 1 // c\n}', {"a": 1}),
	('{"a": 1 # c\n, /* d */ "b": 2}', {"a": 1, "b": 2}),
	('{"a": 1\n"b": 2}', {"a": 1, "b": 2}),
	('{"a": "x" "b": 2}', {"a": "x", "b": 2}),
	("{a: b}", REFUSED),
	("{a: b\n}", {"a": "b"}),
	("{a: b, c\n}", {"a": "b, c"}),
	("{a: tru\n}", {"a": "tru"}),
	("{a: true\n}", {"a": True}),
	("{'a': 'b'}", {"a": "b"}),
	("{a: '''\n  x\n    y\n  '''\n}", {"a": "x\ny"}),
	("{\n  a:\n  '''\n  x\n    y\n  '''\n}", {"a": "x\n  y"}),
	("[1, 2,]", [1, 2]),
	("[1 2]", REFUSED),
	("[1,,2]", REFUSED),
	("[,1]", REFUSED),
	('{"a": 5e8,}', {"a": 500000000}),
	('{"a": 1.0,}', {"a": 1}),
	('{"a": 1.5e10,}', {"a": 15000000000.0}),
	('{"a": 1e999,}', REFUSED),
	('{"a": 1, "a": 2,}', {"a": 2}),
	('{"a" 1}', REFUSED),
	("{a b: 1}", REFUSED),
	("{a : 1}", {"a": 1}),
	('{"a": [1, 2}', REFUSED),
	("x", "x"),
	('{"a": 1} x', REFUSED),
	('{"a": $STAGE, "b": 1}', REFUSED),
	('{"a": $STAGE\n}', {"a": "$STAGE"}),
	('{"a": 1, /* x }', REFUSED),
	("{a: 'it\\'s'}", {"a": "it's"}),
	('{"a": "x\ny",}', REFUSED),
	('{"a": "\\u00e9",}', {"a": "é"}),
	('{"a": "\\q",}', REFUSED),
	('{"a": 01,}', REFUSED),
	('{"a": +1\n}', {"a": "+1"}),
	('{"a": .5\n}', {"a": ".5"}),
	('{"a": True\n}', {"a": "True"}),
	("{a: 1;}", REFUSED),
	("{\r\n  a: 1\r\n  b: two\r\n}\r\n", {"a": 1, "b": "two"}),
]


def parse(text: str) -> Document:
	return parse_json("ds.json", text, "deepspeed")


def loads(text: str) -> tuple[bool, Any]:
	try:
		return True, json.loads(text)
	except ValueError:
		return False, None


def names(document: Document) -> list[str]:
	return [defect.name for defect in document.defects]


def as_text_mode(text: str) -> str:
	return text.replace("\r\n", "\n").replace("\r", "\n")


@given(texts)
def test_a_text_is_read_as_json_reads_it(text: str) -> None:
	document = parse_json("cfg.json", text, "accelerate")
	taken, data = loads(text)
	assert document.parsed == taken
	assert repr(document.data) == repr(data)
	assert ("syntax-error" in names(document)) != taken


@given(texts)
def test_deepspeed_files_are_read_as_hjson_reads_them(text: str) -> None:
	hjson = pytest.importorskip("hjson")
	if loads(text)[0]:
		return
	document = parse(text)
	try:
		expected = json.loads(json.dumps(hjson.loads(as_text_mode(text))))
	except Exception:  # hjson stops with more than its own error
		assert not document.parsed
		assert names(document)[0] == "syntax-error"
		return
	assert document.parsed
	assert "not-strict-json" in names(document)
	assert json.dumps(document.data) == json.dumps(expected)


@given(texts)
def test_extents_lie_in_the_text_in_order(text: str) -> None:
	document = parse(text)
	for extent in [*(node.value for node in document.nodes.values()), *(defect.extent for defect in document.defects)]:
		assert 0 <= extent.start <= extent.end <= len(text)
	for pointer, node in document.nodes.items():
		if node.key is not None:
			assert node.key.end <= node.value.start
		if pointer:
			parent = document.nodes[pointer[:-1]].value
			assert parent.start <= node.value.start <= node.value.end <= parent.end


@given(json_documents())
def test_every_entry_has_an_extent_that_says_its_value(drawn: tuple[str, Any]) -> None:
	text, data = drawn
	document = parse(text)
	assert document.data == data
	assert set(document.nodes) == set(pointers(data))
	for pointer, node in document.nodes.items():
		assert json.loads(document.raw(*pointer) or "") == (document.get(*pointer) if pointer else data)
		if node.key is not None:
			assert json.loads(text[node.key.start : node.key.end]) == pointer[-1]


@pytest.mark.parametrize(("text", "data"), HJSON)
def test_hjson_by_example(text: str, data: object) -> None:
	document = parse(text)
	assert document.parsed == (data is not REFUSED)
	if data is not REFUSED:
		assert repr(document.data) == repr(data)
		assert "not-strict-json" in names(document)


@pytest.mark.parametrize(("text", "data"), HJSON)
def test_the_examples_are_those_of_the_real_hjson(text: str, data: object) -> None:
	hjson = pytest.importorskip("hjson")
	if data is REFUSED:
		with pytest.raises(ValueError if "/* x" not in text and "999" not in text else (IndexError, OverflowError)):
			hjson.loads(as_text_mode(text))
	else:
		assert hjson.loads(as_text_mode(text)) == data


@packed_table("json_source.departures_from_json_are_named")
def test_departures_from_json_are_named(text: str, departures: list[list[str]]) -> None:
	document = parse(text)
	found = [[one.name, text[one.extent.start : one.extent.end]] for one in document.defects]
	assert [one for one in found if one[0] != "not-strict-json"] == departures
	other = parse_json("cfg.json", text, "accelerate")
	assert not other.parsed
	assert names(other) == ["syntax-error", *(name for name, _ in departures)]


@packed_table("json_source.what_json_refuses_is_told_in_its_words")
def test_what_json_refuses_is_told_in_its_words(text: str, position: list[int], words: str) -> None:
	refusal = parse_json("cfg.json", text, "fsdp").defects[0]
	document = parse_json("cfg.json", text, "fsdp")
	assert refusal.name == "syntax-error"
	assert any(part in refusal.detail for part in words.split("|"))
	assert list(document.position(refusal.extent.start)) == position or "trailing comma" in refusal.detail


def test_lone_oddities_of_json() -> None:
	text = '{"a": NaN, "b": -Infinity, "c": 1e999, "d": "\\ud800", "e": 123456789012345678901234567890, "a": {"x": 1}}'
	document = parse(text)
	assert repr(document.data) == repr(json.loads(text))
	found = {(one.name, one.pointer) for one in document.defects}
	assert ("not-a-number", ("b",)) in found
	assert ("not-a-number", ("c",)) in found
	assert ("surrogate", ("d",)) in found
	assert [text[one.extent.start : one.extent.end] for one in document.defects if one.name == "duplicate-key"] == [
		'"a": NaN'
	]
	assert document.raw("a", "x") == "1"
	assert "not-hjson" in names(document)
	assert "not-hjson" not in names(parse_json("cfg.json", text, "accelerate"))


def test_placeholders_are_noted() -> None:
	document = parse('{"train_batch_size": $BATCH\n, "a": "${X}", "b": "<fill in>"}')
	assert [(one.pointer, one.detail) for one in document.defects if one.name == "template"] == [
		(("train_batch_size",), "$BATCH"),
		(("a",), "${X}"),
		(("b",), "<fill in>"),
	]


@table("""text, name
'[1]', not-a-mapping
'3', not-a-mapping
'null', empty
// x, empty
'', empty""")
def test_texts_that_are_no_object(text: str, name: str) -> None:
	assert name in names(parse(text))


@pytest.mark.parametrize(
	("text", "reason"),
	[
		("[" * 101 + "]" * 101, "too-deep"),
		("[" * 1_000_000, "too-deep"),
		('{"a":' * 500, "too-deep"),
		("{a:[" * 60, "too-deep"),
		("[" + "1," * MAX_NODES + "1]", "too-many-nodes"),
	],
)
def test_limits_are_kept(text: str, reason: str) -> None:
	with pytest.raises(LimitError) as caught:
		parse(text)
	assert caught.value.reason == reason


@pytest.mark.parametrize(
	"text", ["{{" * 500_000, "${" * 500_000, '{"a": "' + "<a" * 500_000 + '"}', "{a: n" + ",n" * 500_000]
)
def test_repeated_opening_marks_take_linear_time(text: str) -> None:
	assert parse(text).text == text  # quadratic work would take hours here


def test_what_is_just_within_the_limits() -> None:
	assert parse("[" * 100 + "]" * 100).parsed
	assert parse("[" + "1," * (MAX_NODES - 2) + "1]").parsed
