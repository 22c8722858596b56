"""How often diagnosis names the right cause, on public reports with known causes, and on reports it was not made from.

    python tools/evaluate_diagnosis.py REPORTS.jsonl --sources FOLDER ... [--misses] [--write]

In each of five folds the signatures are cut down to what can be known without its reports: a message stays if it stands
in the sources of a library (FOLDER ...) or in a report outside the fold; a phrase stays if it fits a report of its
family outside the fold; a signature of which nothing stays goes, and so does one that is like another unless a report
of its family outside the fold shows itself like that. The priors of these are set to one value. What is not undone: the
wording of titles and causes, and some thirty weights that are common to all signatures.
"""

import argparse
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import reference_tables
from distributed_training_backends import api
from distributed_training_backends.diagnose import question, wording
from distributed_training_backends.diagnose.templates import Template, plain
from distributed_training_backends.knowledge import signatures as knowledge
from distributed_training_backends.model_diagnose import Cause
from distributed_training_backends.resources import load_json

FOLDS = 5
KINDS = {"verbatim": "verbatim", "condensed": "condensed", "paraphrase": "paraphrased"}
PRIOR = -1.0  # of a signature that is like another one, in the folds
CACHES: tuple[Callable[..., Any], ...] = (
	*(knowledge.signatures, knowledge.by_id, question.index, wording.rarity, wording.bags, wording.own_words),
)
Row = list[Any]


class Outcome(NamedTuple):
	report: dict[str, Any]
	code: str
	causes: tuple[Cause, ...]

	@property
	def first(self) -> bool:
		return bool(self.causes) and self.causes[0].code == self.code

	@property
	def third(self) -> bool:
		return self.code in {cause.code for cause in self.causes[:3]}

	@property
	def misleads(self) -> bool:
		return bool(self.causes) and not self.first and self.causes[0].level == "high"


def reports(path: Path) -> list[dict[str, Any]]:
	rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
	return [row for row in rows if row["evidence"] != "inferred"]


def outcome(report: dict[str, Any]) -> Outcome:
	"""Ask for a report: verbatim text as a log, other words as a symptom, config and releases as it has them."""
	text = report["symptom"]
	log, symptoms = (text, []) if report["symptom_source"] == "verbatim" else ("", [text])
	configs = {"config": report["config"]} if report["config"] else {}
	versions = "\n".join(f"{name} {number}" for name, number in (report["versions"] or {}).items())
	return Outcome(report, report["cause_code"][:3], api.diagnose(log, symptoms, configs, "", versions).causes)


def use(rows: Mapping[str, Row], repaired: Mapping[str, Row]) -> None:
	load_json("signatures.json").update(signatures=rows, repaired=repaired)
	for cached in CACHES:
		cached.cache_clear()  # type: ignore[attr-defined]


