"""What `accelerate launch` makes of a cluster config and of its command line, in a given release.

This follows commands/launch.py of Accelerate step by step (`load_config_from_file`, `_validate_launch_command`,
`launch_command`): which launcher a file takes, and which value every launch option ends up with. It raises nothing:
what the library refuses is said by the rules, and the flow goes on with what is readable, so that one call can name
several faults. Sources: 1.15.0 and older releases, commands/launch.py and commands/config/config_args.py.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from ..knowledge import accelerate as knowledge
from ..model import Context, Pointer
from ..sources.document import OPEN, At, Document, OpenValueError
from ..versions import in_span
from .arguments import PARADIGMS, Arg, Route, fixed, options_of, paradigm_of, route_from, type_of

if TYPE_CHECKING:
	from .command import CommandLine

ROUTES: Mapping[str, Route] = {kind: route for route, (_, kind) in PARADIGMS.items()} | {"TPU": "tpu"}
ELASTIC_ROUTES: tuple[Route, ...] = ("fsdp", "megatron", "multi_device", "tensor_parallel")
SEPARATE = ("compute_environment", "mixed_precision", "distributed_type")
BLOCKS = (
	"deepspeed_config",
	"fsdp_config",
	"tp_config",
	"megatron_lm_config",
	"dynamo_config",
	"ipex_config",
	"mpirun_config",
	"fp8_config",
	"parallelism_config",
)
OLD_BACKEND = "dynamo_backend"


class Launch:
	"""A cluster config after the merge with the launch options. `arguments` is keyed by the options' destinations.

	`command` is the command line, where it is known. Without a config, `document` is the command, and has no entries.
	"""

	def __init__(
		self,
		document: Document,
		release: str,
		route: Route,
		distributed_type: Any,
		arguments: Mapping[str, Arg],
		context: Context,
		command: "CommandLine | None" = None,
	) -> None:
		self.command = command
		self.document = document
		self.release = release
		self.route: Route = route
		self.distributed_type = distributed_type
		self.arguments = arguments
		self.context = context

	def value(self, name: str) -> Any:
		"""The value of an option; None when no such option exists. Raises OpenValueError when the shell decides it."""
		found = self.arguments.get(name)
		if found is not None and found.value is OPEN:
			raise OpenValueError(name)
		return found.value if found else None

	def given(self, name: str) -> bool:
		found = self.arguments.get(name)
		return found is not None and found.pointer is not None

	@property
	def has_config(self) -> bool:
		return self.document.kind != "launch"

	def at(self, name: str, part: Literal["key", "value"] = "value") -> At:
		"""Point at what gives an option its value, or else at `distributed_type` or the launcher's name."""
		found = self.arguments.get(name)
		if found and found.pointer is not None:
			return At(found.document or self.document, found.pointer, part)
		return At(self.document, ("distributed_type",) if self.has_config else ("launcher",), part)

	def since(self, release: str) -> bool:
		return in_span(self.release, release, None)

	def before(self, release: str) -> bool:
		return not in_span(self.release, release, None)

	@property
	def elastic(self) -> bool:
		"""Tell whether the workers are started by torchrun's own code (`torch.distributed.run`)."""
		return self.route in ELASTIC_ROUTES or (self.route == "deepspeed" and not self.deepspeed_runner)

	@property
	def deepspeed_runner(self) -> bool:
		"""Tell whether the `deepspeed` program starts the workers: several machines and not `standard`."""
		machines = self.arguments["num_machines"].value
		several = is_number(machines) and machines > 1
		return self.route == "deepspeed" and several and self.value("deepspeed_multinode_launcher") != "standard"

	@property
	def world(self) -> int | None:
		count = self.value("num_processes")
		return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None

	@property
	def uses_parallelism(self) -> bool:
		"""Tell whether the `parallelism_config` block is exported to the workers (since 1.10.0)."""
		routes: tuple[Route, ...] = ELASTIC_ROUTES if self.before("1.12.0") else (*ELASTIC_ROUTES, "deepspeed")
		found = self.arguments.get("use_parallelism_config")
		return self.since("1.10.0") and self.route in routes and found is not None and found.value is True


def is_number(value: object) -> bool:
	"""Tell whether a value takes part in comparisons with integers, as bool does in Python."""
	return isinstance(value, (int, float))


