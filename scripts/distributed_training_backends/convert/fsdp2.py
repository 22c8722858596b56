"""FSDP1 → FSDP2 in the same file."""

from ..flow.effect import same
from ..model_convert import BadConversionError
from ..versions import covers, in_span
from .draft import Draft
from .source import Source, Strategy, table, truth

BLOCK = "fsdp_config"
RESHARD, STRATEGY = "fsdp_reshard_after_forward", "fsdp_sharding_strategy"


def to_fsdp2(source: Source) -> Draft:
    """The same run under FSDP2."""
    require_fsdp2(source)
    draft = Draft(source.document)
    if source.fsdp2:
        draft.note("same", "fsdp_version", "is 2 already", BLOCK, "fsdp_version")
        return draft
    strategy = source.strategy
    if strategy.reshard is None:
        to_ddp(draft, source, f"FSDP2 has no {strategy.name}: MULTI_GPU keeps whole copies, as it did")
        return draft
    version_and_strategy(draft, source, strategy)
    values(draft, source)
    dropped(draft, source)
    if strategy.hybrid:
        hybrid(draft, source, strategy)
    return draft


def require_fsdp2(source: Source) -> None:
    """Refuse what has no FSDP1 to convert, and releases without FSDP2."""
    if source.launch.route != "fsdp":
        kind = source.launch.distributed_type
        raise BadConversionError(f"{source.document.path} runs {kind}, not FSDP: --to fsdp converts DeepSpeed")
    require_release(source)


def require_release(source: Source) -> None:
    """Refuse releases without FSDP2."""
    if not source.since("1.6.0"):
        raise BadConversionError(f"accelerate {source.targets.accelerate} has no FSDP2: it came with 1.6.0")
    if not in_span(source.targets.torch, "2.6.0", None):
        raise BadConversionError(f"torch {source.targets.torch} has no FSDP2 for Accelerate: it needs 2.6.0")


def version_and_strategy(draft: Draft, source: Source, strategy: Strategy) -> None:
    """The version, and reshard_after_forward in the place of the strategy."""
    keys = source.keys(BLOCK)
    draft.set((BLOCK, keys.get("fsdp_version", "fsdp_version")), 2)
    reshard, named = keys.get(RESHARD), keys.get(STRATEGY)
    told = f"{strategy.name} is {RESHARD}: {str(strategy.reshard).lower()}"
    if reshard:
        written = source.document.get(BLOCK, reshard)
        ignored = strategy.name != str(written).upper() and not same(written, strategy.reshard)
        draft.note(
            "changed" if ignored else "same",
            RESHARD,
            f"FSDP1 ignored {written} and ran {strategy.name}; {told}, which keeps the run" if ignored else told,
            BLOCK,
            reshard,
        )
        draft.set((BLOCK, reshard), strategy.reshard)
        if named:
            draft.remove(BLOCK, named)
    elif named:
        draft.note("same", STRATEGY, told, BLOCK, named)
        new = RESHARD if named.startswith("fsdp") else RESHARD.removeprefix("fsdp_")
        draft.rename((BLOCK, named), new, strategy.reshard)
    else:
        draft.set((BLOCK, RESHARD), strategy.reshard)


def values(draft: Draft, source: Source) -> None:
    """What stays under its name, with another value or another default."""
    keys = source.keys(BLOCK)
    for option, row in table("fsdp2", "values").items():
        written = source.launch.value(option)
        old = str(written or row["default"]).upper()
        new = row["becomes"].get(old, "")
        if new and covers(row["unsupported"][old], source.targets.accelerate):
            told = f"FSDP2 of accelerate {source.targets.accelerate} has no {old}: {new}"
            draft.note("changed", option, told, BLOCK, keys.get(option, ""))
            draft.set((BLOCK, keys.get(option, option)), new)
        elif written is None:
            draft.note("added", option, f"{old}, FSDP1's default; FSDP2 takes another one")
            draft.set((BLOCK, keys.get(option, option)), old)


def dropped(draft: Draft, source: Source) -> None:
    """What FSDP2 does not read."""
    rows = table("fsdp2")
    for option, why in rows["dropped"].items():
        for key in [key for found, key in source.keys(BLOCK).items() if found == option]:
            value = source.document.get(BLOCK, key)
            lossy = any(same(value, other) for other in rows["lossy"][option])
            draft.note("lost" if lossy else "same", option, f"{value}: {why}", BLOCK, key)
            draft.remove(BLOCK, key)


def hybrid(draft: Draft, source: Source, strategy: Strategy) -> None:
    """Shards inside a node, copies across: sizes in parallelism_config."""
    machines, world = source.launch.value("num_machines"), source.launch.world
    if machines == 1:
        draft.note("same", STRATEGY, f"on one machine {strategy.name} shards over all of it, as plain FSDP2 does")
        return
    names = ("parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size")
    sized = isinstance(machines, int) and machines > 1 and world is not None and world % machines == 0
    if not sized or not source.since("1.10.0"):
        sizes = f"{names[0]} (machines) and {names[1]} (processes on each)"
        since = "" if source.since("1.10.0") else ", which came with accelerate 1.10.0"
        draft.note("lost", STRATEGY, f"{strategy.name} needs {sizes} in parallelism_config{since}: shards over all now")
        return
    for name, size in zip(names, (machines, world // machines), strict=True):
        draft.set(("parallelism_config", name), size)
    sizes = f"{machines} copies of {world // machines} shards"
    draft.note("same", STRATEGY, f"{strategy.name} on {machines} machines is {sizes} in parallelism_config")


def to_ddp(draft: Draft, source: Source, why: str) -> None:
    """Whole copies on every device: DistributedDataParallel."""
    block = "deepspeed_config" if source.launch.route == "deepspeed" else BLOCK
    draft.note("changed", "distributed_type", why, "distributed_type")
    for option, key in source.keys(block).items():
        value = source.document.get(block, key)
        if truth(value) and option in ("fsdp_offload_params", "fsdp_activation_checkpointing"):
            draft.note("lost", option, "MULTI_GPU has no such setting", block, key)
    draft.set(("distributed_type",), "MULTI_GPU")
    draft.remove(block)
