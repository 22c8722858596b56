"""DeepSpeed ↔ FSDP in the same file, by the rows of data/conversions.json.gz."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..model_convert import BadConversionError, Status
from ..sources.writing import write
from ..versions import covers
from .draft import Draft, entries
from .fsdp2 import require_release, to_ddp
from .source import OFF_DEVICES, STRATEGIES, Source, leaves, table

ZERO, FSDP = "deepspeed_config", "fsdp_config"
PRECISIONS = ("bf16", "fp16")
# What a DeepSpeed file says that shows in no result: how it computes, talks and logs.
ENGINE = "DeepSpeed's own, and FSDP has no such setting"


def to_fsdp(source: Source) -> Draft:
    """A DeepSpeed run under FSDP: FSDP2 where the release has it."""
    if source.launch.route != "deepspeed":
        hint = ": --to fsdp2 brings FSDP1 to FSDP2" if source.launch.route == "fsdp" else ""
        raise BadConversionError(f"{source.document.path} runs {source.launch.distributed_type}, not DeepSpeed{hint}")
    second = source.since("1.6.0")
    if second:
        require_release(source)
    draft = Draft(source.document)
    precision(draft, source)
    parallel(draft, source, "deepspeed")
    said = dict(zero_settings(draft, source))
    if source.zero_stage == 0:
        to_ddp(draft, source, "ZeRO stage 0 shards nothing, nor does MULTI_GPU")
        return draft
    renamed = {one: other for one, other in renames(second) if other in said}
    fill(draft, ZERO, FSDP, {**first_settings(source, second), **said}, renamed)
    draft.set(("distributed_type",), "FSDP")
    if not source.document.has(ZERO, "zero3_init_flag") and source.zero_stage < 3:
        draft.note("open", "fsdp_cpu_ram_efficient_loading", "true by default: only rank 0 reads the weights")
    return draft


def first_settings(source: Source, second: bool) -> dict[str, Any]:
    """What FSDP needs said that ZeRO has no word for."""
    version = {"fsdp_version": 2} if second else {"fsdp_use_orig_params": True, "fsdp_sync_module_states": True}
    known = source.launch.arguments
    first = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", **version}
    return {name: value for name, value in first.items() if name in known}


def renames(second: bool) -> Iterator[tuple[str, str]]:
    """Keys of the block, and what takes their place: the entry keeps its line and comment."""
    for row in table("backends"):
        fsdp = row["fsdp"][0 if second else -1]
        yield row["deepspeed"][0], fsdp


def zero_settings(draft: Draft, source: Source) -> Iterator[tuple[str, Any]]:
    """The settings of FSDP that DeepSpeed's come to, with a note on each."""
    yield from sharding(draft, source)
    yield from offload(draft, source)
    flag = source.launch.value("zero3_init_flag")
    if flag is not None:
        told = f"fsdp_cpu_ram_efficient_loading: {write(flag, 'yaml')}"
        draft.note("same", "zero3_init_flag", told, *at(source, "zero3_init_flag"))
        yield "fsdp_cpu_ram_efficient_loading", flag
    path = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
    whole = source.zero("zero3_save_16bit_model", path) is True
    spans = table("fsdp2", "values", "fsdp_state_dict_type", "unsupported")
    lacks = covers(spans["FULL_STATE_DICT"], source.targets.accelerate)
    kind = "FULL_STATE_DICT" if whole and not lacks else "SHARDED_STATE_DICT"
    status: Status = "changed" if whole and lacks else "same"
    draft.note(status, "zero3_save_16bit_model", f"fsdp_state_dict_type: {kind}", *at(source, "zero3_save_16bit_model"))
    yield "fsdp_state_dict_type", kind
    only_deepspeed(draft, source)


def sharding(draft: Draft, source: Source) -> Iterator[tuple[str, Any]]:
    """The ZeRO stage as FSDP says it."""
    value: Any
    stage = source.zero_stage
    strategy = next(one for one in STRATEGIES if one.zero == (2 if stage == 1 else min(stage, 3)))
    name, value = "fsdp_sharding_strategy", strategy.name
    if source.since("1.6.0"):
        name, value = "fsdp_reshard_after_forward", strategy.reshard
    told = f"ZeRO-{stage} is {name}: {write(value, 'yaml')}"
    if stage == 1:
        told = f"FSDP has nothing like ZeRO-1; {name}: {write(value, 'yaml')} shards gradients too"
    if stage > 0:
        draft.note("changed" if stage == 1 else "same", "zero_stage", told, *at(source, "zero_stage"))
        yield name, value