def is_cluster(document: Document) -> bool:
	"""Tell whether Accelerate reads the file as a ClusterConfig: only where `compute_environment` says so or is absent.

	A misspelt value makes a SageMakerConfig of the file; here it counts as a cluster unless it names SageMaker.
	"""
	environment = document.get("compute_environment")
	return not (isinstance(environment, str) and "SAGEMAKER" in environment.upper())


def route_of(distributed_type: object, release: str) -> Route | None:
	"""The launcher that a `distributed_type` takes in a release; None when the release refuses the value."""
	if not isinstance(distributed_type, str):
		return "simple"
	if distributed_type not in knowledge.for_release(release).enum("DistributedType").values():
		return None
	if distributed_type in ROUTES:
		return ROUTES[distributed_type]
	return "multi_device" if distributed_type in multi_device_types(release) else "simple"


def multi_device_types(release: str) -> frozenset[str]:
	"""The types that set `args.multi_gpu`: up to 0.20 only MULTI_GPU, and MULTI_CPU never."""
	if not in_span(release, "0.21.0", None):
		return frozenset({"MULTI_GPU"})
	values = knowledge.for_release(release).enum("DistributedType").values()
	return frozenset(value for value in values if str(value).startswith("MULTI_") and value != "MULTI_CPU")


def launch_of(
	document: Document | None, release: str, context: Context, command: "CommandLine | None" = None
) -> Launch | None:
	"""Merge a cluster config with a command line; None when the file is no cluster config or has no launcher.

	Without a config (no `--config_file`, and no default one) the command line alone decides.
	"""
	if document is None:
		return bare_launch(command, release, context) if command else None
	if not isinstance(document.data, dict) or not is_cluster(document):
		return None
	config = processed(document, release)
	kind = config.get("distributed_type", Arg(None)).value
	meant = intended_type(kind, release)
	route = route_of(kind, release) or (route_of(meant, release) if meant else None)
	if route is None or "distributed_type" not in config:
		return None
	arguments = options_of(release, context, command)
	if not (command and paradigm_of(command)):
		take_type(kind if route_of(kind, release) else meant, config, arguments, release)
	else:
		kind = type_of(arguments, release)
	if command:
		route = route_from(arguments)
	merge(config, arguments, release, fixed(release, context, command))
	settle_precision(config, arguments)
	return Launch(document, release, route, kind, arguments, context, command)


def take_type(kind: Any, config: Mapping[str, Arg], arguments: dict[str, Arg], release: str) -> None:
	route = route_of(kind, release)
	name = PARADIGMS[route][0] if route and route in PARADIGMS else ""
	if name in arguments:
		arguments[name] = Arg(True, ("distributed_type",))
	arguments["tpu_use_cluster"] = config.get("tpu_use_cluster", Arg(False)) if name == "tpu" else Arg(False)
	if in_span(release, "1.10.0", None):
		arguments["use_parallelism_config"] = Arg(config["parallelism_config"].value != {})


def bare_launch(command: "CommandLine", release: str, context: Context) -> Launch:
	"""A command line without any config: what is not given is counted, or set to the plainest value."""
	arguments = options_of(release, context, command)
	count = arguments["num_processes"].value
	several = count is OPEN or (count > 1 if is_number(count) else True)
	if count is None:
		arguments["num_processes"] = Arg(OPEN)  # as many as the machine has devices
	plain: dict[str, Any] = {"num_machines": 1, "mixed_precision": "no", "dynamo_backend": "no"}
	plain |= {"debug": False} if in_span(release, "0.22.0", None) else {}
	for name, value in plain.items():
		if arguments[name].value is None:
			arguments[name] = Arg(value)
	arguments["use_cpu"] = arguments["cpu"]
	chosen = arguments["multi_gpu"].value or arguments["tpu"].value  # where TPUs are, no GPUs are found
	if not chosen and (several or not in_span(release, "0.33.0", None)):
		arguments["multi_gpu"] = Arg(True if several else OPEN)  # old releases counted devices only
	empty = command.document.with_defects(data={})
	kind = type_of(arguments, release)
	return Launch(empty, release, route_from(arguments), kind, arguments, context, command)


def intended_type(value: object, release: str) -> str | None:
	if not isinstance(value, str):
		return None
	plain = value.upper().replace("-", "_").strip()
	aliases = {"DDP": "MULTI_GPU", "MEGATRON": "MEGATRON_LM", "FSDP2": "FSDP", "TPU": "XLA", "NONE": "NO"}
	plain = aliases.get(plain, plain)
	return plain if plain in knowledge.for_release(release).enum("DistributedType").values() else None


