"""What failures look like and what they come from: signatures, families of causes, facts, calibration.

From data/signatures.json and data/diagnosis.json.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..resources import load_json

JOINED = ("messages", "hints", "needs", "symptoms")  # what a signature has besides that of the one it is like
CAUSE, SUSPECT, CONSEQUENCE, REMARK = range(4)


class Signature(NamedTuple):
	"""A cause, how it shows, and what to do about it.

	`messages` are templates (diagnose/templates.py) of what libraries print, `hints` weaker ones; `origins` are parts
	of the paths of files in which they raise; `words` describe it in people's words. `needs`, `likelier`, `unlikelier`
	and `known` are conditions on the run: a cause whose needs are contradicted is out, `known` holds for releases that
	are known to do it. `level`: CAUSE; SUSPECT may also follow from another failure; CONSEQUENCE only ever does; REMARK
	is a warning of healthy runs too. It beats those in `explains`; `sample` is a log that shows it.
	"""

	id: str
	family: str
	title: str
	cause: str
	fix: str
	verify: str
	messages: tuple[str, ...] = ()
	hints: tuple[str, ...] = ()
	origins: tuple[str, ...] = ()
	words: tuple[str, ...] = ()
	symptoms: tuple[str, ...] = ()
	needs: tuple[str, ...] = ()
	likelier: tuple[str, ...] = ()
	unlikelier: tuple[str, ...] = ()
	known: tuple[str, ...] = ()
	explains: tuple[str, ...] = ()
	rules: tuple[str, ...] = ()
	reference: str = ""
	like: str = ""
	level: int = CAUSE
	prior: float = 0.0
	repaired: bool = False
	sample: str = ""


class Family(NamedTuple):
	code: str
	name: str
	reference: str


@cache
def signatures() -> tuple[Signature, ...]:
	"""Every signature. One that is `like` another shows itself in the same way and has another cause."""
	content = load_json("signatures.json")
	columns = content["columns"][:-1]  # the last one holds what only some have
	records = {
		name: {"id": name, **dict(zip(columns, row, strict=False)), **row[-1]}
		for name, row in content["signatures"].items()
	}
	return (*(_signature(record, records) for record in records.values()), *repaired(content["repaired"]))


def repaired(rows: Mapping[str, Sequence[Any]]) -> Iterator[Signature]:
	for name, (library, fixed, pull, what, words) in rows.items():
		yield Signature(
			id=name,
			family="C22",
			title=f"A defect that {library} {fixed} repaired",
			cause=f"Before {library} {fixed} {what}" + (f" (pull request {pull})." if pull else "."),
			fix=f"{library} >= {fixed}.",
			verify=f"pip show {library}; the same steps with {library} {fixed} or later.",
			words=tuple(words),
			needs=(f"{library}<{fixed}",),
			reference=families()["C22"].reference,
			repaired=True,
		)


@cache
def by_id() -> dict[str, Signature]:
	return {signature.id: signature for signature in signatures()}


def _signature(record: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]) -> Signature:
	like = records.get(record.get("like", ""), {})
	joined = {name: [*like[name], *record.get(name, ())] for name in JOINED if name in like}
	reference = record.get("reference") or like.get("reference") or families()[record["family"]].reference
	merged = {"level": like.get("level", CAUSE), **record, **joined, "reference": reference}
	given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in merged.items()}
	return Signature(**given)


@cache
def families() -> dict[str, Family]:
	return {code: Family(code, *entry) for code, entry in load_json("diagnosis.json")["families"].items()}


@cache
def fact_patterns() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
	"""How texts tell what a run is: (fact, value or empty for the matched group, patterns)."""
	return tuple(
		(row["fact"], row.get("value", ""), tuple(row["patterns"])) for row in load_json("diagnosis.json")["facts"]
	)


def weights() -> dict[str, float]:
	found: dict[str, float] = load_json("diagnosis.json")["weights"]
	return found


def telling() -> tuple[str, ...]:
	return tuple(load_json("diagnosis.json")["telling"])


def complaints() -> str:
	words: list[str] = load_json("diagnosis.json")["complaints"]
	return r"(?<![A-Za-z])(?:" + "|".join(words) + ")"


def symptom_words() -> dict[str, list[str]]:
	found: dict[str, list[str]] = load_json("diagnosis.json")["symptoms"]
	return found


def collect(symptoms: frozenset[str]) -> Iterator[str]:
	steps: dict[str, list[str]] = load_json("diagnosis.json")["collect"]
	yield from dict.fromkeys(step for name in (*sorted(symptoms), "any") for step in steps.get(name, []))


@cache
def family_of_rule(code: str) -> str:
	"""The family of causes that a rule of the validator belongs to: that of the longest prefix in the table."""
	table: dict[str, str] = load_json("diagnosis.json")["rules"]
	return table[max((prefix for prefix in table if code.startswith(prefix)), key=len)]
