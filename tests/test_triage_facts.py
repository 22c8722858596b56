"""Facts: the schema and our own reading of it agree, messages name the fact, what is missing is assumed and told."""

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from distributed_training_backends.resources import load_json
from distributed_training_backends.triage.assumptions import completed, value_of, with_fact
from distributed_training_backends.triage.fact_schema import SCHEMA, check, facts_schema
from distributed_training_backends.triage.facts import Facts, read_facts

LLAMA = {"model": {"name": "llama-3-8b"}}
FULL = {
	"model": {"params": 8030261248, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "vocab": 128256},
	"task": {"kind": "lora", "lora_rank": 16, "lora_targets": ["q_proj", "v_proj"], "lora_dropout": 0.05},
	"batch": {"seq": 8192, "micro_batch": 2, "accumulation": 4},
	"precision": "bf16",
	"weights": "bf16",
	"optimizer": "adamw_torch",
	"attention": "sdpa",
	"loss": "transformers",
	"checkpointing": "full",
	"compile": False,
	"hardware": {"device": "cuda", "nodes": 2, "gpus_per_node": 8, "gpu": "A100-80GB", "gpu_memory_gib": 80},
	"versions": {"accelerate": "1.15.0", "bitsandbytes": "0.45.0"},
	"wish": "fsdp2",
}
# Values that go wrong in one place or another, and some that do not.
VALUES = st.one_of(
	st.none(),
	st.booleans(),
	st.integers(-2, 10**13),
	st.floats(allow_nan=False, allow_infinity=False),
	st.sampled_from(["", "bf16", "lora", "nvlink", "cuda", "1.15.0", "full", "adamw_torch", "no"]),
	st.lists(st.sampled_from(["q_proj", ""]), max_size=2),
	st.dictionaries(st.sampled_from(["name", "kind", "seq"]), st.integers(0, 3), max_size=2),
)


