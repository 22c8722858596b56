"""From the bytes of a log to lines that can be read: decoded, without colours, out of JSON, with their rank.

Everything streams: what is kept is the line in hand. A line may be as long as the whole log; it is cut where a word
ends, so that the time and the memory stay bounded.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

LONGEST = 16_384  # code points of a piece of a line
SEAM = 512  # a cut looks this far back for a space
REPEATED = 50  # a line that comes so often in a row tells nothing more, and of blank lines only the first does
CONTROLS = 0.05  # a text has fewer control characters than this
_ENDS = re.compile(r"\r\n|\n|\r")
_ESCAPES = re.compile(
	r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\-_]|[ -/]{1,2}[0-~])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# Where loggers put the text of a record, and where it comes from.
_KEYS = "message msg log text event content error exception exc_info stack_trace traceback"
_TEXTS = _KEYS.split()
_LEVELS, _QUIET = ("level", "levelname", "severity"), ("info", "INFO", "debug", "DEBUG")
_LEVEL = re.compile(
	r"(?<![\w=/.-])(?:(INFO|DEBUG)|WARN(?:ING)?|ERROR|CRITICAL|FATAL)(?![\w=])|(level=(?:info|debug)\b|^I[0-9]{4} )"
)
_NAMES = re.compile(r"[A-Za-z]{2,}")
HEAD, MOST_NAMES = 100, 4  # where the level of a line stands, and the names that may stand before it
_RANKS = ("rank", "global_rank", "local_rank", "process_index")


class Source(NamedTuple):
	"""Where a line comes from, as far as its prefix tells."""

	host: str = ""
	rank: int | None = None


NO_SOURCE = Source()
MOST_PREFIXES = 3  # before one line
_PREFIX = re.compile(
	r"""(?:
      \[(?P<role>[A-Za-z_]{1,30})(?P<rank>[0-9]{1,6})\]:[ ]?            # torchrun: [rank3]: [default0]:
    | \[(?P<job>[0-9]{1,6}),(?P<mpi>[0-9]{1,6})\]<std(?:out|err)>:?[ ]? # mpirun --tag-output
    | [ ]{0,6}(?P<task>[0-9]{1,6}):[ ]                                  # srun --label
    | \((?:[^()\n]{0,80}\b)?(?:pid|rank)=(?P<pid>[0-9]{1,10})[^()\n]{0,60}\)[ ]  # Ray
    | (?P<host>(?:[0-9]{1,3}\.){3}[0-9]{1,3}                            # pdsh, with an address or a name
        |(?:[a-z]{1,30}[.-][a-z.-]{0,60}|node|host|worker|gpu|compute|master|trainer|dgx|cn)[0-9][a-z0-9.-]{0,80}):[ ]
    | (?P<service>[A-Za-z][\w.-]{0,60})[ ]{1,20}\|[ ]                   # docker compose
    | \[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?
      [ ](?:std(?:out|err)[ ][FP][ ])?                                  # kubectl logs --timestamps, CRI
    )""",
	re.VERBOSE,
)
_STARTS = frozenset("[( 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Line(NamedTuple):
	"""A line, or a piece of one: its number in the log from 1, where it comes from, and what it says."""

	number: int
	source: Source
	text: str


def decoded(chunks: Iterable[bytes]) -> Iterator[str]:
	"""Decode: UTF-8, or UTF-16 where a mark or the zero bytes of plain text say so; what is neither is replaced."""
	decoder: codecs.IncrementalDecoder | None = None
	for chunk in chunks:
		if not chunk:
			continue
		if decoder is None:
			decoder = codecs.getincrementaldecoder(encoding_of(chunk))("replace")
		yield decoder.decode(chunk).replace("\0", "")  # a crash leaves holes of zero bytes in a file
	if decoder is not None:
		yield decoder.decode(b"", True)


def encoding_of(start: bytes) -> str:
	"""Guess the encoding from the first bytes; PowerShell's redirection writes UTF-16."""
	if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
		return "utf-16"
	sample = start[:4096]
	for encoding, blank in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[0::2])):
		if len(blank) > 8 and blank.count(0) > len(blank) * 0.6 and sample.count(0) < len(sample) * 0.6:
			return encoding
	return "utf-8-sig"


def looks_binary(text: str) -> bool:
	sample = text[:65_536]
	strange = len(_CONTROL.findall(sample)) + sample.count("\ufffd")
	return bool(sample) and strange > len(sample) * CONTROLS and strange > 8


