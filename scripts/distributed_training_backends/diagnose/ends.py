"""How processes ended, as launchers sum it up: which rank failed first, on which host, with which exit code."""

import re
from typing import NamedTuple

from .reading import Line

_ROOT = "Root Cause (first observed failure)"
_FIELD = re.compile(r"\s{1,8}(rank|host|exitcode|time)[ ]{0,12}: ?(\S{1,200})")
_AGENT = re.compile(r"failed \(exitcode: (-?[0-9]{1,5})\) local_rank: ([0-9]{1,6})")
_DEEPSPEED = re.compile(r"exits with return code = (-?[0-9]{1,5})")
_COMPLETED = re.compile(
	r"train_runtime|exits successfully|\b(?:completed|finished) (?:the )?(?:training|run|job)\b"
	r"|(?<!not )\b(?:training|run|job)(?: is| has)?(?: been)? (?:complete|finish|done\b)",
	re.IGNORECASE,
)
_DONE = ("train_runtime", "successfully", "omplete", "inish", " done")
WITHIN = 12  # lines of a summary after its heading


class End(NamedTuple):
	"""The process that failed first; None is what the log does not say."""

	rank: int | None = None
	host: str | None = None
	code: int | None = None
	line: int | None = None


class Ends:
	"""Reads lines one by one; a summary by torchrun's agent beats what it logged before."""

	def __init__(self) -> None:
		self._root: dict[str, str] | None = None
		self._line = self._last = 0
		self._logged: End | None = None
		self._reading = False
		self.completed = 0  # the last line by which a run says that it is done

	def wants(self, text: str) -> bool:
		return self._reading or any(mark in text for mark in ("exit", _ROOT, *_DONE))

	def feed(self, line: Line) -> None:
		self._reading = line.number < self._last
		if self._root is None and _ROOT in line.text:
			self._root, self._line, self._last = {}, line.number, line.number + WITHIN
			self._reading = True
		elif self._root is not None and line.number <= self._last and (field := _FIELD.match(line.text)):
			self._root.setdefault(field.group(1), field.group(2))
		elif self._logged is None and "exit" in line.text:
			self._logged = _logged(line)
		if any(mark in line.text for mark in _DONE) and _COMPLETED.search(line.text):
			self.completed = line.number

	def finish(self) -> End | None:
		if not self._root:
			return self._logged
		rank, code = self._root.get("rank"), self._root.get("exitcode", "")
		host = self._root.get("host")
		return End(
			int(rank) if rank and rank.isdecimal() else None,
			host if host and host != "localhost" else None,
			int(code) if re.fullmatch(r"-?[0-9]{1,5}", code) else None,
			self._line,
		)


def _logged(line: Line) -> End | None:
	agent = _AGENT.search(line.text)
	if agent:
		return End(int(agent.group(2)), line.source.host or None, int(agent.group(1)), line.number)
	launch = _DEEPSPEED.search(line.text)
	return End(line.source.rank, line.source.host or None, int(launch.group(1)), line.number) if launch else None
