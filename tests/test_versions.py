"""Release numbers: order, spans, words. Hypothesis draws numbers; the literals follow PEP 440."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import table

from distributed_training_backends.versions import (
	InvalidReleaseError,
	covers,
	describe,
	in_span,
	nearest,
	newest,
	parse,
)

NUMBERS = st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))


@pytest.mark.parametrize(
	("text", "number"),
	[
		("1.10", (1, 10, 0)),
		("1.10.1", (1, 10, 1)),
		("1.16.0.dev0", (1, 16, 0)),
		("2.13.0+cpu", (2, 13, 0)),
		("v0.34.2", (0, 34, 2)),
		("1.0rc1", (1, 0, 0)),
		("1.2.0.post1", (1, 2, 0)),
	],
)
def test_releases_are_read(text: str, number: tuple[int, ...]) -> None:
	assert parse(text) == number


@pytest.mark.parametrize("text", ["", "latest", "1.x", "1.2.0 beta gamma delta", "-1"])
def test_what_is_no_release_is_refused(text: str) -> None:
	with pytest.raises(InvalidReleaseError, match="is not a release number"):
		parse(text)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_spans_follow_the_order_of_numbers(first: tuple[int, ...], last: tuple[int, ...], at: tuple[int, ...]) -> None:
	texts = [".".join(map(str, number)) for number in (first, last, at)]
	assert in_span(texts[2], texts[0], texts[1]) is (first <= at <= last)
	assert in_span(texts[2], None, None)


@table("""spans, release, covered
'*', 0.20.0, yes
1.6.0.., 1.10.0, yes
1.6.0.., 1.5.2, no
..0.33.0, 0.33.0, yes
..0.33.0, 0.34.0, no
'0.29.0..0.30.0,0.34.0..', 0.31.0, no
'0.29.0..0.30.0,0.34.0..', 1.0.0, yes
1.4.0, 1.4.0, yes
1.4.0, 1.5.0, no""")
def test_spans_as_rules_write_them(spans: str, release: str, covered: bool) -> None:
	assert covers(spans, release) is covered


def test_knowledge_of_a_release_holds_until_the_next() -> None:
	known = ("0.20.0", "1.9.0", "1.10.1")
	assert nearest("1.10.0", known) == "1.9.0"
	assert nearest("1.16.0.dev0", known) == "1.10.1"
	assert nearest("0.15.0", known) == "0.20.0"
	assert newest(known) == "1.10.1"


@table("""first, last, words
1.6.0, ~, since 1.6.0
~, 1.12.0, until 1.12.0
1.4.0, 1.6.0, 1.4.0 to 1.6.0
1.4.0, 1.4.0, in 1.4.0
~, ~, in every release""")
def test_spans_in_words(first: str | None, last: str | None, words: str) -> None:
	assert describe(first, last) == words
