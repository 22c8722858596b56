"""The DeepSpeed config of a file of TrainingArguments, in the hands of the Trainer.

The Trainer compares it with the arguments beside it, so they are part of what it is judged with. Source: transformers
5.24.0, integrations/deepspeed.py, `HfTrainerDeepSpeedConfig.trainer_config_process`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ..knowledge import transformers
from ..model import Context, Targets
from ..sources.document import Document
from ..sources.json_source import parse_json
from ..sources.limits import MAX_DIGITS, LimitError
from ..versions import covers
from .inputs import DeepSpeedFile

# Compared as they are; warm-up and total steps depend on the length of the training.
PLAIN = (
	"per_device_train_batch_size",
	"gradient_accumulation_steps",
	"max_grad_norm",
	"learning_rate",
	"adam_epsilon",
	"weight_decay",
)
# mappings that may be given as texts of JSON: training_args.py, `_VALID_DICT_FIELDS`
AS_TEXT = ("accelerator_config", "deepspeed", "fsdp_config")
PRECISIONS = ("fp16", "bf16")


class Arguments:
	"""TrainingArguments as a file or a call gives them, and what the release of Transformers knows of them."""

	def __init__(self, document: Document, targets: Targets) -> None:
		self.document, self.targets, self.release = document, targets, targets.transformers
		self.get, self.key, self.value = document.get, document.key, document.value
		self.given: Mapping[Any, Any] = document.mapping
		self.facts = transformers.for_release(self.release)
		self.known = self.facts.training_arguments

	def of(self, name: str) -> Any:
		"""The value of an argument: as it is given, or else its default."""
		if name in self.given:
			return self.given[name]
		return self.known[name].default if name in self.known else None

	def covers(self, spans: str) -> bool:
		return covers(spans, self.facts.release)


def unfolded(document: Document) -> Document:
	"""Arguments with the mappings that are given as texts; an entry stands in its text, or at one with escapes."""
	data, nodes = document.data, dict(document.nodes)
	for name in AS_TEXT:
		text, node = document.get(name), nodes.get((name,))
		if node is None or not isinstance(text, str) or not text.startswith("{"):
			continue
		with suppress(LimitError):
			inner, start = parse_json(document.path, text, "trainer"), document.text.find(text, *node.value)
			there = inner.within(document.text, start).nodes
			nodes |= {(name, *at): there[at] if start >= 0 else node._replace(key=None) for at in there if at}
			data = {**data, name: converted(inner.data)} if inner.parsed else data
	return document.with_defects(data=data, nodes=nodes)


def converted(value: Any) -> Any:
	"""A value as `_convert_str_dict` leaves it: "true" and "12" are no texts any more."""
	if isinstance(value, dict):
		return {key: converted(item) for key, item in value.items()}
	if not isinstance(value, str) or len(value) > MAX_DIGITS:
		return value
	if value.lower() in ("true", "false"):
		return value.lower() == "true"
	number = value.replace(".", "", 1).isdecimal()
	return (float(value) if "." in value else int(value)) if number else value


def deepspeed_of(trainer: Arguments, companion: Document | None, context: Context) -> DeepSpeedFile | None:
	"""The file that `deepspeed` names, or the mapping below it, with the arguments beside it; None without either."""
	block = trainer.get("deepspeed")
	if companion is None and (not isinstance(block, dict) or not block):
		return None
	config = companion or trainer.document.part("deepspeed", kind="deepspeed")
	compared = dict(compared_arguments(trainer, context))
	precision = next((name for name in PRECISIONS if compared[name]), "no")
	known = context._replace(mixed_precision=precision, arguments=tuple(compared.items()))
	return DeepSpeedFile(config, "trainer", trainer.targets, known)


def file_named(trainer: Arguments) -> str | None:
	"""The file that `deepspeed` names; a text that begins with a brace is the config itself."""
	name = trainer.get("deepspeed")
	return name if isinstance(name, str) and name and not name.lstrip().startswith("{") else None


def compared_arguments(trainer: Arguments, context: Context) -> Iterator[tuple[str, Any]]:
	"""The arguments that the Trainer compares a DeepSpeed config with: as the file says, or else the default."""

	def value(name: str) -> Any:
		return trainer.get(name) if trainer.document.has(name) else trainer.known[name].default

	yield from ((name, value(name)) for name in PLAIN)
	yield "adam_beta1 and adam_beta2", [value("adam_beta1"), value("adam_beta2")]
	yield from ((name, bool(value(name) or value(f"{name}_full_eval"))) for name in PRECISIONS)
	sizes = [context.num_processes, *map(value, PLAIN[:2])]
	if all(isinstance(size, int) for size in sizes):
		yield "train_batch_size", sizes[0] * sizes[1] * sizes[2]
