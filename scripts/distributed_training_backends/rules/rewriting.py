"""The fixes that most rules offer: another value in the place of one, another key, none."""

from ..model import Applicability, Pointer
from ..sources.document import At
from .registry import Operation, Repair


def as_written(at: At, value: object) -> str:
	"""A value as the file has to have it, with the quotation marks that it needs there: 'no' in YAML."""
	from ..sources.writing import write  # most files need no fix

	return write(value, at.document.syntax)


def rewriting(at: At, value: object, applicability: Applicability = Applicability.SAFE, key: str = "") -> Repair:
	"""Write another value at a place; with a key, the title names it."""
	title = f"write {key}: {as_written(at, value)}" if key else f"write {as_written(at, value)}"
	return Repair(title, (Operation("replace", at.pointer, value=value),), applicability)


def renaming(pointer: Pointer, name: str | None, applicability: Applicability = Applicability.SAFE) -> Repair | None:
	return Repair(f"rename to {name}", (Operation("rename", pointer, name),), applicability) if name else None


def removing(pointer: Pointer | None, applicability: Applicability = Applicability.UNSAFE) -> Repair | None:
	"""Take an entry out. Not safe by itself: its author may have wanted something."""
	return Repair(f"remove {pointer[-1]}", (Operation("remove", pointer),), applicability) if pointer else None
