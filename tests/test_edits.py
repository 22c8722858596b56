"""Repairs become edits: the data changes as promised, and everything else in the text stays as it was."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.strategies import json_documents, scalars, values, yaml_documents
from tests.tables import packed_table

from distributed_training_backends import edits, fix
from distributed_training_backends.model import Kind
from distributed_training_backends.rules.registry import Operation, Repair
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.load import read
from distributed_training_backends.sources.reading import first_newline
from distributed_training_backends.sources.splice import NotPossibleError, splicer
from distributed_training_backends.sources.writing import write


def document_of(text: str, syntax: str = "yaml") -> Document:
	kind: Kind = "accelerate" if syntax == "yaml" else "deepspeed"
	document = read("x", text, kind, "yaml" if syntax == "yaml" else "json")
	return document.with_defects(newline=first_newline(text))


def edited(text: str, *steps: Operation, syntax: str = "yaml") -> str | None:
	found = edits.resolve(document_of(text, syntax), Repair("t", steps))
	return None if found is None else fix.apply(text, [found]).text


def rename(*pointer: str | int, to: str) -> Operation:
	return Operation("rename", pointer, to)


def replace(*pointer: str | int, by: object) -> Operation:
	return Operation("replace", pointer, value=by)


def remove(*pointer: str | int) -> Operation:
	return Operation("remove", pointer)


def add(*pointer: str | int, name: str, value: object) -> Operation:
	return Operation("add", pointer, name, value)


def move(*pointer: str | int, to: tuple[str | int, ...], name: str = "") -> Operation:
	return Operation("move", pointer, name, target=to)


YAML = """\
# how we train
distributed_type: FSDP  # sharded
fsdp_config:
    # what to wrap
    fsdp_version: 2   # new
    "fsdp_offload": 'no'

    fsdp_wrap:
      policy: x  # inner
