"""PAR rules about what parallelism needs installed, `tp_config` (1.4.0 to 1.6.0), Megatron-LM and TPU."""

from ..flow.launch import Launch
from ..knowledge import accelerate as knowledge
from ..model import Severity, Targets
from ..versions import parse
from .parallelism_sizes import PREFIX, mesh_of, started
from .registry import Hit, Hits, Operation, Repair, rule
from .suggest import shown
from .values import meaning, unread_hits, value_hits

# Which dimension needs which library, under the name of the constant that holds the first release.
NEEDS = (
	("tp", "torch", "BETA_TP_AVAILABLE_PYTORCH_VERSION"),
	("tp", "transformers", "BETA_TP_AVAILABLE_TRANSFORMERS_VERSION"),
	("cp", "torch", "BETA_CP_AVAILABLE_PYTORCH_VERSION"),
	("sp", "deepspeed", "BETA_SP_AVAILABLE_DEEPSPEED_VERSION"),
)


@rule("PAR016", error="1.4.0..")
def library_too_old_for_parallelism(launch: Launch, targets: Targets) -> Hits:
	"""A dimension needs a newer PyTorch, Transformers or DeepSpeed than the one that is judged.

	Tensor parallelism needs torch 2.3 and Transformers 4.52 (4.47 up to Accelerate 1.6.0), context parallelism torch
	2.6, sequence parallelism DeepSpeed 0.18.2, which is asked for in `prepare()` only. Source: 1.15.0,
	utils/dataclasses.py, `TorchTensorParallelConfig` and `TorchContextParallelConfig`, and utils/constants.py.
	"""
	mesh = mesh_of(launch)
	alone = launch.route == "tensor_parallel" and launch.before("1.7.0")
	sizes = {"tp": 2} if alone else mesh._asdict()
	for name, library, constant in NEEDS:
		needed = knowledge.for_release(launch.release).constant(constant)
		if sizes.get(name, 1) > 1 and needed is not None and parse(targets.of(library)) < parse(needed):
			text = f"{name} parallelism needs {library} {needed} or newer, not {targets.of(library)}"
			option = "tp_size" if alone else f"{PREFIX}{name}_size"
			yield Hit(launch.at(option), text, severity=Severity.WARNING if name == "sp" else None)


@rule("PAR020", error="1.4.0..1.6.0")
def tensor_parallel_degree(tensor_parallel: Launch) -> Hits:
	"""`tp_size` of `tp_config` is missing, 1, or above the number of processes.

	The plugin asks for a degree above 1 ("Provide TP degree > 1.") and builds a mesh of that many processes. Only
	1.4.0 to 1.6.0 have `tp_config`; later releases have `parallelism_config`. Source: 1.6.0, utils/dataclasses.py,
	`TorchTensorParallelPlugin.__post_init__`.
	"""
	yield from value_hits(tensor_parallel, ("tp_size",))
	degree, world = meaning(tensor_parallel, "tp_size"), started(tensor_parallel)
	if isinstance(degree, int) and world is not None and degree > world:
		text = f"a tensor parallel mesh of {degree} does not fit into {world} processes"
		yield Hit(tensor_parallel.at("tp_size"), text)


@rule("PAR021", warning="1.7.0..1.9.0")
def tensor_parallel_type_ignored(launch: Launch) -> Hits:
	"""`distributed_type: TP` in the releases between `tp_config` and `parallelism_config`.

	The name is still taken, but no launcher belongs to it any more: one plain process is started. Source: 1.8.1,
	commands/launch.py, `_validate_launch_command`.
	"""
	if launch.distributed_type == "TP":
		text = f"accelerate {launch.release} takes TP and starts one plain process; use 1.10.0 or newer"
		yield Hit(launch.at("distributed_type"), f"{text} with a parallelism_config")


@rule("PAR030", error="*")
def megatron_value(megatron: Launch) -> Hits:
	"""A value in `megatron_lm_config` that is refused.

	Degrees and counts are integers, clipping and dropouts numbers, all switches truth words; `attention_backend` is a
	switch too, although its name suggests otherwise. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`, and
	utils/dataclasses.py, `MegatronLMPlugin.__post_init__`.
	"""
	yield from value_hits(megatron, ("megatron_lm_",))


@rule("PAR031", warning="*")
def megatron_setting_unread(megatron: Launch) -> Hits:
	"""A setting of `megatron_lm_config` that is passed on, and that the plugin does not look at.

	Up to 0.24 `megatron_lm_recompute_activations` is exported under this name and read without the s. Source: 0.24.1,
	utils/launch.py and utils/dataclasses.py, `MegatronLMPlugin.__post_init__`.
	"""
	yield from unread_hits(megatron, ("megatron_lm_",))


@rule("PAR032", warning="*")
def megatron_degrees(megatron: Launch) -> Hits:
	"""The degrees of Megatron-LM do not divide the number of processes.

	Accelerate rounds the data parallel degree down, and Megatron-LM asserts that the world is a multiple of tensor x
	pipeline x context degree. Source: 1.15.0, accelerator.py, `_prepare_megatron_lm`.
	"""
	world, degrees = started(megatron), megatron_product(megatron)
	if world is None or degrees is None or world % degrees[0] == 0:
		return
	text = f"{world} processes are no multiple of {degrees[1]}, so Megatron-LM refuses them"
	name = "megatron_lm_tp_degree" if megatron.given("megatron_lm_tp_degree") else "megatron_lm_pp_degree"
	yield Hit(megatron.at(name if megatron.given(name) else "num_processes"), text)


