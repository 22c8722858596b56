"""PAR rules about `parallelism_config`: the sizes, their product, and what they need around them."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from ..flow.launch import Launch
from ..model import Severity, Targets
from ..sources.document import At
from ..versions import parse
from .fsdp_settings import version_of
from .registry import Hit, Hits, rule
from .values import defect_hits, meaning, unread_hits, value_hits

PREFIX = "parallelism_config_"
SIZES = ("dp_replicate", "dp_shard", "tp", "cp", "sp")


class Mesh(NamedTuple):
	"""The sizes of a `parallelism_config`, all of them known and at least 1."""

	dp_replicate: int = 1
	dp_shard: int = 1
	tp: int = 1
	cp: int = 1
	sp: int = 1

	@property
	def total(self) -> int:
		return prod(self)

	@property
	def words(self) -> str:
		names = [f"{name} {size}" for name, size in zip(SIZES, self, strict=True) if size > 1]
		return " x ".join(names) or "1"


def mesh_of(launch: Launch) -> Mesh:
	"""The sizes that the workers get; all 1 where they get none or one of them is unreadable."""
	if not launch.uses_parallelism:
		return Mesh()
	sizes: list[int] = []
	for name in SIZES:
		value = 1 if name == "sp" and launch.before("1.12.0") else meaning(launch, f"{PREFIX}{name}_size")
		if not isinstance(value, int) or isinstance(value, bool) or value < 1:
			return Mesh()
		sizes.append(value)
	return Mesh(*sizes)


def started(launch: Launch) -> int | None:
	"""The number of processes that are really started: the same number on each machine."""
	machines = launch.value("num_machines")
	count = launch.world
	if count is None or not isinstance(machines, int) or isinstance(machines, bool) or machines <= 1:
		return count
	return count // machines * machines or None


def at_largest(launch: Launch, mesh: Mesh) -> At:
	for name, size in zip(SIZES, mesh, strict=True):
		if size > 1 and launch.given(f"{PREFIX}{name}_size"):
			return launch.at(f"{PREFIX}{name}_size")
	return launch.document.key("parallelism_config")


def ulysses(launch: Launch, mesh: Mesh) -> bool:
	"""Whether DeepSpeed's sequence parallelism takes the sizes out of Accelerate's hands (since 1.13.0)."""
	return mesh.sp > 1 and launch.since("1.13.0")


def fsdp2(launch: Launch) -> bool:
	return launch.route == "fsdp" and version_of(launch) == 2


@rule("PAR001", error="1.10.0..")
def parallelism_value(launch: Launch) -> Hits:
	"""A value in `parallelism_config` that is refused or taken for something else.

	Sizes are integers of at least 1. `parallelism_config_cp_size` and `_sp_size` are compared with 1 before they are
	converted, so a quoted "2" is a `TypeError`. Names are compared letter by letter: the communication strategy is
	allgather or alltoall, the backends are torch and deepspeed, and attention for sequence parallelism is sdpa,
	flash_attention_2 or flash_attention_3 (since 1.14.0 also a kernel with flash-attn in its name on the Hub).
	Source: 1.15.0, utils/launch.py, `prepare_extend_env_parallelism_config`, and parallelism_config.py.
	"""
	yield from value_hits(launch, (PREFIX,))


@rule("PAR002", warning="1.10.0..")
def parallelism_setting_unread(launch: Launch) -> Hits:
	"""A setting for context or sequence parallelism while its size is 1.

	The launcher passes `cp_comm_strategy` on only with a `cp_size` above 1, and the `sp_*` settings only with an
	`sp_size` above 1; `sp_seq_length` is looked at only where `sp_seq_length_is_variable` is false. Source: 1.15.0,
	utils/launch.py, `prepare_extend_env_parallelism_config`.
	"""
	yield from unread_hits(launch, (PREFIX,))


@rule("PAR003", error="1.10.0..")
def product_of_sizes(launch: Launch) -> Hits:
	"""The product of the parallel sizes is not the number of processes.

	The device mesh is built over all processes. A smaller product is refused with "total_size does not match
	num_processes", a larger one with "Mesh should not be bigger than default world size". All sizes at 1 are filled
	up with data parallelism. Sequence parallelism of DeepSpeed is excepted since 1.13.0 (see PAR010). Source: 1.15.0,
	parallelism_config.py, `_validate_accelerator`.
	"""
	mesh, world = mesh_of(launch), started(launch)
	if world is None or mesh.total in (1, world) or ulysses(launch, mesh):
		return
	text = f"the sizes ask for {mesh.total} processes ({mesh.words}), and {world} are started"
	yield Hit(at_largest(launch, mesh), f"{text}; make the product equal to num_processes")


@rule("PAR004", error="1.10.0..")
def parallelism_needs_fsdp2(launch: Launch) -> Hits:
	"""A `parallelism_config` with FSDP1 or Megatron-LM, or context parallelism without FSDP2.

	Sizes above 1 go together with FSDP2, with plain data parallelism (MULTI_GPU and its like) and, since 1.12.0, with
	DeepSpeed. Context parallelism needs FSDP2. Source: 1.15.0, parallelism_config.py, `_validate_accelerator`, and
	state.py, `AcceleratorState.__init__`.
	"""
	mesh = mesh_of(launch)
	if mesh.total == 1 or fsdp2(launch) or launch.route == "deepspeed":
		return
	if launch.route in ("fsdp", "megatron"):
		what = f"FSDP{version_of(launch)}" if launch.route == "fsdp" else "Megatron-LM"
		advice = "write fsdp_version: 2" if launch.route == "fsdp" else "remove it; megatron_lm_config has own degrees"
		where = launch.at("fsdp_version") if launch.given("fsdp_version") else at_largest(launch, mesh)
		yield Hit(where, f"accelerate refuses parallelism_config ({mesh.words}) together with {what}; {advice}")
	elif mesh.cp > 1:
		text = "context parallelism needs FSDP; write distributed_type: FSDP and fsdp_version: 2"
		yield Hit(launch.at(f"{PREFIX}cp_size"), text)


@rule("PAR005", error="1.15.0..", warning="1.10.0..1.14.0")
def no_dimension_to_shard(fsdp: Launch) -> Hits:
	"""FSDP2 with a `parallelism_config` in which both `dp_shard_size` and `cp_size` are 1.

	FSDP2 shards over these two dimensions together; without them there is no mesh to shard over. Refused since
	1.15.0, before `prepare()` fails with a `KeyError` for `dp_shard_cp`. Source: 1.15.0, parallelism_config.py,
	`_validate_accelerator`.
	"""
	mesh = mesh_of(fsdp)
	if fsdp2(fsdp) and mesh.total > 1 and mesh.dp_shard == 1 and mesh.cp == 1:
		text = f"FSDP2 has no dimension to shard over ({mesh.words}); set {PREFIX}dp_shard_size above 1"
		yield Hit(at_largest(fsdp, mesh), text)


@rule("PAR006", error="1.10.0..")
def replication_with_tensor_parallelism(launch: Launch) -> Hits:
	"""Tensor or context parallelism with `dp_replicate_size` above 1 and `dp_shard_size` 1.

	Plain data parallelism cannot be composed with them; shard as well, or do not replicate. Source: 1.15.0,
	parallelism_config.py, `ParallelismConfig.__post_init__`.
	"""
	mesh = mesh_of(launch)
	if max(mesh.tp, mesh.cp) > 1 and mesh.dp_replicate > 1 and mesh.dp_shard == 1:
		text = f"{mesh.words} is refused: tensor and context parallelism do not compose with replication alone"
		yield Hit(launch.at(f"{PREFIX}dp_replicate_size"), f"{text}; set dp_shard_size above 1 or dp_replicate_size 1")


@rule("PAR007", error="1.13.0..", warning="1.12.0..1.12.0")
def context_and_sequence_parallelism(launch: Launch) -> Hits:
	"""Context and sequence parallelism at the same time.

	Both split the sequence. Refused since 1.13.0; in 1.12.0 it passes, and one of the two does nothing. Source:
	1.15.0, parallelism_config.py, `ParallelismConfig.__post_init__`.
	"""
	mesh = mesh_of(launch)
	if mesh.cp > 1 and mesh.sp > 1:
		text = f"cp_size {mesh.cp} and sp_size {mesh.sp} exclude each other; set one of them to 1"
		yield Hit(launch.at(f"{PREFIX}sp_size"), text)


@rule("PAR008", warning="1.12.0..")
def sequence_parallelism_without_deepspeed(launch: Launch) -> Hits:
	"""`sp_size` above 1 without DeepSpeed.

	Sequence parallelism is DeepSpeed's Ulysses; only the DeepSpeed path of `prepare()` sets it up. Under FSDP2 or
	MULTI_GPU no mesh is built at all since 1.13.0, so every size in the block is ignored and the processes do plain
	data parallelism. Source: 1.15.0, parallelism_config.py, `build_device_mesh`, and accelerator.py,
	`_prepare_deepspeed`.
	"""
	mesh = mesh_of(launch)
	if mesh.sp > 1 and mesh.cp == 1 and launch.route != "deepspeed":
		text = "no sequence parallelism takes place: it needs distributed_type: DEEPSPEED"
		rest = "; without it all sizes of the block are ignored" if launch.since("1.13.0") else ""
		yield Hit(launch.at(f"{PREFIX}sp_size"), text + rest)


@rule("PAR009", warning="1.10.0..")
def sharding_without_fsdp(multi_device: Launch) -> Hits:
	"""`dp_shard_size` above 1 without FSDP.

	The processes then do plain data parallelism (DDP) and every one of them keeps the whole model. Source: 1.15.0,
	accelerator.py, `prepare_model`.
	"""
	mesh = mesh_of(multi_device)
	if mesh.dp_shard > 1 and mesh.sp == 1 and mesh.cp == 1:
		text = "nothing is sharded without FSDP; write distributed_type: FSDP and fsdp_version: 2"
		yield Hit(multi_device.at(f"{PREFIX}dp_shard_size"), text)


@rule("PAR010", warning="1.13.0..")
def sequence_parallel_arithmetic(deepspeed_launch: Launch) -> Hits:
	"""The data parallel sizes beside sequence parallelism do not fit the number of processes.

	`prepare()` computes the train batch size from `dp_replicate_size` x `dp_shard_size`, so their product has to be
	the number of processes divided by `sp_size`, and that has to come out even. DeepSpeed refuses it otherwise
	("Check batch related parameters"). Source: 1.15.0, accelerator.py, `_prepare_deepspeed`.
	"""
	mesh, world = mesh_of(deepspeed_launch), started(deepspeed_launch)
	if world is None or mesh.sp == 1:
		return
	where = deepspeed_launch.at(f"{PREFIX}sp_size")
	if world % mesh.sp:
		yield Hit(where, f"sp_size {mesh.sp} does not divide the {world} processes, so prepare() fails")
	elif mesh.dp_replicate * mesh.dp_shard != world // mesh.sp:
		data = mesh.dp_replicate * mesh.dp_shard
		text = f"{world} processes with sp_size {mesh.sp} are {world // mesh.sp} data parallel groups, not {data}"
		advice = f"set {PREFIX}dp_replicate_size to {world // mesh.sp // mesh.dp_shard or 1}"
		yield Hit(where, f"{text}, so prepare() fails in DeepSpeed; {advice}")


@rule("PAR011", info="1.10.0..")
def model_must_be_split(launch: Launch, targets: Targets) -> Hits:
	"""`tp_size` above 1: the script has to load the model split.

	Accelerate does not split weights itself. `from_pretrained(..., tp_plan="auto")` with the same size does; without
	it `prepare()` fails under MULTI_GPU, and under FSDP2 every rank keeps whole layers. Beside FSDP2, `prepare()` of a
	split model imports a class that Transformers has no more since 5.1.0 ("cannot import name 'ReplicateParallel'").
	Source: 1.15.0, accelerator.py, `prepare_model` and `_prepare_tp`.
	"""
	mesh = mesh_of(launch)
	if mesh.tp > 1:
		text = f"the script has to load the model for tensor parallelism over {mesh.tp} processes (tp_plan)"
		if launch.route == "fsdp" and parse(targets.transformers) >= parse("5.1.0"):
			text += f", and prepare() then fails with transformers {targets.transformers}: use 5.0.0 or older"
		yield Hit(launch.at(f"{PREFIX}tp_size"), text)


@rule("PAR012", warning="1.12.0..")
def fixed_length_without_length(launch: Launch) -> Hits:
	"""`sp_seq_length_is_variable: false` without `sp_seq_length`.

	The plugin means to refuse this, but the launcher always exports a text, so it is DeepSpeed that fails in
	`prepare()`. Source: 1.15.0, utils/dataclasses.py, `DeepSpeedSequenceParallelConfig.__post_init__`.
	"""
	mesh = mesh_of(launch)
	if mesh.sp == 1 or launch.value(f"{PREFIX}sp_seq_length") is not None:
		return
	if meaning(launch, f"{PREFIX}sp_seq_length_is_variable") is False:
		text = f"a fixed sequence length needs {PREFIX}sp_seq_length; prepare() fails without it"
		yield Hit(launch.at(f"{PREFIX}sp_seq_length_is_variable"), text)


@rule("PAR013", warning="1.12.0..")
def length_not_divisible(launch: Launch) -> Hits:
	"""`sp_seq_length` is not a multiple of `sp_size`.

	Each rank gets an equal share of the sequence; DeepSpeed's data loader refuses every batch of another length.
	Source: deepspeed 0.19.8, runtime/sequence_parallel/ulysses_sp.py, `UlyssesSPDataLoaderAdapter`.
	"""
	mesh, length = mesh_of(launch), meaning(launch, f"{PREFIX}sp_seq_length")
	if mesh.sp == 1 or not isinstance(length, int):
		return
	if meaning(launch, f"{PREFIX}sp_seq_length_is_variable") is False and length % mesh.sp:
		text = f"a sequence of {length} cannot be split evenly over sp_size {mesh.sp}"
		yield Hit(launch.at(f"{PREFIX}sp_seq_length"), text)


NOTES: Mapping[str, str] = {
	"cp": "batches lose their attention mask (every attention becomes causal), models need sdpa attention, and the "
	"sequence length has to be a multiple of twice cp_size",
	"sp": "models with recurrent or linear attention layers are refused, and sp_size may not exceed the number of "
	"attention heads",
}


@rule("PAR014", info="1.10.0..")
def what_the_model_needs(launch: Launch) -> Hits:
	"""What context and sequence parallelism ask of the model and the data.

	Context parallelism sets `attention_mask` to None and `is_causal` to true in every self-attention, so padding and
	packed samples are not masked; models with sliding windows are refused since 1.15.0 and trained wrongly before.
	Sequence parallelism needs enough attention heads. Source: 1.15.0, big_modeling.py,
	`_attach_context_parallel_hooks` and `_refuse_recurrent_layers_under_sequence_parallelism`.
	"""
	mesh = mesh_of(launch)
	for name, size in (("cp", mesh.cp), ("sp", mesh.sp)):
		if size > 1:
			yield Hit(launch.at(f"{PREFIX}{name}_size"), f"with {name}_size {size} {NOTES[name]}", None, Severity.INFO)


@rule("PAR015", warning="1.10.0..")
def release_with_parallelism_defect(launch: Launch) -> Hits:
	"""This release of Accelerate is known to misbehave with these parallel sizes.

	Context parallelism is never set up in 1.12.0. Source: 1.12.0, accelerator.py, `_prepare_cp`.
	"""
	yield from defect_hits(launch, ("parallelism",))
