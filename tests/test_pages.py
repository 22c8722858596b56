"""The pages written by hand: their size, their links, and every claim about a name, a release, a default or a value.

What needs the real libraries is in tests/oracle/test_snippets.py. `python -m tests.test_pages` prints how much is
checked.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
from tests import claims
from tests.oracle.cases import READERS, Case, kind_of
from tests.oracle.judge import judge
from tests.pages import ROOT, Fence, Page, matches, pages, read

from distributed_training_backends.rules.registry import RULES

SINCE = re.compile(r"(?: ?\((?:\w+ )?|, )(since|until) (\d[\w.]*\d)")
BETWEEN = re.compile(r" ?\((\d[\w.]*\d) to (\d[\w.]*\d)[,;)]")
RULE_SINCE = re.compile(r"\b([A-Z]{3}\d{3}), since (\d[\w.]*\d)")
MINIMUM = re.compile(r"(\d[\w.]*\d) \(`([A-Z_0-9]+)`\)")
LIMITS = {"SKILL.md": 250}
PAGES = pages()
CONFIGS = [fence for page in PAGES for fence in page.fences if fence.language in ("yaml", "json")]


class Claim(NamedTuple):
	"""Something that a page says, and whether it is so."""

	sort: str
	line: int
	text: str
	true: bool


@cache
def claims_of(page: Page) -> list[Claim]:
	return [*names(page), *releases(page), *tables(page), *rules(page)]


def names(page: Page) -> Iterator[Claim]:
	quoted = {(row.line, row.cells["wrong"]) for row in page.rows if "wrong" in row.cells}
	for line, text, _ in page.spans:
		if any(line == row and f"`{text}`" in cell for row, cell in quoted):
			continue
		for name in claims.names_in(text):
			yield Claim("name", line, name, claims.known(name))


def releases(page: Page) -> Iterator[Claim]:
	for line, text, rest in page.spans:
		name = [text, *claims.names_in(text)][-1]  # of a setting, its value
		if match := SINCE.match(rest):
			check = claims.is_since if match[1] == "since" else claims.is_until
			yield Claim("release", line, f"{name} {match[1]} {match[2]}", check(name, match[2]))
		elif match := BETWEEN.match(rest):
			yield Claim(
				"release", line, f"{name} {match[1]} to {match[2]}", claims.is_between(name, match[1], match[2])
			)
	for number, text in enumerate(page.prose.splitlines(), 1):
		for release, constant in MINIMUM.findall(text):
			yield Claim("release", number, f"{constant} is {release}", claims.is_constant(constant, release))
		for release in claims.RELEASE.findall(text):
			yield Claim("release exists", number, release, claims.is_release(release))


def tables(page: Page) -> Iterator[Claim]:
	for row in page.rows:
		for name in row.subjects:
			since = row.cells.get("since")
			if since is not None:
				true = claims.is_since(name, since) if since else claims.is_as_old_as_known(name)
				yield Claim("since", row.line, f"{name} since {since or 'ever'}", true)
			if default := row.cells.get("default"):
				written = default.strip("`")
				true = any(claims.same(written, value) for value in claims.defaults(name))
				yield Claim("default", row.line, f"{name} is {written} by default", true)
			for value in re.findall(r"`([^`]+)`", row.cells.get("values", "")):
				yield Claim("value", row.line, f"{name} takes {value}", value.lower() in claims.values(name))


def rules(page: Page) -> Iterator[Claim]:
	for number, text in enumerate(page.prose.splitlines(), 1):
		for code in claims.CODE.findall(text):
			yield Claim("rule", number, code, code in RULES)
		for code, release in RULE_SINCE.findall(text):
			yield Claim("rule since", number, f"{code} since {release}", claims.rule_since(code, release))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_claims_are_true(page: Page) -> None:
	wrong = [f"{page.name}:{claim.line}: {claim.sort}: {claim.text}" for claim in claims_of(page) if not claim.true]
	assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_short(page: Page) -> None:
	assert page.text.count("\n") <= LIMITS.get(page.name, 400)
	long = [number for number, line in enumerate(page.prose.splitlines(), 1) if len(line) > 120 and line[0] != "|"]
	assert long == []


def test_skill_is_read_by_every_client() -> None:
	text = read("SKILL.md").text
	_, frontmatter, body = text.split("---\n", 2)
	fields = dict(line.split(": ", 1) for line in frontmatter.splitlines())
	assert set(fields) == {"name", "description", "license", "compatibility"}
	assert fields["name"] == "distributed-training-backends"
	assert len(fields["description"]) <= 1024
	assert len(fields["compatibility"]) <= 500
	assert not re.search(r"[<>]|: |---", fields["description"])
	assert len(body) / 3 <= 3000  # tokens, of three characters on the safe side


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_are_different(page: Page) -> None:
	headings = re.findall(r"^#+ +(.*)$", page.prose, re.MULTILINE)
	assert [heading for heading, count in Counter(headings).items() if count > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
	for link in page.links:
		path, _, anchor = link.partition("#")
		target = ((ROOT / page.name).parent / path).resolve() if path else ROOT / page.name
		assert target.exists(), link
		if anchor:
			assert anchor in read(str(target.relative_to(ROOT))).anchors, link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_are_there(page: Page) -> None:
	for _, text, _ in page.spans:
		if text.startswith(("references/", "scripts/", "mcp_server/")) and claims.kind(text) == "file":
			assert (ROOT / text).exists(), text


def case_of(fence: Fence) -> Case:
	"""A config of a page as the comparison with the libraries takes it, the page's other files beside it."""
	files = {name: text for name, text in read(fence.page).files.items() if name != fence.name}
	kind = kind_of(fence.name, fence.text, ())
	assert kind, f"the validator does not know what {fence.name} is"
	return Case(fence.place, kind, fence.text, "." + fence.name.rpartition(".")[2], "own", files)


def reader_of(fence: Fence, case: Case) -> str:
	default = {"deepspeed": "accelerate", "quantization": "accelerate", "fsdp": "trainer", "accelerate": "launch"}
	return fence.option("reader") or default[case.kind]


@pytest.mark.parametrize("fence", CONFIGS, ids=lambda fence: fence.place)
def test_validator_says_what_the_page_says(fence: Fence) -> None:
	case = case_of(fence)
	reader = reader_of(fence, case)
	said = judge(case, {}, reader if reader in READERS else "auto")
	found = {(item.severity, item.code): item.message for item in said.findings if item.severity != "info"}
	assert set(found) == set(fence.findings), said.findings
	different = [found[key] for key, message in fence.findings.items() if not matches(message, found[key])]
	assert different == []
	assert fence.wrong == bool(fence.quoted)


def test_wrong_claims_are_noticed() -> None:
	text = """`fsdp_versoin` `shard_size: 2` `fsdp_version` (since 1.5.0) FSD999 9.9.9

| key | since | default | values |
|---|---|---|---|
| `fsdp_sharding_strategy` | 1.6.0 | `SHARD_GRAD_OP` | `SHARDED` |
"""
	page = Page("made up", text)
	sorts = [claim.sort for claim in claims_of(page) if not claim.true]
	assert sorts == ["name", "name", "name", "release", "release exists", "since", "default", "value", "rule"]


def main() -> None:
	for page in PAGES:
		counted = Counter(claim.sort for claim in claims_of(page))
		fences = Counter(fence.language for fence in page.fences)
		print(f"{page.name}: {sum(counted.values())} claims {dict(counted)}, fences {dict(fences)}")


if __name__ == "__main__":
	main()
