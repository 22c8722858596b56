"""FSDP1 → FSDP2 in the same file."""

from ..flow.effect import same
from ..model_convert import BadConversionError
from ..versions import covers, in_span
from .source import FSDP, ZERO, Run, table, truth

RESHARD, STRATEGY = "fsdp_reshard_after_forward", "fsdp_sharding_strategy"


def to_fsdp2(run: Run) -> str:
	run.require("fsdp", "FSDP: --to fsdp converts DeepSpeed")
	require_release(run)
	if run.fsdp2:
		run.note("same", "fsdp_version", "is 2 already", FSDP, "fsdp_version")
	elif run.strategy.reshard is None:
		to_ddp(run, f"FSDP2 has no {run.strategy.name}: MULTI_GPU keeps whole copies, as it did")
	else:
		version_and_strategy(run)
		values(run)
		dropped(run)
		if run.strategy.hybrid:
			hybrid(run)
	return run.finished()


def require_release(run: Run) -> None:
	if not run.since("1.6.0"):
		raise BadConversionError(f"accelerate {run.release} has no FSDP2: it came with 1.6.0")
	if not in_span(run.targets.torch, "2.6.0", None):
		raise BadConversionError(f"torch {run.targets.torch} has no FSDP2 for Accelerate: it needs 2.6.0")


def version_and_strategy(run: Run) -> None:
	keys, name, value = run.keys(FSDP), run.strategy.name, run.strategy.reshard
	run.set(2, FSDP, keys.get("fsdp_version", "fsdp_version"))
	reshard, named = keys.get(RESHARD), keys.get(STRATEGY)
	told = f"{name} is {RESHARD}: {str(value).lower()}"
	if named and not reshard:
		run.note("same", STRATEGY, told, FSDP, named)
		run.rename((FSDP, named), RESHARD if named.startswith("fsdp") else RESHARD.removeprefix("fsdp_"), value)
		return
	if reshard:
		written = run.first.get(FSDP, reshard)
		if name != str(written).upper() and not same(written, value):
			run.tell("changed", RESHARD, f"FSDP1 ignored {written} and ran {name}; {told}, which keeps the run")
		else:
			run.tell("same", RESHARD, told)
	run.set(value, FSDP, reshard or RESHARD)
	if named:
		run.remove(FSDP, named)


def values(run: Run) -> None:
	keys = run.keys(FSDP)
	for option, row in table("fsdp2", "values").items():
		written = run.value(option)
		old = str(written or row["default"]).upper()
		new = row["becomes"].get(old, "")
		if new and covers(row["unsupported"][old], run.release):
			run.tell("changed", option, f"FSDP2 of accelerate {run.release} has no {old}: {new}")
			run.set(new, FSDP, keys.get(option, option))
		elif written is None:
			run.note("added", option, f"{old}, FSDP1's default; FSDP2 takes another one")
			run.set(old, FSDP, keys.get(option, option))


def dropped(run: Run) -> None:
	keys = run.keys(FSDP)
	for option, why in table("fsdp2", "dropped").items():
		if option in keys:
			value = run.first.get(FSDP, keys[option])
			lossy = any(same(value, other) for other in table("fsdp2", "lossy", option))
			run.tell("lost" if lossy else "same", option, f"{value}: {why}")
			run.remove(FSDP, keys[option])


def hybrid(run: Run) -> None:
	"""Shards inside a node, copies across: sizes in parallelism_config."""
	machines, world, name = run.value("num_machines"), run.launch.world, run.strategy.name
	if machines == 1:
		run.note("same", STRATEGY, f"on one machine {name} shards over all of it, as plain FSDP2 does")
		return
	names = ("parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size")
	sized = isinstance(machines, int) and machines > 1 and world is not None and world % machines == 0
	if not sized or not run.since("1.10.0"):
		sizes = f"{names[0]} (machines) and {names[1]} (processes on each)"
		since = "" if run.since("1.10.0") else ", which came with accelerate 1.10.0"
		run.note("lost", STRATEGY, f"{name} needs {sizes} in parallelism_config{since}: shards over all now")
		return
	for size_name, size in zip(names, (machines, world // machines), strict=True):
		run.set(size, "parallelism_config", size_name)
	sizes = f"{machines} copies of {world // machines} shards"
	run.note("same", STRATEGY, f"{name} on {machines} machines is {sizes} in parallelism_config")


def to_ddp(run: Run, why: str) -> None:
	"""Whole copies on every device: DistributedDataParallel."""
	block = ZERO if run.route == "deepspeed" else FSDP
	run.note("changed", "distributed_type", why, "distributed_type")
	for option, key in run.keys(block).items():
		if option in ("fsdp_offload_params", "fsdp_activation_checkpointing") and truth(run.first.get(block, key)):
			run.tell("lost", option, "MULTI_GPU has no such setting")
	run.set("MULTI_GPU", "distributed_type")
	run.remove(block)
