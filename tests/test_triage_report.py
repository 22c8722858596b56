"""The answer as JSON, as text and as a page: complete, in bounds, and safe to show."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from distributed_training_backends import api
from distributed_training_backends.model_triage import BadFactsError, TriageReport
from distributed_training_backends.render.style import Style
from distributed_training_backends.render.triage_json import render_triage_json, triage_data
from distributed_training_backends.render.triage_page import render_page
from distributed_training_backends.render.triage_text import BLOCKS, Choice, render_triage
from distributed_training_backends.resources import load_json

QUESTIONS: dict[str, dict[str, Any]] = {
	"four": {"model": {"name": "llama-3-8b"}, "batch": {"seq": 8192}, "hardware": {"gpu": "A100", "gpus_per_node": 4}},
	"nodes": {"model": {"name": "llama-3-70b"}, "hardware": {"gpu": "H100", "gpus_per_node": 8, "nodes": 4}},
	"tpu": {"model": {"name": "llama-3.2-1b"}, "hardware": {"gpu": "v5e-8"}},
	"cpu": {"model": {"name": "gpt2"}, "hardware": {"device": "cpu", "cpu_ram_gib": 64}},
	"small": {"model": {"name": "llama-3-70b"}, "hardware": {"gpu": "T4", "cpu_ram_gib": 64}},
	"open": {"model": {"name": "llama-3-8b"}, "hardware": {"gpus_per_node": 8}},
	"offload": {
		"model": {"name": "llama-3-8b"},
		"hardware": {"gpu": "RTX-4090", "cpu_ram_gib": 512},
		"wish": "deepspeed",
	},
}
EVERY = pytest.mark.parametrize("name", list(QUESTIONS))
VOID = {"meta", "br", "rect"}


def report(name: str) -> TriageReport:
	return api.triage(QUESTIONS[name])


@EVERY
def test_json_fits_its_schema_and_is_ascii(name: str) -> None:
	text = render_triage_json(report(name))
	assert text.isascii()
	Draft202012Validator(load_json("schemas/triage_report.schema.json")).validate(json.loads(text))


@EVERY
def test_facts_in_the_answer_can_be_asked_again(name: str) -> None:
	first = report(name)
	facts = json.loads(json.dumps(triage_data(first)["facts"]))
	again = api.triage({key: value for key, value in facts.items() if key not in ("loss", "weights")})
	assert [one.name for one in again.candidates] == [one.name for one in first.candidates]
	assert {one.fact for one in again.assumptions} <= {"loss", "weights"}


@EVERY
def test_components_add_up_to_what_is_allocated(name: str) -> None:
	for one in report(name).candidates:
		total = sum(part.gib for part in one.memory.components)
		assert total == pytest.approx(one.memory.allocated.point, rel=0.02, abs=0.1), one.name


@EVERY
def test_intervals_hold_their_points_and_grow_outwards(name: str) -> None:
	for one in report(name).candidates:
		for amount in (one.memory.allocated, one.memory.reserved, one.memory.smi, one.memory.cpu_ram):
			assert 0 <= amount.low <= amount.point <= amount.high
		assert one.memory.allocated.point <= one.memory.reserved.point <= one.memory.smi.point


@EVERY
def test_the_first_candidates_come_with_files_that_validate(name: str) -> None:
	found = report(name)
	offered = [one for one in found.candidates if one.files]
	able = [one for one in found.candidates if one.verdict != "does_not_fit"]
	assert len(offered) == min(3, len(able))
	assert offered[:1] == able[:1]
	for one in offered:
		texts = {file.name: file.text for file in one.files}
		options = api.Options(found.targets)
		judged = api.validate_text(texts["accelerate.yaml"], options, "accelerate.yaml", texts)
		assert judged.exit_code == 0
		assert one.checks


def test_files_are_of_different_backends_where_there_are_some() -> None:
	offered = [one.name.partition("-")[0] for one in report("four").candidates if one.files]
	assert len(set(offered)) == 3


def test_a_named_candidate_comes_with_files_too() -> None:
	found = api.triage(QUESTIONS["four"], 1, ("zero3",))
	assert [one.name for one in found.candidates if one.files] == [found.candidates[0].name, "zero3"]


def test_what_does_not_fit_is_not_offered_and_says_what_would() -> None:
	found = report("small")
	assert found.exit_code == 1
	assert found.summary.startswith("Nothing fits")
	assert not any(one.files for one in found.candidates)
	assert found.advice


def test_without_a_gpu_the_needs_are_told_and_the_verdict_is_open() -> None:
	found = report("open")
	assert {one.verdict for one in found.candidates} == {"unknown"}
	assert any("gpu_memory_gib" in note for note in found.notes)


@EVERY
@pytest.mark.parametrize("full", [False, True])
def test_text_names_the_candidates_and_keeps_to_the_width(name: str, full: bool) -> None:
	found = report(name)
	text = render_triage(found, Style(width=100), Choice("", full, BLOCKS))
	assert text.startswith(found.summary.split(".")[0][:60])
	shown = [one for one in found.candidates if re.search(rf"^ *{one.rank} {one.name} ", text, re.MULTILINE)]
	if full:
		assert shown == list(found.candidates)
	assert {one.name for one in found.candidates if one.files or one.rank <= 3} <= {one.name for one in shown}
	first = list(dict.fromkeys(one.name.partition("-")[0] for one in found.candidates))[:4]
	assert {one.name.partition("-")[0] for one in shown} >= set(first)
	assert f"and {len(found.candidates) - len(shown)} more: " in text or shown == list(found.candidates)
	assert all(one.reason.split(":")[0][:20] in " ".join(text.split()) for one in found.removed)


def test_text_draws_a_bar_for_each_component() -> None:
	found = report("four")
	lines = render_triage(found, Style(), Choice("", False, BLOCKS)).split("\n")
	for part in found.candidates[0].memory.components:
		assert any(re.match(rf"  {part.name} .*GiB \|.*█", line) for line in lines), part.name


class Structure(HTMLParser):
	"""Open elements, ids, labels and links of a page."""

	def __init__(self) -> None:
		super().__init__()
		self.open: list[str] = []
		self.wrong: list[str] = []
		self.ids: Counter[str] = Counter()
		self.copies: list[str] = []
		self.addresses: list[str] = []
		self.unlabelled = 0

	def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
		given = dict(attrs)
		if tag not in VOID:
			self.open.append(tag)
		self.ids[given.get("id") or ""] += "id" in given
		self.copies += [given["data-copy"] or ""] if "data-copy" in given else []
		self.addresses += [given[name] or "" for name in ("src", "href") if name in given]
		labelled = given.get("aria-label") or given.get("aria-hidden")
		self.unlabelled += tag in ("svg", "button") and not labelled
		self.unlabelled += "tabindex" in given and not labelled

	def handle_endtag(self, tag: str) -> None:
		if tag not in VOID and (not self.open or self.open.pop() != tag):
			self.wrong.append(tag)


@EVERY
def test_the_page_is_well_formed_and_needs_nothing_else(name: str) -> None:
	page = Structure()
	text = render_page(report(name))
	page.feed(text)
	assert (page.wrong, page.open, page.unlabelled, page.addresses) == ([], [], 0, [])
	assert all(times == 1 for given, times in page.ids.items() if given)
	assert set(page.copies) <= set(page.ids)
	assert not re.search(r"url\(|@import", text)


def test_the_page_knows_light_dark_and_phones() -> None:
	text = render_page(report("four"))
	for words in ("prefers-color-scheme: dark", 'name="viewport"', "@media (max-width"):
		assert words in text


def test_the_page_shows_texts_as_texts() -> None:
	sizes = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 1000}
	with pytest.raises(BadFactsError, match="no model is called"):
		api.triage({"model": {"name": "<script>alert(1)</script>", **sizes}, "hardware": {"gpu": "T4"}})
	found = report("four")
	hostile = found._replace(summary='<img src=x onerror="alert(1)"> & token=hf_abcdefghijklmnopqrstuvwxyz0123456789')
	text = render_page(hostile)
	assert "<img" not in text
	assert "hf_abcdef" not in text


@EVERY
def test_the_summary_agrees_with_the_candidates(name: str) -> None:
	found = report(name)
	best = found.candidates[0]
	assert best.title in found.summary
	counts = Counter(one.verdict for one in found.candidates)
	assert f"Of {len(found.candidates)} possible setups" in found.summary
	if counts["fits"]:
		assert f"{counts['fits']} fit" in found.summary


def test_a_slow_network_is_said_with_the_accumulation_that_mends_it() -> None:
	hardware = {"gpu": "H100", "gpus_per_node": 8, "nodes": 2, "inter_gbit": 10}
	slow = {"model": {"name": "llama-3-8b"}, "hardware": hardware}
	found = api.triage(slow)
	speed = found.candidates[0].speed
	said = found.advice[0]
	assert said.startswith(f"{100 * speed.communication / (speed.compute + speed.communication):.0f} % of a step")
	assert "10 Gbit/s" in said
	more = re.search(r"--accumulation (\d+) is ([\d.]+) times faster", said)
	assert more is not None
	again = api.triage({**slow, "batch": {"accumulation": int(more[1])}}, 1, (found.candidates[0].name,))
	then = next(one for one in again.candidates if one.name == found.candidates[0].name).speed
	assert then.tokens_per_second / speed.tokens_per_second == pytest.approx(float(more[2]), rel=0.06)
	fixed = api.triage({**slow, "batch": {"global_batch": 32}})
	assert "--accumulation" not in " ".join(fixed.advice)
	assert "would make it faster" in render_triage(found, Style())
	assert "What would make it faster" in render_page(found)


@pytest.mark.parametrize(("name", "unit"), [("tpu", "chip"), ("cpu", "process")])
def test_what_is_no_gpu_is_not_called_one(name: str, unit: str) -> None:
	found = report(name)
	for text in (render_triage(found, Style()), render_page(found)):
		assert "nvidia-smi" not in text
		assert f"{unit} GiB" in text
		assert "a GPU" not in text


def test_bounds_are_not_cut_at_the_capacity_and_tight_is_said_in_words() -> None:
	sizes = {"name": "llama-2-7b"}
	seen = set()
	for seq in range(4096, 65536, 2048):
		found = api.triage({"model": sizes, "batch": {"seq": seq}, "hardware": {"gpu": "A100", "gpus_per_node": 4}})
		for one in found.candidates:
			assert one.memory.allocated.high <= one.memory.reserved.high <= one.memory.smi.high
			assert not one.largest_micro_batch or one.verdict == "fits"
			over = one.verdict == "tight" and one.memory.smi.point > one.memory.capacity
			assert ("may work" in " ".join(one.memory.sentences)) == over
			seen.add(over)
	assert seen == {False, True}
