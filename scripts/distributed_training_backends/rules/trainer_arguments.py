"""TRN rules about a file of TrainingArguments: the names of the arguments, and their values one by one.

Such a file is read by `HfArgumentParser` (`parse_yaml_file`, `parse_json_file`) or passed as keywords. It may hold
arguments of other dataclasses of a script too, so a name that TrainingArguments never had may be one of theirs.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

from ..flow.arguments import FALSE
from ..flow.trainer import Arguments
from ..knowledge import transformers
from ..model import Applicability, Severity
from ..resources import load_json
from ..versions import describe, parse
from .registry import Hit, Hits, Repair, rule
from .rewriting import as_written, removing, renaming, rewriting
from .suggest import closest, did_you_mean, listing, misfit, named, shown

DATA = "trainer.json"
KIND = "training_arguments"


def unknown(trainer: Arguments) -> Iterator[Any]:
	return (name for name in trainer.given if name not in trainer.known)


@rule("TRN010", error="*")
def argument_of_another_release(trainer: Arguments) -> Hits:
	"""An argument that TrainingArguments has in other releases, but not in this one.

	`TrainingArguments.__init__() got an unexpected keyword argument`, or "Some keys are not used by the
	HfArgumentParser". 5.0.0 removed 26 arguments, among them no_cuda, save_safetensors, overwrite_output_dir,
	torchdynamo and the fp16 backends; evaluation_strategy became eval_strategy in 4.41 and went in 4.51,
	group_by_length went in 5.2, warmup_ratio and logging_dir in 5.15. Source: 5.24.0, training_args.py,
	`TrainingArguments`.
	"""
	for name in unknown(trainer):
		spans = transformers.spans(KIND, str(name))
		if spans and not str(name).startswith("_"):
			first, last = spans[0]
			newer = parse(first) > parse(trainer.facts.release)
			life = f"exists {describe(first, None)}" if newer else f"existed {describe(None, last)}"
			other = load_json(DATA)["renamed"].get(name, {})
			what, repair = instead(trainer, str(name), other)
			text = f"transformers {trainer.release} has no argument {name} (it {life}){what}"
			yield Hit(trainer.key(name), text, repair)


def instead(trainer: Arguments, name: str, other: Mapping[str, str]) -> tuple[str, Repair | None]:
	better = other.get("name")
	if better in trainer.known and better not in trainer.given:
		return f"; write {better}", renaming((name,), better)
	if better is None and "text" in other:
		return f"; {other['text']}", removing((name,))
	return "; remove it", removing((name,))


@rule("TRN011", error="*")
def misspelt_argument(trainer: Arguments) -> Hits:
	"""A name that is almost one of TrainingArguments.

	Unknown names are refused ("unexpected keyword argument", or "Some keys are not used by the HfArgumentParser").
	Source: 5.24.0, hf_argparser.py, `HfArgumentParser.parse_dict`.
	"""
	strangers = list(foreign(trainer))
	for name in unknown(trainer):
		near = near_miss(trainer, name)
		if near:
			repair = renaming((name,), near)
			text = f"transformers {trainer.release} has no argument {shown(name)}; did you mean {near}?"
			yield Hit(trainer.key(name), text, repair, Severity.WARNING if strangers else None)


def near_miss(trainer: Arguments, name: Any) -> str | None:
	if not isinstance(name, str) or transformers.spans(KIND, name):
		return None
	near = closest(name, trainer.known, 0.2)
	return near if near and near not in trainer.given else None


def foreign(trainer: Arguments) -> Iterator[Any]:
	for name in unknown(trainer):
		if not transformers.spans(KIND, str(name)) and near_miss(trainer, name) is None:
			yield name


@rule("TRN012", warning="*")
def argument_of_another_class(trainer: Arguments) -> Hits:
	"""Names that TrainingArguments never had.

	`HfArgumentParser` refuses the file unless another dataclass of the script takes them; TrainingArguments itself
	refuses them as keywords. Source: 5.24.0, hf_argparser.py, `HfArgumentParser.parse_dict`.
	"""
	if names := list(foreign(trainer)):
		more = f" and {len(names) - 1} more belong" if len(names) > 1 else " belongs"
		it = "them" if len(names) > 1 else "it"
		text = f"{named(names[0])}{more} to no TrainingArguments: another dataclass of the script has to take {it}"
		related = tuple(trainer.key(name) for name in names[1:6])
		yield Hit(trainer.key(names[0]), text, severity=weight(names), related=related)


def weight(names: list[Any]) -> Severity | None:
	"""A file with what scripts commonly read beside TrainingArguments is shared on purpose: no warning."""
	common = ("model_name", "dataset", "tokenizer_name", "max_seq_length", "lora_", "use_peft", "attn_implementation")
	return Severity.INFO if any(str(name).startswith(common) for name in names) else None


@rule("TRN013", error="..4.48.99")
def argument_missing(trainer: Arguments) -> Hits:
	"""`output_dir` is missing, which every release before 4.49 needs.

	`TrainingArguments.__init__() missing 1 required positional argument`. Source: 4.48.3, training_args.py,
	`TrainingArguments`.
	"""
	for name, item in trainer.known.items():
		if item.required and name not in trainer.given:
			text = f"transformers {trainer.release} needs {name}, which the file does not have"
			yield Hit(trainer.value(), text)


@rule("TRN014", info="*")
def argument_deprecated(trainer: Arguments) -> Hits:
	"""An argument that still works and has a new name.

	`gradient_checkpointing` is `activation_checkpointing` since 5.23, `evaluation_strategy` is `eval_strategy` since
	4.41. Source: 5.24.0, training_args.py, `__post_init__`.
	"""
	for old, new in load_json(DATA)["renamed"].items():
		name = new.get("name")
		if old in trainer.given and {old, name} <= trainer.known.keys() and outlived(old, name):
			yield Hit(trainer.key(old), f"{old} is the old name of {name}")


def outlived(old: str, new: str) -> bool:
	return parse(transformers.spans(KIND, new)[0][0]) > parse(transformers.spans(KIND, old)[0][0])


Row = Mapping[str, Any]
NUMBERS = ("float", "int", "float | None", "int | None")


@rule("TRN020", error="*")
def argument_value(trainer: Arguments) -> Hits:
	"""A value of an argument that TrainingArguments refuses.

	Strategies, schedulers and optimizers are compared letter by letter; an unquoted `no` is the boolean false for YAML
	and none of them. Numbers are compared with numbers, so a text ("10", or 5e-5, which YAML 1.1 reads as a text) ends
	in a TypeError. Source: 5.24.0, training_args.py, `__post_init__`, `_validate_args`.
	"""
	for row in load_json(DATA)["values"]:
		name = row["argument"]
		if name not in trainer.given or name not in trainer.known or not trainer.covers(row["releases"]):
			continue
		if trainer.given.get(row.get("unless")) is None and (expected := refused(row, trainer.get(name), trainer)):
			yield refusal(trainer, row, expected)


def refused(row: Row, value: Any, trainer: Arguments) -> str:
	if value is None and row.get("null"):
		return ""
	return READERS[row["read"]](row, value, trainer)


def refusal(trainer: Arguments, row: Row, expected: str) -> Hit:
	name, value = row["argument"], trainer.get(row["argument"])
	near = meant(row, value, trainer)
	at = trainer.value(name)
	sure = value is False or isinstance(near, (int, float))
	applicability = Applicability.SAFE if sure else Applicability.UNSAFE
	repair = None if near is None else rewriting(at, near, applicability)
	says = f"transformers {trainer.release} refuses it"
	says += did_you_mean(near if isinstance(near, str) and value else None)
	if value is False and near == "no":
		says += f" (YAML reads an unquoted no as false); write {as_written(at, near)}"
	return Hit(at, misfit(f"{name} {shown(value)}", expected, says), repair)


def meant(row: Row, value: Any, trainer: Arguments) -> Any:
	if row["read"] == "enum":
		words = enum_words(row, trainer)
		lower = {word.lower(): word for word in words}.get(str(value).lower())
		near = lower or (closest(value, words) if isinstance(value, str) else None)
		return "no" if value is False and "no" in words else near
	if row["read"] == "reports":
		return "none" if value is False else closest(value, row["words"]) if isinstance(value, str) else None
	return number_in(value)


def number_in(value: Any) -> int | float | None:
	if not isinstance(value, str):
		return None
	for kind in (int, float):
		try:
			return kind(value)
		except ValueError:
			continue
	return None


def enum_words(row: Row, trainer: Arguments) -> tuple[str, ...]:
	return trainer.facts.enum(row["enum"])


def read_enum(row: Row, value: Any, trainer: Arguments) -> str:
	words = enum_words(row, trainer)
	return "" if isinstance(value, str) and value in words else listing(words)


def read_words(row: Row, value: Any, _trainer: Arguments) -> str:
	wrong = isinstance(value, str) and any(word not in row["words"] for word in value.split())
	return f"words of {listing(row['words'])}" if wrong else ""


def read_reports(row: Row, value: Any, _trainer: Arguments) -> str:
	names = value if isinstance(value, list) else [value]
	return "" if all(name in row["words"] for name in names) else f"{listing(row['words'])}, or a list of them"


def read_json_text(_row: Row, value: Any, _trainer: Arguments) -> str:
	if not isinstance(value, str) or not value.startswith("{"):
		return ""
	try:
		json.loads(value)
	except (ValueError, RecursionError):
		return "a mapping, nor JSON"
	return ""


def read_settings(row: Row, value: Any, trainer: Arguments) -> str:
	if isinstance(value, (str, dict)) or not value:
		return read_json_text(row, value, trainer)
	return "a mapping, nor the path of a JSON file"


def taking(takes: Callable[[Any], bool], expected: str) -> Callable[[Row, Any, Arguments], str]:
	return lambda _row, value, _trainer: "" if takes(value) else expected


def is_integer_of(value: Any, least: int) -> bool:
	return isinstance(value, int) and value >= least


def is_from(value: Any, least: float, most: float = inf) -> bool:
	return isinstance(value, (int, float)) and least <= value <= most


READERS: Mapping[str, Callable[[Row, Any, Arguments], str]] = {
	"enum": read_enum,
	"words": read_words,
	"reports": read_reports,
	"json-text": read_json_text,
	"settings": read_settings,
	"text": taking(lambda value: isinstance(value, str), "a text"),
	"number": taking(lambda value: isinstance(value, (int, float)), "a number"),
	"integer": taking(lambda value: isinstance(value, int), "an integer"),
	"given": taking(lambda value: value is not None, "a number"),
	"count": taking(lambda value: is_integer_of(value, 1), "an integer above 0"),
	"loose-count": taking(
		lambda value: isinstance(value, int) or (isinstance(value, float) and value > 0), "an integer above 0"
	),
	"not-negative": taking(lambda value: is_from(value, 0), "a number of at least 0"),
	"ratio": taking(lambda value: is_from(value, 0, 1), "a number from 0 to 1"),
	"whole-steps": taking(lambda value: is_integer_of(value, 0), "an integer of at least 0"),
	"steps-but-one": taking(lambda value: is_integer_of(value, 0) and value != 1, "0, or an integer above 1"),
	"any-number": taking(lambda _: True, ""),  # not looked at here
}


@rule("TRN021", warning="*")
def number_as_text(trainer: Arguments) -> Hits:
	"""A text where an argument is a number.

	TrainingArguments converts nothing, so the training fails later: `learning_rate: 5e-5` is a text for YAML 1.1, which
	wants 5.0e-5. Arguments that are looked at right away are refused (TRN020). Source: 5.24.0, training_args.py,
	`__post_init__`.
	"""
	told = {row["argument"] for row in load_json(DATA)["values"]}
	for name, item in trainer.known.items():
		value = trainer.given.get(name)
		number = number_in(value)
		if number is not None and item.type in NUMBERS and name not in told:
			at = trainer.value(name)
			then = ", and making the optimizer fails" if name == "learning_rate" else ""
			text = f"{name} is the text {shown(value)} and is not converted{then}; write {as_written(at, number)}"
			yield Hit(at, text, rewriting(at, number))


@rule("TRN022", warning="*")
def boolean_as_text(trainer: Arguments) -> Hits:
	"""A text where an argument is true or false.

	Any text but the empty one counts as true: `bf16: "false"` switches it on. Source: 5.24.0, training_args.py,
	`__post_init__`.
	"""
	for name, item in trainer.known.items():
		value = trainer.given.get(name)
		if isinstance(value, str) and item.type in ("bool", "bool | None") and value.lower() in FALSE:
			at = trainer.value(name)
			text = f"{name} is the text {shown(value)}, which counts as true; write false without quotation marks"
			yield Hit(at, text, rewriting(at, False))
