"""DeepSpeed ↔ FSDP and FSDP1 → FSDP2 in the same file, by the rows of data/conversions.json.gz."""

from collections.abc import Mapping
from typing import Any

from ..flow.effect import same
from ..model_convert import BadConversionError
from ..sources.writing import write
from ..versions import covers, in_span
from .source import FSDP, OFF_DEVICES, PRECISIONS, STRATEGIES, ZERO, Run, Settings, entries, leaves, table, truth


def to_fsdp(run: Run) -> str:
	"""A DeepSpeed run under FSDP: FSDP2 where the release has it."""
	run.require("deepspeed", "DeepSpeed" + (": --to fsdp2 brings FSDP1 to FSDP2" if run.route == "fsdp" else ""))
	second = run.since("1.6.0")
	if second:
		require_release(run)
	precision(run)
	parallel(run, "deepspeed")
	said = dict(zero_settings(run))
	if run.zero_stage == 0:
		to_ddp(run, "ZeRO stage 0 shards nothing, nor does MULTI_GPU")
		return run.finished()
	version = {"fsdp_version": 2} if second else {"fsdp_use_orig_params": True, "fsdp_sync_module_states": True}
	first = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", **version}
	first = {name: value for name, value in first.items() if name in run.launch.arguments}
	pairs = {row["deepspeed"][0]: row["fsdp"][0 if second else -1] for row in table("backends")}
	renamed = {one: other for one, other in pairs.items() if other in said}
	fill(run, ZERO, FSDP, {**first, **said}, renamed)
	run.set("FSDP", "distributed_type")
	if not run.first.has(ZERO, "zero3_init_flag") and run.zero_stage < 3:
		run.note("open", "fsdp_cpu_ram_efficient_loading", "true by default: only rank 0 reads the weights")
	return run.finished()


def zero_settings(run: Run) -> Settings:
	yield from sharding(run)
	yield from offload(run)
	if (flag := run.value("zero3_init_flag")) is not None:
		run.tell("same", "zero3_init_flag", f"fsdp_cpu_ram_efficient_loading: {write(flag, 'yaml')}")
		yield "fsdp_cpu_ram_efficient_loading", flag
	path = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
	whole = run.zero("zero3_save_16bit_model", path) is True
	lacks = covers(table("fsdp2", "values", "fsdp_state_dict_type", "unsupported", "FULL_STATE_DICT"), run.release)
	kind = "FULL_STATE_DICT" if whole and not lacks else "SHARDED_STATE_DICT"
	run.tell("changed" if whole and lacks else "same", "zero3_save_16bit_model", f"fsdp_state_dict_type: {kind}")
	yield "fsdp_state_dict_type", kind
	only_deepspeed(run)


def sharding(run: Run) -> Settings:
	stage = run.zero_stage
	strategy = next(one for one in STRATEGIES if one.zero == (2 if stage == 1 else min(stage, 3)))
	new: tuple[str, Any] = ("fsdp_reshard_after_forward", strategy.reshard)
	name, value = new if run.since("1.6.0") else ("fsdp_sharding_strategy", strategy.name)
	said = f"{name}: {write(value, 'yaml')}"
	if stage == 1:
		run.tell("changed", "zero_stage", f"FSDP has nothing like ZeRO-1; {said} shards gradients too")
	elif stage > 0:
		run.tell("same", "zero_stage", f"ZeRO-{stage} is {said}")
	if stage > 0:
		yield name, value


def offload(run: Run) -> Settings:
	places = {}
	for what in ("optimizer", "param"):
		key = f"offload_{what}_device"
		place = run.zero(key, f"zero_optimization.offload_{what}.device")
		if what == "param" and run.zero_stage < 3 and place not in OFF_DEVICES:
			run.tell("same", key, f"ZeRO-{run.zero_stage} does not read it")
		elif place not in OFF_DEVICES:
			places[key] = str(place)
	for key, place in places.items():
		exact = len(places) == 2 and place == "cpu"
		only = "" if place == "cpu" else f"; FSDP has no {place}"
		moved = "the same" if exact else "weights, gradients and optimizer together"
		told = f"{place}: fsdp_offload_params: true moves {moved} to the CPU{only}"
		run.tell("same" if exact else "changed", key, told)
	if places:
		yield "fsdp_offload_params", True


def only_deepspeed(run: Run) -> None:
	"""What FSDP has no setting for: what to do instead."""
	told = {key for row in table("backends") for key in row["deepspeed"]}
	for row in table("only_deepspeed"):
		key, path = row["keys"][0], row["keys"][-1] if len(row["keys"]) > 1 else None
		told |= {key, path}
		value = run.zero(key or "", path)
		if value is None and key == "gradient_clipping" and run.since("0.30.0"):
			value = 1.0
		if value is not None and value != row.get("default"):
			block = value if isinstance(value, Mapping) else {}
			params = write(block.get("params", {}), "json")
			said: Any = (run.own is not None and row.get("trainer")) or ("lost", row["say"])
			say = said[1].format(value=value, type=block.get("type", "it"), params=params)
			run.tell(said[0], str(key or path), say)
	for path, value in leaves(run.zero_file or {}):
		known = any(path == one or path.startswith(f"{one}.") for one in told if one)
		# What says nothing: left to Accelerate, off, or told elsewhere.
		silent = path.startswith(PRECISIONS) or path.endswith(("pin_memory", "nvme_path"))
		if not (known or silent or value in ("auto", None, False)):
			run.note("lost", path, f"{write(value, 'json')[:80]}: DeepSpeed's own, and FSDP has no such setting")


