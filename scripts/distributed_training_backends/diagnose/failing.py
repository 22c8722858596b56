"""What failed first: the exception at the root, and its process; and which messages are only quoted."""

import re
from collections.abc import Sequence

from ..model_diagnose import Failure
from .ends import End
from .reading import Source
from .scan import Hit, Scan
from .templates import Template, plain
from .tracebacks import Raised

# Exceptions that report another process's end.
_REPORTING = """
ChildFailedError ProcessRaisedException ProcessExitedException CalledProcessError SystemExit SignalException
BrokenPipeError ConnectionResetError KeyboardInterrupt DistBackendError BrokenProcessPool
"""
REPORTING = frozenset(_REPORTING.split())
LEAST = 3  # words of a message that can be told from a name
# Exceptions that put what they were given, a key or a value, into quotes.
QUOTING = frozenset(("KeyError", "ValueError", "IndexError", "LookupError", "TypeError", "AssertionError", "NameError"))
_QUOTES = re.compile(r"'[^'\n]{8,400}'|\"[^\"\n]{8,400}\"")


def first_failure(scan: Scan, serious: Sequence[Hit] = ()) -> Failure | None:
	"""Give the first failure; of an exception that came while another one was handled, that other one.

	Where no exception tells more than that a process ended, it is the first of the `serious` messages.
	"""
	end = scan.end
	raised = first_raised(scan.raised, end.rank if end else None)
	spot = min((spot for hit in serious for spot in hit.spots), key=lambda spot: spot.line, default=None)
	if spot and (raised is None or (raised.name in REPORTING and spot.line < raised.line)):
		return _failure(spot.text, "", spot.line, spot.source, end or End())
	if raised is None:
		return Failure(line=end.line, rank=end.rank, host=end.host or "", exit_code=end.code) if end else None
	root = _root(scan.raised, raised)
	return _failure(root.text, raised.text if raised is not root else "", root.line, root.source, end or End())


def _failure(text: str, raised_as: str, line: int, source: Source, end: End) -> Failure:
	rank = source.rank if source.rank is not None else end.rank
	return Failure(text, raised_as, line, rank, source.host or end.host or "", end.code)


def first_raised(raised: Sequence[Raised], rank: int | None) -> Raised | None:
	telling = [one for one in raised if one.name not in REPORTING] or list(raised)
	links = {one.after for one in telling if one.after >= 0}
	heads = [one for number, one in enumerate(raised) if one in telling and number not in links] or telling
	own = [one for one in heads if rank is not None and one.source.rank == rank]
	return next(iter(own or heads), None)


def _root(raised: Sequence[Raised], last: Raised) -> Raised:
	seen = {last.line}
	while 0 <= last.after < len(raised) and raised[last.after].line not in seen:
		last = raised[last.after]
		seen.add(last.line)
	return last


def is_quoted(hit: Hit, raised: Sequence[Raised]) -> bool:
	"""Whether a message stands only in quotes of exceptions, and in the code that raised these."""
	telling = [one for one in raised if one.name in QUOTING and _in_quotes(hit.template, one.message)]
	return bool(telling) and all(any(one.head <= spot.line <= one.end for one in telling) for spot in hit.spots)


def _in_quotes(template: Template, message: str) -> bool:
	if len(template.words) < LEAST or template.find(plain(_QUOTES.sub(" ", message))):
		return False
	return any(template.find(plain(quote)) for quote in _QUOTES.findall(message))
