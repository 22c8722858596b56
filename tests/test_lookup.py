"""Look-up: what a query is, what is found first, how much is shown, and what happens to bad input."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.tables import packed_table, table

import measure_lookup
from distributed_training_backends import api, cli_lookup
from distributed_training_backends.lookup.index import the_index
from distributed_training_backends.lookup.query import lone_name
from distributed_training_backends.lookup.sections import parse_page
from distributed_training_backends.model_lookup import LookupReport
from distributed_training_backends.render.lookup import lookup_data
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import RULES

PAGE = """\
# A page about gates

Opening words.

## `gate_width` and more

<!-- a remark -->

| key | meaning |
|---|---|
| `gate_width` | how wide, see [the other](#other) |
| `gate_height`, `gate_depth` | the rest |

- `--gate-width`: the flag
- a plain item
  that goes on

```text
# no heading
```

## Other

Text.

### Other: an example

More text.

## Other
"""


def references(report: LookupReport) -> list[str]:
	return [section.reference for section in report.sections]


def test_a_page_falls_into_sections_with_the_anchors_of_github() -> None:
	sections = parse_page("references/gates.md", PAGE)
	assert [(section.anchor, section.level) for section in sections] == [
		("a-page-about-gates", 1),
		("gate_width-and-more", 2),
		("other", 2),
		("other-1", 2),
	]
	assert {section.page_title for section in sections} == {"A page about gates"}
	assert sections[1].reference == "references/gates.md#gate_width-and-more"
	assert sections[1].defines == ("gate_width and more", "gate_width", "gate_height", "gate_depth", "--gate-width")
	assert [unit.kind for unit in sections[1].units] == ["row", "row", "item", "item", "code"]
	assert sections[1].units[3].text == "- a plain item\n  that goes on"


def test_a_heading_that_repeats_its_parents_is_part_of_its_section() -> None:
	other = parse_page("references/gates.md", PAGE)[2]
	assert [unit.text for unit in other.units] == ["Text.", "an example:", "More text."]


@packed_table("lookup.rules_flags_and_variables_find_their_section_first")
def test_rules_flags_and_variables_find_their_section_first(query: str, first: str) -> None:
	assert references(api.look_up(query))[0] == f"references/{first}"


def test_the_section_of_a_rule_has_its_whole_documentation() -> None:
	catalog.load()
	found = {section.title: section.units for section in the_index().sections}
	for code, rule in RULES.items():
		texts = "\n".join(unit.text for unit in found[code])
		assert [line for line in rule.documentation.split("\n") if line not in texts] == [], code


def test_the_table_of_rules_has_their_summaries() -> None:
	rows = {unit.text for section in the_index().sections if section.level == 1 for unit in section.units}
	assert (
		"| [FSD003](#fsd003) | reshard-under-fsdp1 | warning | "
		"`fsdp_reshard_after_forward` with FSDP1, which reads `fsdp_sharding_strategy` only. |"
	) in rows
	assert not any("--explain" in text for text in rows)


@packed_table("lookup.a_name_that_stands_alone")
def test_a_name_that_stands_alone(text: str, name: str) -> None:
	assert lone_name(text) == name


def test_limit_and_offset_walk_through_all_that_fits() -> None:
	whole = api.look_up("gradient accumulation", limit=20)
	assert whole.total >= 6
	first, second = (api.look_up("gradient accumulation", limit=3, offset=offset) for offset in (0, 3))
	assert references(first) + references(second) == references(whole)[:6]
	assert (first.next_offset, second.offset) == (3, 3)
	beyond = api.look_up("gradient accumulation", offset=first.total)
	assert (beyond.sections, beyond.next_offset, beyond.exit_code) == ((), -1, 0)


@pytest.mark.parametrize("detail", ["concise", "full"])
def test_the_output_has_its_published_shape(detail: str) -> None:
	schema = load_json("schemas/lookup_report.schema.json")
	Draft202012Validator.check_schema(schema)
	for query in ("fsdp_version", "qwxyz", "fsdp_versoin", "why is my key ignored"):
		data = lookup_data(api.look_up(query, "full" if detail == "full" else "concise"))
		Draft202012Validator(schema).validate(json.loads(json.dumps(data)))


def test_what_is_left_out_is_marked() -> None:
	short, long = (api.look_up("FSD001", detail).sections[0] for detail in ("concise", "full"))
	assert short.truncated
	assert "[…]" in short.text
	assert len(short.text) < len(long.text)
	assert ("[…]" in long.text) == long.truncated


def test_what_a_target_lacks_is_noted() -> None:
	old = api.default_targets()._replace(accelerate="1.5.0", deepspeed="0.16.4", transformers="4.55.0")
	assert api.look_up("--fsdp_version", targets=old).notes == (
		"accelerate 1.5.0 does not have fsdp_version (since 1.6.0)",
	)
	assert api.look_up("fsdp_version").notes == ()
	assert api.look_up("ipex_config").notes == ("accelerate 1.15.0 does not have ipex_config (until 1.12.0)",)
	assert api.look_up("torch_autocast", targets=old).notes == (
		"deepspeed 0.16.4 does not have torch_autocast (since 0.17.2)",
	)
	assert "transformers 4.55.0 does not have parallelism_config (since 4.56)" in (
		api.look_up("parallelism_config", targets=old).notes
	)


def test_an_excerpt_has_the_row_that_was_asked_for_with_the_head_of_its_table() -> None:
	text = api.look_up("FSDP_OFFLOAD_PARAMS").sections[0].text
	assert "| field |" in text
	assert "| `cpu_offload` |" in text
	assert "| `fsdp_version` |" not in text


@table("""query, suggestion
--num_proceses, --num_processes
fsdp_reshard_after_foward, fsdp_reshard_after_forward
FSDP_VERSON, fsdp_version
what is fsdp_offlod_params, fsdp_offload_params
gradeint acumulation, accumulation""")
def test_a_slip_brings_what_may_have_been_meant(query: str, suggestion: str) -> None:
	report = api.look_up(query)
	assert suggestion in report.suggestions
	assert suggestion in report.summary


@packed_table("lookup.what_is_written_otherwise_is_found_all_the_same")
def test_what_is_written_otherwise_is_found_all_the_same(query: str, right: str) -> None:
	assert f"references/{right}" in references(api.look_up(query, limit=3))


def test_right_sections_come_first() -> None:
	asked = [outcome for outcome in measure_lookup.outcomes() if outcome.question.group == "before"]
	first, close = measure_lookup.shares(asked)
	assert len(asked) >= 60
	assert first >= 90
	assert close >= 98


def test_every_expected_section_is_there_and_is_one() -> None:
	known = [section.reference.removeprefix("references/") for section in the_index().sections]
	for question in measure_lookup.questions():
		for short in question.wanted:
			assert sum(measure_lookup.is_meant(name, short) for name in known) == 1, (question.query, short)


def test_every_section_that_is_called_something_is_there() -> None:
	known = {section.reference.removeprefix("references/") for section in the_index().sections}
	called = load_json("lookup_asked.json")["pages"]
	assert {f"{page}#{anchor}" for page, anchors in called.items() for anchor in anchors} <= known


def test_nothing_that_fits_is_said_with_the_pages_there_are() -> None:
	report = api.look_up("qwxyz")
	assert (report.total, report.exit_code) == (0, 1)
	assert "references/rules/fsdp.md" in report.summary


@pytest.mark.parametrize("query", ["", "  \n", "x" * 10_001, "a\x00b", "caf\udce9", "…!?", "\x1b[31m\x1b[0m"])
def test_what_cannot_be_looked_up_is_refused_in_a_line(query: str, capsys: pytest.CaptureFixture[str]) -> None:
	with pytest.raises(api.BadQueryError):
		api.look_up(query)
	assert cli_lookup.main([query]) == 2
	shown = capsys.readouterr()
	assert shown.out == ""
	assert shown.err.startswith("lookup-reference: the query ")
	assert shown.err.count("\n") == 1


def said(query: str) -> str:
	try:
		report = api.look_up(query, "full")
	except api.BadQueryError as error:
		return str(error)
	assert (report.total > 0) == bool(report.sections)
	return report.summary


@given(st.text(st.characters(max_codepoint=0x2FFF), max_size=80) | st.text("fsdp_version -='`[]().:;2\n", max_size=200))
def test_any_text_gets_an_answer_or_one_line(query: str) -> None:
	assert said(query)
	assert "\n" not in said(query)


def test_a_long_question_is_not_repeated_whole() -> None:
	assert len(api.look_up("fsdp version " * 500).query) < 400


def test_colours_of_a_pasted_line_are_no_part_of_it() -> None:
	assert api.look_up("\x1b[31mFSD001\x1b[0m").query == "FSD001"


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
	assert cli_lookup.main(["--rdzv_backend", "--limit", "1"]) == 0
	assert capsys.readouterr().out.startswith("references/")
	assert cli_lookup.main(["FSD001", "--output-format", "json"]) == 0
	assert json.loads(capsys.readouterr().out)["sections"][0]["reference"] == "references/rules/fsdp.md#fsd001"
	assert cli_lookup.main(["qwxyz"]) == 1
	assert cli_lookup.main(["fsdp", "--limt", "3"]) == 2
	assert "unrecognized arguments: --limt" in capsys.readouterr().err


def test_a_missing_package_ends_in_the_line_that_installs_it(
	monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
	for name in [name for name in sys.modules if name.startswith("distributed_training_backends.lookup")]:
		monkeypatch.delitem(sys.modules, name)
	monkeypatch.setitem(sys.modules, "markdown_it", None)
	assert cli_lookup.main(["FSD001"]) == 2
	expected = f"markdown-it-py is missing, which look-up needs; run: {sys.executable} -m pip install markdown-it-py\n"
	assert capsys.readouterr().err == f"lookup-reference: {expected}"
