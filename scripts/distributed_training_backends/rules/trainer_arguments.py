"""TRN rules about a file of TrainingArguments: the names of the arguments.

Such a file is read by `HfArgumentParser` (`parse_yaml_file`, `parse_json_file`) or passed as keywords. It may hold
arguments of other dataclasses of a script too, so a name that TrainingArguments never had may be one of theirs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..flow.trainer import Arguments
from ..knowledge import transformers
from ..model import Severity
from ..resources import load_json
from ..versions import describe, parse
from .registry import Hit, Repair, rule
from .rewriting import removing, renaming
from .suggest import closest, named, shown

DATA = "trainer.json"
KIND = "training_arguments"


def unknown(trainer: Arguments) -> Iterator[Any]:
	return (name for name in trainer.given if name not in trainer.known)


@rule("TRN010", error="*")
def argument_of_another_release(trainer: Arguments) -> Iterator[Hit]:
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
def misspelt_argument(trainer: Arguments) -> Iterator[Hit]:
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
def argument_of_another_class(trainer: Arguments) -> Iterator[Hit]:
	"""Names that TrainingArguments never had.

	`HfArgumentParser` refuses the file unless another dataclass of the script takes them; as keywords of
	TrainingArguments they are refused in any case. Source: 5.24.0, hf_argparser.py, `HfArgumentParser.parse_dict`.
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
def argument_missing(trainer: Arguments) -> Iterator[Hit]:
	"""`output_dir` is missing, which every release before 4.49 needs.

	`TrainingArguments.__init__() missing 1 required positional argument`. Source: 4.48.3, training_args.py,
	`TrainingArguments`.
	"""
	for name, item in trainer.known.items():
		if item.required and name not in trainer.given:
			text = f"transformers {trainer.release} needs {name}, which the file does not have"
			yield Hit(trainer.value(), text)


@rule("TRN014", info="*")
def argument_deprecated(trainer: Arguments) -> Iterator[Hit]:
	"""An argument that still works and has a new name.

	`gradient_checkpointing` is `activation_checkpointing` since 5.23, `evaluation_strategy` is `eval_strategy` since
	4.41. Source: 5.24.0, training_args.py, `TrainingArguments.__post_init__`.
	"""
	for old, new in load_json(DATA)["renamed"].items():
		name = new.get("name")
		if old in trainer.given and {old, name} <= trainer.known.keys() and outlived(old, name):
			yield Hit(trainer.key(old), f"{old} is the old name of {name}")


def outlived(old: str, new: str) -> bool:
	return parse(transformers.spans(KIND, new)[0][0]) > parse(transformers.spans(KIND, old)[0][0])
