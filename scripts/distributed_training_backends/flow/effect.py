"""Whether a written value and the value that takes effect come to the same."""

from typing import Any

from ..knowledge import accelerate as knowledge

OFF = ("false", "no", "off", "none", "null", "")
ON = ("true", "yes", "on")


def normal(value: object) -> object:
	"""Bring spellings of the same thing together: off and absent, on, numbers, texts in any case."""
	if value is None or value is False or value == [] or value == {}:
		return None
	if value is True:
		return True
	if isinstance(value, (int, float)):
		return float(value)
	text = str(value).strip().lower()
	if text in OFF:
		return None
	if text in ON:
		return True
	return number(text)


def number(text: str) -> Any:
	"""The number that a text is; else the text."""
	try:
		return int(text) if text.strip().lstrip("-").isdecimal() else float(text)
	except ValueError:
		return text


def same(one: object, other: object) -> bool:
	return bool(normal(one) == normal(other))


def default_of_option(option: str, release: str) -> object:
	"""What an option is without being set: in this release, or else where it was known last."""
	known = knowledge.for_release(release).options.get(option)
	return known.default if known is not None else knowledge.last_default(option)
