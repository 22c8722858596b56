"""Who reads a lone DeepSpeed file, and what is said when the readers differ."""

import json
from typing import Any

from distributed_training_backends import consumers
from distributed_training_backends.model import Consumer, Extent, Finding, Place, Severity
from distributed_training_backends.sources.json_source import parse_json

PLAIN = {"train_micro_batch_size_per_gpu": 4}
WITH_AUTO = {"train_micro_batch_size_per_gpu": "auto"}


def finding(code: str, severity: Severity = Severity.ERROR) -> Finding:
	place = Place("ds.json", "/x", Extent(0, 1), 1, 1, 1, 2)
	return Finding(code, "name", severity, f"{code} says so", place)


def combined(data: dict[str, Any], **said: list[Finding]) -> list[tuple[str, str]]:
	readers: tuple[Consumer, ...] = ("deepspeed", "accelerate", "trainer")
	by_reader = {reader: said.get(reader, []) for reader in readers}
	document = parse_json("ds.json", json.dumps(data), "deepspeed")
	return [(item.code, item.severity.value) for item in consumers.combine(document, by_reader)]


def test_a_file_that_everybody_takes_keeps_its_warnings() -> None:
	warning = finding("DSP060", Severity.WARNING)
	assert combined(PLAIN, deepspeed=[warning], accelerate=[warning], trainer=[warning]) == [("DSP060", "warning")]


def test_refusals_by_others_are_one_info() -> None:
	refusal = finding("DSP050")
	assert combined(PLAIN, accelerate=[refusal], trainer=[refusal]) == [("DSP000", "info")]


def test_auto_means_accelerate_or_the_trainer() -> None:
	said = combined(WITH_AUTO, deepspeed=[finding("DSP020")], accelerate=[finding("DSP064", Severity.INFO)])
	assert said == [("DSP064", "info"), ("DSP000", "info")]


def test_one_of_the_two_meant_readers_is_enough() -> None:
	assert combined(WITH_AUTO, deepspeed=[finding("DSP020")], accelerate=[finding("DSP023")]) == [("DSP000", "info")]


def test_refusal_by_all_meant_readers_is_a_warning() -> None:
	refusals = [finding("DSP023"), finding("DSP050")]
	assert combined(WITH_AUTO, accelerate=refusals, trainer=refusals[:1]) == [("DSP023", "warning"), ("DSP000", "info")]


def test_a_file_that_nobody_takes_is_an_error_with_the_common_reason() -> None:
	common = finding("DSP007")
	refusals = {
		"deepspeed": [finding("DSP020"), common],
		"accelerate": [finding("DSP023"), common],
		"trainer": [common],
	}
	assert combined(WITH_AUTO, **refusals) == [("DSP007", "error")]


def test_an_auto_of_deepspeed_itself_means_nobody() -> None:
	data = {"zero_optimization": {"zenflow": {"select_interval": "auto"}}, "pipeline": {"stages": "auto"}}
	assert not consumers.holds_auto(data)
	assert consumers.holds_auto({"fp16": {"enabled": "auto"}})
	assert not consumers.holds_auto(["auto"])


def test_the_info_names_who_takes_the_file_and_who_does_not() -> None:
	by_reader: dict[Consumer, list[Finding]] = {
		"deepspeed": [],
		"accelerate": [finding("DSP050")],
		"trainer": [finding("DSP050"), finding("DSP051")],
	}
	(said,) = consumers.combine(parse_json("ds.json", json.dumps(PLAIN), "deepspeed"), by_reader)
	assert said.message.startswith("this file is judged for DeepSpeed itself (--consumer ")
	assert said.message.endswith("; Accelerate and the Trainer would refuse it: DSP050 says so")
