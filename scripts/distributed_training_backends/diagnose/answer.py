"""From ranked candidates to the report: what is shown, with its evidence, its repairs and its checks."""

from collections.abc import Iterator, Sequence

from ..knowledge.signatures import CAUSE, CONSEQUENCE, REMARK, SUSPECT, by_id, collect, families
from ..model_diagnose import Cause, ConfigFix, DiagnoseReport, DiagnoseVerdict, Evidence, Failure
from .circumstances import holds, reading, releases, settings
from .failing import QUOTING, REPORTING
from .question import Clues, Question, gather, hits_of
from .ranking import ANOTHER, Candidate, rank
from .scan import Hit
from .wording import phrase, shared_words

HIGH, MEDIUM, LEAST = 0.8, 0.4, 0.03  # of the confidence
FAR = 0.1  # the same beside a cause that is as good as sure
SUREST = 0.98  # nothing in a log proves a cause
MOST = 5  # causes
INSTALLED = ("site-packages/", "dist-packages/", "/lib/python")
QUOTED = 300  # code points of an exception in the summary
MOST_NOTES, MOST_EVIDENCE = 6, 4


def diagnose(question: Question) -> DiagnoseReport:
	clues = gather(question)
	if clues.scan.binary:
		return empty(question, clues, "unreadable", "the log is no text: nothing can be read in it")
	if not failing(clues):
		return empty(question, clues, "no-failure", "no failure in it, and no symptom was named")
	if overcome(clues):
		went_on = f"the run went on, and was completed at line {clues.scan.completed}"
		return empty(question, clues, "no-failure", f"{went_on} after {first_line(clues.failure) or 'a failure'}")
	causes = tuple(cause_of(candidate, clues) for candidate in shown(rank(clues)))
	verdict: DiagnoseVerdict = "unknown"
	if causes:
		verdict = "suspicion" if causes[0].level == "low" else "cause"
	sure = verdict == "cause" and causes[0].level == "high"
	return DiagnoseReport(
		verdict,
		summary_of(causes, clues),
		clues.failure,
		causes,
		(*unused(question), *notes(clues, bool(causes)))[:MOST_NOTES],
		() if sure or (not causes and is_own(clues)) else tuple(collect(clues.symptoms)),
		tuple(sorted(clues.facts.items())),
		question.targets,
		clues.scan.lines,
	)


def empty(question: Question, clues: Clues, verdict: DiagnoseVerdict, summary: str) -> DiagnoseReport:
	run, notes = tuple(sorted(clues.facts.items())), tuple(unused(question))[:MOST_NOTES]
	return DiagnoseReport(verdict, summary, None, (), notes, (), run, question.targets, clues.scan.lines)


def unused(question: Question) -> Iterator[str]:
	for file in question.report.files if question.report else ():
		if file.verdict == "unreadable":
			yield f"{file.path}: not used: {file.findings[0].message if file.findings else 'it is no config'}"
	if question.launch.strip() and not settings([question.launch]):
		yield "the launch command that was given names no launcher, count or setting that is known here"
	if question.versions.strip() and not releases(question.versions):
		yield "the versions that were given name no release of a library that is known here"


def failing(clues: Clues) -> bool:
	"""Whether anything went wrong at all: warnings that healthy runs print too are no failure."""
	if clues.described or clues.symptoms or clues.failure is not None:
		return True
	harmless = {hit.template.text for hit in hits_of((REMARK,), clues.hits)}
	return any(hit.template.text not in harmless for hit in hits_of((CAUSE, SUSPECT, CONSEQUENCE), clues.hits))


def overcome(clues: Clues) -> bool:
	if clues.described or clues.symptoms:
		return False
	lines = [one.last for one in clues.scan.raised]
	lines += [hit.last for hit in hits_of((CAUSE, SUSPECT, CONSEQUENCE), clues.hits)]
	return clues.scan.completed > max((*lines, clues.scan.end.line or 0 if clues.scan.end else 0), default=0)


def shown(found: Sequence[Candidate]) -> list[Candidate]:
	telling = [one for one in found if one.signature.level not in (CONSEQUENCE, REMARK)]
	least = FAR if telling and telling[0].confidence >= HIGH else LEAST
	return [one for one in telling[:MOST] if one.confidence >= least]


