"""The rows of `data/python_calls.json.gz`: which of them a call meets, under which assumptions, and how they read
single arguments.

A condition names an argument and says what it has to be: `given`, `in`, `not_in`, `above`, `word` (a text in any case),
`not_word`, `lacks` (a mapping without this key). What the script leaves open meets no condition.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..flow.arguments import FALSE, TRUE
from ..flow.script import DATA, Call, Field, Script, plain
from ..knowledge import accelerate as knowledge
from ..model import Severity
from ..resources import load_json
from ..sources.document import OPEN
from ..sources.python_values import Made, Symbol
from ..versions import covers, in_span
from .registry import Hit
from .suggest import closest, listing

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


TYPES: Mapping[str, type] = {"bool": bool, "int": int, "float": float, "str": str, "list": list}
PRECISIONS = ("fp8", "fp16", "bf16", "fp32")


class Reading(NamedTuple):
	"""What a value should be (empty where it is taken), and a word that was probably meant."""

	expected: str = ""
	near: str | None = None


TAKEN = Reading()


def read(row: Row, value: Any, call: Call) -> Reading:
	"""Read a value as a row says. What only running the script would tell is taken."""
	if value is OPEN or (value is None and row.get("null") != "refused"):
		return TAKEN
	value = value if row["read"] == "object" else plain(value, call.script.release)
	return READERS[row["read"]](row, value, call)


def words_of(row: Row, call: Call) -> list[Any]:
	known = knowledge.for_release(call.script.release)
	found: list[Any] = [*known.literal(row["literal"])] if "literal" in row else []
	found += (known.constant(row["constant"]) or ()) if "constant" in row else ()
	found += known.enum(row["enum"]).values() if "enum" in row else ()
	return [*found, *row.get("more", ())]


def folded(text: str, row: Row) -> str:
	fold = row.get("fold")
	return text.upper() if fold == "upper" else text.lower() if fold == "lower" else text


def read_words(row: Row, value: Any, call: Call) -> Reading:
	words = words_of(row, call)
	if not words or isinstance(value, (Symbol, Made)):
		return TAKEN
	shown = [word.lower() if row.get("fold") == "upper" and "enum" in row else word for word in words]
	wanted = Reading(listing(dict.fromkeys(shown)), near(value, shown))
	if isinstance(value, str):
		digits = value.isascii() and value.isdigit() and 0 < int(value[:9]) <= row.get("numbers", 0)
		return TAKEN if digits or folded(value, row) in words else wanted
	if "numbers" in row and isinstance(value, (int, float)) and not (row.get("no_truth") and isinstance(value, bool)):
		fits = not row.get("integers") or 0 < value <= row["numbers"]
		return TAKEN if fits else wanted
	return TAKEN if any(type(one) is type(value) and one == value for one in words) else wanted


def near(value: Any, words: Iterable[Any]) -> str | None:
	"""The word that was meant: the same letters in another case, or almost the same."""
	if not isinstance(value, str):
		return None
	texts = [word for word in words if isinstance(word, str)]
	lower = {word.lower(): word for word in texts}
	return lower.get(value.lower()) or closest(value, texts)


def read_allowed(row: Row, value: Any, call: Call) -> Reading:
	words = call.parameters[row["name"]].allowed
	if not words or isinstance(value, (Symbol, Made)):
		return TAKEN
	known = isinstance(value, str) and folded(value, row) in words
	return TAKEN if known else Reading(listing(words), near(value, words))


def read_trackers(_row: Row, value: Any, call: Call) -> Reading:
	words = words_of({"enum": "LoggerType"}, call)
	for one in value if isinstance(value, list) else [value]:
		if type(one) is str and one not in words:
			return Reading(f"{listing(words)}, or a list of them", near(one, words))
	return TAKEN


def read_list(row: Row, value: Any, call: Call) -> Reading:
	words = words_of(row, call)
	wrong = isinstance(value, list) and any(type(one) is str and one not in words for one in value)
	return Reading(f"a list of {listing(words)}") if wrong else TAKEN


def read_whole(_row: Row, value: Any, _call: Call) -> Reading:
	if isinstance(value, (Symbol, Made)):
		return TAKEN
	try:
		int(str(value))
	except ValueError:
		return Reading("an integer")
	return TAKEN


def read_integer(row: Row, value: Any, _call: Call) -> Reading:
	if isinstance(value, (Symbol, Made)):
		return TAKEN
	fits = isinstance(value, (int, float)) and value >= row["least"]
	return TAKEN if fits else Reading(f"an integer of at least {row['least']}")


def read_truth(_row: Row, value: Any, _call: Call) -> Reading:
	words = isinstance(value, str) and value.lower() in (*TRUE, *FALSE)
	return TAKEN if isinstance(value, bool) or words else Reading("True or False")


def read_object(row: Row, value: Any, _call: Call) -> Reading:
	kinds = tuple(TYPES[name] for name in row.get("or", ()))
	plain_value = isinstance(value, (str, int, float, list, dict, Made)) and not isinstance(value, Symbol)
	return Reading(row["what"]) if plain_value and not isinstance(value, kinds) else TAKEN


def read_precision(_row: Row, value: Any, call: Call) -> Reading:
	"""A policy of torch, a word for one (since 1.11.0), or a mapping of dtypes with all of its keys."""
	if isinstance(value, Symbol):
		return TAKEN
	release = call.script.release
	if isinstance(value, str):
		if in_span(release, "1.6.0", "1.10.99"):
			return Reading("a policy of torch, nor a mapping of dtypes")
		old = in_span(release, None, "1.5.99")
		return TAKEN if old or value in PRECISIONS else Reading(listing(PRECISIONS), near(value, PRECISIONS))
	if not isinstance(value, dict) or value is OPEN:
		return TAKEN
	version = call.field("fsdp_version").value if "fsdp_version" in call.parameters else 1
	if version not in (1, 2) or version is OPEN:
		return TAKEN
	keys = ["param_dtype", "reduce_dtype", "output_dtype" if version == 2 else "buffer_dtype"]
	fits = all(key in value for key in keys) and not any(type(one) in (str, int, float) for one in value.values())
	return TAKEN if fits and len(value) == len(keys) else Reading(f"a mapping of {', '.join(keys)} to dtypes of torch")


def read_attention(_row: Row, value: Any, call: Call) -> Reading:
	built_in = ("flash_attention_2", "flash_attention_3", "sdpa")
	hub = in_span(call.script.release, "1.14.0", None)
	if not isinstance(value, str) or value in built_in or (hub and "/" in value and "flash-attn" in value):
		return TAKEN
	return Reading(listing(built_in) + (", nor a flash-attn kernel of the hub" if hub else ""), near(value, built_in))


_ALL = (read_words, read_allowed, read_trackers, read_list, read_whole, read_integer, read_truth, read_object)
READERS: Mapping[str, Callable[[Row, Any, Call], Reading]] = {
	one.__name__.removeprefix("read_"): one for one in (*_ALL, read_precision, read_attention)
}
