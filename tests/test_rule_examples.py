"""Every rule has examples, and they do what they say; the pages are what the rules say."""

from __future__ import annotations

import pytest

from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import FAMILIES, RULES
from generate_rule_pages import page, run_example
from rule_examples import CASES, CaseError, Example, parse, read_cases

catalog.load()
CODES = sorted(RULES)


def test_no_example_without_a_rule() -> None:
    assert sorted(path.stem for path in CASES.glob("*.md")) == CODES


@pytest.mark.parametrize("code", CODES)
def test_bad_examples_raise_the_code(code: str) -> None:
    for example in read_cases(code):
        if example.verdict == "bad":
            _, output = run_example(with_options(example, "--verbose"))
            assert f"[{code}]" in output, f"{example.title}:\n{output}"


@pytest.mark.parametrize("code", CODES)
def test_good_examples_raise_nothing_above_info(code: str) -> None:
    for example in read_cases(code):
        if example.verdict == "good":
            status, output = run_example(example)
            assert status == 0, f"{example.title}:\n{output}"
            assert "warning[" not in output, f"{example.title}:\n{output}"


@pytest.mark.parametrize("code", CODES)
def test_bad_example_has_the_severity_that_the_rule_declares(code: str) -> None:
    declared = {severity.value for severity, _ in RULES[code].severities} | {"info", "warning"}
    declared |= {"unreadable"} if code == "XCF900" else set()
    for example in read_cases(code):
        if example.verdict == "bad":
            _, output = run_example(with_options(example, "--verbose", "--select", code))
            shown = {word for word in ("error", "warning", "info", "unreadable") if f"{word}[{code}]" in output}
            assert shown, output
            assert shown <= declared


def with_options(example: Example, *options: str) -> Example:
    """The example with more options."""
    extra = [option for option in options if option not in example.options]
    return Example(example.code, example.verdict, example.title, (*example.options, *extra), example.files)


@pytest.mark.parametrize("family", FAMILIES)
def test_pages_have_a_section_for_each_rule(family: str) -> None:
    if any(code.startswith(family) for code in RULES):
        text = page(family)
        for code in RULES:
            assert (f"\n## {code}\n" in text) == code.startswith(family)


@pytest.mark.parametrize("code", CODES)
def test_documentation_names_its_source(code: str) -> None:
    assert "Source:" in RULES[code].documentation


def test_case_files_are_read_as_described() -> None:
    bad_text = "## bad: first\n```yaml a.yaml\nx: 1\n```\n"
    good_text = "## good\noptions: --b '2 3'\n```json b.json\n{}\n```\n"
    text = f"# ACC900\noptions: --a 1\n{bad_text}{good_text}"
    bad, good = parse(text, "ACC900")
    assert (bad.title, bad.options, bad.files) == ("first", ("--a", "1"), (("a.yaml", "x: 1\n"),))
    assert (good.verdict, good.options, good.language()) == ("good", ("--b", "2 3"), "json")


def test_case_file_of_another_rule_is_refused() -> None:
    with pytest.raises(CaseError, match="ACC001"):
        list(parse("# ACC002\n## bad\n```yaml a.yaml\n```\n", "ACC001"))
