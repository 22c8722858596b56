"""What the DSP rules make of a config, beyond their examples: arithmetic, readers, releases, names, fixes, data."""

import json
from itertools import product
from typing import Any

import pytest
from tests.tables import packed_table, table

from distributed_training_backends.flow.deepspeed import Reading, read
from distributed_training_backends.flow.inputs import DeepSpeedFile
from distributed_training_backends.knowledge import deepspeed as knowledge
from distributed_training_backends.model import Applicability, Consumer, Context, Severity, Targets
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.deepspeed_batch import Batch, comes_out, holds
from distributed_training_backends.rules.deepspeed_conditions import FACTS, same
from distributed_training_backends.rules.registry import RULES, Hit, run_rules
from distributed_training_backends.sources.json_source import parse_json

catalog.load()
NEWEST = knowledge.releases()[-1]
# blocks whose keys DeepSpeed looks up one by one, far from its config
FREE = ("compression_training.", "data_efficiency.data_routing.random_ltd.")
READERS: tuple[Consumer, ...] = ("deepspeed", "accelerate", "trainer")
PLAIN: dict[str, Any] = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}


def file_of(data: Any, reader: Consumer = "deepspeed", release: str = NEWEST, **context: Any) -> DeepSpeedFile:
	text = data if isinstance(data, str) else json.dumps(data)
	targets = Targets("1.15.0", release, "5.24.0", "2.13.0")
	return DeepSpeedFile(parse_json("ds.json", text, "deepspeed"), reader, targets, Context(**context))


def hits(
	data: Any, reader: Consumer = "deepspeed", release: str = NEWEST, **context: Any
) -> list[tuple[str, str, Hit]]:
	file = file_of(data, reader, release, **context)
	inputs = {"deepspeed": file, "reading": read(file), "targets": file.targets, "context": file.context}
	found = run_rules(inputs, dict(file.targets.items()))
	return [(rule.code, severity.value, hit) for rule, severity, hit in found if rule.code.startswith("DSP")]


def hit_of(data: Any, code: str, reader: Consumer = "deepspeed") -> Hit:
	"""The first hit of a rule."""
	return next(hit for found, _, hit in hits(data, reader) if found == code)


def said(data: Any, reader: Consumer = "deepspeed", release: str = NEWEST, **context: Any) -> set[tuple[str, str]]:
	found = hits(data, reader, release, **context)
	return {(code, severity) for code, severity, _ in found if severity != "info"}


def reading_of(data: dict[str, Any], reader: Consumer = "deepspeed", release: str = NEWEST, **context: Any) -> Reading:
	reading = read(file_of(data, reader, release, **context))
	assert reading is not None
	return reading


def by_deepspeed(total: Any, micro: Any, steps: Any, world: int) -> bool:
	if total is not None and micro is not None and steps is not None:
		pass
	elif total is not None and micro is not None:
		steps = total // micro // world
	elif total is not None and steps is not None:
		micro = total // world // steps
	elif micro is not None and steps is not None:
		total = micro * steps * world
	elif total is not None:
		steps, micro = 1, total // world
	else:
		total, steps = micro * world, 1
	return bool(total > 0 and micro > 0 and steps > 0 and total == micro * steps * world)


@pytest.mark.parametrize("total", [None, 1, 6, 7, 12, 32, 100])
def test_batch_sizes_come_out_for_some_world_or_for_none(total: int | None) -> None:
	for micro, steps in product((None, 1, 2, 3, 5, 8, 200), (None, 1, 2, 3, 7)):
		if total is None and micro is None:
			continue
		expected = any(by_deepspeed(total, micro, steps, world) for world in range(1, 250))
		assert comes_out(Batch(total, micro, steps, frozenset(), None)) == expected, (total, micro, steps)


def test_batch_sizes_with_a_known_world() -> None:
	for total, micro, steps, world in product((8, 12, 64), (None, 1, 4), (None, 1, 2), (1, 2, 3, 8)):
		assert holds(total, micro, steps, world) == by_deepspeed(total, micro, steps, world)
	assert ("DSP022", "error") in said({**PLAIN, "train_batch_size": 32}, num_processes=3)
	assert ("DSP022", "error") not in said({**PLAIN, "train_batch_size": 32}, num_processes=8)