def places(schema: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
	found = []
	for name, inner in schema.get("properties", {}).items():
		found.append((*at, name))
		found += places(inner, (*at, name))
	return found


PLACES = places(load_json(SCHEMA))


def put(data: dict[str, Any], place: tuple[str, ...], value: object) -> dict[str, Any]:
	name, rest = place[0], place[1:]
	inner = data.get(name)
	kept = inner if isinstance(inner, dict) else {}
	return {**data, name: put(kept, rest, value) if rest else value}


def accepted(data: dict[str, Any]) -> tuple[Facts, list[tuple[str, str]]]:
	facts, problems = read_facts(data)
	return facts, [(one.pointer, one.message) for one in problems]


def test_schema_is_flat_enough_for_every_client() -> None:
	schema = load_json(SCHEMA)
	Draft202012Validator.check_schema(schema)
	text = str(schema)
	assert "$ref" not in text
	assert "anyOf" not in text
	kinds = {reduce(lambda at, name: at["properties"][name], place, schema).get("type") for place in PLACES}
	assert kinds <= {"object", "array", "string", "integer", "number", "boolean"}


@given(st.lists(st.tuples(st.sampled_from([*PLACES, ("modle",), ("batch", "sequence")]), VALUES), max_size=3))
def test_our_reading_agrees_with_a_full_validator(changes: list[tuple[tuple[str, ...], object]]) -> None:
	data = dict(FULL)
	for place, value in changes:
		data = put(data, place, value)
	assert (check(data) == []) == Draft202012Validator(dict(facts_schema())).is_valid(data)


@pytest.mark.parametrize("data", [None, [], "llama-3-8b", 3, {}, {"model": None}, {"model": "llama-3-8b"}])
def test_what_is_no_set_of_facts_is_told(data: Any) -> None:
	assert check(data) != []


def test_facts_are_read_as_they_are_told() -> None:
	facts, problems = accepted(FULL)
	assert problems == []
	assert facts.task.lora_targets == ("q_proj", "v_proj")
	assert facts.hardware.world == 16
	assert facts.versions.accelerate == "1.15.0"
	assert facts.versions.torch == load_json("targets.json")["torch"]
	assert facts.bitsandbytes == "0.45.0"
	assert facts.named_releases == ("accelerate", "bitsandbytes")


def test_whole_numbers_may_come_as_floats() -> None:
	facts, problems = accepted({**LLAMA, "batch": {"seq": 4096.0}})
	assert problems == []
	assert facts.batch.seq == 4096
	assert isinstance(facts.batch.seq, int)


@pytest.mark.parametrize(
	("changes", "pointer", "words"),
	[
		({"batch": {"seq": 0}}, "/batch/seq", "from 1 to"),
		({"batch": {"micro_batch": 1.5}}, "/batch/micro_batch", "1.5 is not a whole number"),
		({"batch": {"micro_batch": True}}, "/batch/micro_batch", "true is not a whole number"),
		({"batch": {"seq": float("inf")}}, "/batch/seq", "is not a whole number"),
		({"hardware": {"gpu_memory_gib": 0}}, "/hardware/gpu_memory_gib", "above 0 to 4096"),
		({"hardware": {"nodes": 10**9}}, "/hardware/nodes", "from 1 to 100000"),
		({"precision": "bf61"}, "/precision", "did you mean bf16?"),
		({"optimiser": "sgd"}, "/optimiser", "did you mean optimizer?"),
		({"task": {"kind": "sft"}}, "/task/kind", "full, lora, qlora, continued or inference"),
		({"task": {"lora_targets": "q_proj"}}, "/task/lora_targets", "no list"),
		({"model": {"layers": 10**6, "hidden": 8}}, "/model/layers", "from 1 to 1000"),
		({"versions": {"accelerate": "newest"}}, "/versions/accelerate", "is not a release number"),
		({"compile": "yes"}, "/compile", "neither true nor false"),
		({"model": {}}, "/model", "the model is empty"),
		({"model": {"heads": 32, "kv_heads": 5}}, "/model/kv_heads", "5 does not divide the 32 heads"),
		({"model": {"hidden": 100, "heads": 32}}, "/model/heads", "give head_dim"),
		({"model": {"experts": 4, "experts_per_token": 8}}, "/model/experts_per_token", "more than the number"),
		({"task": {"kind": "full", "lora_rank": 8}}, "/task/lora_rank", "has no adapters"),
		({"task": {"kind": "full", "quantization": "nf4"}}, "/task/quantization", "cannot be trained"),
		({"task": {"kind": "qlora", "quantization": "none"}}, "/task/quantization", "qlora trains adapters"),
		({"precision": "pure_bf16", "weights": "fp32"}, "/weights", "pure_bf16 means bf16 weights"),
		({"task": {"kind": "lora", "lora_targets": ["nothing"]}}, "/task/lora_targets", "nothing"),
	],
)
def test_messages_name_the_fact_and_what_is_allowed(changes: dict[str, Any], pointer: str, words: str) -> None:
	_, problems = accepted({**LLAMA, **changes})
	assert [where for where, _ in problems] == [pointer]
	assert words in problems[0][1]


def test_many_problems_end_somewhere() -> None:
	assert len(check({"model": {}, **{f"key{number}": 1 for number in range(1000)}})) <= 50


def test_what_is_missing_is_assumed_and_told() -> None:
	facts, problems = accepted(LLAMA)
	assert problems == []
	full, made = completed(facts)
	for one in made:
		assert value_of(facts, one.name) is None
		assert value_of(full, one.name) == one.value
		assert one.why
	known = {one.name for one in made}
	assert {"task.kind", "batch.seq", "precision", "weights", "optimizer", "attention", "loss"} <= known
	assert completed(full)[1] == []


def test_what_is_told_is_not_assumed() -> None:
	full, made = completed(accepted(FULL)[0])
	assert full.batch == accepted(FULL)[0].batch
	assert {one.name for one in made} == {"task.quantization"}


@pytest.mark.parametrize(
	("transformers", "torch", "optimizer", "weights"),
	[
		# read in transformers' training_args.py and modeling_utils.py
		("4.53.3", "2.8.0", "adamw_torch", "fp32"),
		("4.54.1", "2.7.1", "adamw_torch", "fp32"),
		("4.54.1", "2.8.0", "adamw_torch_fused", "fp32"),
		("5.0.0", "2.8.0", "adamw_torch_fused", "bf16"),
	],
)
def test_defaults_are_those_of_the_release(transformers: str, torch: str, optimizer: str, weights: str) -> None:
	facts, _ = read_facts({**LLAMA, "versions": {"transformers": transformers, "torch": torch}})
	full, _ = completed(facts)
	assert (full.optimizer, full.weights) == (optimizer, weights)


def test_a_fact_can_be_looked_up_and_changed_by_name() -> None:
	facts, _ = read_facts(FULL)
	changed = with_fact(with_fact(facts, "batch.seq", 16), "precision", "fp16")
	assert (value_of(changed, "batch.seq"), value_of(changed, "precision")) == (16, "fp16")
