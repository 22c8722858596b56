"""Where a key of the Accelerate config belongs, and which launcher reads it."""

from functools import lru_cache

from ..knowledge import accelerate as knowledge
from .arguments import Route
from .launch import BLOCKS, ELASTIC_ROUTES, Launch, destination

GROUPS = {
	"DeepSpeed Arguments": "deepspeed_config",
	"FSDP Arguments": "fsdp_config",
	"Megatron-LM Arguments": "megatron_lm_config",
	"ParallelismConfig Arguments": "parallelism_config",
	"FP8 Arguments": "fp8_config",
	"MPI Arguments": "mpirun_config",
	"TP Arguments": "tp_config",
}
BY_PREFIX = {"dynamo_": "dynamo_config", "fsdp_": "fsdp_config"}
BY_NAME = {"ipex": "ipex_config", "use_xpu": "ipex_config", "tp_size": "tp_config"}
# Where each route begins; what these call, and what that looks at, is data
LAUNCHERS: dict[Route, tuple[str, ...]] = {
	"deepspeed": ("deepspeed_launcher",),
	**dict.fromkeys(ELASTIC_ROUTES, ("multi_gpu_launcher",)),
	"tpu": ("tpu_launcher", "tpu_pod_launcher"),
	"simple": ("simple_launcher",),
}
RUNNER_ONLY = ("deepspeed_hostfile", "deepspeed_exclusion_filter", "deepspeed_inclusion_filter")
MEETING = ("num_machines", "machine_rank", "main_process_ip", "main_process_port")
PREFIX_OF_ROUTE = {"fsdp_": "fsdp", "megatron_lm_": "megatron", "tp_size": "tensor_parallel"}


def block_of(option: str, release: str) -> str | None:
	"""The block in which a launch option is spelled; None for options that have no block."""
	if option not in arguments(release):
		return None
	for prefix, block in BY_PREFIX.items():
		if option.startswith(prefix):
			return block
	known = knowledge.for_release(release).options.get(option)
	return BY_NAME.get(option) or GROUPS.get((known.group if known else "") or "")


@lru_cache(maxsize=64)
def arguments(release: str) -> frozenset[str]:
	"""The options of `accelerate launch`, and what the launchers look at although it is no option of theirs."""
	known = knowledge.for_release(release)
	return frozenset(known.options) | {name for read in known.reads.values() for name in read}


@lru_cache(maxsize=256)
def block_options(block: str, release: str) -> frozenset[str]:
	"""The launch options that a block may set."""
	return frozenset(option for option in arguments(release) if block_of(option, release) == block)


@lru_cache(maxsize=64)
def block_keys(block: str, release: str) -> frozenset[str]:
	"""The keys of a block, in full: `fsdp_version`, and `backend` for a block whose prefix may be left out."""
	options = block_options(block, release)
	prefix = block.removesuffix("config")
	bare = {option.removeprefix(prefix) for option in options if option.startswith(prefix)}
	return options | {key for key in bare if destination(block, key, release) in options}


def homes(key: str, release: str) -> tuple[str, ...]:
	fields = knowledge.for_release(release).cluster
	return tuple(block for block in BLOCKS if block in fields and key in block_options(block, release))


@lru_cache(maxsize=64)
def reads_of_route(release: str, route: Route, parallelism: bool, fp8: bool) -> frozenset[str]:
	known = knowledge.for_release(release)
	without = [] if parallelism else ["prepare_extend_env_parallelism_config"]
	without += [] if fp8 else ["setup_fp8_env"]
	own = known.reads.get("_validate_launch_command", frozenset()) | known.reads.get("launch_command", frozenset())
	read = own | known.reads_through(*LAUNCHERS[route], without=without)
	foreign = {prefix for prefix, home in PREFIX_OF_ROUTE.items() if home != route}
	foreign |= set() if parallelism else {"parallelism_config_"}
	return frozenset(option for option in read if not option.startswith(tuple(foreign)))


def is_read(launch: Launch, option: str) -> bool:
	precision = launch.value("mixed_precision")
	fp8 = isinstance(precision, str) and precision.lower() == "fp8"
	if fp8 and option.startswith("fp8_") and launch.route != "tpu":
		return True
	if option not in reads_of_route(launch.release, launch.route, launch.uses_parallelism, fp8):
		return False
	return reads_in_context(launch, option)


def alone(launch: Launch) -> bool:
	"""Tell whether the file asks for several processes and gets one that meets no other.

	On a CPU a mpirun around the launcher could start the others.
	"""
	machines, processes = launch.value("num_machines"), launch.value("num_processes")
	several = any(isinstance(count, (int, float)) and count > 1 for count in (machines, processes))
	return several and launch.distributed_type == "NO" and launch.value("use_cpu") in (None, False)


def reads_in_context(launch: Launch, option: str) -> bool:
	"""Narrow what a launcher reads to what it reads in this file: several machines, several processes."""
	machines, processes = launch.value("num_machines"), launch.value("num_processes")
	several = not (isinstance(machines, (int, float)) and machines <= 1)
	if option in MEETING and alone(launch):
		return False
	if option == "machine_rank":
		nossh = launch.value("deepspeed_multinode_launcher") == "nossh" and launch.since("1.6.0")
		return several and (not launch.deepspeed_runner or nossh) and launch.route != "simple"
	if option == "main_process_ip":
		return several or (launch.route == "simple" and not (isinstance(processes, int) and processes <= 1))
	if option in RUNNER_ONLY:
		beaten = option == "deepspeed_inclusion_filter" and launch.value("deepspeed_exclusion_filter") is not None
		return launch.deepspeed_runner and not beaten
	if option == "deepspeed_multinode_launcher":
		return several
	if option == "tpu_use_cluster":
		return launch.route == "tpu"
	if option == "main_process_port" and launch.route == "simple":
		return several or not (isinstance(processes, int) and processes <= 1)
	return True
