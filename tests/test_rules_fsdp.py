"""What the FSD rules and the table of values say about an FSDP block, release by release.

The verdicts are those of the releases themselves: each refused value was refused by the release named, and each
accepted one got through `Accelerator()`.
"""

import json
from typing import Any

import pytest
from tests.judging import codes, judged
from tests.tables import packed_table, table

from distributed_training_backends.flow.launch import Launch, launch_of
from distributed_training_backends.knowledge import accelerate as knowledge
from distributed_training_backends.model import Context, Finding
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import values
from distributed_training_backends.rules.readings import READERS, read
from distributed_training_backends.sources import load
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.reading import Raw
from distributed_training_backends.versions import covers

HEAD = {"distributed_type": "FSDP", "num_processes": 8, "mixed_precision": "bf16"}
NEWEST = knowledge.RELEASES[-1]


def findings(block: dict[str, Any], release: str = NEWEST) -> list[Finding]:
	"""The findings about a JSON config with this `fsdp_config`."""
	return judged({**HEAD, "fsdp_config": block}, accelerate=release)


def said(block: dict[str, Any], release: str = NEWEST, severity: str = "error", **top: Any) -> set[str]:
	return codes({**HEAD, **top, "fsdp_config": block}, severity, accelerate=release)


def test_the_ways_of_reading_are_those_of_the_schema() -> None:
	schema = load_json("table_schemas.json")["accelerate_values"]
	assert set(schema["$defs"]["row"]["properties"]["read"]["enum"]) == set(READERS)


def test_every_option_in_the_table_is_read_by_some_release() -> None:
	for option, rows in values.table().items():
		for row in rows:
			covered = [name for name in knowledge.RELEASES if covers(row.releases, name)]
			assert covered, f"{option}: no release in {row.releases}"
			known = knowledge.for_release(covered[-1])
			looked_at = option in known.options or any(option in found for found in known.reads.values())
			assert looked_at or option.startswith("fp8_"), f"{option} in {covered[-1]}"


def test_conditions_and_defects_name_options() -> None:
	everything = {name for release in knowledge.RELEASES for name in knowledge.for_release(release).options}
	rows = [row.when for found in values.table().values() for row in found]
	defects = load_json(values.DATA)["defects"]
	named = {name for when in [*rows, *(item["when"] for item in defects)] for name in when}
	assert named <= everything
	assert {item["at"] for item in defects} <= everything | {"distributed_type"}


@packed_table("rules_fsdp.sharding_strategy_by_release")
def test_sharding_strategy_by_release(release: str, value: object, refused: bool) -> None:
	assert ("FSD001" in said({"fsdp_sharding_strategy": value}, release)) is refused


@pytest.mark.parametrize("value", [True, "yes", "ON", 1, "0", "f"])
def test_truth_words(value: object) -> None:
	assert not said({"fsdp_offload_params": value})


@pytest.mark.parametrize("value", [None, 2, 1.0, "", [], {"a": 1}])
def test_what_is_no_truth_word(value: object) -> None:
	assert said({"fsdp_offload_params": value}) == {"FSD001"}


def test_offload_before_truth_words_counts_only_true() -> None:
	assert not said({"fsdp_sharding_strategy": 1, "fsdp_offload_params": "maybe"}, "0.20.3")
	assert said({"fsdp_sharding_strategy": 1, "fsdp_offload_params": "yes"}, "0.20.3", "warning") == {"FSD001"}


@table("""release, refused
0.33.0, no
0.34.2, yes
1.7.0, yes""")
def test_unknown_wrap_policy_is_ignored_by_old_releases(release: str, refused: bool) -> None:
	block = {"fsdp_auto_wrap_policy": "TRANSFORMER_WRAP"}
	assert ("FSD001" in said(block, release)) is refused
	assert ("FSD001" in said(block, release, "warning")) is not refused