def in_sources(places: Iterable[Path], rows: Iterable[Row]) -> frozenset[str]:
	wanted = {text: Template(text) for row in rows for name in ("messages", "hints") for text in row[-1].get(name, ())}
	found: set[str] = set()
	files = (path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*.py"))))
	for path in files:
		text = plain(path.read_text("utf-8", "replace"))
		found |= {name for name, one in wanted.items() if name not in found and one.key in text and one.find(text)}
	return frozenset(found)


class Known(NamedTuple):
	"""What may be known in a fold: messages of the sources, and the reports outside it with their words."""

	sources: frozenset[str]
	texts: tuple[tuple[str, bytes, frozenset[str]], ...]

	def message(self, text: str) -> bool:
		return text in self.sources or any(Template(text).find(plainly) for _, plainly, _ in self.texts)

	def phrase(self, text: str, family: str) -> bool:
		groups = wording.phrase(text)
		own = (words for code, _, words in self.texts if code == family)
		return any(all(any(wording.occurs(word, words) for word in group) for group in groups) for words in own)

	def alike(self, row: Row, base: Row) -> bool:
		"""Whether a report of the row's family shows itself like another signature."""
		messages = [Template(text) for text in base[-1].get("messages", ())]
		phrases = (*base[-1].get("words", ()), *row[-1].get("words", ()))
		shown = any(code == row[0] and any(one.find(text) for one in messages) for code, text, _ in self.texts)
		return shown or any(self.phrase(text, row[0]) for text in phrases)


def without(rows: Mapping[str, Row], known: Known) -> Iterator[tuple[str, Row]]:
	gone: set[str] = set()
	for name, row in sorted(rows.items(), key=lambda item: "like" in item[1][-1]):
		more = dict(row[-1])
		for kind in ("messages", "hints"):
			more[kind] = [text for text in more.get(kind, ()) if known.message(text)]
		more["words"] = [text for text in more.get("words", ()) if known.phrase(text, row[0])]
		like, bare = more.get("like"), not any(row[-1].get(kind) for kind in ("like", "messages", "hints", "words"))
		if bare:  # shows itself by no message and no word of its own
			yield name, row
			continue
		if like in gone or not (known.alike(row, rows[like]) if like else more["messages"] or more["words"]):
			gone.add(name)
			continue
		if like:
			more["prior"] = PRIOR
		yield name, [*row[:-1], more]


def five_fold(found: Sequence[dict[str, Any]], sources: frozenset[str]) -> Iterator[Outcome]:
	content = dict(load_json("signatures.json"))
	rows, repaired = content["signatures"], content["repaired"]
	folds = [zlib.crc32(report["id"].encode()) % FOLDS for report in found]
	texts = [(one["cause_code"][:3], plain(one["symptom"]), wording.words_of(one["symptom"])) for one in found]
	for fold in range(FOLDS):
		known = Known(sources, tuple(text for text, own in zip(texts, folds, strict=True) if own != fold))
		kept = dict(without(rows, known))
		fitting = {name: row for name, row in repaired.items() if any(known.phrase(text, "C22") for text in row[-1])}
		use({name: kept[name] for name in rows if name in kept}, fitting)
		yield from (outcome(report) for report, own in zip(found, folds, strict=True) if own == fold)
	use(rows, repaired)


def table(halves: dict[str, Sequence[Outcome]]) -> Iterator[str]:
	yield "| symptom | reports | " + " | ".join(f"{name}: first | in three" for name in halves) + " |"
	yield "|---|---:|" + "---:|" * 2 * len(halves)
	for kind in (*KINDS, ""):
		cells, number = [], 0
		for outcomes in halves.values():
			own = [one for one in outcomes if kind in ("", one.report["symptom_source"])]
			number = len(own)
			cells += [share([one.first for one in own]), share([one.third for one in own])]
		yield f"| {KINDS.get(kind, 'all')} | {number} | " + " | ".join(cells) + " |"


def levels(outcomes: Sequence[Outcome]) -> str:
	said = []
	for level in ("high", "medium", "low"):
		own = [one for one in outcomes if one.causes and one.causes[0].level == level]
		said.append(f"{level} {share([one.first for one in own])} of {len(own)}")
	return ", ".join(said)


def share(flags: Sequence[bool]) -> str:
	return f"{100 * sum(flags) / max(len(flags), 1):.0f} %"


def main() -> int:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("reports", type=Path)
	parser.add_argument("--sources", type=Path, nargs="+", default=[], help="packages or files with known messages")
	parser.add_argument("--misses", action="store_true", help="list what is not named first")
	parser.add_argument("--write", action="store_true", help="keep the figures in README.md")
	given = parser.parse_args()
	found, rows = reports(given.reports), load_json("signatures.json")["signatures"].values()
	whole = [outcome(report) for report in found]
	folds = list(five_fold(found, in_sources(given.sources, rows)))
	misled = [share([one.misleads for one in half]) for half in (folds, whole)]
	text = "\n".join(table({"five-fold": folds, "all in view": whole})) + (
		f"\n\nA wrong cause with high confidence: {misled[0]} (five-fold), {misled[1]} (all in view).\n"
		f"Right by confidence (five-fold): {levels(folds)}.\n"
	)
	print(text, end="")
	if given.misses:
		for one in (one for one in whole if not one.first):
			named = Counter({cause.id: round(100 * cause.confidence) for cause in one.causes[:3]})
			print(f"{one.code} {one.report['id']} {dict(named)} {one.report['symptom'][:150]!r}")
	if given.write:
		reference_tables.keep_figures("diagnosis", text)
	return 0


if __name__ == "__main__":
	raise SystemExit(main())