def precision(run: Run) -> None:
	"""What a DeepSpeed file says of bf16 and fp16, FSDP takes from mixed_precision."""
	chosen = run.value("mixed_precision")
	for chosen in run.zero_precision():
		run.set(chosen, "mixed_precision")
		run.note("same", f"{chosen}.enabled", f"mixed_precision: {chosen}")
	if chosen in PRECISIONS:
		told = "DeepSpeed casts the whole model at the start, FSDP each unit while it computes"
		told = f"{chosen}: both keep weights in fp32 for the optimizer; {told}"
		run.note("changed", "mixed_precision", told, "mixed_precision")


def parallel(run: Run, backend: str) -> None:
	"""Sizes of parallelism_config that only the other backend has; what remains shards over all processes."""
	block = entries(run.document, "parallelism_config")
	for key, value in block.items():
		why = next((text for prefix, text in table("parallel", backend).items() if key.startswith(prefix)), "")
		if why and key.endswith("_size") and value not in (None, 1, "1"):
			run.note("lost", key, why, "parallelism_config", key)
	if block:
		run.remove("parallelism_config")


def fill(run: Run, old: str, new: str, wanted: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
	"""Make one block of another: entries that correspond are renamed, the others added or taken out."""
	if entries(run.document, new):
		run.note("same", new, "stood there without any effect, and gives way", new)
	run.remove(new)
	pairs = {renamed[key]: key for key in reversed([*renamed]) if run.document.has(old, key)}
	if not pairs:
		run.set(dict(wanted), new)
		run.remove(old)
		return
	for name, key in pairs.items():
		run.rename((old, key), name, wanted[name])
	for key in entries(run.document, old):
		if key not in wanted:
			run.remove(old, key)
	run.settle()
	for name, value in wanted.items():
		if name not in pairs:
			run.set(value, old, name)
	run.step("rename", (old,), new)


# --- the other way -------------------------------------------------------------------------------------------


def to_deepspeed(run: Run) -> str:
	run.require("fsdp", "FSDP")
	parallel(run, "fsdp")
	wanted, keys = dict(fsdp_settings(run)), run.keys(FSDP)
	pairs = [(option, row["deepspeed"][0]) for row in table("backends") for option in row["fsdp"]]
	renamed = {keys[option]: name for option, name in pairs if option in keys and name in wanted}
	fill(run, FSDP, ZERO, wanted, renamed)
	run.set("DEEPSPEED", "distributed_type")
	if run.document.get("mixed_precision") in PRECISIONS:
		told = "both keep weights in fp32 for the optimizer; DeepSpeed casts the whole model at the start"
		run.note("changed", "mixed_precision", told, "mixed_precision")
	if run.own is not None:
		return run.finished()  # the Trainer gives its own clipping and accumulation to DeepSpeed
	if run.since("0.30.0"):
		told = "DeepSpeed clips at 1.0 unless told, and accelerator.clip_grad_norm_ does nothing there"
		run.note("open", "gradient_clipping", f"{told}: write what the script has")
	run.note("open", "gradient_accumulation_steps", "counts from here, not from the script, once it is written")
	return run.finished()


# Below stage 3 every process holds all weights
WHOLE = {
	"fsdp_cpu_ram_efficient_loading": "below ZeRO-3 every process loads all weights",
	"fsdp_state_dict_type": "below ZeRO-3 every process holds all weights, and they are saved whole",
}


def fsdp_settings(run: Run) -> Settings:
	strategy, keys = run.strategy, run.keys(FSDP)
	named = "fsdp_reshard_after_forward" if run.fsdp2 else "fsdp_sharding_strategy"
	told = f"{strategy.name} is ZeRO-{strategy.zero}" + (", which shards over all machines" if strategy.hybrid else "")
	run.tell("changed" if strategy.hybrid else "same", named, told)
	yield "zero_stage", strategy.zero
	if run.value("num_machines") not in (None, 1) and not run.launch.given("deepspeed_multinode_launcher"):
		run.note("added", "deepspeed_multinode_launcher", "standard: torchrun on each machine, as for FSDP")
		yield "deepspeed_multinode_launcher", "standard"
	offloads = run.on("fsdp_offload_params")
	if offloads and not strategy.zero:
		run.tell("lost", "fsdp_offload_params", "stage 0 offloads nothing")
	elif offloads:
		run.tell("same", "fsdp_offload_params", "offload to the CPU")
		yield "offload_optimizer_device", "cpu"
		if strategy.zero == 3:
			yield "offload_param_device", "cpu"
	if strategy.zero == 3:
		loading = run.on("fsdp_cpu_ram_efficient_loading")
		run.note("same", "fsdp_cpu_ram_efficient_loading", f"zero3_init_flag: {str(loading).lower()}")
		yield "zero3_init_flag", loading
		kind = run.value("fsdp_state_dict_type") or ("SHARDED" if run.fsdp2 else "FULL")
		whole = str(kind).upper().startswith("FULL")
		run.note("same", "fsdp_state_dict_type", f"zero3_save_16bit_model: {str(whole).lower()}")
		yield "zero3_save_16bit_model", whole
	else:
		for option, told in WHOLE.items():
			if option in keys:
				run.tell("same" if option == "fsdp_state_dict_type" else "lost", option, told)
	for option, why in table("only_fsdp").items():
		value = run.value(option)
		if option in keys and why and value not in (None, False, "false", "NO_WRAP"):
			harmless = option in ("fsdp_use_orig_params", "fsdp_sync_module_states") and run.on(option)
			run.tell("same" if harmless else "lost", option, f"{value}: {why}")


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
