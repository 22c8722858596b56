"""Write a value so that the reader of a syntax gives the same value back."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .document import Syntax

# words that YAML 1.1 reads as text; anything else gets quotes, as do the words below
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_RESERVED = re.compile(r"(?:y|yes|n|no|true|false|on|off|null)", re.IGNORECASE)
_ESCAPED = "[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"


def write(value: Any, syntax: Syntax, quote: str = "") -> str:
	"""Write a value on one line; `quote` is the mark that a string shall have when it is YAML."""
	if syntax == "json":
		return json.dumps(value, ensure_ascii=False)
	if syntax == "shell":
		text = str(value).lower() if isinstance(value, bool) else str(value)
		return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else "'" + text.replace("'", "'\\''") + "'"
	if isinstance(value, dict):
		return "{" + ", ".join(f"{write(key, syntax)}: {write(item, syntax)}" for key, item in value.items()) + "}"
	if isinstance(value, list):
		return "[" + ", ".join(write(item, syntax) for item in value) + "]"
	if isinstance(value, str):
		return _string(value, quote)
	return _float(value) if isinstance(value, float) else json.dumps(value)


def _string(value: str, quote: str) -> str:
	if quote == '"' or _needs_escapes(value):
		return '"' + re.sub(_ESCAPED, _escape, value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
	if not quote and _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value):
		return value
	return "'" + value.replace("'", "''") + "'"


def _needs_escapes(value: str) -> bool:
	return not value.isprintable() if value.isascii() else re.search(_ESCAPED, value) is not None


def _escape(found: re.Match[str]) -> str:
	char = found.group()
	return json.dumps(char)[1:-1] if char <= "\uffff" else f"\\U{ord(char):08x}"


def _float(value: float) -> str:
	if not math.isfinite(value):
		return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
	mantissa, mark, exponent = repr(value).partition("e")
	return mantissa + ("" if "." in mantissa else ".0") + mark + exponent


def block_lines(config: Mapping[str, Any], indent: str = "") -> Iterator[str]:
	for name, value in config.items():
		if isinstance(value, Mapping) and value:
			yield f"{indent}{write(name, 'yaml')}:\n"
			yield from block_lines(value, indent + "  ")
		else:
			yield f"{indent}{write(name, 'yaml')}: {write(value, 'yaml')}\n"
