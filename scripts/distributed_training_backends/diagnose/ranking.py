"""From clues to ranked causes with a confidence."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..knowledge.signatures import (
	CAUSE,
	CONSEQUENCE,
	REMARK,
	SUSPECT,
	Signature,
	by_id,
	family_of_rule,
	signatures,
	weights,
)
from ..model import Finding, Severity
from .circumstances import holds
from .question import Clues
from .scan import Hit
from .wording import bag_score, own_bag_score, phrase_score

ENOUGH = 3  # families of causes
ANOTHER, AFAR = "another-release", 3.0
DEFECTS = ("KeyError", "IndexError", "NameError", "UnboundLocalError", "ZeroDivisionError")  # nobody raises them
LIBRARIES = frozenset(("accelerate", "deepspeed", "transformers", "trl", "peft"))
HIGHEST = 30.0  # beyond this a score says nothing more


class Candidate(NamedTuple):
	"""A cause with what speaks for it: messages with where they were found, and what the validator found."""

	signature: Signature
	score: float
	hits: tuple[tuple[str, Hit], ...] = ()
	findings: tuple[tuple[str, Finding], ...] = ()
	confidence: float = 0.0


def rank(clues: Clues) -> list[Candidate]:
	found = [candidate for signature in signatures() if (candidate := weigh(signature, clues)) is not None]
	found = without_explained(found)
	found += by_rules(clues, found)
	found += another_release(found, clues)
	found.sort(key=lambda candidate: (-candidate.score, candidate.signature.id))
	return shared(varied(found))


def weigh(signature: Signature, clues: Clues) -> Candidate | None:
	"""Add up what speaks for a cause; None where nothing does, or the run rules it out."""
	if any(holds(need, clues.facts) is False for need in signature.needs):
		return None
	hits = [clues.hits[text] for text in signature.messages if text in clues.hits]
	hints = [clues.hits[text] for text in signature.hints if text in clues.hits]
	signs = features(signature, clues, [hit for _, hit in hits], bool(hints))
	if not (signs["message"] or signs["symptom"] or signs["phrase"] or signs["own_phrase"]):
		signs["known"] = 0.0  # a release alone says nothing about this failure
	if not has_evidence(clues, signs):
		return None
	weight = weights()
	score = weight["prior"] * signature.prior + sum(weight[name] * value for name, value in signs.items() if value)
	findings = tuple(one for one in clues.findings if one[1].code in signature.rules)
	return Candidate(signature, score, (*hits, *hints), findings)


def has_evidence(clues: Clues, signs: dict[str, float]) -> bool:
	if signs["message"] or signs["symptom"] or signs["origin"]:
		return True
	if not clues.described or (not clues.asked and holds("port=another's", clues.facts)):
		return False
	worded = signs["phrase"] or signs["own_phrase"] or signs["repaired_phrase"] or signs["hint"] or signs["implied"]
	return bool(worded) or signs["bag"] > weights()["least" if clues.asked else "least_of_a_log"]


def features(signature: Signature, clues: Clues, hits: Sequence[Hit], hinted: bool) -> dict[str, float]:
	"""What speaks for a cause, as numbers; each has a weight in data/diagnosis.json."""
	words, facts = clues.words, clues.facts
	shared_phrases = by_id()[signature.like].words if signature.like else signature.words
	return {
		"message": bool(hits),
		"more_messages": min(len(hits), 4) - 1 if hits else 0,
		"raised": raised_share(hits, clues) if hits else 0.0,
		"hint": hinted and not hits,
		"origin": not hits and any(part in clues.origin for part in signature.origins),
		"unshown": not hits and bool(clues.failure and clues.failure.exception),
		"phrase": 0.0 if signature.repaired else phrase_score(shared_phrases, words),
		"repaired_phrase": phrase_score(signature.words, words) if signature.repaired else 0.0,
		"outdated": signature.repaired and holds(signature.needs[0], facts) is True,
		"own_phrase": phrase_score(signature.words, words) if signature.like and clues.described else 0.0,
		"bag": bag_score(signature, words),
		"own_bag": own_bag_score(signature, words) if clues.described else 0.0,
		"likelier": sum(holds(one, facts) is True for one in signature.likelier),
		"unlikelier": sum(holds(one, facts) is True for one in signature.unlikelier),
		"known": any(holds(one, facts) for one in signature.known),
		"unsure": sum(holds(one, facts) is None for one in signature.needs),
		"symptom": bool(clues.symptoms & set(signature.symptoms)),
		"implied": bool((clues.implied - clues.symptoms) & set(signature.symptoms)),
		"rule": bool(clues.rules & set(signature.rules)),
		"refused": bool(hits)
		and any(one.code in signature.rules and one.severity is Severity.ERROR for _, one in clues.findings),
		"suspect": signature.level == SUSPECT and bool(hits) and not is_first(hits, clues),
		"consequence": signature.level == CONSEQUENCE and bool(hits),
		"remark": signature.level == REMARK,
		"alike": bool(signature.like),
	}


def raised_share(hits: Sequence[Hit], clues: Clues) -> float:
	lines = {spot.line for hit in hits for spot in hit.spots}
	raised = [one for one in clues.scan.raised if any(one.line <= line <= one.end for line in lines)]
	if not raised:
		return 0.0
	first = clues.failure.line if clues.failure else None
	return 2.0 if any(one.line == first for one in raised) else 1.0


def is_first(hits: Sequence[Hit], clues: Clues) -> bool:
	return clues.failure is not None and any(spot.line == clues.failure.line for hit in hits for spot in hit.spots)


def without_explained(found: Sequence[Candidate]) -> list[Candidate]:
	explained = {name for candidate in found if candidate.hits for name in candidate.signature.explains}
	return [candidate for candidate in found if not {candidate.signature.id, candidate.signature.like} & explained]


def by_rules(clues: Clues, found: Sequence[Candidate]) -> Iterator[Candidate]:
	supported = {one.code for candidate in found for _, one in candidate.findings}
	failed = clues.failure is not None or clues.described
	weight = weights()
	for path, finding in clues.findings:
		if finding.code in supported:
			continue
		supported.add(finding.code)
		score = weight["finding_error" if finding.severity is Severity.ERROR and failed else "finding_warning"]
		score += weight["finding_ignored"] * ("ignored" in clues.symptoms and finding.severity is Severity.WARNING)
		yield Candidate(of_finding(finding), score, (), ((path, finding),))


def another_release(found: Sequence[Candidate], clues: Clues) -> Iterator[Candidate]:
	shown = (one for one in found if one.hits and one.signature.level == CAUSE)
	best = max(shown, key=lambda one: one.score, default=None)
	known = {one.signature.family for one in found if best and one.score > best.score - AFAR}
	if best is not None and not best.findings and len(known) < ENOUGH and by_id()[ANOTHER].family not in known:
		yield Candidate(by_id()[ANOTHER], best.score + weights()["another_release"], best.hits[:1])
	elif (
		best is None
		and clues.failure
		and clues.failure.exception.startswith(DEFECTS)
		and (LIBRARIES & set(clues.origin.split("/")[:-1]))
	):
		yield Candidate(by_id()[ANOTHER], weights()["defect"])


def of_finding(finding: Finding) -> Signature:
	return Signature(
		id=f"rule-{finding.code}",
		family=family_of_rule(finding.code),
		title=f"The config: {finding.name.replace('-', ' ')}",
		cause=finding.message,
		fix=finding.fix.title if finding.fix else "Correct the place that the finding names.",
		verify="Validate the config again.",
		rules=(finding.code,),
		reference=finding.reference,
	)


def varied(found: Sequence[Candidate]) -> list[Candidate]:
	causes = [one for one in found if one.signature.level not in (CONSEQUENCE, REMARK)]  # others go in a note
	best = {one.signature.family: one for one in reversed(causes)}
	return sorted(found, key=lambda one: best.get(one.signature.family) is not one)


def shared(found: Sequence[Candidate]) -> list[Candidate]:
	"""Turn scores into confidences; a part of the probability is always left for what is not known here."""
	weight = weights()
	powers = [math.exp(min(candidate.score, HIGHEST) / weight["temperature"]) for candidate in found]
	total = sum(powers) + math.exp(weight["unknown"] / weight["temperature"])
	return [candidate._replace(confidence=power / total) for candidate, power in zip(found, powers, strict=True)]
