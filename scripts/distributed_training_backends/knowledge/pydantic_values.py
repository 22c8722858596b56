"""Would DeepSpeed's reading of a key take this JSON value?

DeepSpeed hands the parsed JSON to pydantic models as Python values, in lax mode. Generation 1 (DeepSpeed before
0.15.0) mostly calls the type, generation 2 has conversions of its own; both are written down here, since pydantic
may not be there to ask. Keys that are read from a plain dict are not checked by any model: what such a read
refuses is named by the key's `accepts`.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from .deepspeed import Key

BOOL_TEXTS = {
	**dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
	**dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
_INT_TEXT = re.compile(r"([+-]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?")
_I64 = 2.0**63


class RefusedError(Exception):
	"""The value is not one that is taken here; the text completes the sentence "the value …"."""


class Shape(NamedTuple):
	"""A parsed type: `list[str]?` is a union of a list of text and null."""

	kind: str
	args: tuple[Any, ...] = ()  # of Shape


@lru_cache(maxsize=256)
def parse_type(text: str) -> Shape:
	parts = _split(text, "|")
	if len(parts) > 1:
		return Shape("union", tuple(parse_type(part) for part in parts))
	if text.endswith("?"):
		return Shape("union", (parse_type(text[:-1]), Shape("none")))
	kind, bracket, inner = text.partition("[")
	return Shape(kind, tuple(parse_type(part) for part in _split(inner[:-1], ",")) if bracket else ())


def _split(text: str, mark: str) -> list[str]:
	parts, depth, start = [], 0, 0
	for index, char in enumerate(text):
		depth += (char == "[") - (char == "]")
		if char == mark and depth == 0:
			parts.append(text[start:index])
			start = index + 1
	return [*parts, text[start:]]


def problem(value: Any, key: Key, generation: int) -> str | None:
	"""Say why the value is refused ("should be an integer"), or None when it is taken."""
	try:
		effective(value, key, generation)
	except RefusedError as refusal:
		return str(refusal)
	return None


def effective(value: Any, key: Key, generation: int) -> Any:
	"""Give the value that takes effect in the place of the written one, or raise RefusedError."""
	if key.read == "model" and value == "auto" and not key.keeps_auto:
		return key.default  # DeepSpeed's base model drops "auto" before it validates
	if key.accepts:
		choose = _CHOICES.get(key.accepts)
		value = choose(value, key.choices) if choose else _READS[key.accepts](value)
	if key.read == "model":
		value = convert(value, key.type, key.choices, generation)
	return _bounded(value, key.bounds)


def convert(value: Any, type_text: str, choices: tuple[Any, ...], generation: int) -> Any:
	"""Convert as pydantic does, or raise RefusedError."""
	return _convert(value, parse_type(type_text), choices, generation)


def _convert(value: Any, shape: Shape, choices: tuple[Any, ...], generation: int) -> Any:
	if shape.kind == "union":
		return _union(value, shape.args, choices, generation)
	if shape.kind in ("enum", "literal"):
		return _choice(value, choices, shape.kind, generation)
	if shape.kind in ("list", "tuple"):
		if not isinstance(value, list):
			raise RefusedError("should be a list")
		return [_convert(item, shape.args[0], choices, generation) for item in value] if shape.args else value
	return _KINDS[shape.kind][generation - 1](value)


def _union(value: Any, members: tuple[Shape, ...], choices: tuple[Any, ...], generation: int) -> Any:
	reasons = []
	for member in members:
		try:
			return _convert(value, member, choices, generation)
		except RefusedError as refusal:
			reasons.append(str(refusal))
	raise RefusedError(reasons[0] if members[-1].kind == "none" else " or ".join(reasons))


def _choice(value: Any, choices: tuple[Any, ...], kind: str, generation: int) -> Any:
	if generation == 2 and kind == "enum" and isinstance(choices[0], int):
		try:
			value = _int2(value)
		except RefusedError:
			value = None
	for choice in choices:
		if choice == value and not isinstance(value, (list, dict)):
			return choice
	raise _none_of(choices)


def _none_of(choices: tuple[Any, ...]) -> RefusedError:
	return RefusedError("should be one of " + ", ".join(map(str, choices)))


def _bounded(value: Any, bounds: Mapping[str, float]) -> Any:
	for test, limit in bounds.items():
		holds, words = _BOUNDS[test]
		if isinstance(value, (int, float)) and not holds(value, limit):
			raise RefusedError(f"should be {words} {limit:g}")
	return value


_BOUNDS: dict[str, tuple[Callable[[float, float], bool], str]] = {
	"ge": (ge, "at least"),
	"gt": (gt, "greater than"),
	"le": (le, "at most"),
	"lt": (lt, "less than"),
}


def _made_by(kind: type[int] | type[float], words: str) -> Callable[[Any], Any]:
	def read(value: Any) -> Any:
		try:
			return kind(value)
		except (TypeError, ValueError, OverflowError):
			raise RefusedError(f"should be {words}") from None

	return read


_int1, _float1 = _made_by(int, "an integer"), _made_by(float, "a number")


def _int2(value: Any) -> Any:
	if isinstance(value, int):
		return int(value)
	if isinstance(value, float) and value.is_integer() and -_I64 < value < _I64:
		return int(value)
	found = _INT_TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
	if not found:
		raise RefusedError("should be an integer")
	return int(found.group(1))


def _float2(value: Any) -> Any:
	if isinstance(value, str):
		grouped = "_" in value and "_" not in (value[0], value[-1]) and "__" not in value and value == value.strip()
		value = value.replace("_", "") if grouped else value
		if not value.isascii() or "_" in value:
			raise RefusedError("should be a number")
	return _float1(value)


def _bool(value: Any) -> Any:
	if isinstance(value, (int, float)) and value in (0, 1):
		return bool(value)
	if isinstance(value, str) and value.lower() in BOOL_TEXTS:
		return BOOL_TEXTS[value.lower()]
	raise RefusedError("should be true or false")


def _str1(value: Any) -> Any:
	if isinstance(value, (str, int, float)):
		return str(value)
	raise RefusedError("should be text")


def _that(takes: Callable[[Any], bool], words: str) -> Callable[[Any], Any]:
	def test(value: Any) -> Any:
		if takes(value):
			return value
		raise RefusedError(f"should {words}")

	return test


def _is(kinds: type | tuple[type, ...], words: str, null: bool = False) -> Callable[[Any], Any]:
	return _that(lambda value: isinstance(value, kinds) or (null and value is None), f"be {words}")


def _dict1(value: Any) -> Any:
	try:
		return {_str1(key): below for key, below in dict(value).items()}
	except (TypeError, ValueError):
		raise RefusedError("should be a mapping") from None


def _model1(value: Any) -> Any:
	if isinstance(value, dict) or (isinstance(value, (str, list)) and not value):
		return value or {}
	raise RefusedError("should be a mapping")


def _dtype(_: Any) -> Any:
	raise RefusedError("can only be set from Python: no JSON value is a torch.dtype")


_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
	"int": (_int1, _int2),
	"float": (_float1, _float2),
	"bool": (_bool, _bool),
	"str": (_str1, _is(str, "text")),
	"path": (_is(str, "a path"),) * 2,
	"dict": (_dict1, _is(dict, "a mapping")),
	"model": (_model1, _is(dict, "a mapping")),
	"none": (_is(type(None), "null"),) * 2,
	"any": (lambda value: value,) * 2,
	"dtype": (_dtype, _dtype),
}


def _any_case(value: Any, choices: tuple[Any, ...]) -> Any:
	for choice in choices:
		if value == choice or (isinstance(value, str) and str(choice).lower() == value.lower()):
			return choice
	raise _none_of(choices)


def _exactly(value: Any, choices: tuple[Any, ...]) -> Any:
	if value in choices:
		return value
	raise _none_of(choices)


def _are_texts(value: Any) -> bool:
	return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _loss_scale(value: Any) -> Any:
	number = None if isinstance(value, bool) else _float1(value)
	if number is None or not math.isfinite(number) or number < 0:
		raise RefusedError("should be a finite number of at least 0, not a bool")
	return number


def _scale_integer(value: Any) -> Any:
	if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
		raise RefusedError("should be a finite integer, not a bool")
	_int1(value)
	return value


_CHOICES: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
	"any-case": _any_case,
	"any-case?": lambda value, choices: None if value is None else _any_case(value, choices),
	"exactly": _exactly,
}

_READS: dict[str, Callable[[Any], Any]] = {
	"number": _is((int, float), "a number"),
	"number?": _is((int, float), "a number", null=True),
	"bits": _is(int, "true or false"),
	"text?": _is(str, "text", null=True),
	"countable": _that(lambda value: not value or isinstance(value, (int, float)), "be a number"),
	"intable": _int1,
	"mapping": _is(dict, "a mapping"),
	"mapping?": _is(dict, "a mapping", null=True),
	"filled": _that(bool, "not be empty"),
	"texts": _that(lambda value: isinstance(value, (str, dict)) or _are_texts(value), "be a list of texts"),
	"auto-or-texts": _that(lambda value: value == "auto" or _are_texts(value), 'be "auto" or a list of texts'),
	"auto-or-int": _that(lambda value: not isinstance(value, str) or value == "auto", 'be an integer or "auto"'),
	"text-as-list": lambda value: [value] if isinstance(value, str) else value,
	"null-as-mapping": lambda value: {} if value is None else value,
	"loss-scale": _loss_scale,
	"scale-integer": _scale_integer,
}