def offload(draft: Draft, source: Source) -> Iterator[tuple[str, Any]]:
    """FSDP offloads all or nothing, to the CPU."""
    places = {}
    for what in ("optimizer", "param"):
        place = source.zero(f"offload_{what}_device", f"zero_optimization.offload_{what}.device")
        if what == "param" and source.zero_stage < 3 and place not in OFF_DEVICES:
            told = f"ZeRO-{source.zero_stage} does not read it"
            draft.note("same", "offload_param_device", told, *at(source, "offload_param_device"))
        elif place not in OFF_DEVICES:
            places[f"offload_{what}_device"] = str(place)
    if not places:
        return
    for key, place in places.items():
        exact = len(places) == 2 and place == "cpu"
        only = "" if place == "cpu" else f"; FSDP has no {place}"
        moved = "the same" if exact else "weights, gradients and optimizer together"
        told = f"{place}: fsdp_offload_params: true moves {moved} to the CPU{only}"
        draft.note("same" if exact else "changed", key, told, *at(source, key))
    yield "fsdp_offload_params", True


def only_deepspeed(draft: Draft, source: Source) -> None:
    """What FSDP has no setting for: what to do instead."""
    told = {key for row in table("backends") for key in row["deepspeed"]}
    for row in table("only_deepspeed"):
        key, path = row["keys"][0], row["keys"][-1] if len(row["keys"]) > 1 else None
        told |= {key, path}
        value = source.zero(key or "", path)
        if value is None and key == "gradient_clipping" and source.since("0.30.0"):
            value = 1.0
        if value is not None and value != row.get("default"):
            draft.note("lost", str(key or path), instead(row["say"], value), *at(source, key or ""))
    for path, value in leaves(source.zero_file or {}):
        known = any(path == one or path.startswith(f"{one}.") for one in told if one)
        if not known and not silent(path, value):
            draft.note("lost", path, f"{write(value, 'json')[:80]}: {ENGINE}")


def instead(text: str, value: Any) -> str:
    """What to write in the place of a setting."""
    block = value if isinstance(value, Mapping) else {}
    params = write(block.get("params", {}), "json")
    return str(text.format(value=value, type=block.get("type", "it"), params=params))


def silent(path: str, value: Any) -> bool:
    """Tell of settings that say nothing: left to Accelerate, off, or told elsewhere."""
    return value in ("auto", None, False) or path.startswith(PRECISIONS) or path.endswith(("pin_memory", "nvme_path"))


def at(source: Source, key: str) -> tuple[str, ...]:
    """Where a setting stands in the Accelerate file; nowhere if it stands in the DeepSpeed file."""
    return (ZERO, key) if source.document.has(ZERO, key) else (ZERO, "deepspeed_config_file")


def precision(draft: Draft, source: Source) -> None:
    """What a DeepSpeed file says of bf16 and fp16, FSDP takes from mixed_precision."""
    chosen = source.launch.value("mixed_precision")
    for name in PRECISIONS if source.zero_file is not None else ():
        if source.zero("", f"{name}.enabled") is True:
            chosen = name
            draft.set(("mixed_precision",), name)
            draft.note("same", f"{name}.enabled", f"mixed_precision: {name}")
    if chosen in PRECISIONS:
        told = "DeepSpeed casts the whole model at the start, FSDP each unit while it computes"
        told = f"{chosen}: both keep weights in fp32 for the optimizer; {told}"
        draft.note("changed", "mixed_precision", told, "mixed_precision")


def parallel(draft: Draft, source: Source, backend: str) -> None:
    """Sizes of parallelism_config that only the other backend has; what remains shards over all processes."""
    rows = table("parallel", backend)
    block = dict(entries(source.document, "parallelism_config"))
    for key, value in block.items():
        why = next((text for prefix, text in rows.items() if key.startswith(prefix)), "")
        if why and key.endswith("_size") and value not in (None, 1, "1"):
            draft.note("lost", key, why, "parallelism_config", key)
    if block:
        draft.remove("parallelism_config")


