"""Settings of which some are not known: in a script, or in a file whose gaps the shell fills."""

from typing import Any

from .document import OPEN, OpenValueError


class Partly(dict[Any, Any]):
	"""A mapping of which something is open: values that are OPEN, and with `open` keys that are not seen."""

	def __init__(self, known: dict[Any, Any], open_: bool = False) -> None:
		super().__init__(known)
		self.open = open_

	def _checked(self, key: Any) -> None:
		if super().get(key) is OPEN or (self.open and not super().__contains__(key)):
			raise OpenValueError

	def __getitem__(self, key: Any) -> Any:
		self._checked(key)
		return super().__getitem__(key)

	def get(self, key: Any, default: Any = None) -> Any:
		self._checked(key)
		return super().get(key, default)

	def __contains__(self, key: object) -> bool:
		there = super().__contains__(key)
		if self.open and not there:
			raise OpenValueError
		return there

	def values(self) -> Any:
		if self.open or any(value is OPEN for value in super().values()):
			raise OpenValueError
		return super().values()

	def items(self) -> Any:
		self.values()
		return super().items()


class Gapped(Partly):
	"""A mapping whose keys are all seen. Rules that look at one entry after the other get those that are not open."""

	def values(self) -> Any:
		return [value for _, value in self.items()]

	def items(self) -> Any:
		return [(key, value) for key, value in super(Partly, self).items() if value is not OPEN]


def gapped(value: Any) -> Any:
	if not isinstance(value, dict):
		return value
	found = {key: gapped(item) for key, item in value.items()}
	return Gapped(found) if OPEN in found.values() else found
