"""A DeepSpeed config as DeepSpeed itself gets it: after Accelerate or the Trainer has filled it in.

DeepSpeed reads the file as it is. Accelerate's `DeepSpeedPlugin` and `Accelerator._prepare_deepspeed` replace some of
the values "auto" and add what they need; the Trainer fills in from TrainingArguments first and then hands the file to
Accelerate. What stands in for a value that only the run knows is a plain example of it, named in `filled`.
"""

from functools import cached_property, lru_cache
from typing import Any, Literal

from ..knowledge import deepspeed as knowledge
from ..knowledge.deepspeed import DeepSpeedRelease, Key, Section
from ..knowledge.pydantic_values import RefusedError, effective
from ..model import Pointer
from ..resources import load_json
from ..sources.document import At, Document, copied
from ..versions import covers, in_span
from .inputs import DeepSpeedFile

MISSING = object()
HJSON_ONLY = ("missing-comma", "missing-braces", "unquoted-key", "unquoted-string", "single-quoted", "multiline-string")
PRECISIONS = ("fp16", "bf16")


class Reading:
	"""What DeepSpeed is given. `data` is the filled config, `filled` the dotted paths that a reader put there.

	`subjects` keeps what has been looked up: values by their path, and the subjects of conditions.
	"""

	def __init__(self, file: DeepSpeedFile, data: dict[str, Any], filled: frozenset[str]) -> None:
		self.file = file
		self.data = data
		self.filled = filled
		self.subjects: dict[str, Any] = {}
		self.release = file.release  # that is judged, of DeepSpeed

	@property
	def document(self) -> Document:
		return self.file.document

	@cached_property
	def facts(self) -> DeepSpeedRelease:
		return knowledge.for_release(self.release)

	def section(self, path: str) -> Section | None:
		"""What the release knows of a block below the top level; None when it knows none at the path."""
		return section_of(self.release, path)

	def key(self, path: str) -> Key | None:
		"""What the release knows of a key; None when it knows none at the path."""
		return key_of(self.release, path)

	def covers(self, spans: str) -> bool:
		return covers(spans, self.release)

	def pointer(self, path: str) -> Pointer | None:
		"""Where a setting stands in the file, under whichever of its names; None when it is not written."""
		key = self.key(path)
		section = path.rpartition(".")[0]
		steps = tuple(section.split(".")) if section else ()
		for name in key.names if key else (path.rpartition(".")[2],):
			if self.document.has(*steps, name):
				return (*steps, name)
		return None

	def written(self, path: str) -> bool:
		return self.pointer(path) is not None

	def at(self, path: str, part: Literal["key", "value"] = "value") -> At:
		return At(self.document, self.pointer(path) or tuple(path.split(".")), part)

	def entry(self, path: str) -> Any:
		key = self.key(path)
		section, _, name = path.rpartition(".")
		block = self.block(section)
		for spelling in key.names if key else (name,):
			if spelling in block:
				return block[spelling]
		return MISSING

	def block(self, path: str) -> dict[str, Any]:
		return block_at(self.data, path)

	def value(self, path: str) -> Any:
		"""The value that takes effect: the default where nothing is given, None where what is given is refused."""
		if path not in self.subjects:
			self.subjects[path] = self._found(path)
		return self.subjects[path]

	def _found(self, path: str) -> Any:
		key = self.key(path)
		given = self.entry(path)
		if key is None:
			return None if given is MISSING else given
		return key.default if given is MISSING else self._converted(given, key)

	def _converted(self, given: Any, key: Key) -> Any:
		try:
			return effective(given, key, self.facts.generation)
		except RefusedError:
			return None

	@cached_property
	def stage(self) -> Any:
		"""The ZeRO stage; None when the value is refused. `zero_optimization: true` is an old spelling of stage 1."""
		if isinstance(self.data.get("zero_optimization"), bool):
			return int(self.data["zero_optimization"])
		return self.value("zero_optimization.stage")

	@cached_property
	def fp16(self) -> bool:
		"""Tell whether fp16 is on. A release that does not check the value takes every non-empty one as true."""
		return bool(self.value("fp16.enabled"))

	@cached_property
	def bf16(self) -> bool:
		"""Tell whether bf16 is on, under the old name `bfloat16` too."""
		return bool(self.bf16_value("enabled"))

	def bf16_value(self, name: str) -> Any:
		if isinstance(self.data.get("bf16"), dict) or not isinstance(self.data.get("bfloat16"), dict):
			return self.value(f"bf16.{name}")
		given = self.data["bfloat16"].get(name, MISSING)
		key = self.key(f"bf16.{name}")
		return None if given is MISSING or key is None else self._converted(given, key)

	@property
	def dtype(self) -> str:
		"""The dtype of the model: fp16, bf16 or fp32."""
		return "fp16" if self.fp16 else "bf16" if self.bf16 else "fp32"

	@cached_property
	def accumulation_dtype(self) -> Any:
		"""The dtype that gradients are accumulated in, by its short name; a value that is no name as it is given."""
		given = self.value("data_types.grad_accum_dtype")
		if given is not None:
			return dtype_name(given) or given
		return "fp32" if self.bf16 and self.stage == 0 and self.covers("..0.17.5") else self.dtype

	def offload_device(self, block: Literal["offload_optimizer", "offload_param"]) -> str:
		"""The device that a part is offloaded to: "none", "cpu" or "nvme"."""
		old = "cpu_offload" if block == "offload_optimizer" else "cpu_offload_param"
		if self.value(f"zero_optimization.{old}"):
			return "cpu"
		given = self.entry(f"zero_optimization.{block}")
		return str(self.value(f"zero_optimization.{block}.device") or "none") if isinstance(given, dict) else "none"

	@cached_property
	def cpu_optimizer(self) -> bool:
		"""Tell whether the optimizer works on the CPU (`engine.zero_use_cpu_optimizer`)."""
		return self.offload_device("offload_optimizer") in ("cpu", "nvme")

	@cached_property
	def optimizer(self) -> str | None:
		"""The optimizer's type; DeepSpeed's own ones in lower case, as DeepSpeed compares them."""
		kind = self.block("optimizer").get("type")
		if not isinstance(kind, str):
			return None
		return kind.lower() if kind.lower() in self.facts.optimizers else kind

	@property
	def zenflow(self) -> bool:
		return isinstance(self.entry("zero_optimization.zenflow"), dict)