@packed_table("rules_deepspeed.what_is_said")
def test_what_is_said(reader: Consumer, release: str | None, data: dict[str, Any], expected: dict[str, str]) -> None:
	given = {name: value for name, value in {**PLAIN, **data}.items() if value is not None}
	assert said(given, reader, release or NEWEST, num_processes=4) == set(expected.items())


def test_auto_is_no_number_for_deepspeed() -> None:
	assert ("DSP020", "error") in said({**PLAIN, "train_micro_batch_size_per_gpu": "auto"})


def test_filled_values_stand_in_for_auto() -> None:
	data = {"zero_optimization": {"stage": "auto"}, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}
	raw, filled = reading_of(data), reading_of(data, "accelerate", mixed_precision="bf16")
	assert (raw.stage, raw.dtype) == (0, "fp32")
	assert (filled.stage, filled.dtype) == (2, "bf16")
	assert filled.data["gradient_accumulation_steps"] == 1
	assert filled.filled == {"zero_optimization.stage", "fp16.enabled", "bf16.enabled"}
	assert data["zero_optimization"]["stage"] == "auto"


def test_any_text_turned_half_precision_on_before_it_was_checked() -> None:
	data = {**PLAIN, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}
	assert ("DSP040", "error") in said(data, release="0.17.0")
	assert ("DSP040", "error") not in said(data, release="0.17.1")


def test_old_names_are_read_as_the_new_ones() -> None:
	assert reading_of({"bfloat16": {"enabled": True}}).bf16
	assert not reading_of({"bfloat16": {"enabled": True}, "bf16": {"enabled": False}}).bf16
	assert reading_of({"zero_optimization": True}).stage == 1
	assert reading_of({"zero_optimization": {"cpu_offload": True}}).cpu_optimizer
	assert (
		reading_of({"zero_optimization": {"prefetch_bucket_size": 5}}).value(
			"zero_optimization.stage3_prefetch_bucket_size"
		)
		== 5
	)


def test_half_precision_blocks_became_strict() -> None:
	data = {**PLAIN, "bf16": {"enabled": True, "loss_scale": 0}}
	assert {severity for _, severity in said(data, release="0.17.0")} == {"warning"}
	assert {severity for _, severity in said(data, release="0.17.1")} == {"error"}


def test_a_near_miss_is_offered_and_renamed() -> None:
	data = {**PLAIN, "zero_optimization": {"stage": 2, "overlap_coms": True}}
	hit = hit_of(data, "DSP004")
	assert "did you mean `overlap_comm`?" in hit.message
	assert hit.repair is not None
	assert (hit.repair.applicability, hit.repair.operations[0].text) == (Applicability.SAFE, "overlap_comm")


def test_no_rename_over_an_entry_that_is_there() -> None:
	data = {**PLAIN, "zero_optimization": {"stage": 2, "overlap_coms": True, "overlap_comm": False}}
	hit = hit_of(data, "DSP004")
	assert hit.repair is None


def test_a_key_of_zero_optimization_at_the_top_is_moved() -> None:
	hit = hit_of({"stage3_max_live_parameters": 1, **PLAIN}, "DSP006")
	assert hit.repair is not None
	assert hit.repair.operations[0].target == ("zero_optimization",)
	assert hit.at.pointer == ("stage3_max_live_parameters",)


def test_remarks_are_only_mentioned() -> None:
	assert said({"_comment": "ZeRO 2 on eight GPUs", **PLAIN}) == set()
	assert ("DSP004", "info") in {(code, severity) for code, severity, _ in hits({"_comment": "x", **PLAIN})}


def test_removal_is_safe_only_where_the_feature_is_off() -> None:
	for value, wanted in ((False, Applicability.SAFE), (True, Applicability.UNSAFE)):
		hit = hit_of({**PLAIN, "sparse_gradients": value}, "DSP007")
		assert hit.repair is not None
		assert hit.repair.applicability is wanted


def test_json_for_one_reader_and_hjson_for_the_other() -> None:
	text = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2,},}'
	assert said(text) == set()
	assert said(text, "trainer") == {("DSP001", "error")}


def test_hjson_makes_integers_of_whole_numbers() -> None:
	assert reading_of({"train_batch_size": 1e9}).data == {"train_batch_size": 10**9}
	assert isinstance(reading_of({"train_batch_size": 1e10}).data["train_batch_size"], float)


def test_an_unquoted_placeholder_is_text_for_deepspeed() -> None:
	text = '{\n"train_micro_batch_size_per_gpu": 4,\n"zero_optimization": {\n"stage": $STAGE\n}\n}'
	assert said(text) == {("DSP010", "error")}
	assert ("DSP001", "error") in said(text, "accelerate")


