"""The ways to read the text of a value: truth words, integers, names. What Accelerate's own readers take, they take.

The library reads with `str_to_bool` (utils/environment.py), `int`, `float`, enums and lists of names; the same
Python functions are used here, on the same text.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..flow.arguments import FALSE, TRUE
from ..knowledge import accelerate as knowledge
from ..model import Applicability
from ..sources.document import At
from .registry import Repair
from .rewriting import as_written, removing, rewriting
from .suggest import closest, did_you_mean, listing

How = Mapping[str, Any]


class Outcome(NamedTuple):
	"""What a value is read as. `expected` says what it should be where it is refused, `slip` what happens where it is
	taken for something else than it looks like; `better` is a value to write instead, `sure` if it surely was meant."""

	meaning: Any = None
	expected: str = ""
	slip: str = ""
	better: Any = None
	sure: bool = False
	hint: str = ""


def read(how: How, value: Any, release: str) -> Outcome:
	if value is None and how.get("null") == "unset":
		return Outcome(None)
	if how.get("only_text") and not isinstance(value, str):
		word = str(value).lower() if how["read"] == "truth" else "no"
		better = word if value is False or (value is True and how["read"] == "truth") else None
		return Outcome(value, "a text", better=better, sure=better is not None)
	if slip := how.get("slips", {}).get(str(value).lower()):
		return Outcome(None, slip=slip)
	outcome = READERS[how["read"]](how, value, release)
	known = how.get("translate", {}).get(str(value).upper()) if outcome.expected else None
	return outcome if known is None else outcome._replace(better=known, sure=True)


def read_truth(_how: How, value: Any, _release: str) -> Outcome:
	"""str_to_bool: a fixed list of words, in any case."""
	text = str(value).lower()
	if text in TRUE or text in FALSE:
		return Outcome(text in TRUE)
	near = closest(text, ("true", "false")) if isinstance(value, str) else None
	return Outcome(None, "true or false", better={"true": True, "false": False}.get(near or ""))


def read_true_only(_how: How, value: Any, _release: str) -> Outcome:
	text = str(value).lower()
	if text == "true" or text in FALSE or value is None:
		return Outcome(text == "true")
	meant = text.strip() in TRUE
	slip = "only the word true switches it on, every other text counts as false"
	return Outcome(False, slip=slip, better=True if meant else None, sure=meant)


def read_truthy(_how: How, value: Any, _release: str) -> Outcome:
	"""Python's own truth: any text that is not empty counts as true."""
	return Outcome(bool(value))


def read_integer(how: How, value: Any, _release: str) -> Outcome:
	"""int() of the text: no decimal point, no exponent, no true or false."""
	least, most = how.get("least"), how.get("most")
	bounds = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
	article = f"an integer{bounds}"
	try:
		number = int(str(value))
	except ValueError:
		return Outcome(None, article, better=whole(value), sure=whole(value) is not None)
	if (least is not None and number < least) or (most is not None and number > most):
		return Outcome(number, article)
	return Outcome(number)


def whole(value: Any) -> int | None:
	if isinstance(value, bool) or not isinstance(value, (str, float)):
		return None
	try:
		number = float(value)
		return int(number) if number == int(number) and abs(number) < 2**53 else None
	except (ValueError, OverflowError):
		return None


def read_number(how: How, value: Any, _release: str) -> Outcome:
	text = str(value)
	if text.lower() in how.get("also", ()):
		return Outcome(text.lower())
	try:
		return Outcome(float(text))
	except ValueError:
		return Outcome(None, " or ".join(["a number", *how.get("also", ())]))


def read_compared(_how: How, value: Any, _release: str) -> Outcome:
	if isinstance(value, (int, float)):
		return Outcome(value)
	number = whole(value)
	return Outcome(number, "a number without quotation marks", better=number, sure=number is not None)


def read_name(how: How, value: Any, release: str) -> Outcome:
	names = names_of(how, release)
	exact = how["case"] == "exact"
	known = {name if exact else name.upper(): name for name in names}
	found = known.get(str(value) if exact else str(value).upper())
	if found is not None:
		return Outcome(found)
	first, last = how.get("numbers", (1, 0))
	if str(value).isdecimal() and first <= int(str(value)) <= last:
		return Outcome(names[int(str(value)) - 1])
	if how.get("kernels") and "/" in str(value) and "flash-attn" in str(value):
		return Outcome(str(value))
	return unknown_name(how, value, names)


def unknown_name(how: How, value: Any, names: Sequence[str]) -> Outcome:
	listed = [name for name in names if name not in how.get("more", ())]
	near = closest(str(value), listed) or whole_name(str(value), listed)
	plain = {name.upper(): name for name in listed}.get(str(value).upper().strip())
	better = plain or near
	if how.get("otherwise") == "ignored":
		slip = f"is none of {listing(listed)} and is ignored without a word{did_you_mean(better)}"
		return Outcome(None, slip=slip, better=better, sure=plain is not None)
	return Outcome(None, listing(listed), better=better, sure=plain is not None, hint=did_you_mean(better))


def whole_name(beginning: str, names: Sequence[str]) -> str | None:
	"""The only name that goes on where the word stops: SHARDED_STATE_DICT for SHARDED."""
	found = [name for name in names if name.upper().startswith(f"{beginning.strip().upper()}_")]
	return found[0] if len(found) == 1 else None


def names_of(how: How, release: str) -> list[str]:
	source = how["names"]
	known = knowledge.for_release(release)
	if isinstance(source, list):
		names: Sequence[Any] = source
	elif "constant" in source:
		names = known.constant(source["constant"]) or ()
	elif "literal" in source:
		names = known.literal(source["literal"])
	else:
		names = tuple(known.enum(source["enum"]).values())
	return [*map(str, names), *how.get("more", ())]


def read_text(_how: How, value: Any, _release: str) -> Outcome:
	return Outcome(None if value is None else str(value))


def read_names(_how: How, value: Any, _release: str) -> Outcome:
	return Outcome(str(value).split(","))


def read_three_truths(_how: How, value: Any, release: str) -> Outcome:
	items = list(value)[:3] if isinstance(value, (list, tuple, str)) else []
	if len(items) < 3 or any(read_truth({}, item, release).expected for item in items):
		return Outcome(None, "a list of three truth values, such as [false, false, false]")
	return Outcome([read_truth({}, item, release).meaning for item in items])


READERS: Mapping[str, Callable[[How, Any, str], Outcome]] = {
	"truth": read_truth,
	"true-only": read_true_only,
	"truthy": read_truthy,
	"integer": read_integer,
	"number": read_number,
	"compared": read_compared,
	"name": read_name,
	"text": read_text,
	"names": read_names,
	"three-truths": read_three_truths,
}


def advice(at: At, outcome: Outcome) -> str:
	if outcome.hint or outcome.better is None:
		return outcome.hint
	return f"; write {as_written(at, outcome.better)}"


def repair_of(at: At, value: Any, outcome: Outcome) -> Repair | None:
	"""The fix for a refused value: the value that was meant, or no key where the value is empty."""
	if value is None:
		return removing(at.pointer, Applicability.SAFE)
	if outcome.better is None:
		return None
	return rewriting(at, outcome.better, Applicability.SAFE if outcome.sure else Applicability.UNSAFE)
