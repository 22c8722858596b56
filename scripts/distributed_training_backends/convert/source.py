"""An Accelerate config to convert: what its launch comes to in a release, and the DeepSpeed file that it names."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ..flow.effect import ON, normal
from ..flow.launch import BLOCKS, destination, launch_of
from ..knowledge import accelerate as knowledge
from ..model import Context, Targets
from ..model_convert import BadConversionError, Status
from ..resources import load_json
from ..sources.document import Document
from ..versions import in_span
from .draft import Draft, entries

OFF_DEVICES = (None, "none", "auto", "")
ZERO, FSDP = "deepspeed_config", "fsdp_config"
PRECISIONS = ("bf16", "fp16")
Settings = Iterator[tuple[str, Any]]


def table(*path: str) -> Any:
	found = load_json("conversions.json")
	for step in path:
		found = found[step]
	return found


class Strategy(NamedTuple):
	"""A sharding strategy: its name and number in FSDP1, FSDP2's reshard_after_forward, the ZeRO stage."""

	name: str
	number: int
	reshard: bool | None
	zero: int
	hybrid: bool = False


STRATEGIES = tuple(Strategy(**row) for row in table("strategies"))


def strategy_named(value: object) -> Strategy | None:
	return next((one for one in STRATEGIES if str(value).upper() in (one.name, str(one.number))), None)


class Run(Draft):
	"""The config of one run on its way to another spelling. What is asked about it is about its first text."""

	def __init__(
		self, document: Document, companion: Document | None, targets: Targets, context: Context, script: str
	) -> None:
		super().__init__(document)
		self.companion, self.targets, self.script = companion, targets, script
		self.release = targets.accelerate
		self.known = knowledge.for_release(self.release)
		for block in BLOCKS:
			if not isinstance(document.get(block), dict | None):
				raise BadConversionError(f"{document.path}: {block} is no mapping of settings")
		launch = launch_of(document, self.release, context)
		if launch is None:
			sagemaker = document.get("compute_environment") == "AMAZON_SAGEMAKER"
			why = "SageMaker starts this config, and nothing else can say what it says"
			why = why if sagemaker else "no distributed_type says how it is launched"
			raise BadConversionError(f"{document.path}: {why}")
		self.launch, self.value, self.route = launch, launch.value, launch.route

	def require(self, route: str, name: str) -> None:
		if self.route != route:
			raise BadConversionError(f"{self.first.path} runs {self.launch.distributed_type}, not {name}")

	def since(self, release: str) -> bool:
		return in_span(self.release, release, None)

	def keys(self, block: str) -> dict[str, str]:
		return {destination(block, key, self.release): key for key in entries(self.first, block)}

	def on(self, option: str) -> bool:
		return truth(self.value(option))

	def tell(self, status: Status, option: str, why: str) -> None:
		"""Say something about an option of FSDP or DeepSpeed, at its key or at the file that counts instead."""
		if self.route == "fsdp":
			self.note(status, option, why, FSDP, self.keys(FSDP).get(option, option))
		else:
			key = option if self.first.has(ZERO, option) else "deepspeed_config_file"
			self.note(status, option, why, ZERO, key)

	def about(self, status: Status, option: str, why: str) -> None:
		found = self.launch.arguments.get(option)
		place = (found.pointer if found else None) or ()
		self.note(status, str(place[-1]) if place else option, why, *place)

	@property
	def fsdp2(self) -> bool:
		return self.since("1.6.0") and normal(self.value("fsdp_version")) == 2.0

	@property
	def strategy(self) -> Strategy:
		if self.fsdp2:
			reshard = self.on("fsdp_reshard_after_forward")
			return next(one for one in STRATEGIES if one.reshard is reshard)
		return strategy_named(self.value("fsdp_sharding_strategy")) or STRATEGIES[0]

	@property
	def compiled(self) -> bool:
		launchers = {"deepspeed": "prepare_deepspeed_cmd_env", "simple": "prepare_simple_launcher_cmd_env"}
		exported = self.known.exports_of(launchers.get(self.route, "prepare_multi_gpu_env"))
		return self.value("dynamo_backend") not in (None, "no", "NO") and "dynamo_backend" in exported

	@property
	def zero_name(self) -> str | None:
		name = self.first.get(ZERO, "deepspeed_config_file")
		return name if isinstance(name, str) and name != "none" else None

	@cached_property
	def zero_file(self) -> Mapping[str, Any] | None:
		"""The content of the DeepSpeed file; None where the block says it all."""
		if self.zero_name is None:
			return None
		if self.companion is None or not isinstance(self.companion.data, dict):
			raise BadConversionError(f"{self.first.path} names the DeepSpeed file {self.zero_name}: give it too")
		return self.companion.data

	def zero(self, key: str, path: str | None = None) -> Any:
		"""A setting of DeepSpeed, from the file that counts or else from the block; None where it is left open."""
		if self.zero_file is None or not path:
			found = self.value(key)
		else:
			found = self.zero_file
			for step in path.split("."):
				found = found.get(step) if isinstance(found, Mapping) else None
		return None if found in ("auto", "none") else found

	@property
	def zero_stage(self) -> int:
		"""The ZeRO stage; Accelerate's plugin takes 2 where nothing says it, also for "auto"."""
		found = self.zero("zero_stage", "zero_optimization.stage")
		return found if isinstance(found, int) else 2

	def zero_precision(self) -> Iterator[str]:
		for name in PRECISIONS if self.zero_file is not None else ():
			if self.zero("", f"{name}.enabled") is True:
				yield name


def truth(value: object) -> bool:
	return value is True or str(value).strip().lower() in (*ON, "1", "y", "t")


def leaves(data: Mapping[str, Any], path: str = "") -> Settings:
	for key, value in data.items():
		if isinstance(value, Mapping) and value:
			yield from leaves(value, f"{path}{key}.")
		else:
			yield f"{path}{key}", value
