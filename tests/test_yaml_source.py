"""YAML: the data of `yaml.safe_load`, the extent of every entry, and an answer to every odd text."""

import time
from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import YAML_TOKENS, damaged, pointers, yaml_documents, yaml_soups
from tests.tables import packed_table, table

from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.limits import MAX_NODES, LimitError
from distributed_training_backends.sources.marks import ignores
from distributed_training_backends.sources.yaml_source import parse_yaml

texts = st.one_of(yaml_soups, damaged(yaml_documents(), YAML_TOKENS), st.text())


def parse(text: str) -> Document:
	return parse_yaml("cfg.yaml", text, "accelerate")


def safe_load(text: str) -> tuple[bool, Any]:
	"""Give whether PyYAML takes a text, and its data. Its constructors raise more than YAMLError."""
	try:
		return True, yaml.safe_load(text)
	except Exception:
		return False, None


def named(document: Document, name: str) -> list[str]:
	return [document.text[d.extent.start : d.extent.end] for d in document.defects if d.name == name]


@given(texts)
def test_a_text_is_read_as_safe_load_reads_it(text: str) -> None:
	try:
		document = parse(text)
	except LimitError:  # an alias to what it stands in
		return
	taken, data = safe_load(text)
	assert document.parsed == taken
	assert repr(document.data) == repr(data)


@given(texts)
def test_extents_lie_in_the_text_in_order(text: str) -> None:
	try:
		document = parse(text)
	except LimitError:
		return
	for extent in [*(node.value for node in document.nodes.values()), *(defect.extent for defect in document.defects)]:
		assert 0 <= extent.start <= extent.end <= len(text)
	for pointer, node in document.nodes.items():
		place = document.place(document.value(*pointer))
		assert (place.line, place.column) <= (place.end_line, place.end_column)
		if node.key is not None and not {"&", "*", "<<"} & set(text):
			assert node.key.end <= node.value.start


@given(yaml_documents())
def test_every_entry_has_an_extent_that_says_its_value(drawn: tuple[str, Any]) -> None:
	text, data = drawn
	document = parse(text)
	assert set(document.nodes) == set(pointers(data))
	for pointer, node in document.nodes.items():
		indent = document.position(node.value.start)[1] - 1
		raw = document.raw(*pointer)
		assert raw is not None
		if raw[:1] not in ("|", ">") and raw != "-":
			assert safe_load(" " * indent + raw) == (True, document.get(*pointer) if pointer else data)
		if node.key is not None:
			assert safe_load(text[node.key.start : node.key.end]) == (True, pointer[-1])


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml")
@given(st.one_of(yaml_documents().map(lambda drawn: drawn[0]), texts))
def test_libyaml_changes_nothing(text: str) -> None:
	outcomes = []
	loader = yaml.CSafeLoader
	try:
		for present in (True, False):
			if not present:
				del yaml.CSafeLoader
			try:
				document = parse(text)
				outcomes.append((repr(document.data), document.nodes, document.defects))
			except LimitError as limit:
				outcomes.append((limit.reason, {}, ()))
	finally:
		yaml.CSafeLoader = loader  # type: ignore[misc]
	assert outcomes[0] == outcomes[1]


SAMPLE = """\
# a comment
distributed_type: FSDP   # trailing
fsdp_config:
    fsdp_version: 2
    "fsdp_state_dict_type": 'SHARDED_STATE_DICT'
tpu_env: [a, {b: c}]
commands:
- first
- - x
  - y: z
gpu_ids:
"""


@packed_table("yaml_source.keys_and_values_at_any_depth")
def test_keys_and_values_at_any_depth(pointer: list[str | int], key: str | None, value: str) -> None:
	document = parse(SAMPLE)
	node = document.nodes[tuple(pointer)]
	assert (node.key and SAMPLE[node.key.start : node.key.end]) == key
	assert document.raw(*pointer) == value


def test_a_block_ends_with_its_last_value() -> None:
	document = parse("a:\n  b: 1  # one\n\n# about c\nc: |\n  x\n  y\n\n# end\n")
	assert document.raw("a") == "b: 1"
	assert document.raw("c") == "|\n  x\n  y"
	assert document.raw() == "a:\n  b: 1  # one\n\n# about c\nc: |\n  x\n  y"


def test_block_scalar_that_keeps_its_blank_lines() -> None:
	document = parse("a: |+\n  x\n\nb: 1\n")
	assert document.raw("a") == "|+\n  x\n\n"
	assert document.data == {"a": "x\n\n", "b": 1}


def test_anchors_aliases_and_merges_point_to_where_the_text_stands() -> None:
	text = "base: &b\n  x: 1\n  y: 2\nuse:\n  <<: *b\n  y: 3\nsame: *b\n"
	document = parse(text)
	assert document.data == yaml.safe_load(text)
	assert document.nodes["use", "x"] == document.nodes["base", "x"] == document.nodes["same", "x"]
	assert document.raw("use", "y") == "3"
	assert document.raw("same") == "*b"
	assert document.raw("base") == "&b\n  x: 1\n  y: 2"
	assert ("use", "<<") not in document.nodes
	assert not named(document, "duplicate-key")


def test_duplicate_keys_keep_the_last_and_name_the_overridden_one() -> None:
	document = parse("a: 1\nb: {c: 1, c: 2}\na:\n  d: 1\n1: x\ntrue: y\n")
	assert document.data == {"a": {"d": 1}, "b": {"c": 2}, 1: "y"}
	assert named(document, "duplicate-key") == ["a: 1", "1: x", "c: 1"]
	assert [defect.pointer for defect in document.defects] == [("a",), (1,), ("b", "c")]
	assert document.raw("a", "d") == "1"