def fill(draft: Draft, old: str, new: str, wanted: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
    """Make one block of another: entries that correspond are renamed, the others added or taken out."""
    if draft.document.has(new):
        if any(True for _ in entries(draft.document, new)):
            draft.note("same", new, "stood there without any effect, and gives way", new)
        draft.remove(new)
    here = [key for key in renamed if draft.document.has(old, key)]
    pairs = {renamed[key]: key for key in reversed(here)}
    if not pairs:
        draft.set((new,), dict(wanted))
        draft.remove(old)
        return
    for name, key in pairs.items():
        draft.rename((old, key), name, wanted[name])
    for name, value in wanted.items():
        if name not in pairs:
            draft.set((old, name), value)
    for key, _ in list(entries(draft.document, old)):
        if key not in wanted:
            draft.remove(old, key)
    draft.rename_block(old, new)


# --- the other way -------------------------------------------------------------------------------------------


def to_deepspeed(source: Source) -> Draft:
    """An FSDP run under DeepSpeed, with the settings in the block."""
    if source.launch.route != "fsdp":
        raise BadConversionError(f"{source.document.path} runs {source.launch.distributed_type}, not FSDP")
    draft = Draft(source.document)
    parallel(draft, source, "fsdp")
    wanted = dict(fsdp_settings(draft, source))
    fill(draft, FSDP, ZERO, wanted, dict(fsdp_renames(source, wanted)))
    draft.set(("distributed_type",), "DEEPSPEED")
    if draft.document.get("mixed_precision") in PRECISIONS:
        told = "both keep weights in fp32 for the optimizer; DeepSpeed casts the whole model at the start"
        draft.note("changed", "mixed_precision", told, "mixed_precision")
    if source.since("0.30.0"):
        told = "DeepSpeed clips at 1.0 unless told, and accelerator.clip_grad_norm_ does nothing there"
        draft.note("open", "gradient_clipping", f"{told}: write what the script has")
    draft.note("open", "gradient_accumulation_steps", "counts from here, not from the script, once it is written")
    return draft


def fsdp_renames(source: Source, wanted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys of fsdp_config as the file spells them, and what takes their place."""
    keys = source.keys(FSDP)
    for row in table("backends"):
        for option in row["fsdp"]:
            if option in keys and row["deepspeed"][0] in wanted:
                yield keys[option], row["deepspeed"][0]


def fsdp_settings(draft: Draft, source: Source) -> Iterator[tuple[str, Any]]:
    """The settings of DeepSpeed that FSDP's come to, with a note on each."""
    strategy, keys = source.strategy, source.keys(FSDP)
    named = "fsdp_reshard_after_forward" if source.fsdp2 else "fsdp_sharding_strategy"
    told = f"{strategy.name} is ZeRO-{strategy.zero}" + (", which shards over all machines" if strategy.hybrid else "")
    draft.note("changed" if strategy.hybrid else "same", named, told, FSDP, keys.get(named, named))
    yield "zero_stage", strategy.zero
    if source.launch.value("num_machines") not in (None, 1) and not source.launch.given("deepspeed_multinode_launcher"):
        draft.note("added", "deepspeed_multinode_launcher", "standard: torchrun on each machine, as for FSDP")
        yield "deepspeed_multinode_launcher", "standard"
    offloads = source.on("fsdp_offload_params")
    if offloads and not strategy.zero:
        draft.note("lost", "fsdp_offload_params", "stage 0 offloads nothing", FSDP, keys.get("fsdp_offload_params", ""))
    elif offloads:
        draft.note("same", "fsdp_offload_params", "offload to the CPU", FSDP, keys.get("fsdp_offload_params", ""))
        yield "offload_optimizer_device", "cpu"
        if strategy.zero == 3:
            yield "offload_param_device", "cpu"
    if strategy.zero == 3:
        loading = source.on("fsdp_cpu_ram_efficient_loading")
        draft.note("same", "fsdp_cpu_ram_efficient_loading", f"zero3_init_flag: {str(loading).lower()}")
        yield "zero3_init_flag", loading
        kind = source.launch.value("fsdp_state_dict_type") or ("SHARDED" if source.fsdp2 else "FULL")
        whole = str(kind).upper().startswith("FULL")
        draft.note("same", "fsdp_state_dict_type", f"zero3_save_16bit_model: {str(whole).lower()}")
        yield "zero3_save_16bit_model", whole
    for option, why in table("only_fsdp").items():
        value = source.launch.value(option)
        if option in keys and why and value not in (None, False, "false", "NO_WRAP"):
            harmless = option in ("fsdp_use_orig_params", "fsdp_sync_module_states") and source.on(option)
            draft.note("same" if harmless else "lost", option, f"{value}: {why}", FSDP, keys[option])
