"""What is asked, read into clues: the log, the description, the run and what the validator found."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from ..knowledge.signatures import CAUSE, SUSPECT, complaints, signatures, symptom_words, telling
from ..model import Finding, Report, Severity, Targets
from ..model_diagnose import SYMPTOMS, Failure
from .circumstances import releases, settings
from .failing import first_failure, is_quoted
from .memory import Memory, read_memory
from .scan import Hit, Scan, Scanner
from .templates import Index, Template
from .tracebacks import HEAD
from .wording import occurs, words_of

_BARRIER = re.compile(r"world_size=([0-9]{1,7}), worker_count=([0-9]{1,7})")
MOST_LINES = 3  # of a text that counts as a description of somebody's own
# Lines that people do not write: of a logger, a progress bar, a training loop, a frame of a traceback.
_LOGGED = re.compile(
	r"^\s*(?:\[?(?:rank|default)?[0-9]|[IWEF][0-9]{4} |\{[\"']|[0-9]+%|(?:step|epoch|iter)\w* [0-9]|File \")",
	re.MULTILINE | re.IGNORECASE,
)


class Question(NamedTuple):
	"""A diagnosis that is asked for. `configs` are the texts by path, `report` what the validator says of them."""

	log: Iterable[str]
	targets: Targets
	symptoms: tuple[str, ...] = ()
	configs: Mapping[str, str] = {}
	launch: str = ""
	versions: str = ""
	report: Report | None = None


class Clues(NamedTuple):
	"""What speaks for and against causes.

	`described` says that `words` are somebody's own, `asked` that they were given as a symptom; otherwise they are
	those of the exception in the log, which was raised in the file `origin`.
	"""

	scan: Scan
	hits: Mapping[str, tuple[str, Hit]]
	words: frozenset[str] = frozenset()
	described: bool = False
	asked: bool = False
	symptoms: frozenset[str] = frozenset()
	implied: frozenset[str] = frozenset()
	facts: Mapping[str, str] = {}
	findings: tuple[tuple[str, Finding], ...] = ()
	failure: Failure | None = None
	origin: str = ""
	memory: Memory | None = None

	@property
	def rules(self) -> frozenset[str]:
		return frozenset(finding.code for _, finding in self.findings)


@cache
def index() -> Index:
	texts = {text for signature in signatures() for text in (*signature.messages, *signature.hints)}
	return Index(Template(text) for text in sorted(texts))


@cache
def telling_index() -> Index:
	return Index(Template(text) for text in telling())


def gather(question: Question) -> Clues:
	scan = Scanner(index(), telling_index()).scan(question.log)
	scan = scan._replace(hits={text: hit for text, hit in scan.hits.items() if not is_quoted(hit, scan.raised)})
	said = "\n".join(text for text in question.symptoms if text not in SYMPTOMS)
	spoken = Scanner(index(), Index([])).scan([said])
	own = said or (scan.whole or "" if is_description(scan) else "")
	failure = first_failure(scan)
	words = words_of(own) if own else words_of(failure.exception if failure else "")
	texts = (*question.configs.values(), question.launch, said, scan.whole or "", scan.told)
	hits = {text: ("symptom", hit) for text, hit in spoken.hits.items()}
	hits |= {text: ("log", hit) for text, hit in scan.hits.items()}
	seen = [spot.text for _, hit in hits.values() for spot in hit.spots]
	memory = read_memory((*seen, *(one.message for one in scan.raised)))
	files = question.report.files if question.report else ()
	return Clues(
		scan,
		hits,
		words,
		bool(own),
		bool(said),
		frozenset(text for text in question.symptoms if text in SYMPTOMS),
		implied(words) if own else frozenset(),
		facts_of(texts, (question.versions, *texts)) | joined((said, *seen)) | of_memory(hits, memory),
		tuple((file.path, one) for file in files for one in file.findings if one.severity is not Severity.INFO),
		first_failure(scan, hits_of((CAUSE, SUSPECT), hits)),
		origin_of(scan, failure),
		memory,
	)


def hits_of(levels: Collection[int], hits: Mapping[str, tuple[str, Hit]]) -> list[Hit]:
	texts = {text for one in signatures() if one.level in levels for text in one.messages}
	found = [hit for text, (where, hit) in hits.items() if text in texts and where == "log"]
	return sorted(found, key=lambda hit: hit.spots[0].line)


def of_memory(hits: Iterable[str], memory: Memory | None) -> dict[str, str]:
	return {"oom": memory.kind if memory else "unread"} if any("out of memory" in text for text in hits) else {}


def origin_of(scan: Scan, failure: Failure | None) -> str:
	files = (one.file or "" for one in scan.raised if failure is not None and one.line == failure.line)
	return next(files, "").replace("\\", "/")


def implied(words: frozenset[str]) -> frozenset[str]:
	return frozenset(name for name, stems in symptom_words().items() if any(occurs(stem, words) for stem in stems))


def facts_of(texts: Iterable[str], numbers: Iterable[str]) -> dict[str, str]:
	known: dict[str, str] = {}
	for text in numbers:
		known = releases(text) | known
	return settings(texts) | known


def joined(texts: Iterable[str]) -> dict[str, str]:
	"""Whether more or fewer processes came to the first barrier than were expected: fewer have not found the way."""
	found = next((match for text in texts if (match := _BARRIER.search(text))), None)
	if found is None:
		return {}
	expected, came = map(int, found.groups())
	return {"barrier": "more" if came > expected else "fewer"} if came != expected else {}


def is_description(scan: Scan) -> bool:
	text = scan.whole
	if not text or HEAD in text or text.count("\n") > MOST_LINES or _LOGGED.search(text):
		return False
	return bool(re.search(complaints(), text, re.IGNORECASE)) or bool(scan.raised)
