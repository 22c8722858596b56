"""Strict JSON, as Python's `json` module reads it (with NaN and Infinity)."""

import json.decoder
import re
from typing import Any

from .json_scan import ScanError
from .limits import check_number

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"null|true|false|NaN|-?Infinity")
_WORDS = {
	"null": None,
	"true": True,
	"false": False,
	"NaN": float("nan"),
	"Infinity": float("inf"),
	"-Infinity": float("-inf"),
}


class JsonGrammar:
	"""The tokens of strict JSON."""

	braceless = False

	def __init__(self, text: str) -> None:
		self.text = text
		self.closed = 0

	def skip(self, position: int) -> int:
		found = _BLANK.match(self.text, position)
		return found.end() if found else position

	def key(self, position: int) -> tuple[str, int]:
		if self.text[position : position + 1] != '"':
			raise ScanError
		return self._string(position)

	def scalar(self, position: int) -> tuple[Any, int, int]:
		if self.text[position : position + 1] == '"':
			string, end = self._string(position)
			return string, end, end
		word = _WORD.match(self.text, position)
		if word:
			return _WORDS[word.group()], word.end(), word.end()
		number = _NUMBER.match(self.text, position)
		if number is None:
			raise ScanError
		return to_number(number), number.end(), number.end()

	def next_slot(self, position: int, closing: str) -> int | None:
		char = self.text[position : position + 1]
		if char == ",":
			return self.skip(position + 1)
		if char != closing:
			raise ScanError
		self.closed = position + 1
		return None

	def _string(self, position: int) -> tuple[str, int]:
		try:
			return json.decoder.scanstring(self.text, position + 1, True)  # type: ignore[attr-defined,no-any-return]
		except json.JSONDecodeError as error:
			raise ScanError from error


def to_number(found: re.Match[str]) -> int | float:
	whole, fraction, exponent = found.groups()
	check_number(found.group())
	if fraction or exponent:
		return float(whole + (fraction or "") + (exponent or ""))
	return int(whole)
