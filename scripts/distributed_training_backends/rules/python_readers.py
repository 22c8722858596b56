"""How the constructors of Accelerate read single arguments: what each of them should be, where it is refused."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..flow.script import Call, plain
from ..knowledge import accelerate as knowledge
from ..sources.document import OPEN
from ..sources.python_values import Made, Symbol
from ..versions import in_span
from .readings import FALSE_WORDS, TRUE_WORDS
from .suggest import closest, listing

Row = Mapping[str, Any]
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
	words = isinstance(value, str) and value.lower() in (*TRUE_WORDS, *FALSE_WORDS)
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
