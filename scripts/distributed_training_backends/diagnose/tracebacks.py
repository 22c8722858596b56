"""The exceptions in a log: each process's traceback, what it was chained to, and how often the same one came."""

import re
from typing import NamedTuple

from .reading import NO_SOURCE, Line, Source

MOST = 400  # different exceptions that are kept
LONGEST_MESSAGE = 1_500
MOST_LINES = 16  # of a message
TAIL = 4  # lines from the last frame of a traceback without its head to the exception
OPEN_AT_ONCE = 256  # processes whose traceback is being read
HEAD = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s*File "([^"\n]{1,400})", line ([0-9]{1,7})(?:, in (\S{1,200}))?')
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,200})(?::[ ]?|$)")
_LONE = re.compile(
	r"(?:E[ ]{1,4})?((?:[A-Za-z_]\w{0,80}\.){0,8}"
	r"[A-Z]\w{0,80}(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Mismatch))"
	r"(?::[ ](?=\S)|[ ]*$)"
)
_NOTEBOOK = re.compile(r"([A-Za-z_][\w.]{0,200})[ ]{2,120}Traceback \(most recent call last\)")
_CHAINS = {
	"During handling of the above exception, another exception occurred:": "during",
	"The above exception was the direct cause of the following exception:": "cause",
}
_LOGGED = re.compile(
	r"\[|[0-9]{4}-|[0-9]{2}/[0-9]{2}/[0-9]{2}|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|[EWI][0-9]{4} |={8}|-{8}"
)
# What a line that begins a traceback or is a lone exception has in it; a block without is passed over.
_MARKS = ("Traceback (", "Error", "Exception", "Exit", "Interrupt", "Timeout", "Failure", "Mismatch", " exception")
_DIGITS = re.compile(r"[0-9]+")


class Raised(NamedTuple):
	"""An exception as a log shows it: its class, its message and the lines of these, the file that raised it.

	`head` is the line where its traceback begins, `last` the one where it came for the last time; `after` is the number
	of the exception that was being handled when this one came, -1 if none.
	"""

	kind: str
	message: str
	line: int
	end: int
	source: Source
	file: str
	after: int
	times: int
	sources: tuple[Source, ...]
	head: int
	last: int

	@property
	def name(self) -> str:
		return self.kind.rpartition(".")[2]

	@property
	def text(self) -> str:
		return f"{self.kind}: {self.message}" if self.message else self.kind


class _Open:
	def __init__(self, line: Line, expected: str | None, after: int) -> None:
		self.source = line.source
		self.indent = len(line.text) - len(line.text.lstrip())
		self.expected, self.after = expected, after
		self.file = self.kind = ""
		self.message: list[str] = []
		self.head = self.line = self.end = line.number


class Tracebacks:
	def __init__(self) -> None:
		self._open: dict[Source, _Open] = {}
		self._last: dict[Source, int] = {}
		self._found: list[Raised] = []
		self._known: dict[tuple[str, str], int] = {}
		self._chained: dict[Source, str] = {}
		self._frame = Line(-TAIL, NO_SOURCE, ""), ""

	def wants(self, text: str) -> bool:
		return bool(self._open) or any(mark in text for mark in _MARKS)

	def feed(self, line: Line) -> None:
		current = self._open.get(line.source)
		if HEAD in line.text:
			self._start(line, current)
		elif current is not None:
			self._continue(line, current)
		elif found := _LONE.match(line.text):
			self._begin_lone(line, found)
		elif line.text in _CHAINS:
			self._chained[line.source] = line.text
		elif frame := _FRAME.match(line.text):
			self._frame = line, frame.group(1)

	def finish(self) -> list[Raised]:
		for current in list(self._open.values()):
			self._close(current)
		return self._found

	def _start(self, line: Line, current: _Open | None) -> None:
		if current is not None:
			self._close(current)
		notebook = _NOTEBOOK.search(line.text)
		chained = self._chained.pop(line.source, None)
		after = self._last.get(line.source, -1) if chained else -1
		if len(self._open) < OPEN_AT_ONCE:
			self._open[line.source] = _Open(line, notebook.group(1) if notebook else None, after)

	def _begin_lone(self, line: Line, found: re.Match[str]) -> None:
		current = _Open(line, None, -1)
		last, file = self._frame
		if last.source == line.source and line.number - last.number <= TAIL:
			current.file = file
		current.kind, current.message = found.group(1), [line.text[found.end() :].strip()]
		if len(self._open) < OPEN_AT_ONCE:
			self._open[line.source] = current

	def _continue(self, line: Line, current: _Open) -> None:
		if current.kind:
			self._message(line, current)
			return
		if frame := _FRAME.match(line.text):
			current.file = frame.group(1)
			return
		bare = line.text.strip()
		if not bare or (len(line.text) - len(line.text.lstrip()) > current.indent and current.expected is None):
			return
		found = _RAISED.match(bare)
		if found and (current.expected is None or found.group(1).endswith(current.expected)):
			current.kind, current.message = found.group(1), [bare[found.end() :]]
			current.line = current.end = line.number

	def _message(self, line: Line, current: _Open) -> None:
		bare = line.text.strip()
		other = _LOGGED.match(line.text) or _LONE.match(line.text)
		if bare and bare not in _CHAINS and not other and len(current.message) < MOST_LINES:
			current.message.append(bare)
			current.end = line.number
			return
		self._close(current)
		if bare in _CHAINS:
			self._chained[line.source] = bare
		elif found := _LONE.match(line.text):
			self._begin_lone(line, found)

	def _close(self, current: _Open) -> None:
		self._open.pop(current.source, None)
		if not current.kind:
			return
		message = "\n".join(current.message).strip()[:LONGEST_MESSAGE]
		same = (current.kind, _DIGITS.sub("#", message))
		number = self._known.get(same)
		if number is not None:
			self._again(number, current.source, current.line)
		elif len(self._found) < MOST:
			number = self._known[same] = len(self._found)
			where = current.line, current.end, current.source, current.file, current.after
			self._found.append(Raised(current.kind, message, *where, 1, (current.source,), current.head, current.line))
		if number is not None:
			self._last[current.source] = number

	def _again(self, number: int, source: Source, line: int) -> None:
		known = self._found[number]
		sources = known.sources if source in known.sources or len(known.sources) > 64 else (*known.sources, source)
		self._found[number] = known._replace(times=known.times + 1, sources=sources, last=line)
