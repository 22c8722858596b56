"""Every rule has examples, and they do what they say; the pages are what the rules say."""

import shlex

import pytest

from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import FAMILIES, RULES
from generate_rule_pages import page, run_example
from rule_examples import CaseError, Example, all_cases, page_of, parse

catalog.load()
CODES = sorted(RULES)
EXAMPLES = all_cases()


def test_every_rule_has_a_bad_and_a_good_example() -> None:
	assert sorted(EXAMPLES) == CODES
	for code, examples in EXAMPLES.items():
		assert {example.verdict for example in examples} == {"bad", "good"}, code


@pytest.mark.parametrize("code", CODES)
def test_bad_examples_raise_the_code(code: str) -> None:
	for example in EXAMPLES[code]:
		if example.verdict == "bad":
			_, output = run_example(with_options(example, "--verbose"))
			assert f"[{code}]" in output, f"{example.title}:\n{output}"


@pytest.mark.parametrize("code", CODES)
def test_good_examples_raise_nothing_above_info(code: str) -> None:
	for example in EXAMPLES[code]:
		if example.verdict == "good":
			status, output = run_example(example)
			assert status == 0, f"{example.title}:\n{output}"
			assert "warning[" not in output, f"{example.title}:\n{output}"


@pytest.mark.parametrize("code", CODES)
def test_bad_example_has_the_severity_that_the_rule_declares(code: str) -> None:
	declared = {severity.value for severity, _ in RULES[code].severities} | {"info", "warning"}
	declared |= {"unreadable"} if code == "XCF900" else set()
	for example in EXAMPLES[code]:
		if example.verdict == "bad":
			_, output = run_example(with_options(example, "--verbose", "--select", code))
			shown = {word for word in ("error", "warning", "info", "unreadable") if f"{word}[{code}]" in output}
			assert shown, output
			assert shown <= declared


def with_options(example: Example, *options: str) -> Example:
	extra = [option for option in options if option not in example.options]
	return Example(example.code, example.verdict, example.title, (*example.options, *extra), example.files)


@pytest.mark.parametrize("family", FAMILIES)
def test_pages_are_what_is_made_of_them(family: str) -> None:
	text = page_of(family).read_text("utf-8")
	assert page(family, text) == text


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_alone_make_the_page_again(family: str) -> None:
	sections = {code: "".join(map(as_written, EXAMPLES[code])) for code in reversed(CODES) if code.startswith(family)}
	text = "".join(f"## {code}\n{examples}" for code, examples in sections.items())
	assert page(family, text) == page_of(family).read_text("utf-8")


def as_written(example: Example) -> str:
	(name, text), *others = example.files
	files = [(shlex.join([name, *example.options]), text), *others]
	fences = "".join(f"```yaml {head}\n{body}```\n" for head, body in files)
	return f"### {example.verdict}: {example.title}\n{fences}"


@pytest.mark.parametrize("code", CODES)
def test_documentation_names_its_source(code: str) -> None:
	assert "Source:" in RULES[code].documentation


@pytest.mark.parametrize("family", FAMILIES)
def test_pages_do_not_repeat_the_documentation(family: str) -> None:
	assert "Source:" not in page_of(family).read_text("utf-8")


BAD = "### bad: first\n```yaml a.yaml --b '2 3'\n# x\n## y\n```\n"


def test_examples_are_read_as_described() -> None:
	text = f"# Title\n## ACC900\n### Doc\n{BAD}### good\n```json b.json\n{{}}\n```\n```yaml c.yaml\n```\n"
	bad, good = parse(text.replace("### Doc\n", "prose\n```python\n## no heading\n```\n"))["ACC900"]
	assert (bad.title, bad.options, bad.files) == ("first", ("--b", "2 3"), (("a.yaml", "# x\n## y\n"),))
	assert (good.verdict, good.title, good.options) == ("good", "", ())
	assert good.files == (("b.json", "{}\n"), ("c.yaml", ""))


def test_a_file_without_a_name_has_that_of_its_language() -> None:
	(example,) = parse("## ACC900\n### good\n```yaml --b c\nx: 1\n```\n```json\n{}\n```\n")["ACC900"]
	assert example.options == ("--b", "c")
	assert example.files == (("config.yaml", "x: 1\n"), ("ds.json", "{}\n"))


def test_a_good_example_may_be_that_of_another_rule() -> None:
	good = "### good\n```yaml a.yaml --b\nx: 1\n```\n"
	text = f"## ACC900\n### good: other\nAs in ACC901.\n## ACC901\n{BAD}{good}### good\n\nAs in [ACC901](#acc901).\n"
	(first,), (_, second, third) = parse(text).values()
	assert (first.code, first.title, first.options, first.files) == (
		"ACC900",
		"other",
		("--b",),
		(("a.yaml", "x: 1\n"),),
	)
	assert first.files == second.files == third.files
	with pytest.raises(CaseError, match="ACC902, which ACC900 refers to"):
		parse(text.replace("ACC901.", "ACC902."))


@pytest.mark.parametrize(
	("text", "words"),
	[
		(f"## ACC900\n{BAD}\nMore about it.\n", "holds more than"),
		("## ACC900\n### bad\n", "has no file"),
		("## ACC900\n### bad\n```toml\nx = 1\n```\n", "has no file"),
		("## ACC900\n### worse\n```yaml a.yaml\n```\n", 'is called "worse"'),
		(f"## ACC900\n{BAD}## ACC901\n{BAD}## ACC900\n", "two sections"),
		(BAD, "stands in no section"),
	],
)
def test_nothing_that_a_page_would_lose_is_taken(text: str, words: str) -> None:
	with pytest.raises(CaseError, match=words):
		parse(text)


def test_sections_and_examples_that_fit_no_rule_are_refused() -> None:
	with pytest.raises(CaseError, match="LCH001"):
		page("ACC", f"## LCH001\n{BAD}")
	with pytest.raises(CaseError, match="ACC001 has no bad example"):
		page("ACC", "")
	with pytest.raises(CaseError, match='"silent" of ACC001 does not raise it'):
		page("ACC", "## ACC001\n### bad: silent\n```yaml a.yaml\ndistributed_type: MULTI_GPU\n```\n")