def raw_lines(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
	"""Cut a stream into numbered lines, none of which is too long or comes again and again."""
	last: str | None = None
	times = 0
	for number, line in split(texts):
		times = times + 1 if line == last else 0
		last = line
		if times >= (REPEATED if line else 1):
			continue
		yield from ((number, piece) for piece in (pieces(line) if len(line) > LONGEST else [line]))


def split(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
	"""Split a stream at its line ends. A lone carriage return ends a state of a progress bar, not a line."""
	number, rest = 1, ""
	for text in texts:
		*lines, rest = (rest + text).split("\n")
		for line in lines:
			if "\r" in line:
				yield from ((number, state) for state in line.removesuffix("\r").split("\r"))
			else:
				yield number, line
			number += 1
		if "\r" in rest:
			held = rest[-1:] if rest.endswith("\r") else ""  # the line feed that belongs to it may come next
			*done, rest = rest.removesuffix("\r").split("\r")
			yield from ((number, state) for state in done)
			rest += held
		if len(rest) > LONGEST:
			*done, rest = pieces(rest)
			yield from ((number, piece) for piece in done)
	if rest:
		yield number, rest.removesuffix("\r")


def pieces(line: str) -> Iterator[str]:
	"""Cut a line that is too long, before a space if there is one near; the last piece is the rest."""
	start = 0
	while len(line) - start > LONGEST:
		seam = line.rfind(" ", start + LONGEST - SEAM, start + LONGEST)
		end = seam if seam > start else start + LONGEST
		yield line[start:end]
		start = end
	yield line[start:] if start else line


def clean_lines(texts: Iterable[str]) -> Iterator[Line]:
	for number, raw in raw_lines(texts):
		text = _ESCAPES.sub("", raw) if "\x1b" in raw else raw
		if '"' in text and text.lstrip()[:1] in ('"', "{") and (unpacked := unpack(text)) is not None:
			source, parts = unpacked
			yield from (line_of(number, part, source) for part in parts)
			continue
		if ":" in text or ")" in text or "|" in text or ">" in text:  # as every prefix has it
			yield line_of(number, text, NO_SOURCE)
		else:
			yield Line(number, NO_SOURCE, text)


def line_of(number: int, text: str, source: Source) -> Line:
	found, start = split_prefix(text)
	return Line(number, found if found is not NO_SOURCE else source, text[start:] if start else text)


def is_quiet(text: str) -> bool:
	"""Whether a logger writes a line to inform only. NCCL writes all that it has to say like that."""
	found = _LEVEL.search(text, 0, HEAD)
	names = _NAMES.findall(text, 0, found.start()) if found else []
	return bool(found and found.lastindex) and "NCCL" not in names and len(names) <= MOST_NAMES


def unpack(text: str) -> tuple[Source, list[str]] | None:
	"""Take the message out of a record of a JSON log, or the text out of a line of a notebook; None for other lines."""
	bare = text.strip().removesuffix(",")
	if not bare.endswith(('"', "}")):
		return None
	try:
		value = json.loads(bare)
	except (ValueError, RecursionError):
		return None
	source = source_of(value) if isinstance(value, dict) else NO_SOURCE
	said = [value] if isinstance(value, str) else list(messages(value)) if isinstance(value, dict) else []
	parts = [part for one in said for part in _ENDS.split(_ESCAPES.sub("", one)[:LONGEST])]
	if len(parts) == 1 and isinstance(value, dict) and any(value.get(name) in _QUIET for name in _LEVELS):
		parts = [f"INFO {parts[0]}"]
	return (source, parts) if parts else None


def messages(record: dict[str, Any]) -> Iterator[str]:
	for name in _TEXTS:
		value = record.get(name)
		if isinstance(value, str):
			yield value
		elif isinstance(value, list):
			yield from (item for item in value if isinstance(item, str))
		elif isinstance(value, dict):
			yield from (item for key in _TEXTS if isinstance(item := value.get(key), str))


def source_of(record: dict[str, Any]) -> Source:
	rank = next((record[name] for name in _RANKS if isinstance(record.get(name), int)), None)
	host = next((record[name] for name in ("host", "hostname", "node") if isinstance(record.get(name), str)), "")
	return Source(host, None if isinstance(rank, bool) else rank) if rank is not None or host else NO_SOURCE


# --- what launchers and schedulers put before the lines of a process: its rank, its host, a time ---


def split_prefix(text: str) -> tuple[Source, int]:
	source, start = NO_SOURCE, 0
	for _ in range(MOST_PREFIXES):
		if text[start : start + 1] not in _STARTS:
			break
		found = _PREFIX.match(text, start)
		if found is None:
			break
		source, start = _more(source, found), found.end()
	return source, start


def _more(known: Source, found: re.Match[str]) -> Source:
	name = found.lastgroup
	if name is None:
		return known
	value = found[name]
	if name in ("rank", "mpi", "task"):
		return known if known.rank is not None else _source(known.host, int(value))
	return known if known.host else _source(f"pid {value}" if name == "pid" else value, known.rank)


@lru_cache(maxsize=4096)
def _source(host: str, rank: int | None) -> Source:
	return Source(host, rank)
