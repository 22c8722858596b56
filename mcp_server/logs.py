"""Logging to standard error that can neither flood nor block: a client may never read it."""

import logging
import select
import sys

from distributed_training_backends.render.characters import visible
from distributed_training_backends.render.redact import redact

LONGEST = 1_000  # below what a pipe takes at once, so that a line that may be written is written whole


class OneLine(logging.Formatter):
	"""One line for each record: of a traceback the last line is enough, and the rest could fill a pipe."""

	def format(self, record: logging.LogRecord) -> str:
		raised = record.exc_info[1] if record.exc_info else None
		told = f": {type(raised).__name__}: {raised}" if raised is not None else ""
		line = visible(redact(f"{record.levelname} {record.name}: {record.getMessage()}{told}"))
		return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


class Unblocked(logging.StreamHandler):  # type: ignore[type-arg]
	"""Leaves out what nobody reads: a full pipe would hold the server up until somebody did."""

	def emit(self, record: logging.LogRecord) -> None:
		if takes_more():
			super().emit(record)


def takes_more() -> bool:
	if sys.platform == "win32":  # nothing but sockets can be asked there
		return True
	try:
		return bool(select.select([], [sys.stderr], [], 0)[1])
	except (OSError, ValueError):
		return False


def set_up(level: int = logging.WARNING) -> None:
	"""Send all logging there. The SDK adds no handlers of its own once there is one."""
	handler = Unblocked(sys.stderr)
	handler.setFormatter(OneLine())
	logging.basicConfig(level=level, handlers=[handler], force=True)