def megatron_product(launch: Launch) -> tuple[int, str] | None:
	names = ["tp_degree", "pp_degree"] + (["context_parallel_size"] if launch.since("1.13.0") else [])
	product, words = 1, []
	for name in names:
		value = meaning(launch, f"megatron_lm_{name}")
		value = 2 if value is None and name == "context_parallel_size" else value
		if not isinstance(value, int) or value < 1:
			return None
		product *= value
		words += [f"{name} {value}"]
	return product, " x ".join(words)


@rule("PAR033", warning="1.13.0..")
def context_parallel_by_default(megatron: Launch) -> Hits:
	"""No `megatron_lm_context_parallel_size`: Megatron-LM splits each sequence over 2 processes.

	The plugin's default is 2 since the setting exists, while its help says 1. Write 1 to leave sequences whole.
	Source: 1.15.0, utils/dataclasses.py, `MegatronLMPlugin.__post_init__`.
	"""
	if megatron.value("megatron_lm_context_parallel_size") is None:
		text = "megatron_lm_context_parallel_size is 2 by default; write 1 unless sequences are to be split"
		block = megatron.document.get("megatron_lm_config")
		add = Operation("add", ("megatron_lm_config",), "megatron_lm_context_parallel_size", 1)
		repair = Repair("write megatron_lm_context_parallel_size: 1", (add,)) if isinstance(block, dict) else None
		yield Hit(megatron.document.key("megatron_lm_config"), text, repair)


@rule("PAR034", warning="*")
def fp8_under_megatron(megatron: Launch) -> Hits:
	"""`mixed_precision: fp8` with Megatron-LM trains in full precision.

	The plugin hands fp16 and bf16 to Megatron-LM and nothing else. Source: 1.15.0, utils/dataclasses.py,
	`MegatronLMPlugin.set_mixed_precision`.
	"""
	if str(megatron.value("mixed_precision")).lower() == "fp8":
		text = "Megatron-LM gets no precision for fp8 and trains in fp32; write bf16"
		yield Hit(megatron.at("mixed_precision"), text)


@rule("PAR035", info="1.13.0..")
def recompute_activations_without_effect(megatron: Launch) -> Hits:
	"""`megatron_lm_recompute_activations` since 1.13.0.

	It is read, but nothing is made of it any more: `megatron_lm_recompute_granularity` decides, and it is full by
	default. Source: 1.15.0, utils/dataclasses.py, `MegatronLMPlugin.__post_init__`.
	"""
	if megatron.given("megatron_lm_recompute_activations"):
		text = "recompute_activations has no effect; write megatron_lm_recompute_granularity: full or selective"
		yield Hit(megatron.at("megatron_lm_recompute_activations", "key"), text)


@rule("PAR040", warning="*")
def tpu_precision(tpu: Launch) -> Hits:
	"""`mixed_precision` with TPU does not reach `Accelerator()`.

	The TPU launcher sets `XLA_USE_BF16` for bf16 and exports no precision, so `Accelerator()` in the workers has
	"no"; fp16 and fp8 are dropped altogether. Pass `mixed_precision` in the script. Source: 1.15.0, utils/launch.py,
	`prepare_tpu`.
	"""
	precision = tpu.value("mixed_precision")
	if tpu.given("mixed_precision") and str(precision).lower() not in ("no", "none", "false"):
		text = f"the TPU launcher does not pass {shown(precision)} on; pass mixed_precision in the script"
		yield Hit(tpu.at("mixed_precision"), text)


@rule("PAR041", warning="*")
def tpu_environment_lost(tpu: Launch) -> Hits:
	"""`tpu_env` never reaches the processes.

	The pod launcher replaces the list by the variables that it computes itself; without a pod nobody reads it.
	Export the variables on the machines. Source: 1.15.0, commands/launch.py, `tpu_pod_launcher`.
	"""
	if tpu.value("tpu_env"):
		yield Hit(tpu.at("tpu_env", "key"), "tpu_env is overwritten before it is used; export the variables yourself")


@rule("PAR042", info="1.3.0..")
def tpu_process_count(tpu: Launch) -> Hits:
	"""`num_processes` with TPU.

	Since 1.8.0 the number is not used: one process is started for each device (1.3.0 to 1.7.0 refuse a number that
	differs from the devices). A pod passes it on to its machines, where it is not used either. Source: 1.15.0,
	commands/launch.py, `tpu_launcher`.
	"""
	count = tpu.value("num_processes")
	if tpu.given("num_processes") and isinstance(count, int) and count > 1:
		text = f"num_processes {count} " + ("is not used" if tpu.since("1.8.0") else "has to be the number of devices")
		yield Hit(tpu.at("num_processes", "key"), f"{text}: a process is started for each TPU device")


@rule("PAR043", info="*")
def tpu_config_only(tpu: Launch) -> Hits:
	"""`commands`, `command_file` and `tpu_zone` are read by `accelerate tpu-config`, not by a launch.

	Source: 1.15.0, commands/tpu.py, `tpu_command_launcher`.
	"""
	for name in ("commands", "command_file", "tpu_zone"):
		if tpu.document.get(name):
			yield Hit(tpu.document.key(name), f"{name} is read by accelerate tpu-config only")
