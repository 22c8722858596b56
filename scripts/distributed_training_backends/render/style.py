"""How a report is to look: what is shown, how wide, and in which colours."""

from typing import NamedTuple

from ..model import Finding, Severity

_COLOURS = {"bold": "1", "red": "1;31", "yellow": "1;33", "blue": "1;34", "cyan": "36", "green": "32", "dim": "2"}
SEVERITY_COLOUR = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


class Style(NamedTuple):
	"""Choices of the caller. `base` is the directory from which absolute paths are made relative in SARIF."""

	color: bool = False
	width: int = 120
	least: Severity = Severity.WARNING
	statistics: bool = False
	base: str = ""

	def paint(self, text: str, colour: str) -> str:
		return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.color else text

	def shows(self, finding: Finding) -> bool:
		return finding.severity.rank <= self.least.rank


def counted(number: int, noun: str) -> str:
	"""Write a number with its noun: "1 error", "2 errors"."""
	return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