num_machines: 1
tpu_env: [a, {b: c, d: e}]
gpu_ids:
"""


@pytest.mark.parametrize(
	("step", "old", "new"),
	[
		(rename("fsdp_config", "fsdp_offload", to="fsdp_offload_params"), '"fsdp_offload"', '"fsdp_offload_params"'),
		(rename("num_machines", to="num_processes"), "num_machines", "num_processes"),
		(rename("tpu_env", 1, "b", to="no"), "{b: c", "{'no': c"),
		(replace("distributed_type", by="NO"), "type: FSDP", "type: 'NO'"),
		(replace("fsdp_config", "fsdp_offload", by="yes"), "'no'", "'yes'"),
		(replace("fsdp_config", "fsdp_offload", by=True), "'no'", "true"),
		(replace("fsdp_config", "fsdp_version", by=1.0), "version: 2", "version: 1.0"),
		(replace("gpu_ids", by="all"), "gpu_ids:", "gpu_ids: all"),
		(replace("num_machines", by=None), "machines: 1", "machines: null"),
		(replace("tpu_env", 1, by="1e8"), "{b: c, d: e}", "'1e8'"),
		(
			replace("fsdp_config", "fsdp_wrap", by={"a": "b"}),
			"fsdp_wrap:\n      policy: x  # inner\n",
			"fsdp_wrap: {a: b}  # inner\n",
		),
		(remove("num_machines"), "num_machines: 1\n", ""),
		(remove("distributed_type"), "distributed_type: FSDP  # sharded\n", ""),
		(remove("fsdp_config", "fsdp_version"), "    fsdp_version: 2   # new\n", ""),
		(
			remove("fsdp_config", "fsdp_wrap", "policy"),
			"fsdp_wrap:\n      policy: x  # inner\n",
			"fsdp_wrap: {}  # inner\n",
		),
		(remove("fsdp_config", "fsdp_wrap"), "    fsdp_wrap:\n      policy: x  # inner\n", ""),
		(remove("tpu_env", 0), "[a, {b", "[{b"),
		(remove("tpu_env", 1), "[a, {b: c, d: e}]", "[a]"),
		(remove("tpu_env", 1, "d"), "{b: c, d: e}", "{b: c}"),
		(remove("gpu_ids"), "gpu_ids:\n", ""),
		(add(name="debug", value=True), "gpu_ids:\n", "gpu_ids:\ndebug: true\n"),
		(add("fsdp_config", name="x", value="no"), "# inner\n", "# inner\n    x: 'no'\n"),
		(add("fsdp_config", "fsdp_wrap", name="z", value=1e-5), "# inner\n", "# inner\n      z: 1.0e-05\n"),
		(add("tpu_env", 1, name="f", value=1), "d: e}", "d: e, f: 1}"),
		(add("new", name="x", value={"z": 1}), "gpu_ids:\n", "gpu_ids:\nnew:\n  x:\n    z: 1\n"),
		(
			move("distributed_type", to=("fsdp_config", "fsdp_wrap"), name="kind"),
			YAML[YAML.index("distributed_type") : YAML.index("num_machines")],
			YAML[YAML.index("fsdp_config") : YAML.index("num_machines")] + "      kind: FSDP  # sharded\n",
		),
		(move("num_machines", to=("fsdp_config",)), "# inner\nnum_machines: 1\n", "# inner\n    num_machines: 1\n"),
		(
			move("fsdp_config", "fsdp_wrap", to=()),
			"    fsdp_wrap:\n      policy: x  # inner\nnum_machines: 1\ntpu_env: [a, {b: c, d: e}]\ngpu_ids:\n",
			"num_machines: 1\ntpu_env: [a, {b: c, d: e}]\ngpu_ids:\nfsdp_wrap:\n  policy: x  # inner\n",
		),
	],
)
def test_yaml_by_example(step: Operation, old: str, new: str) -> None:
	assert YAML.count(old) == 1
	expected = YAML.replace(old, new)
	assert edited(YAML, step) == expected
	windows = edited(YAML.replace("\n", "\r\n"), step)
	assert windows == expected.replace("\n", "\r\n")


JSON = """\
{
    "train_batch_size": 8,
    "fp16": {
        "enabled": true
    },
    "betas": [0.9, 0.95],
    "optimizer": {"type": "AdamW", "params": {}},
    "steps_per_print": 10
}
"""


@pytest.mark.parametrize(
	("step", "old", "new"),
	[
		(rename("fp16", to="bf16"), '"fp16"', '"bf16"'),
		(replace("train_batch_size", by="auto"), "8,", '"auto",'),
		(replace("fp16", by={"enabled": False}), '{\n        "enabled": true\n    }', '{"enabled": false}'),
		(remove("train_batch_size"), '    "train_batch_size": 8,\n', ""),
		(remove("steps_per_print"), ',\n    "steps_per_print": 10', ""),
		(remove("fp16", "enabled"), '{\n        "enabled": true\n    }', "{}"),
		(remove("betas", 0), "[0.9, ", "["),
		(remove("betas", 1), ", 0.95", ""),
		(remove("optimizer", "type"), '"type": "AdamW", ', ""),
		(remove("optimizer", "params"), ', "params": {}', ""),
		(
			add(name="x", value={"stage": 0}),
			"print: 10".replace("print", 'print"'),
			'print": 10,\n    "x": {"stage": 0}',
		),
		(add("fp16", name="x", value="é"), '"enabled": true', '"enabled": true,\n        "x": "é"'),
		(add("optimizer", name="x", value=None), '"params": {}', '"params": {}, "x": null'),
		(add("optimizer", "params", name="lr", value=1e-05), '"params": {}', '"params": {"lr": 1e-05}'),
		(
			move("steps_per_print", to=("fp16",), name="steps"),
			JSON[JSON.index('"enabled"') :],
			JSON[JSON.index('"enabled"') :]
			.replace("true", 'true,\n        "steps": 10')
			.replace(',\n    "steps_per_print": 10', ""),
		),
	],
)
def test_json_by_example(step: Operation, old: str, new: str) -> None:
	assert JSON.count(old) == 1
	assert edited(JSON, step, syntax="json") == JSON.replace(old, new)


def test_steps_of_one_repair_speak_of_the_text_before_it() -> None:
	assert edited("a: 1\nb: 2\n", rename("a", to="c"), replace("a", by=3)) == "c: 3\nb: 2\n"
	assert edited("a: 1\nb: 2\n", remove("a"), add(name="c", value=3)) == "b: 2\nc: 3\n"
	assert edited("a: 1\n", replace("a", by=1), replace("a", by=2)) is None


def test_comments_and_trailing_commas_of_json_can_be_taken_out() -> None:
	text = '{"a": 1, // x\n "b": 2,}'
	document = document_of(text, "json")
	names = ("comment", "trailing-comma")
	steps = [
		Operation("text", (), extent=(one.extent.start, one.extent.end))
		for one in document.defects
		if one.name in names
	]
	assert edited(text, *steps, syntax="json") == '{"a": 1, \n "b": 2}'
	assert edited(text, Operation("text", (), "}", extent=(0, 1)), syntax="json") is None


def test_an_overridden_entry_can_be_taken_out() -> None:
	text = "a: 1  # old\nb: 2\na: 3\n"
	extent = tuple(document_of(text).defects[0].extent)
	assert edited(text, Operation("remove", ("a",), extent=(extent[0], extent[1]))) == "b: 2\na: 3\n"
	text = '{"a": 1, "a": 2}'
	extent = tuple(document_of(text, "json").defects[0].extent)
	assert edited(text, Operation("remove", ("a",), extent=(extent[0], extent[1])), syntax="json") == '{"a": 2}'


@pytest.mark.parametrize(
	("text", "step"),
	[
		("a: &x 1\nb: *x\n", replace("a", by=2)),
		("a: &x 1\nb: *x\n", replace("b", by=2)),
		("a: &x {c: 1}\nb: *x\n", replace("b", "c", by=2)),
		("a: &x {c: 1}\nb: *x\n", rename("a", "c", to="d")),
		("a: &x {c: 1}\nb: {<<: *x, d: 2}\n", remove("b", "c")),
		("a: &x {c: 1}\nb: 1\n", move("b", to=("a",))),
		("a: !!str 1\n", replace("a", by="2")),
		("a: 1\nb: 2\n", rename("a", to="b")),
		("a: 1\n", add(name="a", value=2)),
		("a: 1\n", add("a", name="b", value=2)),
		("a: 1\n", remove("b")),
		("a: {b: 1}\n", move("a", to=("a",))),
		("- 1\n- 2\n", rename(0, to="a")),
		("? a\n: 1\nb: 2\n", remove("a")),
		("a: [\n", replace("a", by=1)),
		("", add(name="a", value=1)),
	],
)
def test_no_fix_where_it_could_not_be_faithful(text: str, step: Operation) -> None:
	assert edited(text, step) is None


def test_what_stands_beside_an_anchor_can_be_changed() -> None:
	text = "a: &x {c: 1}\nb: *x\nc: 3\n"
	assert edited(text, replace("c", by=4)) == text.replace("3", "4")
	assert edited(text, rename("b", to="d")) is None  # the value is the alias itself, and stays: but nothing is lost


def promised(data: Any, step: Operation) -> Any:
	data = copy.deepcopy(data)
	parent = data
	for key in step.pointer[:-1]:
		parent = parent[key]
	last: Any = step.pointer[-1] if step.pointer else None
	if step.action == "replace":
		parent[last] = step.value
	elif step.action == "remove":
		del parent[last]
	elif step.action == "rename":
		parent[step.text] = parent.pop(last)
	elif step.action == "add":
		(parent[last] if step.pointer else data)[step.text] = step.value
	return data


@st.composite
def steps_on(draw: st.DrawFn, document: Document) -> Operation:
	pointers = [pointer for pointer in document.nodes if pointer]
	pointer = draw(st.sampled_from(pointers))
	action = draw(st.sampled_from(["rename", "replace", "remove", "add"]))
	if action == "add":
		homes = [at for at in document.nodes if isinstance(document.get(*at) if at else document.data, dict)]
		return add(*draw(st.sampled_from(homes)), name="brand_new", value=draw(values))
	if action == "rename":
		name = draw(st.sampled_from(["brand_new", "no", "1e8", "a: b"]))
		assume(not isinstance(pointer[-1], int) and (*pointer[:-1], name) not in document.nodes)
		return rename(*pointer, to=name)
	return replace(*pointer, by=draw(scalars)) if action == "replace" else remove(*pointer)


def check(text: str, step: Operation, reader: Any, syntax: str) -> None:
	"""Carry the step out without the trial that `resolve` makes, and compare."""
	document = document_of(text, syntax)
	parts = edits._edits(splicer(document), step)
	result = fix.splice(text, parts)
	assert edits.same(reader(result), promised(reader(text), step))
	outside = sorted((one.start, one.end) for one in parts)
	assert result.startswith(text[: outside[0][0]])
	assert result.endswith(text[outside[-1][1] :])


@given(st.data())
def test_yaml_edits_do_what_they_promise(data: st.DataObject) -> None:
	text, content = data.draw(yaml_documents())
	assume(content and "*id" not in text and "? " not in text)
	step = data.draw(steps_on(document_of(text)))
	try:
		check(text, step, yaml.safe_load, "yaml")
	except NotPossibleError:
		assume(False)


@given(st.data())
def test_json_edits_do_what_they_promise(data: st.DataObject) -> None:
	text, content = data.draw(json_documents())
	assume(content)
	check(text, data.draw(steps_on(document_of(text, "json"))), json.loads, "json")


@given(st.data())
def test_a_fix_is_never_wrong(data: st.DataObject) -> None:
	text, content = data.draw(yaml_documents())
	step = data.draw(steps_on(document_of(text)))
	result = edited(text, step)
	assert result is None or edits.same(yaml.safe_load(result), promised(content, step))


@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
	assert edits.same(yaml.safe_load(write(value, "yaml")), value)
	assert edits.same(yaml.safe_load("[" + write(value, "yaml", "'") + "]"), [value])
	assert edits.same(yaml.safe_load("{a: " + write(value, "yaml", '"') + "}"), {"a": value})
	assert edits.same(json.loads(write(value, "json")), value)


@given(st.text())
def test_any_text_can_be_written_as_yaml(text: str) -> None:
	assume(not any("\ud800" <= char <= "\udfff" for char in text))
	assert yaml.safe_load(write(text, "yaml")) == text


def test_a_file_with_a_finding_on_every_line_takes_bounded_time() -> None:
	text = "".join(f"key_{number}: {number}\n" for number in range(5000))
	document = document_of(text)
	found = [edits.resolve(document, Repair("t", (remove(f"key_{number}"),))) for number in range(5000)]
	assert found[0] is not None
	assert found[-1] is None  # no more trials: a second round of fixing will offer it


@packed_table("edits.a_move_takes_its_comment_along_or_is_not_made")
def test_a_move_takes_its_comment_along_or_is_not_made(text: str, target: list[str], after: str | None) -> None:
	assert edited(text, move("a", to=tuple(target))) == after