DTYPES = {
	"fp16": ("torch.float16", "fp16", "float16", "half"),
	"fp32": ("torch.float32", "fp32", "float32", "float"),
	"int8": ("torch.int8", "int8"),
	"bf16": ("torch.bfloat16", "bf16", "bfloat16"),
}


@lru_cache(maxsize=1 << 16)
def key_of(release: str, path: str) -> Key | None:
	return knowledge.for_release(release).key_at(path)


@lru_cache(maxsize=1 << 16)
def section_of(release: str, path: str) -> Section | None:
	found = knowledge.for_release(release).section_at(path)
	return found if found is not None and found.path else None


def dtype_name(value: object) -> str | None:
	"""The short name of a dtype that DeepSpeed's DtypeEnum knows, or None."""
	return next((name for name, spellings in DTYPES.items() if value in spellings), None)


@lru_cache(maxsize=16)
def read(file: DeepSpeedFile) -> Reading | None:
	"""Follow the file to DeepSpeed; None when it holds no mapping, or none that this reader gets to see."""
	if not isinstance(file.document.data, dict) or (file.huggingface and not is_json_at_heart(file.document)):
		return None
	if file.huggingface:
		data = copied(file.document.data)
		return Reading(file, data, fill(data, file))
	data = seen_by_hjson(file.document)
	return Reading(file, data, frozenset()) if isinstance(data, dict) else None


@lru_cache(maxsize=4)
def seen_by_hjson(document: Document) -> Any:
	"""What DeepSpeed's own reader makes of the text; None where it breaks off (DSP001)."""
	if any(defect.name == "not-a-number" for defect in document.defects):
		from ..sources.json_source import as_hjson

		return as_hjson(document)
	return by_hjson(document.data)


def by_hjson(data: Any) -> Any:
	if isinstance(data, dict):
		return {name: by_hjson(value) for name, value in data.items()}
	if isinstance(data, list):
		return [by_hjson(item) for item in data]
	return int(data) if isinstance(data, float) and abs(data) < 1e10 and data.is_integer() else data


def is_json_at_heart(document: Document) -> bool:
	return all(defect.name not in HJSON_ONLY for defect in document.defects)


def fill(data: dict[str, Any], file: DeepSpeedFile) -> frozenset[str]:
	filled = set()
	if "gradient_accumulation_steps" not in data:
		data["gradient_accumulation_steps"] = 1
	for path, example in load_json("deepspeed_rules.json")["filled"].items():
		section, _, name = path.rpartition(".")
		block = block_at(data, section)
		if block.get(name) == "auto" and is_filled(path, file):
			block[name] = example
			filled.add(path)
	wanted = wanted_block(data, file)
	for name in PRECISIONS:
		if name not in data:
			data[name] = {"enabled": wanted == name}
		elif f"{name}.enabled" in filled:
			data[name]["enabled"] = wanted == name
	data["steps_per_print"] = float("inf")
	return frozenset(filled)


def block_at(data: dict[str, Any], path: str) -> dict[str, Any]:
	"""The mapping at a path; empty where there is none."""
	found: Any = data
	for step in path.split(".") if path else ():
		found = found.get(step) if isinstance(found, dict) else None
	return found if isinstance(found, dict) else {}


def is_filled(path: str, file: DeepSpeedFile) -> bool:
	reader: Literal["accelerate", "trainer"] = "trainer" if file.consumer == "trainer" else "accelerate"
	if not knowledge.auto_fillers(path, reader, file.targets.accelerate, file.targets.transformers):
		return False
	lacks_micro = file.document.get("train_micro_batch_size_per_gpu") is None
	return not (path == "train_batch_size" and reader == "accelerate" and lacks_micro)


def mixed_precision(file: DeepSpeedFile) -> object:
	"""The precision that the launch asks for beside this file; None when it is not known.

	What the Accelerate config itself says is refused beside a DeepSpeed file (XCF001); without it nothing is asked for.
	"""
	launch = file.launch
	if file.context.mixed_precision or launch is None:
		return file.context.mixed_precision
	own = launch.arguments["mixed_precision"].pointer or ("",)
	return "no" if own[0] in ("mixed_precision", "fp16", "deepspeed_config") else launch.value("mixed_precision")


def wanted_block(data: dict[str, Any], file: DeepSpeedFile) -> str | None:
	"""The block that Accelerate turns on for the launch's precision; None where it turns none on.

	Where the file turns the other one on, Accelerate refuses the file before it fills anything in (DSP052).
	"""
	precision = mixed_precision(file)
	mine = "bf16" if precision == "fp8" and in_span(file.targets.accelerate, "0.34.0", None) else precision
	other = "bf16" if precision == "fp16" else "fp16"
	return mine if mine in PRECISIONS and not is_on(data.get(other)) else None


def is_on(block: object) -> bool:
	"""Tell whether a precision block is on, as Accelerate compares it: by the word true."""
	return isinstance(block, dict) and str(block.get("enabled")).lower() == "true"
