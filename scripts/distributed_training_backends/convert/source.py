"""An Accelerate config to convert: what its launch comes to in a release, and the DeepSpeed file that it names."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ..flow.effect import ON, normal
from ..flow.launch import Launch, destination, launch_of
from ..knowledge import accelerate as knowledge
from ..model import Context, Targets
from ..model_convert import BadConversionError
from ..resources import load_json
from ..sources.document import Document
from ..versions import in_span
from .draft import entries

OFF_DEVICES = (None, "none", "auto", "")


def table(*path: str) -> Any:
    """A part of data/conversions.json.gz."""
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


STRATEGIES = tuple(Strategy(**row) for row in load_json("conversions.json")["strategies"])


class Source:
    """The config of one run on its way to another spelling."""

    def __init__(
        self, document: Document, companion: Document | None, targets: Targets, context: Context, script: str
    ) -> None:
        self.document = document
        self.companion = companion
        self.targets = targets
        self.script = script
        for block in table("surfaces", "blocks"):
            if document.get(block) is not None and not isinstance(document.get(block), dict):
                raise BadConversionError(f"{document.path}: {block} is no mapping of settings")
        launch = launch_of(document, targets.accelerate, context)
        if launch is None:
            raise BadConversionError(f"{document.path}: {self._why_not()}")
        self.launch: Launch = launch

    def _why_not(self) -> str:
        if self.document.get("compute_environment") == "AMAZON_SAGEMAKER":
            return "SageMaker starts this config, and nothing else can say what it says"
        return "no distributed_type says how it is launched"

    def since(self, release: str) -> bool:
        """Tell whether the targeted Accelerate is at least this release."""
        return in_span(self.targets.accelerate, release, None)

    def option(self, block: str, key: str) -> str:
        """The option that a key of a block sets."""
        return destination(block, key, self.targets.accelerate)

    def keys(self, block: str) -> dict[str, str]:
        """The keys of a block, by the option that each sets."""
        return {self.option(block, key): key for key, _ in entries(self.document, block)}

    def on(self, option: str) -> bool:
        """Tell whether an option that is true or false takes effect as true."""
        return truth(self.launch.value(option))

    @property
    def fsdp2(self) -> bool:
        """Tell whether the run takes FSDP2."""
        return self.since("1.6.0") and normal(self.launch.value("fsdp_version")) == 2.0

    @property
    def strategy(self) -> Strategy:
        """What FSDP shards."""
        if self.fsdp2:
            reshard = self.on("fsdp_reshard_after_forward")
            return next(one for one in STRATEGIES if one.reshard is reshard)
        written = str(self.launch.value("fsdp_sharding_strategy")).upper()
        return next((one for one in STRATEGIES if written in (one.name, str(one.number))), STRATEGIES[0])

    @property
    def compiled(self) -> bool:
        """Tell whether the launcher brings torch.compile to the workers."""
        backend = self.launch.value("dynamo_backend")
        launchers = {"deepspeed": "prepare_deepspeed_cmd_env", "simple": "prepare_simple_launcher_cmd_env"}
        function = launchers.get(self.launch.route, "prepare_multi_gpu_env")
        exported = knowledge.for_release(self.targets.accelerate).exports_of(function)
        return backend not in (None, "no", "NO") and "dynamo_backend" in exported

    # --- DeepSpeed ---

    @cached_property
    def zero_file(self) -> Mapping[str, Any] | None:
        """The content of the DeepSpeed file that is named; None where the block says it all."""
        name = self.document.get("deepspeed_config", "deepspeed_config_file")
        if not isinstance(name, str) or name == "none":
            return None
        if self.companion is None or not isinstance(self.companion.data, dict):
            raise BadConversionError(f"{self.document.path} names the DeepSpeed file {name}: give it too")
        return self.companion.data

    def zero(self, key: str, path: str | None = None) -> Any:
        """A setting of DeepSpeed, from the file that counts or else from the block; None where it is left open."""
        if self.zero_file is None or not path:
            found = self.launch.value(key)
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


def truth(value: object) -> bool:
    """Tell whether a value means true, as text or not."""
    return value is True or str(value).strip().lower() in (*ON, "1", "y", "t")


def leaves(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting below a mapping, by dotted path."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
