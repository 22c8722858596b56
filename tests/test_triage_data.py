"""The tables of triage: they fit their schemas, ask about fields that exist, and every entry can come about."""

import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed_training_backends.resources import load_json
from distributed_training_backends.triage import ranking
from distributed_training_backends.triage.assumptions import completed
from distributed_training_backends.triage.compatibility import fields_of
from distributed_training_backends.triage.facts import read_facts
from distributed_training_backends.triage.setup import Setup

TABLES = ("rows", "later", "cautions", "addons")


def entries() -> Iterator[dict[str, Any]]:
	for table in TABLES:
		for row in load_json("compatibility.json")[table]:
			yield row
			yield from row.get("against", ())


def test_identifiers_are_unique() -> None:
	names = [row["id"] for table in TABLES for row in load_json("compatibility.json")[table]]
	assert sorted(names) == sorted(set(names))


def test_conditions_and_texts_name_fields_that_exist() -> None:
	facts, problems = read_facts({"model": {"name": "llama-3-8b"}})
	assert problems == []
	known = set(fields_of(completed(facts)[0], Setup("single")))
	for row in entries():
		asked = set(row["when"])
		for condition in row["when"].values():
			if isinstance(condition, dict):
				asked |= {value for value in condition.values() if isinstance(value, str)}
		asked |= {field for _, field, _, _ in string.Formatter().parse(row.get("reason") or row["text"]) if field}
		assert asked <= known, row


def test_every_threshold_is_used() -> None:
	folder = Path(ranking.__file__).parent
	code = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
	asked = {
		value
		for row in entries()
		for condition in row["when"].values()
		if isinstance(condition, dict)
		for value in condition.values()
		if isinstance(value, str)
	}
	names = load_json("planner.json")["thresholds"]
	assert [name for name in names if f'threshold("{name}")' not in code and name not in asked] == []


def test_sources_in_the_reference_exist() -> None:
	from distributed_training_backends.resources import references

	for row in entries():
		for source in row["source"].split("; "):
			page, _, anchor = source.partition("#")
			if page.startswith("references/"):
				with open(f"{references()}/{page.removeprefix('references/')}", encoding="utf-8") as file:
					headings = [line.lstrip("# ").rstrip().lower() for line in file if line.startswith("#")]
				plain = {"".join(c for c in title if c.isalnum() or c in " -").replace(" ", "-") for title in headings}
				assert anchor in plain, source
