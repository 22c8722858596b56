"""An Accelerate config as arguments of the Transformers Trainer, in a file for HfArgumentParser."""

from collections.abc import Iterator
from typing import Any

from ..flow.effect import same
from ..knowledge import transformers as knowledge
from ..model_convert import BadConversionError
from ..sources.writing import block_lines
from .python_code import argument, beside
from .source import FSDP, PRECISIONS, Run, Settings, entries, table, truth

OUTPUT = "runs"
# What it fills in from its own arguments.
AUTO = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")


class Arguments:
	def __init__(self, run: Run) -> None:
		self.run, self.version = run, 2 if run.fsdp2 else 1
		self.known = knowledge.for_release(run.targets.transformers)

	def made(self) -> Settings:
		run = self.run
		yield "output_dir", OUTPUT
		yield from self.precision()
		if run.route == "simple" and run.on("use_cpu"):
			yield "use_cpu" if "use_cpu" in self.known.training_arguments else "no_cuda", True
		if run.compiled:
			yield from self.compiling()
		if run.route == "deepspeed":
			yield from self.deepspeed()
		elif run.route == "fsdp":
			yield from self.fsdp()
		if run.launch.uses_parallelism:
			told = "TrainingArguments takes a ParallelismConfig object, which a file cannot hold"
			run.note("lost", "parallelism_config", f"{told}: --to python writes one", "parallelism_config")

	def precision(self) -> Settings:
		chosen = str(self.run.value("mixed_precision")).lower()
		if self.run.route == "deepspeed":
			chosen = [chosen, *self.run.zero_precision()][-1]
		if chosen in PRECISIONS:
			yield chosen, True
		elif chosen == "fp8":
			told = "no argument says fp8 or its recipe: export ACCELERATE_MIXED_PRECISION=fp8"
			self.run.about("lost", "mixed_precision", told)

	def compiling(self) -> Settings:
		yield "torch_compile", True
		for option, name in table("trainer", "dynamo").items():
			value = self.run.value(option)
			if value not in (None, "default"):
				yield name, str(value).lower()
		for option in ("dynamo_use_fullgraph", "dynamo_use_dynamic", "dynamo_use_regional_compilation"):
			on = self.run.on(option)
			if on or (option == "dynamo_use_dynamic" and self.run.since("1.7.0")):  # else None, not False
				told = f"no argument says it: export ACCELERATE_{option.upper()}={str(on).lower()}"
				self.run.about("open", option, told)

	def deepspeed(self) -> Settings:
		run = self.run
		if run.zero_stage == 3 and run.value("zero3_init_flag") is False:
			run.about("changed", "zero3_init_flag", "the Trainer always builds the model in shards at stage 3")
		if run.zero_name is not None:
			yield "deepspeed", run.zero_name
			return
		for option, name in table("trainer", "deepspeed").items():
			if (value := run.value(option)) is not None:
				yield name, value
		yield "deepspeed", self.zero_config()
		several = run.value("num_machines") not in (None, 1)
		for option in run.launch.arguments:
			lost = option.startswith("deepspeed_") and run.launch.given(option)
			if lost and (several or option == "deepspeed_moe_layer_cls_names"):
				run.about("lost", option, "TrainingArguments has nothing like it; torchrun starts each machine")

	def zero_config(self) -> dict[str, Any]:
		stage, value = self.run.zero_stage, self.run.value
		zero: dict[str, Any] = {"stage": stage}
		for what in ("optimizer", "param"):
			device = value(f"offload_{what}_device")
			if device in (None, "none"):
				continue
			if what == "param" and stage != 3:
				self.run.tell("same", "offload_param_device", f"ZeRO-{stage} does not read it")
			else:
				path = {"nvme_path": value(f"offload_{what}_nvme_path")} if device == "nvme" else {}
				zero[f"offload_{what}"] = {"device": device, **path}
		if stage == 3 and (whole := value("zero3_save_16bit_model")) is not None:
			zero["stage3_gather_16bit_weights_on_model_save"] = truth(whole)
		precision = {name: {"enabled": "auto"} for name in PRECISIONS}
		return {**dict.fromkeys(AUTO, "auto"), **precision, "zero_optimization": zero}

	def fsdp(self) -> Settings:
		run, release, strategy = self.run, self.run.targets.transformers, self.run.strategy.name
		if self.version == 2 and "version" not in self.known.fsdp_keys:
			raise BadConversionError(f"the Trainer of transformers {release} has no FSDP2")
		new = "auto_wrap_policy" in self.known.fsdp_keys
		yield "fsdp", True if new else " ".join(self.words())
		if new and self.version == 1 and strategy != "FULL_SHARD":
			told = f"export FSDP_SHARDING_STRATEGY={strategy} beside it"
			told = f"the plugin that the Trainer makes is FULL_SHARD: {told}"
			run.about("open", "fsdp_sharding_strategy", told)
		if config := dict(self.fsdp_config()):
			yield "fsdp_config", config
		told_of = {*map(self.option, self.known.fsdp_keys), "fsdp_version"}
		told_of |= {"fsdp_sharding_strategy", "fsdp_reshard_after_forward"}
		told_of |= set() if new else {"fsdp_auto_wrap_policy", "fsdp_offload_params"}
		block = entries(run.first, FSDP)
		for option, key in run.keys(FSDP).items():
			if option not in told_of and block[key] not in (None, False, "false"):
				run.note("lost", key, f"the Trainer of transformers {release} has nothing like it", FSDP, key)

	def words(self) -> Iterator[str]:
		"""What `fsdp` says in releases that took words."""
		yield self.run.strategy.name.lower()
		if self.run.value("fsdp_auto_wrap_policy") not in (None, "NO_WRAP"):
			yield "auto_wrap"
		if self.run.on("fsdp_offload_params"):
			yield "offload"

	def option(self, key: str) -> str:
		if key == "reshard_after_forward" and self.version == 1:
			return "fsdp_sharding_strategy"
		return str(table("trainer", "fsdp_keys").get(key, f"fsdp_{key}"))

	def fsdp_config(self) -> Settings:
		row, wrap, version = table("plugins", "fsdp"), str(self.run.value("fsdp_auto_wrap_policy")), self.version
		for key, record in self.known.fsdp_keys.items():
			option = self.option(key)
			value = version if key == "version" else self.run.value(option)
			if key == "auto_wrap_policy" and value is None:
				value = "NO_WRAP"
			if key == "state_dict_type" and value is None and version == 2:
				value = "SHARDED_STATE_DICT"
			condition = row["when"].get("transformer_cls_names_to_wrap" if key.startswith("transformer") else key)
			if value is None or record.only_version not in (None, version) or (condition and wrap != condition[1]):
				continue
			default = record.default_by_version.get(str(version), record.default)
			if self.run.launch.given(option) or not same(value, default):
				yield key, self.spelled(key, value)

	def spelled(self, key: str, value: Any) -> Any:
		if key == "reshard_after_forward" and self.version == 1:
			return self.run.strategy.name
		if key == "transformer_layer_cls_to_wrap":
			return str(value).split(",")
		return int(value) if key == "version" else argument({}, key, value)


def to_trainer(run: Run) -> str:
	if run.route not in ("deepspeed", "fsdp", "multi_device", "simple"):
		raise BadConversionError(f"TrainingArguments cannot say {run.launch.distributed_type}")
	text = "".join(block_lines(dict(Arguments(run).made())))
	run.note("added", "output_dir", f"{OUTPUT}, which every run needs: choose your own")
	beside(run)
	return text