@table("""release, refused
0.34.2, yes
1.12.0, yes
1.13.0, no""")
def test_default_of_min_num_params_was_a_float(release: str, refused: bool) -> None:
	assert ("FSD001" in said({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP"}, release)) is refused


def test_version_without_reshard_and_with_it() -> None:
	assert said({"fsdp_version": 3}) >= {"FSD007"}
	with_strategy = {"fsdp_version": 3, "fsdp_reshard_after_forward": "FULL_SHARD"}
	assert said(with_strategy) == {"FSD007"}
	assert not said(with_strategy, mixed_precision="no")
	assert "FSD007" in said(with_strategy, severity="warning", mixed_precision="no")


@table("""strategy, severity
1, info
x, warning""")
def test_strategy_under_fsdp2_weighs_what_takes_effect(strategy: object, severity: str) -> None:
	assert "FSD004" in said({"fsdp_version": 2, "fsdp_sharding_strategy": strategy}, severity=severity)


def test_full_state_dict_under_fsdp2() -> None:
	assert "FSD008" not in said({"fsdp_version": 2, "fsdp_state_dict_type": "FULL_STATE_DICT"})


def test_unread_under_fsdp2() -> None:
	block = {"fsdp_version": 2, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
	assert "FSD002" in said({**block, "fsdp_use_orig_params": "false"}, severity="warning")
	assert "FSD002" in said({**block, "fsdp_backward_prefetch": "BACKWARD_POST"}, severity="warning")


def test_sync_and_loading_go_by_truth_of_python() -> None:
	quoted = {"fsdp_cpu_ram_efficient_loading": "false", "fsdp_sync_module_states": False}
	assert said(quoted) == {"FSD005"}
	assert not said({"fsdp_cpu_ram_efficient_loading": False, "fsdp_sync_module_states": False})
	assert not said({"fsdp_cpu_ram_efficient_loading": "true", "fsdp_sync_module_states": "false"})
	assert "FSD005" not in said({"fsdp_sharding_strategy": 1, "fsdp_sync_module_states": False}, "0.23.0")


def launch(block: dict[str, Any], release: str = NEWEST) -> Launch:
	document = load.load(Raw("config.json", json.dumps({**HEAD, "fsdp_config": block})), "accelerate")
	assert isinstance(document, Document)
	found = launch_of(document, release, Context())
	assert found is not None
	return found


def test_meaning_is_the_same_for_all_spellings() -> None:
	for spelling in (2, "2", " 2"):
		assert values.meaning(launch({"fsdp_version": spelling}), "fsdp_version") == 2
	for spelling in ("shard_grad_op", 2, "2"):
		assert values.meaning(launch({"fsdp_sharding_strategy": spelling}), "fsdp_sharding_strategy") == "SHARD_GRAD_OP"
	assert values.meaning(launch({}), "fsdp_use_orig_params") is True
	assert values.meaning(launch({}, "0.24.1"), "fsdp_use_orig_params") is False


@pytest.mark.parametrize("text", ["4", " 4", "1_000", "+4", "-1"])
def test_integers_are_read_as_python_reads_them(text: str) -> None:
	assert read({"read": "integer"}, text, NEWEST).meaning == int(text)


def test_a_rename_that_would_be_refused_is_not_safe() -> None:
	text = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_backward_prefetch_policy: NONE}\n"
	[fix] = [one.fix for one in judged(text) if one.code == "ACC020"]
	assert fix is not None
	assert fix.applicability.value == "unsafe"


# The launcher refuses the policy and the version, so which of the other settings count is open until they are mended.
@packed_table("rules_fsdp.nothing_is_said_of_settings_whose_control_is_refused")
def test_nothing_is_said_of_settings_whose_control_is_refused(
	control: tuple[str, object], dependent: tuple[str, object]
) -> None:
	found = [item for item in findings(dict([control, dependent])) if item.severity.value != "info"]
	assert [item.code for item in found] == ["FSD001"]
	assert control[0] in found[0].message


@pytest.mark.parametrize("names", [("fsdp_offload_params", "offload_params"), ("fsdp_version", "version")])
def test_the_name_that_loses_is_told_and_not_the_other(names: tuple[str, str]) -> None:
	# accelerate 1.15.0, _validate_launch_command: the last of both is what setattr leaves behind
	pairs = {"fsdp_offload_params": (False, True), "fsdp_version": (2, 1)}[names[0]]
	for first, last in (names, names[::-1]):
		block = {first: pairs[0], last: pairs[1]}
		(told,) = [item for item in findings(block) if item.code == "ACC025"]
		assert told.message.startswith(f"{first} has no effect")
	assert "ACC025" not in said({names[0]: pairs[0], names[1]: pairs[0]}, severity="warning")
