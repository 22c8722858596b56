"""The rows of `data/python_calls.json.gz`: which of them a call meets, and under which assumptions.

A condition names an argument and says what it has to be: `given`, `in`, `not_in`, `above`, `word` (a text in any case),
`not_word`, `lacks` (a mapping without this key). What the script leaves open meets no condition.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..flow.script import DATA, Call, Field, Script, plain
from ..model import Severity
from ..resources import load_json
from ..sources.document import OPEN
from ..sources.python_values import Made, Symbol
from ..versions import covers
from .registry import Hit

Row = Mapping[str, Any]


def rows(table: str, script: Script) -> Iterator[tuple[Row, Call]]:
	"""The rows of a table, each with the calls that it is about; those for other releases are left out."""
	for row in load_json(DATA)[table]:
		if covers(row.get("releases", "*"), script.release):
			for call in script.of(row["of"]):
				if not row.get("name") or row["name"] in call.parameters:
					yield row, call


def assumptions(call: Call, conditions: Mapping[str, Mapping[str, Any]]) -> list[str] | None:
	"""The variables that must not be set for all conditions to hold; None where one does not hold, or is open."""
	unless: list[str] = []
	for name, condition in conditions.items():
		field = call.field(name) if name in call.parameters else Field(None)
		absent = condition == {"given": False} and name not in call.given and not call.open
		if absent:
			continue
		if field.value is OPEN or not all(holds(field, call, *one) for one in condition.items()):
			return None
		unless += field.unless
	return unless


def holds(field: Field, call: Call, what: str, wanted: Any) -> bool:
	value = plain(field.value, call.script.release)
	if what == "given":
		given = field.given and field.value is not None
		return bool(given is wanted)
	if what in ("word", "not_word"):
		text = isinstance(value, str) and value.upper() == wanted
		known = isinstance(value, str) or value is None
		return text if what == "word" else known and not text
	if what == "above":
		return isinstance(value, (int, float)) and value > wanted
	if what == "lacks":
		return isinstance(value, dict) and wanted not in value
	inside = any(type(value) is type(one) and value == one for one in wanted)
	return inside if what == "in" else not inside and not isinstance(value, (Symbol, Made))


def weighed(call: Call, hit: Hit, unless: Iterable[str] = ()) -> Hit:
	"""A refusal with the weight that it can have: less where the launcher may change it, or the script is prepared."""
	variables = list(dict.fromkeys(unless))
	if call.conditional:
		text = f"{hit.message} (the script asks for the release first, or goes on after a failure)"
		return hit._replace(message=text, severity=Severity.INFO)
	if variables:
		text = f"{hit.message} (unless the launcher sets {' or '.join(variables)})"
		return hit._replace(message=text, severity=Severity.WARNING)
	return hit
