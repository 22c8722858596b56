"""The fix that most rules offer: another value in the place of one."""

from ..model import Applicability
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