def cause_of(candidate: Candidate, clues: Clues) -> Cause:
	one = candidate.signature
	confidence = round(min(candidate.confidence, SUREST), 2)
	fixes = tuple(ConfigFix(path, f.code, f.place.line, f.fix) for path, f in candidate.findings if f.fix)
	return Cause(
		id=one.id,
		code=one.family,
		family=families()[one.family].name,
		title=one.title,
		confidence=confidence,
		level="high" if confidence >= HIGH else "medium" if confidence >= MEDIUM else "low",
		why=one.cause,
		evidence=tuple(evidence(candidate, clues)),
		fix=one.fix,
		fixes=fixes,
		verify=one.verify,
		rules=one.rules,
		reference=one.reference,
	)


def evidence(candidate: Candidate, clues: Clues) -> Iterator[Evidence]:
	seen = {(one.source, one.line): one for one in (of_hit(where, hit, clues) for where, hit in candidate.hits[:8])}
	yield from list(seen.values())[:MOST_EVIDENCE]
	one = candidate.signature
	raised = one.id == ANOTHER or any(part in clues.origin for part in one.origins)
	if clues.failure and not candidate.hits and raised:
		yield Evidence("log", clues.failure.line or 0, f"raised in {clues.origin}: {first_line(clues.failure)}")
	phrases = [phrase(text) for text in (*one.words, *(by_id()[one.like].words if one.like else ()))]
	words = shared_words(one, phrases, clues.words) if clues.described else ()
	if words and not candidate.hits:
		yield Evidence("symptom", 0, ", ".join(words))
	conditions = (*one.likelier, *one.known, *(one.needs if one.known or one.repaired else ()))
	run = dict.fromkeys(part for text in conditions if holds(text, clues.facts) for part in reading(text, clues.facts))
	if run:
		yield Evidence("run", 0, ", ".join(run))
	if named := clues.symptoms & set(one.symptoms):
		yield Evidence("symptom", 0, ", ".join(sorted(named)))
	yield from (Evidence(path, finding.place.line, finding.message) for path, finding in candidate.findings)


def of_hit(where: str, hit: Hit, clues: Clues) -> Evidence:
	raised = [spot for spot in hit.spots if any(one.line <= spot.line <= one.end for one in clues.scan.raised)]
	spot = (raised or hit.spots)[0]
	ranks = sorted({source.rank for source in hit.sources if source.rank is not None})
	return Evidence(where, spot.line, spot.text, hit.times, tuple(ranks))


def summary_of(causes: Sequence[Cause], clues: Clues) -> str:
	what = first_line(clues.failure)
	if not causes and is_own(clues):
		return f"an error in the script's own code ({clues.origin}), of no backend: {what}"
	if not causes:
		return f"no known cause{': ' + what if what else ''}"
	best = causes[0]
	others = f"; {len(causes) - 1} less likely" if len(causes) > 1 else ""
	sure = "" if best.level == "high" else "probably: " if best.level == "medium" else "possibly: "
	return f"{sure}{best.title} ({best.confidence:.0%}){others}"


def is_own(clues: Clues) -> bool:
	kind = clues.failure.exception.partition(":")[0] if clues.failure else ""
	own = clues.origin.endswith(".py") and not any(place in clues.origin for place in INSTALLED)
	return own and kind in (*QUOTING, "AttributeError", "FileNotFoundError", "ZeroDivisionError")


def first_line(failure: Failure | None) -> str:
	if failure is None:
		return ""
	place = f"line {failure.line}: " if failure.line else ""
	if failure.exception:
		return f"{place}{failure.exception.splitlines()[0][:QUOTED]}"
	return f"{place}a process ended with exit code {failure.exit_code}" if failure.exit_code is not None else ""


def notes(clues: Clues, named: bool) -> Iterator[str]:
	if clues.memory is not None:
		yield f"GPU memory: {clues.memory.said}"
	yield from other_failures(clues)
	follows = "follows from the first failure" if clues.failure else "follows from a failure that is not in this log"
	for level, meaning in ((CONSEQUENCE, follows), (REMARK, "healthy runs print it too")):
		found = hits_of((level,), clues.hits)
		if found and (named or level == CONSEQUENCE):
			places = ", ".join(str(hit.spots[0].line) for hit in found[:4])
			yield f"line {places}: {found[0].spots[0].text[:120]}: {meaning}"


def other_failures(clues: Clues) -> Iterator[str]:
	first = clues.failure
	related = {first.exception, first.raised_as} if first else set()
	raised = (one for one in clues.scan.raised if one.after < 0 and one.name not in REPORTING)
	later = [one for one in raised if one.text not in related]
	if first and first.exception and later:
		more = f" and {len(later) - 1} more" if len(later) > 1 else ""
		yield f"later, at line {later[0].line}: {later[0].text.splitlines()[0][:160]}{more}"