@table("""offload, torch_adam, taken, refused
~, no, set_grad_none, foreach
cpu, no, fp32_optimizer_states, set_grad_none
~, yes, foreach, set_grad_none""")
def test_parameters_of_the_class_that_is_built(offload: str | None, torch_adam: bool, taken: str, refused: str) -> None:
	zero = {"stage": 2, "offload_optimizer": {"device": offload}} if offload else {"stage": 2}
	for name, expected in ((taken, set()), (refused, {("DSP032", "error")})):
		params = {"lr": 0.001, name: False} | ({"torch_adam": True} if torch_adam else {})
		data = {**PLAIN, "zero_optimization": zero, "optimizer": {"type": "AdamW", "params": params}}
		assert said(data) == expected, name


def test_the_trainer_wants_what_its_arguments_say() -> None:
	data = {**PLAIN, "gradient_clipping": 0.5}
	assert said(data, "trainer", arguments=(("max_grad_norm", 1.0),)) == {("DSP051", "error")}


def test_settings_of_another_stage_are_mentioned_at_their_default_only() -> None:
	at_default = {**PLAIN, "zero_optimization": {"stage": 2, "stage3_max_live_parameters": 1000000000}}
	assert ("DSP060", "info") in {(code, severity) for code, severity, _ in hits(at_default)}


def test_lost_accumulation_is_told_for_the_releases_concerned() -> None:
	data = {**PLAIN, "gradient_accumulation_steps": 8}
	spoken = [release for release in knowledge.releases() if ("DSP062", "warning") in said(data, release=release)]
	assert spoken == ["0.17.6", "0.18.0", "0.18.1", "0.18.2"]


def test_every_value_survives() -> None:
	odd: tuple[Any, ...] = (None, True, 0, -1.5, "", "auto", [], [{}], {}, {"a": {"b": [1]}}, 10**30)
	data = {
		**PLAIN,
		"optimizer": {"type": "AdamW", "params": {"lr": 1}},
		"scheduler": {"type": "WarmupLR", "params": {}},
		"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
		"bf16": {"enabled": True},
	}
	inner = (("zero_optimization", "stage"), ("zero_optimization", "offload_optimizer"), ("optimizer", "type"))
	for path in [*((name,) for name in data), *inner, ("bf16", "enabled")]:
		for value in odd:
			block = {**data[path[0]], path[1]: value} if path[1:] else value
			for reader in READERS:
				hits({**data, path[0]: block}, reader)


def test_rule_data_name_settings_and_rules_that_there_are() -> None:
	data = load_json("deepspeed_rules.json")
	known = {path for release in ("0.9.0", "0.16.9", "0.19.6", NEWEST) for path in knowledge.for_release(release).keys}
	for row in [*data["conflicts"], *data["unused"], *data["values"]]:
		subjects = [*row.get("when", {}), *row.get("keys", ()), *([row["at"]] if "at" in row else ())]
		for subject in subjects:
			assert subject in FACTS or subject.rstrip("?!") in known or subject.startswith(FREE), subject
	assert {row["rule"] for row in data["conflicts"]} <= set(RULES)
	for row in data["conflicts"]:
		row["message"].format(value="x", release="1")


def test_true_is_not_one() -> None:
	assert same(1, 1.0)
	assert not same(True, 1)
	assert Severity.ERROR.rank == 0


# hjson 3.1.0, which DeepSpeed reads its file with, takes what follows NaN to the line's end for a text.
ONE_LINE = '{"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": NaN}}'
OWN_LINE = '{"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true, "loss_scale": NaN\n}}'
UNREAD = '{"train_batch_size": 8, "zero_optimization": {"stage": 1}, "mine": NaN\n}'


@pytest.mark.parametrize(
	("text", "reader", "expected"),
	[
		(ONE_LINE, "deepspeed", {("DSP001", "error")}),
		(OWN_LINE, "deepspeed", {("DSP010", "error")}),
		(OWN_LINE, "accelerate", {("DSP010", "error")}),
		(UNREAD, "deepspeed", {("DSP004", "warning")}),
		('{"train_batch_size": NaN,\n "steps_per_print": 10}', "deepspeed", {("DSP020", "error")}),
	],
)
def test_what_is_no_number_for_hjson(text: str, reader: Consumer, expected: set[tuple[str, str]]) -> None:
	assert said(text, reader) == expected


