"""Telling kinds of config apart, the choice of the reader, and blocks cut out of larger texts."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import json_soups, mappings, yaml_soups
from tests.tables import packed_table

from distributed_training_backends.api import Options, default_targets, validate_text
from distributed_training_backends.model import KINDS, Kind
from distributed_training_backends.sources.detect import detect, keys_by_sight
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.limits import Unreadable
from distributed_training_backends.sources.load import load
from distributed_training_backends.sources.reading import Raw, read_path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("DTB_SHARED", ROOT.parent / "shared")) / "corpus"
EXPECTED = {"accelerate": "accelerate", "deepspeed": "deepspeed", "deepspeed_yaml": "deepspeed", "fsdp_config": "fsdp"}


def loaded(text: str, path: str = "cfg.yaml", kind: Kind | None = None) -> Document:
	document = load(Raw(path, text), kind)
	assert isinstance(document, Document), document
	return document


@packed_table("detect.kinds_by_content")
def test_kinds_by_content(path: str, text: str, kind: Kind) -> None:
	assert loaded(text, path).kind == kind


@packed_table("detect.what_is_none_of_ours")
def test_what_is_none_of_ours(path: str, text: str) -> None:
	answer = load(Raw(path, text), None)
	assert isinstance(answer, Unreadable)
	assert answer.reason == "unknown-kind"
	assert "--format" in answer.message


@packed_table("detect.a_config_inside_a_file_of_another_program")
def test_a_config_inside_a_file_of_another_program(path: str, text: str, kind: Kind, line: int) -> None:
	document = loaded(text, path)
	assert document.kind == kind
	(name,) = [name for name in ("load_in_4bit", "load_in_8bit", "version") if document.has(name)]
	assert document.place(document.key(name)).line == line


def test_a_fix_inside_a_file_of_another_program_keeps_its_line_ends() -> None:
	text = "quantization_config:\r\n  load_in_4bit: true\r\n  bnb_4bit_quant_typ: nf4\r\n"
	(file,) = validate_text(text, Options(default_targets()), "q.yaml").files
	fixed = [finding.fix for finding in file.findings if finding.code == "PRC051" and finding.fix]
	assert [text[edit.start : edit.end] for fix in fixed for edit in fix.edits] == ["bnb_4bit_quant_typ"]


def test_a_text_that_cannot_be_parsed_is_told_by_the_sight_of_its_keys() -> None:
	document = loaded("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n\tbad: 1\n")
	assert (document.kind, document.parsed) == ("accelerate", False)
	document = loaded('{\n  "zero_optimization": {\n    "stage": 2\n  "fp16": {\n', "x.json")
	assert (document.kind, document.parsed) == ("deepspeed", False)
	assert list(keys_by_sight('{\n "a": 1,\n  "b": 2\n "c": 3')) == ["a", "c"]


def test_the_kind_can_be_told() -> None:
	for kind in KINDS:
		assert loaded("torchrun a.py\n" if kind == "launch" else "a: 1\n", kind=kind).kind == kind


@packed_table("detect.each_kind_gets_the_reader_of_its_consumer")
def test_each_kind_gets_the_reader_of_its_consumer(path: str, kind: Kind, syntax: str) -> None:
	assert loaded('{"a": 1}', path, kind).syntax == syntax


def test_a_byte_order_mark_is_nothing_to_yaml_and_hjson_and_too_much_for_json() -> None:
	def names(path: str, text: str, kind: Kind) -> list[str]:
		document = load(Raw(path, text, bom=True), kind)
		assert isinstance(document, Document)
		assert document.bom
		return [defect.name for defect in document.defects]

	assert names("a.yaml", "a: 1\n", "accelerate") == ["byte-order-mark"]
	assert names("a.json", '{"a": 1}', "accelerate") == ["syntax-error", "byte-order-mark"]
	assert names("a.json", '{"a": 1}', "deepspeed") == ["byte-order-mark", "not-strict-json"]


FENCED = "Use this:\n\n```yaml\ndistributed_type: FSDP\nnum_processes: 8\n```\n\nThen: run it.\n"
HEREDOC = 'set -e\ncat <<EOT > $CONFIG\n{\n  "zero_optimization": {"stage": 2}\n}\nEOT\ndeepspeed train.py\n'


def test_a_pasted_page_is_read_by_its_block() -> None:
	document = loaded(FENCED, "-")
	assert document.data == {"distributed_type": "FSDP", "num_processes": 8}
	assert document.text == FENCED
	assert document.position(document.nodes[("num_processes",)].value.start) == (5, 16)
	assert [defect.name for defect in document.defects] == ["fragment"]


def test_a_file_with_a_block_is_still_what_its_reader_refuses() -> None:
	document = loaded(FENCED, "README.yaml")
	assert document.data == {"distributed_type": "FSDP", "num_processes": 8}
	assert [defect.name for defect in document.defects] == ["fragment", "syntax-error"]
	script = loaded(HEREDOC, "run.sh")
	assert (script.kind, script.data) == ("deepspeed", {"zero_optimization": {"stage": 2}})
	assert script.raw("zero_optimization", "stage") == "2"
	assert [defect.name for defect in script.defects] == ["fragment"]  # a script is not read as a config


def test_what_a_page_leaves_out_is_no_error() -> None:
	for stage, codes in [(2, []), (7, ["DSP010"])]:
		text = f'# A page\n```json\n// ds.json\n{{"zero_optimization": {{"stage": {stage}}}}}\n```\n'
		(file,) = validate_text(text, Options(default_targets()), "a.md").files
		assert [one.code for one in file.findings if one.severity.value == "error"] == codes


def test_the_first_block_that_is_a_config_counts() -> None:
	text = "```bash\nls\n```\n~~~\nnum_machines: 1\nmachine_rank: 0\n~~~\n```\nnum_machines: 2\n"
	assert loaded(text, "-").data == {"num_machines": 1, "machine_rank": 0}


@pytest.mark.parametrize("text", ["<<a" * 300_000, "`" * 900_000, ("<<" + " " * 9) * 90_000, "x <<'" + "a" * 900_000])
def test_marks_of_blocks_take_linear_time(text: str) -> None:
	assert isinstance(load(Raw("-", text), None), Unreadable)  # quadratic work would take hours here


@given(st.one_of(yaml_soups, json_soups, st.text()), st.sampled_from(["a.yaml", "a.json", "-", "x"]))
def test_any_text_gets_an_answer(text: str, path: str) -> None:
	for kind in (None, *KINDS):
		answer = load(Raw(path, text), kind)
		assert isinstance(answer, Document | Unreadable)


@given(mappings)
def test_any_mapping_gets_an_answer(data: dict[str, object]) -> None:
	assert detect(data, "", "x") in (*KINDS, None)


def test_a_json_file_never_imports_yaml() -> None:
	code = (
		"import sys; from distributed_training_backends.sources.load import load;"
		"from distributed_training_backends.sources.reading import Raw;"
		"load(Raw('d.json', '{\"zero_optimization\": {}}'), None);"
		"load(Raw('d.yaml', '{\"zero_optimization\": {}}'), None); sys.exit('yaml' in sys.modules)"
	)
	assert subprocess.run([sys.executable, "-c", code], cwd=ROOT / "scripts", check=False).returncode == 0


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not part of the repository")
def test_the_corpus_is_told_apart() -> None:
	table: Counter[tuple[str, str]] = Counter()
	for path in sorted(CORPUS.glob("*/*")):
		raw = read_path(str(path))
		assert isinstance(raw, Raw)
		answer = load(raw, None)
		table[path.parent.name, answer.kind if isinstance(answer, Document) else answer.reason] += 1
	for folder, kind in EXPECTED.items():
		total = sum(count for (where, _), count in table.items() if where == folder)
		assert total
		assert table[folder, kind] >= 0.99 * total, table
	assert {kind for folder, kind in table if folder == "recipe"} <= {"trainer", "unknown-kind"}


def test_the_type_alone_decides_only_with_a_value_of_accelerates() -> None:
	rest = {"num_nodes": 2, "nproc_per_node": 8, "master_addr": "a"}
	assert detect({"distributed_type": "MULTI_GPU", **rest}, "", "a.yaml") == "accelerate"
	assert detect({"distributed_type": "horovod", **rest}, "", "a.yaml") is None
