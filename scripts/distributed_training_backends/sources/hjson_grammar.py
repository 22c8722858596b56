"""Hjson, as the package `hjson` reads it: what DeepSpeed accepts in the place of JSON."""

import re
from bisect import bisect_right
from typing import Any

from ..model import Extent
from .document import Defect
from .json_source import JsonGrammar, ScanBreakdownError, ScanError
from .limits import check_number

MAX_DEFECTS = 1000  # a text of nothing but comments shall not fill the memory with remarks about them

_BLANK = re.compile(r"[ \t\n]*")
_LINE_REST = re.compile(r"[^\n]*")
_BARE_KEY = re.compile(r"([^ \t\n:{}\[\],]+)([ \t\n]*):")
_NUMBER = re.compile(r"[\t ]*(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*")
_STOP = re.compile(r"[\n,}\]#]|//|/\*|\Z")
_CHUNK = re.compile(r"([^'\"\\\x00-\x1f]*)(['\"\\\x00-\x1f])")
_WORDS = {"null": None, "true": True, "false": False}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PUNCTUATION = frozenset("{}[],:")


class HjsonGrammar(JsonGrammar):
	"""The tokens of Hjson. Departures from JSON are noted in `defects`, as extents of the given text.

	DeepSpeed opens the file in text mode, so that every line end is a line feed when Hjson sees it.
	"""

	def __init__(self, text: str, braceless: bool = False) -> None:
		super().__init__(re.sub("\r\n?", "\n", text))
		self.braceless = braceless
		self.defects: list[Defect] = []
		self._comments_until = 0
		pairs = [found.start() for found in re.finditer("\r\n", text)]
		self._pairs = [start - index for index, start in enumerate(pairs)]

	def original(self, extent: Extent) -> Extent:
		if not self._pairs:
			return extent
		start, end = (position + bisect_right(self._pairs, position - 1) for position in extent)
		return Extent(start, end)

	def note(self, name: str, start: int, end: int, detail: str = "") -> None:
		if len(self.defects) < MAX_DEFECTS:
			self.defects.append(Defect(name, self.original(Extent(start, end)), detail))

	def skip(self, position: int) -> int:
		text = self.text
		while True:
			position = _end(_BLANK, text, position)
			if text.startswith(("#", "//"), position):
				end = _end(_LINE_REST, text, position)
			elif text.startswith("/*", position):
				end = text.find("*/", position + 2) + 2
				if end < 2:
					raise ScanBreakdownError
			else:
				return position
			if position >= self._comments_until:
				self._comments_until = end
				self.note("comment", position, end)
			position = end

	def key(self, position: int) -> tuple[str, int]:
		if self.text[position : position + 1] in ("'", '"'):
			return self._quoted(position)
		found = _BARE_KEY.match(self.text, position)
		if found is None:
			raise ScanError
		word, blank = found.groups()
		end = found.start() + len(word)
		self.note("unquoted-key", position, end, word)
		return word.rstrip() if blank else word, end

	def scalar(self, position: int) -> tuple[Any, int, int]:
		char = self.text[position : position + 1]
		if not char or char in _PUNCTUATION:
			raise ScanError
		if char not in ("'", '"'):
			return self._bare(position)
		multiline = self.text.startswith("'''", position)
		string, end = self._multiline(position) if multiline else self._quoted(position)
		return string, end, end

	def next_slot(self, position: int, closing: str) -> int | None:
		following = position
		comma = self.text[position : position + 1] == ","
		if comma:
			following = self.skip(position + 1)
		if self.text[following : following + 1] == closing:
			self.closed = following + len(closing)
			if comma:
				self.note("trailing-comma", position, position + 1)
			return None
		if not comma:
			self.note("missing-comma", position, min(position + 1, len(self.text)))
		return following

	def _bare(self, position: int) -> tuple[Any, int, int]:
		"""A word or a number ends at punctuation; any other bare string takes the rest of the line."""
		text = self.text
		found = _STOP.search(text, position)
		stop = found.start() if found else len(text)
		word = text[position:stop].rstrip()
		if word in _WORDS:
			return _WORDS[word], position + len(word), stop
		number = _NUMBER.match(text, position)
		if number and number.end() == stop and (text[position] == "-" or text[position] in "0123456789"):
			return hjson_number(number), position + len(word), stop
		stop = _end(_LINE_REST, text, position)
		rest = text[position:stop].rstrip()
		self.note("unquoted-string", position, position + len(rest), rest)
		return rest.lstrip(), position + len(rest), stop

	def _quoted(self, position: int) -> tuple[str, int]:
		quote = self.text[position]
		parts: list[str] = []
		end = position + 1
		while True:
			found = _CHUNK.match(self.text, end)
			if found is None:
				raise ScanError
			content, char = found.groups()
			parts.append(content)
			end = found.end()
			if char == quote:
				break
			if char == "\\":
				char, end = self._escape(end)
			elif char not in "'\"":
				raise ScanError
			parts.append(char)
		if quote == "'":
			self.note("single-quoted", position, end)
		return "".join(parts), end

	def _escape(self, position: int) -> tuple[str, int]:
		letter = self.text[position : position + 1]
		if letter != "u":
			if letter not in _ESCAPES:
				raise ScanError
			return _ESCAPES[letter], position + 1
		first, end = self._hexadecimal(position), position + 5
		if first & 0xFC00 == 0xD800 and self.text.startswith("\\u", end) and self._digits(end + 1):
			second = self._hexadecimal(end + 1)
			if second & 0xFC00 == 0xDC00:
				return _char(0x10000 + ((first - 0xD800) << 10 | (second - 0xDC00))), end + 6
		return _char(first), end

	def _digits(self, position: int) -> str:
		digits = self.text[position + 1 : position + 5]
		return digits if len(digits) == 4 and digits[1] not in "xX" else ""

	def _hexadecimal(self, position: int) -> int:
		try:
			return int(self._digits(position), 16)
		except ValueError as error:
			raise ScanError from error

	def _multiline(self, position: int) -> tuple[str, int]:
		"""Lose the indentation of the opening quotes on every line, and the last line end."""
		text = self.text
		close = text.find("'''", position + 3)
		newline = text.rfind("\n", 0, position)
		if newline < 0:  # Hjson counts on from the end of the text
			newline = text.rfind("\n") - len(text)
		if newline + len(text) < 0 or not text[position + 3 :].strip(" \t"):
			raise ScanBreakdownError
		if close < 0:
			raise ScanError
		body = text[position + 3 : close].lstrip(" \t")
		indent = re.compile(rf"\n[ \t]{{0,{min(position - 1 - newline, len(text))}}}")
		lines = indent.sub("\n", body).removeprefix("\n").removesuffix("\n")
		self.note("multiline-string", position, close + 3)
		return lines, close + 3


def hjson_number(found: re.Match[str]) -> int | float:
	whole, fraction, exponent = found.groups()
	check_number(found.group().strip())
	try:
		if not fraction and not exponent:
			return int(whole)
		value = float(whole + (fraction or "") + (exponent or ""))
		return int(value) if int(value) == value and abs(value) < 1e10 else value
	except (ValueError, OverflowError) as error:
		raise ScanBreakdownError from error


def _char(code: int) -> str:
	try:
		return chr(code)
	except ValueError as error:  # Hjson lets a sign through
		raise ScanBreakdownError from error


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
	found = pattern.match(text, position)
	return found.end() if found else position