def test_text_of_a_line_is_shown_as_deepspeed_gets_it() -> None:
	((_, _, hit),) = hits(OWN_LINE)
	assert hit.message.endswith('but is "NaN"')


@pytest.mark.parametrize(
	("text", "advice"),
	[
		('{"a": $STAGE,\n "b": 1}', "fill in the placeholder $STAGE first"),
		('{"a": two,\n "b": 1}', "put quotation marks around two"),
		("train_batch_size: 8", "this is YAML, or text: write a JSON object in braces"),
	],
)
def test_what_to_do_about_bare_words(text: str, advice: str) -> None:
	(found,) = [hit for code, _, hit in hits(text, "accelerate") if code == "DSP001"]
	assert found.message.endswith(advice)


@table("""stage, told
'3', yes
'2', yes
'1', no
3, no
auto, no""")
def test_a_quoted_stage_is_no_stage_for_hugging_face(stage: object, told: bool) -> None:
	# HfDeepSpeedConfig compares with == 2 and == 3, and nothing else asks for a stage
	data = {**PLAIN, "zero_optimization": {"stage": stage}}
	for reader in ("accelerate", "trainer"):
		assert (("DSP061", "warning") in said(data, reader)) is told
	assert ("DSP061", "warning") not in said(data, "deepspeed")


# runtime/config.py hands the block to compression/config.py, the same in its last release as in its first
@pytest.mark.parametrize("release", ["0.9.0", "0.12.6", "0.19.6"])
@table("""technique, given, wanted
weight_quantization, {start_bits: 8}, target_bits
activation_quantization, {}, bits
sparse_pruning, {}, dense_ratio
row_pruning, {}, dense_ratio
head_pruning, {}, dense_ratio
channel_pruning, {}, dense_ratio""")
def test_a_group_of_compression_needs_its_parameters(
	release: str, technique: str, given: dict[str, Any], wanted: str
) -> None:
	def data(params: dict[str, Any]) -> dict[str, Any]:
		return {**PLAIN, "compression_training": {technique: {"different_groups": {"mine": {"params": params}}}}}

	(message,) = [hit.message for code, _, hit in hits(data(given), release=release) if code == "DSP012"]
	assert f"`{wanted}`" in message
	assert not said(data({**given, wanted: 4}), release=release)


# Each of them ended in an error of deepspeed.initialize, or went through, in the release that is named.
@packed_table("rules_deepspeed.expert_parallel_is_checked_as_the_release_does")
def test_expert_parallel_is_checked_as_the_release_does(settings: dict[str, Any], release: str, refused: bool) -> None:
	found = said({**PLAIN, "expert_parallel": {"enabled": True, **settings}}, release=release)
	assert any(severity == "error" for _, severity in found) is refused
	assert not said({**PLAIN, "expert_parallel": {"enabled": False, **settings}}, release=release)


@packed_table("rules_deepspeed.the_pipeline_block_is_judged_though_any_key_is_stored")
def test_the_pipeline_block_is_judged_though_any_key_is_stored(block: dict[str, Any], code: str | None) -> None:
	# runtime/pipe/engine.py of 0.19.8 asserts two truth values and compares the interval with 0
	assert said({**PLAIN, "pipeline": block}) == ({(code, "warning")} if code else set())


def test_slips_in_data_efficiency_are_told() -> None:
	sampling = {"enabled": True, "num_epoch": 2, "curriculum_learning": {"enable": True}}
	data = {**PLAIN, "data_efficiency": {"data_sampling": sampling, "data_routing": {"random_ltd": {"enable": True}}}}
	slips = [hit.at.pointer[-1] for code, _, hit in hits(data) if code == "DSP004"]
	assert sorted(map(str, slips)) == ["enable", "enable", "num_epoch"]


def test_one_cause_is_one_finding() -> None:
	# json.load has stopped at the comment; and Accelerate refuses the "auto" of the key that is misspelt
	assert said('{"train_batch_size": 8, // all\n "bf16": {"enabled": true}}', "accelerate") == {("DSP001", "error")}
	found = hits({**PLAIN, "bf16": {"enable": "auto"}}, "accelerate")
	(only,) = [hit for _, severity, hit in found if severity != "info"]
	assert "did you mean `enabled`?" in only.message
	assert only.repair is not None