@table("""text, value
'no', no
'NO', no
'off', no
'''no''', 'no'
1e8, 1e8
'1.0e+8', 100000000.0
'010', 8
'1:30', 90
'~', ~
'0x10', 16
'1_000', 1000
'.5', 0.5""")
def test_the_words_of_yaml_1_1_stay_to_be_seen(text: str, value: object) -> None:
	document = parse(f"key: {text}\n")
	assert document.data == {"key": value}
	assert type(document.data["key"]) is type(value)
	assert document.raw("key") == text


def test_numbers_that_are_not_in_base_ten_are_noted() -> None:
	document = parse("a: 010\nb: 1:30\nc: 10\nd: '010'\ne: 0o17\nf: 0\n")
	assert named(document, "legacy-octal") == ["010"]
	assert named(document, "sexagesimal") == ["1:30"]


def test_templates_are_noted() -> None:
	text = "a: ${HOST}\nb: '{{ n }}'\nc: <your ip>\nd: $RANK\ne: a<b\nf: 5$\ng: \"{% if x %}\"\nh: $(hostname)\n"
	found = {defect.pointer: defect.detail for defect in parse(text).defects if defect.name == "template"}
	assert found == {
		("a",): "${HOST}",
		("b",): "{{ n }}",
		("c",): "<your ip>",
		("d",): "$RANK",
		("g",): "{% if x %}",
		("h",): "$(hostname)",
	}


def test_keys_need_not_be_strings() -> None:
	document = parse("1: a\nno: b\n~: c\n1.5: d\n2001-01-01: e\n? [x]\n: f\n")
	assert not document.parsed  # a list is no key: PyYAML says so
	document = parse("1: a\nno: b\n~: c\n1.5: d\n")
	assert document.data == {1: "a", False: "b", None: "c", 1.5: "d"}
	assert document.raw(1) == "a"
	assert document.raw(False) == "b"


@packed_table("yaml_source.what_pyyaml_refuses_is_told_in_its_words")
def test_what_pyyaml_refuses_is_told_in_its_words(text: str, position: list[int], words: str) -> None:
	document = parse(text)
	assert not safe_load(text)[0]
	assert (document.parsed, document.data, dict(document.nodes)) == (False, None, {})
	first = document.defects[0]
	assert first.name == "syntax-error"
	assert words in first.detail
	assert list(document.position(first.extent.start)) == position


@table(r"""text, name
'', empty
" \n", empty
"# x\n", empty
"- a\n", not-a-mapping
x, not-a-mapping""")
def test_texts_that_are_no_mapping(text: str, name: str) -> None:
	document = parse(text)
	assert document.parsed
	assert document.data == yaml.safe_load(text)
	assert [defect.name for defect in document.defects] == [name]


def doubling(line: str) -> str:
	letters = "abcdefghijklmnopqrst"
	lines = [f"{new}: &{new} " + line.replace("*", f"*{old}") for old, new in pairwise(letters)]
	return "a: &a {x: 1}\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
	("text", "reason"),
	[
		("[" * 101 + "]" * 101, "too-deep"),
		("[" * 200_000, "too-deep"),
		("- " * 150 + "x", "too-deep"),
		("".join(" " * level + "a:\n" for level in range(150)), "too-deep"),
		("".join(f"a{n}: &a{n} [*a{n - 1}]\n" if n else "a0: &a0 [x]\n" for n in range(150)), "too-deep"),
		("- x\n" * (MAX_NODES + 1), "too-many-nodes"),
		(doubling("[*, *, *, *]"), "alias-expansion"),
		(doubling("{<<: [*, *, *, *]}"), "alias-expansion"),
		("a: &a [*a]\n", "alias-expansion"),
		("a: &a {b: *a}\n", "alias-expansion"),
	],
)
def test_limits_are_kept(text: str, reason: str) -> None:
	started = time.monotonic()
	with pytest.raises(LimitError) as caught:
		parse(text)
	assert caught.value.reason == reason
	assert time.monotonic() - started < 60


def test_what_is_just_within_the_limits() -> None:
	assert parse("[" * 100 + "]" * 100).parsed
	assert parse("a: &a {x: 1}\n" + "".join(f"k{n}: *a\n" for n in range(500))).parsed


def test_ignores_are_read_in_comments_only() -> None:
	text = (
		"a: 1  # dtb: ignore[FSD003]\n"
		"b: 2  # because, dtb: ignore[FSD003]\n"
		"c: 3  # why # dtb:ignore[ACC001, fsd003] it is known\n"
		"d: 4  # dtb: ignore\n"
		'e: "x # dtb: ignore"\n'
		"f: |  # dtb: ignore[DSP001]\n"
		"  # dtb: ignore[ACC002]\n"
		"g: a#dtb: ignore\n"
		"# dtb: ignored\n"
		"h: 1 # dtb: ignore[]\n"
	)
	text = text.replace("g: a#dtb: ignore\n", "g: a#dtb:ignore\n")
	assert ignores(parse(text)) == {
		1: frozenset({"FSD003"}),
		3: frozenset({"ACC001", "FSD003"}),
		4: None,
		6: frozenset({"DSP001"}),
		10: frozenset(),
	}
