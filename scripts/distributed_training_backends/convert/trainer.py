"""An Accelerate config as arguments of the Transformers Trainer, in a file for HfArgumentParser."""

from collections.abc import Iterator
from typing import Any

from ..flow.effect import same
from ..knowledge import transformers as knowledge
from ..model_convert import BadConversionError, Note
from ..sources.writing import block_lines
from .draft import entries, line_of
from .plugins import argument
from .python_code import beside
from .source import Source, table, truth

ROUTES = ("deepspeed", "fsdp", "multi_device", "simple")
OUTPUT = "runs"
PRECISIONS = ("bf16", "fp16")
# What it fills in from its own arguments.
AUTO = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")


class Arguments:
    """TrainingArguments in the making."""

    def __init__(self, source: Source) -> None:
        self.source, self.launch = source, source.launch
        self.known = knowledge.for_release(source.targets.transformers)
        self.notes: list[Note] = []

    def note(self, status: Any, name: str, why: str, *pointer: str) -> None:
        """Say something about an option."""
        found = self.launch.arguments.get(name)
        place = pointer or (found.pointer if found else None) or ()
        self.notes.append(Note(status, str(place[-1]) if place else name, why, line_of(self.source.document, *place)))

    def made(self) -> Iterator[tuple[str, Any]]:
        """Each argument."""
        yield "output_dir", OUTPUT
        yield from self.precision()
        if self.launch.route == "simple" and truth(self.launch.value("use_cpu")):
            yield "use_cpu" if "use_cpu" in self.known.training_arguments else "no_cuda", True
        if self.source.compiled:
            yield from self.compiling()
        if self.launch.route == "deepspeed":
            yield from self.deepspeed()
        elif self.launch.route == "fsdp":
            yield from self.fsdp()
        if self.launch.uses_parallelism:
            told = (
                "TrainingArguments takes a ParallelismConfig object, which a file cannot hold: --to python writes one"
            )
            self.note("lost", "parallelism_config", told, "parallelism_config")

    def precision(self) -> Iterator[tuple[str, Any]]:
        """bf16 or fp16; the rest has no argument."""
        chosen = str(self.launch.value("mixed_precision")).lower()
        for name in PRECISIONS if self.launch.route == "deepspeed" and self.source.zero_file is not None else ():
            chosen = name if self.source.zero("", f"{name}.enabled") is True else chosen
        if chosen in PRECISIONS:
            yield chosen, True
        elif chosen == "fp8":
            self.note(
                "lost", "mixed_precision", "no argument says fp8 or its recipe: export ACCELERATE_MIXED_PRECISION=fp8"
            )

    def compiling(self) -> Iterator[tuple[str, Any]]:
        """torch.compile."""
        yield "torch_compile", True
        for option, name in table("trainer", "dynamo").items():
            value = self.launch.value(option)
            if value not in (None, "default"):
                yield name, str(value).lower()
        for option in ("dynamo_use_fullgraph", "dynamo_use_dynamic", "dynamo_use_regional_compilation"):
            if truth(self.launch.value(option)):
                self.note("lost", option, "TrainingArguments has nothing like it")

    def deepspeed(self) -> Iterator[tuple[str, Any]]:
        """The file, or the block as a config whose numbers come from the arguments."""
        name = self.source.document.get("deepspeed_config", "deepspeed_config_file")
        if isinstance(name, str) and name != "none":
            yield "deepspeed", name
            return
        for option, argument_name in table("trainer", "deepspeed").items():
            if (value := self.launch.value(option)) is not None:
                yield argument_name, value
        yield "deepspeed", self.zero_config()
        if self.source.zero_stage == 3 and self.launch.value("zero3_init_flag") is False:
            self.note("changed", "zero3_init_flag", "the Trainer always builds the model in shards at stage 3")
        several = self.launch.value("num_machines") not in (None, 1)
        for option in [name for name in self.launch.arguments if name.startswith("deepspeed_")]:
            if self.launch.given(option) and (several or option == "deepspeed_moe_layer_cls_names"):
                self.note("lost", option, "TrainingArguments has nothing like it; torchrun starts each machine")

    def zero_config(self) -> dict[str, Any]:
        """What Accelerate's plugin would build of the block."""
        zero: dict[str, Any] = {"stage": self.source.zero_stage}
        for what in ("optimizer", "param"):
            device = self.launch.value(f"offload_{what}_device")
            if device not in (None, "none") and (what == "optimizer" or self.source.zero_stage == 3):
                path = self.launch.value(f"offload_{what}_nvme_path")
                zero[f"offload_{what}"] = {"device": device, **({"nvme_path": path} if device == "nvme" else {})}
        if self.source.zero_stage == 3 and (whole := self.launch.value("zero3_save_16bit_model")) is not None:
            zero["stage3_gather_16bit_weights_on_model_save"] = truth(whole)
        precision = {name: {"enabled": "auto"} for name in PRECISIONS}
        return {**dict.fromkeys(AUTO, "auto"), **precision, "zero_optimization": zero}

    def fsdp(self) -> Iterator[tuple[str, Any]]:
        """`fsdp` and `fsdp_config`."""
        version = 2 if self.source.fsdp2 else 1
        if version == 2 and "version" not in self.known.fsdp_keys:
            raise BadConversionError(f"the Trainer of transformers {self.source.targets.transformers} has no FSDP2")
        new = "auto_wrap_policy" in self.known.fsdp_keys
        yield "fsdp", True if new else " ".join(self.words())
        if new and version == 1 and self.source.strategy.name != "FULL_SHARD":
            name = self.source.strategy.name
            beside = f"the plugin that the Trainer makes is FULL_SHARD: export FSDP_SHARDING_STRATEGY={name} beside it"
            self.note("open", "fsdp_sharding_strategy", beside)
        config = dict(self.fsdp_config(version))
        if config:
            yield "fsdp_config", config
        told = {self.option(key, version) for key in self.known.fsdp_keys}
        told |= {"fsdp_sharding_strategy", "fsdp_reshard_after_forward", "fsdp_version"}
        told |= set() if new else {"fsdp_auto_wrap_policy", "fsdp_offload_params"}
        for key, value in entries(self.source.document, "fsdp_config"):
            option = self.source.option("fsdp_config", key)
            if option not in told and value not in (None, False, "false"):
                said = f"the Trainer of transformers {self.source.targets.transformers} has nothing like it"
                self.note("lost", option, said, "fsdp_config", key)

    def words(self) -> Iterator[str]:
        """What `fsdp` says in releases that took words."""
        yield self.source.strategy.name.lower()
        if self.launch.value("fsdp_auto_wrap_policy") not in (None, "NO_WRAP"):
            yield "auto_wrap"
        if self.source.on("fsdp_offload_params"):
            yield "offload"

    def option(self, key: str, version: int) -> str:
        """The option that says what a key says."""
        if key == "reshard_after_forward" and version == 1:
            return "fsdp_sharding_strategy"
        return str(table("trainer", "fsdp_keys").get(key, f"fsdp_{key}"))

    def fsdp_config(self, version: int) -> Iterator[tuple[str, Any]]:
        """What the file gives, and what the Trainer takes otherwise."""
        row, wrap = table("plugins", "fsdp"), str(self.launch.value("fsdp_auto_wrap_policy"))
        for key, record in self.known.fsdp_keys.items():
            option = self.option(key, version)
            value = version if key == "version" else self.launch.value(option)
            if key == "auto_wrap_policy" and value is None:
                value = "NO_WRAP"
            if key == "state_dict_type" and value is None and version == 2:
                value = "SHARDED_STATE_DICT"
            condition = row["when"].get("transformer_cls_names_to_wrap" if key.startswith("transformer") else key)
            if value is None or record.only_version not in (None, version) or (condition and wrap != condition[1]):
                continue
            default = record.default_by_version.get(str(version), record.default)
            if self.launch.given(option) or not same(value, default):
                yield key, self.spelled(key, value)

    def spelled(self, key: str, value: Any) -> Any:
        """A value as the Trainer reads it."""
        if key == "reshard_after_forward" and not self.source.fsdp2:
            return self.source.strategy.name
        if key == "transformer_layer_cls_to_wrap":
            return str(value).split(",")
        return int(value) if key == "version" else argument({}, key, value)


def to_trainer(source: Source) -> tuple[str, tuple[Note, ...]]:
    """The file, and notes."""
    if source.launch.route not in ROUTES:
        raise BadConversionError(f"TrainingArguments cannot say {source.launch.distributed_type}")
    making = Arguments(source)
    text = "".join(block_lines(dict(making.made())))
    making.note("added", "output_dir", f"{OUTPUT}, which every run needs: choose your own")
    return text, (*making.notes, *beside(source))
