"""Where two runs differ, by what the real libraries build of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
# What differs between a file, flags and objects, and decides nothing.
BESIDE = {"variables", "device", "backend", "process_groups", "debug", "launch", "native_amp", "scaler"}
FIELDS = (
	*("cpu_offload", "auto_wrap_policy", "transformer_cls_names_to_wrap", "min_num_params", "state_dict_type"),
	*("activation_checkpointing", "cpu_ram_efficient_loading", "ignored_modules"),
)


def unlike(before: Facts, after: Facts, said: set[str]) -> Iterator[str]:
	"""Where two launches differ: torchrun's configuration, and what the first worker builds."""
	ours, theirs = before["launch"]["torchrun"], after["launch"]["torchrun"]
	if "distributed_type" in said:
		return
	if ours != theirs and "num_processes" not in said:
		yield f"torchrun: {ours} and {theirs}"
	for name, value in settled(before["state"]).items():
		told = name != "num_processes" and any(one.startswith(name) for one in said)
		told |= name == "mesh" and "parallelism_config" in said
		other = settled(after["state"]).get(name)
		if not told and value != other and name not in BESIDE - {"native_amp", "scaler", "debug"}:
			both = [one if isinstance(one, dict) else {"": one} for one in (value, other)]
			keys = [k for k in both[0] | both[1] if both[0].get(k) != both[1].get(k)]
			if not said.issuperset(keys):
				yield "; ".join(f"{name} {k} {both[0].get(k)} {both[1].get(k)}" for k in keys)[:300]


def settled(state: Facts) -> Facts:
	"""A state without what its ZeRO stage does not read."""
	if not (plugin := state.get("deepspeed_plugin")) or plugin["zero_stage"] == 3:
		return state
	zero = {**plugin["deepspeed_config"]["zero_optimization"], "offload_param": None}
	config = {**plugin["deepspeed_config"], "zero_optimization": zero}
	unread = {"offload_param_device": "none", "deepspeed_config": config, "hf_ds_config": None}
	return {**state, "deepspeed_plugin": {**plugin, **unread}}


def other_fsdp(before: Facts, after: Facts, said: set[str]) -> Iterator[str]:
	old, new = before["fsdp_plugin"], after["fsdp_plugin"]
	if old.get("fsdp_version") == 2:
		return
	strategy = str(old.get("sharding_strategy", ""))
	if "NO_SHARD" in strategy:
		if new:
			yield "NO_SHARD is sharded"
		return
	if new.get("reshard_after_forward") is not ("GRAD_OP" not in strategy and "ZERO2" not in strategy):
		yield f"{strategy}: reshard {new.get('reshard_after_forward')}"
	shape = (after.get("mesh") or {}).get("shape") or []
	if (
		"HYBRID" in strategy
		and "fsdp_sharding_strategy" not in said
		and before["num_processes"] > 8
		and len([size for size in shape if size > 1]) != 2
	):
		yield f"{strategy}: mesh {shape}"
	yield from senses(old, new, FIELDS, said)
	same = ("num_processes", "mixed_precision", "distributed_type")
	yield from (f"{name}: {before[name]} and {after[name]}" for name in same if before[name] != after[name])


def other_backend(before: Facts, after: Facts, said: set[str]) -> Iterator[str]:
	one, other = sharded(before), sharded(after)
	for name, settings in NEAREST.items():
		if one[name] != other[name] and not said & set(settings.split()):
			yield f"{name}: {one[name]} and {other[name]}"


NEAREST = {
	"weights in shards": "zero_stage distributed_type fsdp_sharding_strategy",
	"offload": "offload_optimizer_device offload_param_device fsdp_offload_params",
	"precision": "bf16.enabled fp16.enabled",
	"processes": "",
}


def sharded(state: Facts) -> dict[str, Any]:
	zero, fsdp = state.get("deepspeed_plugin") or {}, state.get("fsdp_plugin") or {}
	first = fsdp.get("fsdp_version") != 2
	whole = "FULL_SHARD" in str(fsdp.get("sharding_strategy")) if first else fsdp["reshard_after_forward"]
	device, config = str(zero.get("offload_optimizer_device", "none")), zero.get("deepspeed_config", {})
	chosen = next((name for name in ("bf16", "fp16") if config.get(name, {}).get("enabled") is True), None)
	return {
		"weights in shards": zero["zero_stage"] == 3 if zero else bool(whole),
		"offload": device != "none" or sense(fsdp.get("cpu_offload")) == "True",
		"precision": chosen or state["mixed_precision"],
		"processes": state["num_processes"],
	}


def senses(one: Facts, other: Facts, names: Sequence[str], said: set[str]) -> Iterator[str]:
	for name in names:
		if sense(one.get(name)) != sense(other.get(name)) and f"fsdp_{name}" not in said:
			yield f"{name}: {one.get(name)} and {other.get(name)}"


def sense(value: Any) -> str:
	text = str(value)
	if "Offload" in text:
		return str("CPUOffloadPolicy" in text or "offload_params=True" in text)
	return "False" if text == "None" else text