def processed(document: Document, release: str) -> dict[str, Arg]:
	"""The fields of ClusterConfig after `process_config` and `__post_init__`, with unknown keys left out."""
	data: dict[Any, Any] = document.data
	fields = knowledge.for_release(release).cluster
	config = {name: Arg(field.default) for name, field in fields.items()}
	config |= {name: Arg(value, (name,)) for name, value in dict.items(data) if name in fields}
	config.setdefault("parallelism_config", Arg(None))
	for name, old in legacy_fields(data):
		config[name] = old
	if data.get("distributed_type") == "NO" and "num_processes" not in data and in_span(release, "0.34.0", None):
		config["num_processes"] = Arg(1)
	for name in BLOCKS:
		if name in config and config[name].value is None:
			config[name] = Arg({}, config[name].pointer)
	return {name: arg for name, arg in config.items() if name in data or name != "distributed_type"}


def legacy_fields(data: dict[Any, Any]) -> Iterator[tuple[str, Arg]]:
	"""Keys of old files that are still converted: `fp16` where `mixed_precision` is missing, and `dynamo_backend` at
	the top, which takes the place of a whole `dynamo_config`."""
	if data.get("fp16") and "mixed_precision" not in data:
		yield "mixed_precision", Arg("fp16", ("fp16",))
	if OLD_BACKEND in data:
		backend = dict.get(data, OLD_BACKEND)  # which may be open
		yield "dynamo_config", Arg({} if backend == "NO" else {OLD_BACKEND: backend}, (OLD_BACKEND,))


def merge(config: Mapping[str, Arg], arguments: dict[str, Arg], release: str, kept: frozenset[str]) -> None:
	"""Copy mappings key by key, except to the options that are `kept`, and each scalar whose option is still None.

	A mapping in the place of a scalar is copied key by key too, so that its own option keeps the default.
	"""
	for name, field in config.items():
		if isinstance(field.value, dict):
			for option, (key, value) in block_entries(name, field.value, release):
				if option not in kept:
					arguments[option] = Arg(value, entry_pointer(field, key))
		elif name not in SEPARATE and arguments.get(name, Arg(None)).value is None:
			arguments[name] = field
	if arguments["gpu_ids"].value is None:
		ids = config["gpu_ids"]
		arguments["gpu_ids"] = ids if ids.value is not None else Arg("all")
	if not arguments["debug"].value and "debug" in config:
		arguments["debug"] = config["debug"]
	if arguments.get("dynamo_backend", Arg(None)).value is None:
		arguments["dynamo_backend"] = Arg("no")


def entry_pointer(block: Arg, key: Any) -> Pointer | None:
	if block.pointer is None or block.pointer == (OLD_BACKEND,):
		return block.pointer
	return (*block.pointer, key)


def block_entries(block: str, data: dict[Any, Any], release: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
	"""The option that each key of a block sets: (destination, (key, value))."""
	if block not in merged_blocks(release):
		return
	for key, value in dict.items(data):  # with those that are open, too
		yield destination(block, str(key), release), (key, value)


@lru_cache(maxsize=64)
def merged_blocks(release: str) -> frozenset[str]:
	"""The blocks that the merge loop of a release knows; since 1.5.0 it takes every mapping."""
	known = knowledge.for_release(release)
	return frozenset(block for block in BLOCKS if block in known.cluster and known.merges(block))


@lru_cache(maxsize=4096)
def destination(block: str, key: str, release: str) -> str:
	"""The option that a key of a block sets: `fsdp_config.version` sets `fsdp_version`."""
	return knowledge.for_release(release).destination(block, key) or key


def settle_precision(config: Mapping[str, Arg], arguments: dict[str, Arg]) -> None:
	if not arguments["mixed_precision"].value:
		given = config.get("mixed_precision", Arg(None))
		arguments["mixed_precision"] = Arg("no", given.pointer) if given.value is None else given


def precision_pointer(document: Document, release: str) -> Pointer:
	"""Where a file says which `mixed_precision` counts: in the last block that copies the key, else at the top."""
	blocks = [block for block in knowledge.for_release(release).cluster if block in merged_blocks(release)]
	for block in reversed(blocks if is_cluster(document) else []):
		name = "mixed_precision"
		if destination(block, name, release) == name and document.get(block, name):
			return (block, name)
	return ("mixed_precision",)
