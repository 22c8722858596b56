"""The real libraries against what is known about them for certain, and a quick comparison."""

import json
from typing import Any

import pytest
from tests import gated
from tests.oracle import environment, liveness
from tests.oracle.agreement import AMOUNTS, FIXED_SEED, Sources
from tests.oracle.cases import Case, corpus, own, questions
from tests.oracle.client import Library, Oracle
from tests.oracle.comparison import Comparison, Row, truth_of
from tests.oracle.environment import PINS

pytestmark = gated.oracle
ACCELERATE = "distributed_type: MULTI_GPU\nnum_processes: 4\n"


def launched(oracle: Oracle, text: str) -> dict[str, Any]:
	return oracle.ask(questions(Case("c", "accelerate", text))["launch"])


@pytest.mark.parametrize(
	("text", "error"),
	[
		(ACCELERATE, None),
		(ACCELERATE + "wrong: 1\n", "ValueError"),
		("num_processes: 4\n", "ValueError"),
		(
			"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_state_dict_type: LOCAL_STATE_DICT}",
			"ValueError",
		),
		("distributed_type: MULTI_GPU\nmixed_precision: no\n", "AttributeError"),
		("a: b: c\n", "ScannerError"),
	],
)
def test_accelerate_accepts_and_refuses(accelerate: Oracle, text: str, error: str | None) -> None:
	answer = launched(accelerate, text)
	assert (answer.get("error") or {}).get("type") == error
	assert (answer["verdict"] == "accepted") == (error is None)


def test_what_is_built_is_told(accelerate: Oracle) -> None:
	answer = launched(accelerate, ACCELERATE + "mixed_precision: bf16\n")
	assert answer["facts"]["launch"]["route"] == "multi_gpu_launcher"
	assert answer["facts"]["launch"]["torchrun"]["nproc_per_node"] == 4
	assert answer["facts"]["state"]["mixed_precision"] == "bf16"
	assert answer["facts"]["state"]["num_processes"] == 4
	assert answer["faked"]


def test_an_answer_is_asked_for_once(accelerate: Oracle) -> None:
	first = launched(accelerate, ACCELERATE)
	asked = accelerate.asked
	assert launched(accelerate, ACCELERATE) == first
	assert accelerate.asked == asked


def test_cases_do_not_touch_each_other(accelerate: Oracle) -> None:
	text = "distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}\n"
	launched(accelerate, text)
	assert launched(accelerate, ACCELERATE + "debug: true\n")["facts"]["state"]["fsdp_plugin"] is None


@pytest.mark.parametrize(
	("fields", "verdicts"),
	[
		({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, ["accepted", "accepted"]),
		({"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}, ["rejected", "accepted"]),
		({"load_in_4bit": True, "load_in_8bit": True}, ["rejected", "rejected"]),
	],
)
def test_quantization_fields_have_two_readers(accelerate: Oracle, fields: dict[str, Any], verdicts: list[str]) -> None:
	asked = questions(Case("q", "quantization", json.dumps(fields), ".json"))
	assert [accelerate.ask(question)["verdict"] for question in asked.values()] == verdicts


def test_a_deepspeed_file_has_three_readers(deepspeed: Oracle) -> None:
	config = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}, "steps_per_printt": 3}
	asked = questions(Case("d", "deepspeed", json.dumps(config), ".json"))
	answers = {reader: deepspeed.ask(question) for reader, question in asked.items()}
	verdicts = {reader: answer["verdict"] for reader, answer in answers.items()}
	assert verdicts == {"deepspeed": "rejected", "accelerate": "accepted", "trainer": "accepted"}


def test_keys_that_deepspeed_does_not_read_are_told(deepspeed: Oracle) -> None:
	config = {"train_micro_batch_size_per_gpu": 2, "steps_per_printt": 3}
	answer = deepspeed.ask(questions(Case("d", "deepspeed", json.dumps(config), ".json"))["deepspeed"])
	assert answer["facts"]["unread"] == ["steps_per_printt"]


@pytest.mark.parametrize(("config", "verdict"), [({"version": 2}, "accepted"), ({"version": "two"}, "rejected")])
def test_fsdp_config_goes_through_training_arguments(deepspeed: Oracle, config: dict[str, Any], verdict: str) -> None:
	answer = deepspeed.ask(questions(Case("f", "fsdp", json.dumps(config), ".json"))["trainer"])
	assert answer["verdict"] == verdict


def test_an_old_release_can_be_asked() -> None:
	with Oracle(environment.default(), "accelerate", "0.20.3") as oracle:
		assert launched(oracle, ACCELERATE + "machine_rank: 0\nnum_machines: 1\nmixed_precision: 'no'\n")[
			"verdict"
		] in ("accepted", "rejected")
		answer = launched(oracle, ACCELERATE + "debug: false\n")
	assert truth_of(answer).error["type"] == "TypeError"  # `debug` came with 0.22


@pytest.mark.parametrize("library", ["accelerate", "deepspeed"])
def test_validator_and_library_agree_on_a_sample(library: Library) -> None:
	sources = Sources(corpus(), list(own()), FIXED_SEED, 0)
	with Comparison(environment.default(), library, PINS[library]) as comparison:
		rows = [row for case in sources.draw(library, True, AMOUNTS["quick"][0]) for row in comparison.rows(case)]
	false_errors = [row for row in rows if row.outcome == "false error" and row.case.group == "corpus"]
	assert not false_errors, [short(row) for row in false_errors]
	compared = [row for row in rows if row.outcome != "left out"]
	agreed = sum(row.outcome == "agree" for row in compared)
	assert agreed >= 0.95 * len(compared), [short(row) for row in compared if row.outcome != "agree"]


def short(row: Row) -> str:
	return f"{row.case.name} ({row.reader}): {row.outcome}: {row.truth.cause or row.said.errors}"


def test_unread_keys_are_warned_about(accelerate: Oracle) -> None:
	case = next(case for case in liveness.configs() if case.name == "own-no-many-processes")
	found = liveness.check(accelerate, PINS["accelerate"], [case])
	statuses = {expectation.key.path[-1]: expectation.key.status for expectation in found}
	assert statuses["num_processes"] in ("dead", "env_only")
	assert statuses["mixed_precision"] == "live"
	different = [liveness.describe(expectation) for expectation in found if not expectation.met]
	assert not different, different
