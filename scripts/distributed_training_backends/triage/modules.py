"""The names that the matrices of models go by, as PEFT takes them."""

from collections.abc import Iterable

from ..resources import load_json


def roles(targets: Iterable[str]) -> set[str]:
	"""The roles that module names stand for; unknown names stand for nothing."""
	known: dict[str, list[str]] = load_json("memory.json")["modules"]
	found: set[str] = set()
	for target in targets:
		name = target.rsplit(".", 1)[-1].lower()
		found.update(known.get(name, ()))
	return found


def unknown_targets(targets: Iterable[str]) -> list[str]:
	return [target for target in targets if not roles((target,))]
