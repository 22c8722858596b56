"""Bytes to text: read a file or standard input with bounds, and find the config files of a directory."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from .limits import MAX_BYTES, Unreadable

SUFFIXES = (".yaml", ".yml", ".json", ".py", ".ipynb")
GLIMPSE = 65_536  # bytes of a file that cannot be judged, to see whether it is one of ours
SKIPPED_DIRECTORIES = frozenset({"node_modules", "site-packages", "__pycache__", "__pypackages__"})
_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
_REASONS = {
	errno.ENOENT: ("missing", "there is no such file"),
	errno.ENOTDIR: ("missing", "there is no such file"),
	errno.ENAMETOOLONG: ("missing", "the name is too long for a file"),
	errno.ELOOP: ("missing", "its symbolic links lead in a circle"),
	errno.EACCES: ("no-permission", "the permission to read it is missing"),
	errno.EPERM: ("no-permission", "the permission to read it is missing"),
	errno.ENXIO: ("special-file", "it is not a regular file"),
}


class Raw(NamedTuple):
	"""A decoded text without its byte order mark; line ends are kept as they are, and the first one is named. `other`
	says that it is not UTF-8."""

	path: str
	text: str
	newline: str = "\n"
	bom: bool = False
	other: bool = False


def read_path(path: str) -> Raw | Unreadable:
	"""Read a regular file of a bearable size; anything else is an answer, not an exception."""
	try:
		refusal = _refusal_by_status(path)
		return refusal or decode(_bounded(path), path)
	except OSError as error:
		reason, message = _REASONS.get(error.errno or 0, ("io-error", error.strerror or "it cannot be read"))
		return Unreadable(path, reason, message)
	except ValueError:  # a NUL or a lone surrogate in the name
		return Unreadable(path, "missing", "there is no such file")


def _refusal_by_status(path: str) -> Unreadable | None:
	status = os.stat(path)
	if stat.S_ISDIR(status.st_mode):
		return Unreadable(path, "directory", "it is a directory")
	if not stat.S_ISREG(status.st_mode):
		said = "it is not a regular file (a pipe, a socket or a device); - reads standard input"
		return Unreadable(path, "special-file", said)
	return _too_large(path) if status.st_size > MAX_BYTES else None


def _bounded(path: str) -> bytes:
	# non-blocking, because the file may have become a pipe since it was looked at
	descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
	with os.fdopen(descriptor, "rb") as file:
		return file.read(MAX_BYTES + 1)


def _too_large(path: str) -> Unreadable:
	return Unreadable(path, "too-large", f"it is larger than {MAX_BYTES // 1024 // 1024} MiB, which is the limit")


def decode(content: bytes, path: str) -> Raw | Unreadable:
	"""Decode as the libraries do, which open a config as UTF-8 whatever the locale says."""
	if len(content) > MAX_BYTES:
		return _too_large(path)
	if content.startswith(_UTF16_OR_32):
		return Unreadable(path, "utf-16", "it is UTF-16 or UTF-32 by its byte order mark; configs are opened as UTF-8")
	if b"\0" in content:
		return Unreadable(path, "binary", f"it is not text: there is a NUL byte at offset {content.index(0)}")
	bom = content.startswith(_UTF8_MARK)
	try:
		text = content.decode("utf-8")
	except UnicodeDecodeError as error:
		by_comment = by_cookie(content) if path.endswith(".py") else None
		if by_comment is not None:
			return Raw(path, by_comment, first_newline(by_comment), other=True)
		byte = content[error.start]
		said = f"byte 0x{byte:02x} at offset {error.start}: {error.reason}"
		message = f"it is not UTF-8 ({said}); configs are opened as UTF-8, so that a run ends in a UnicodeDecodeError"
		return Unreadable(path, "not-utf-8", message)
	return Raw(path, text[1:] if bom else text, first_newline(text), bom)


def by_cookie(content: bytes) -> str | None:
	found = re.match(rb"(?:[^\r\n]*\n)?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)", content)
	try:
		return content.decode(found[1].decode("ascii")) if found else None
	except (LookupError, ValueError):
		return None


def first_newline(text: str) -> str:
	"""Give the line end that a text uses first."""
	feed = text.find("\n")
	if feed > 0 and text[feed - 1] == "\r":
		return "\r\n"
	return "\r" if feed < 0 and "\r" in text else "\n"


def glimpse(path: str) -> str:
	"""Give the first part of a regular file as text, whatever cannot be decoded left out; empty if that fails."""
	try:
		if not stat.S_ISREG(os.stat(path).st_mode):
			return ""
		with open(path, "rb") as file:
			content = file.read(GLIMPSE)
	except (OSError, ValueError):
		return ""
	return content.decode("utf-16" if content.startswith(_UTF16_OR_32[:2]) else "utf-8", errors="ignore")


def find_files(directory: str) -> Iterator[str | Unreadable]:
	"""Give the YAML and JSON files below a directory in a fixed order, and the directories that cannot be listed.

	Links to files are followed, links to directories are not: a link may lead out of the tree or back into it.
	"""
	pending: list[os.DirEntry[str] | Unreadable] = _listing(directory)
	while pending:
		entry = pending.pop()
		if isinstance(entry, Unreadable):
			yield entry
		elif entry.is_dir(follow_symlinks=False):
			if not _skipped(entry):
				pending.extend(_listing(entry.path))
		elif entry.name.lower().endswith(SUFFIXES) and _regular(entry):
			yield entry.path


def _listing(directory: str) -> list[os.DirEntry[str] | Unreadable]:
	try:
		with os.scandir(directory) as listing:
			return [*sorted(listing, key=lambda entry: entry.name, reverse=True)]
	except OSError as error:
		return [Unreadable(directory, "no-permission", f"the directory cannot be listed: {error.strerror}")]


def _skipped(entry: os.DirEntry[str]) -> bool:
	hidden = entry.name.startswith(".") or entry.name in SKIPPED_DIRECTORIES
	return hidden or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))


def _regular(entry: os.DirEntry[str]) -> bool:
	try:
		return entry.is_file()
	except OSError:
		return False
