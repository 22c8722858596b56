"""Carry out fixes on a text, and write a text in the place of a file."""

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .model import Edit, Fix

WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH  # to root every file seems writable
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Applied(NamedTuple):
	text: str
	fixes: tuple[Fix, ...]


class WriteFailure(NamedTuple):
	path: str
	message: str


def apply(text: str, fixes: Sequence[Fix]) -> Applied:
	"""Carry out fixes in the order of their first edits; one that touches what an earlier one changes is left out.

	Two fixes that put something at the same place would be ambiguous, so that the second waits for another round.
	"""
	taken: list[Edit] = []
	applied: list[Fix] = []
	for fix in sorted(dict.fromkeys(fixes), key=lambda item: (sorted(item.edits), item.title)):
		if fix.edits and not any(_clash(edit, other) for edit in fix.edits for other in taken):
			taken.extend(fix.edits)
			applied.append(fix)
	return Applied(splice(text, taken), tuple(applied))


def splice(text: str, edits: Iterable[Edit]) -> str:
	parts: list[str] = []
	position = 0
	for edit in sorted(edits, key=lambda item: (item.start, item.end)):
		parts += [text[position : edit.start], edit.text]
		position = edit.end
	return "".join([*parts, text[position:]])


def _clash(one: Edit, other: Edit) -> bool:
	return one.start == other.start or (one.start < other.end and other.start < one.end)


def write_atomically(path: str, text: str) -> WriteFailure | None:
	"""Replace the content of a file in one step; give the reason when that is impossible.

	A symbolic link stays, and the file that it leads to changes. The mode and a byte order mark are kept; the line
	ends are those of the text.
	"""
	import tempfile  # it brings in much, and most calls write nothing

	target = os.path.realpath(path)
	temporary = ""
	try:
		mark, mode = _kept(target)
		if os.path.exists(target) and not (mode & WRITABLE and os.access(target, os.W_OK)):
			return WriteFailure(path, "it cannot be written: it is read-only")
		content = mark + text.encode("utf-8")
		descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(target))
		with os.fdopen(descriptor, "wb") as file:
			file.write(content)
			file.flush()
			os.fsync(file.fileno())
		_give_away(temporary, target)
		os.chmod(temporary, mode)
		os.replace(temporary, target)
	except (OSError, ValueError) as error:
		with contextlib.suppress(OSError):
			os.unlink(temporary)
		said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
		return WriteFailure(path, f"it cannot be written: {said}")
	return None


def _give_away(temporary: str, target: str) -> None:
	if hasattr(os, "chown"):
		with contextlib.suppress(OSError):
			status = os.stat(target)
			os.chown(temporary, status.st_uid, status.st_gid)


def _kept(target: str) -> tuple[bytes, int]:
	try:
		with open(target, "rb") as file:
			start = file.read(len(_BYTE_ORDER_MARK))
			mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
	except FileNotFoundError:
		mask = os.umask(0)  # there is no way to ask for it without setting it
		os.umask(mask)
		return b"", 0o666 & ~mask
	return (_BYTE_ORDER_MARK if start == _BYTE_ORDER_MARK else b""), mode
