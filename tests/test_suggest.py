"""Near misses and lists. The distance is checked against its plain recursive definition."""

from datetime import date
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import table

from distributed_training_backends.rules.suggest import _distance, _places, closest, listing, shown

WORDS = st.text(alphabet="abcd", max_size=6)


@cache
def defined(one: str, other: str) -> int:
	if not one or not other:
		return len(one) + len(other)
	ways = [defined(one[:-1], other) + 1, defined(one, other[:-1]) + 1]
	ways.append(defined(one[:-1], other[:-1]) + (one[-1] != other[-1]))
	if len(one) > 1 and len(other) > 1 and one[-1] == other[-2] and one[-2] == other[-1]:
		ways.append(defined(one[:-2], other[:-2]) + 1)
	return min(ways)


@given(WORDS, WORDS)
def test_distance_is_the_defined_one(one: str, other: str) -> None:
	assert not one or _distance(_places(one), len(one), other) == defined(one, other)


@given(st.lists(WORDS, max_size=8), WORDS)
def test_nearest_candidate_is_the_one_by_definition(candidates: list[str], word: str) -> None:
	limit = max(1, len(word) // 4)
	near = sorted((defined(word, other), other) for other in candidates if other != word)
	expected = near[0][1] if len(word) >= 3 and near and near[0][0] <= limit else None
	assert closest(word, candidates) == expected


@table("""word, found
fsdp_confg, fsdp_config
mixed-precision, mixed_precision
MIXED_PRECISION, mixed_precision
num_proceses, num_processes
learning_rate, ~
ab, ~""")
def test_near_misses(word: str, found: str | None) -> None:
	assert closest(word, ["fsdp_config", "mixed_precision", "num_processes", "num_machines"]) == found


def test_a_word_is_no_near_miss_of_itself() -> None:
	assert closest("num_processes", ["num_processes"]) is None


def test_lists() -> None:
	assert listing(["NO"]) == "NO"
	assert listing(["NO", "FSDP", "XLA"]) == "NO, FSDP or XLA"
	assert listing(range(16)).endswith("13 and 2 more")


@table("""value, text
~, 'null'
yes, 'true'
a, '"a"'
3, '3'
[1], '[1]'""")
def test_values_in_messages(value: object, text: str) -> None:
	assert shown(value) == text


def test_long_values_are_cut() -> None:
	assert len(shown("x" * 500)) == 62


@pytest.mark.parametrize(
	("value", "text"),
	[
		(["a", {"b": None}], '["a", {"b": null}]'),
		(float("inf"), "Infinity"),
		(date(2020, 1, 1), '"2020-01-01"'),
		({date(2020, 1, 1): 1}, "{datetime.date(2020, 1, 1): 1}"),
	],
)
def test_values_are_shown_as_json_where_that_can_be(value: object, text: str) -> None:
	assert shown(value) == text
