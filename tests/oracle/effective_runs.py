"""Runs to compare what takes effect on, drawn from the tables in tests/cases/effective.yaml.gz."""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import yaml
from tests.oracle.environment import ROOT

import packed
from distributed_training_backends.flow.placement import block_keys
from distributed_training_backends.knowledge import accelerate, accelerate_api

EXCLUDED = {  # arguments of Accelerator that a plugin stands for
    "GradientAccumulationPlugin": "gradient_accumulation_steps",
    "TorchDynamoPlugin": "dynamo_backend",
}


class Drawn(NamedTuple):
    """A run to compare."""

    config: dict[str, Any]
    flags: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    python: Mapping[str, Mapping[str, Any]] = {}
    deepspeed: dict[str, Any] | None = None


@cache
def tables() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(packed.unpacked(ROOT / "tests" / "cases" / "effective.yaml.gz"))
    return found


def upgrades() -> dict[str, Drawn]:
    return {name: Drawn(**run) for name, run in tables()["upgrades"].items()}


def some(rng: random.Random, table: Mapping[str, Any], share: float) -> dict[str, Any]:
    return {key: rng.choice(values) for key, values in table.items() if rng.random() < share}


def drawn(rng: random.Random, release: str) -> Drawn:
    routes = tables()["routes"]
    kind = rng.choices(list(routes), [route["weight"] for route in routes.values()])[0]
    route, options = routes[kind], accelerate.for_release(release).options
    wanted = tables()["flags"] if rng.random() < 0.6 else ()
    flags = [flag for flag in wanted if rng.random() < 0.06 and flag.split()[0][2:] in options]
    return Drawn(
        config_of(rng, kind, route, release),
        tuple(word for flag in flags for word in flag.split()),
        some(rng, tables()["variables"], 0.1) if rng.random() < 0.6 else {},
        dict(python_of(rng, route, release)) if rng.random() < 0.6 else {},
        some(rng, tables()["deepspeed_file"], 0.6) | {"zero_optimization": {"stage": 2}} if "file" in route else None,
    )


def config_of(rng: random.Random, kind: str, route: Mapping[str, Any], release: str) -> dict[str, Any]:
    """A file for `accelerate launch`, with nothing that the release does not know."""
    fields = accelerate.for_release(release).cluster_fields
    base = {"distributed_type": kind, "num_processes": 4, **some(rng, tables()["around"], 0.25)}
    base |= {key: dict(value) if isinstance(value, dict) else value for key, value in route.get("base", {}).items()}
    blocks = dict(route.get("blocks", {}))
    for block, table in [*blocks.items(), *([("dynamo_config", "dynamo")] if rng.random() < 0.3 else [])]:
        entries = {**base.get(block, {}), **some(rng, tables()[table], 0.45)}
        known = block_keys(block, release) | {"mixed_precision", "backend"}
        base[block] = {key: value for key, value in entries.items() if key in known}
    if rng.random() < route.get("shapes", 0):
        shape = rng.choice(tables()["shapes"])
        base["parallelism_config"] = {f"parallelism_config_{key}": size for key, size in shape.items()}
    return {key: value for key, value in base.items() if key in fields and key not in route.get("without", ())}


def python_of(rng: random.Random, route: Mapping[str, Any], release: str) -> Iterator[tuple[str, dict[str, Any]]]:
    of_accelerator, table = accelerate_api.parameters("Accelerator", release), tables()["python"]
    chosen = [rng.choice(route["python"])] if "python" in route else []
    chosen += [rng.choice(("TorchDynamoPlugin", "GradientAccumulationPlugin"))] if rng.random() < 0.4 else []
    without = {EXCLUDED.get(name) for name in chosen}
    for row in chosen:
        owner = row.partition("/")[0]
        known = accelerate_api.parameters(owner, release)
        if known and (owner != "TorchDynamoPlugin" or "dynamo_plugin" in of_accelerator):
            yield owner, {key: value for key, value in some(rng, table[row], 0.4).items() if key in known}
    given = some(rng, table["Accelerator"], 0.3)
    yield "Accelerator", {key: value for key, value in given.items() if key not in without}
