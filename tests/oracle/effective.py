"""What the validator says takes effect, setting by setting, against the real launcher and plugins.

    python -m tests.oracle.effective [--cases 300] [--release 1.15.0 …] [--seed 6] [--show 40]

Runs are drawn from dense tables: file, flags, environment and constructor arguments. A setting is one argument of the
launcher, one variable, one field of torchrun, or one field of a plugin. Open settings are counted apart.
"""

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml
from tests.oracle import environment
from tests.oracle.client import Answer, Oracle
from tests.oracle.effective_runs import Drawn, drawn
from tests.oracle.worker import HANDED_OVER

from distributed_training_backends.flow import effective
from distributed_training_backends.model import Context, Extent
from distributed_training_backends.sources.command import Word, launch_document
from distributed_training_backends.sources.document import OPEN, Document
from distributed_training_backends.sources.limits import Unreadable
from distributed_training_backends.sources.load import load
from distributed_training_backends.sources.python_values import Made
from distributed_training_backends.sources.reading import decode

RELEASES = ("0.30.1", "0.34.2", "1.4.0", "1.8.1", "1.12.0", "1.15.0")
WANTED = 0.98
GPUS = 8
# How the launcher was called, a path of the machine, what `prepare` reads only later, and torchao's own object.
NOT_SETTINGS = (
    "argument.config_file",
    "argument.nondefault",
    "variable.PYTHONPATH",
    "deepspeed_plugin.transformer_moe_cls_names",
    "ao_recipe_handler.config",
)
DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32"}
POLICIES = {"transformer_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "size_based_auto_wrap_policy": "SIZE_BASED_WRAP"}
HANDLERS = ("ao_recipe_handler", "te_recipe_handler", "msamp_recipe_handler", "fp8_recipe_handler")
PLUGINS = ("fsdp_plugin", "megatron_lm_plugin", "dynamo_plugin", "parallelism_config", *HANDLERS)
STATE = ("distributed_type", "num_processes", "mixed_precision", "gradient_accumulation_steps")


# --- the two sides -------------------------------------------------------------------------------------------


def question(run: Drawn) -> Answer:
    files = {"config.yaml": yaml.safe_dump(run.config, sort_keys=False)}
    files |= {"ds.json": json.dumps(run.deepspeed)} if run.deepspeed is not None else {}
    asked: Answer = {"mode": "launch", "files": files, "config": "config.yaml", "flags": list(run.flags), "gpus": GPUS}
    return {**asked, "environment": dict(run.variables), "python": {k: dict(v) for k, v in run.python.items()}}


def ours(run: Drawn, release: str) -> dict[str, Any]:
    found = effective.run_of(documents(run), release, Context())
    settings = effective.effective(found).settings if found is not None else ()
    return {one.name: OPEN if one.state == "open" else one.value for one in settings}


def documents(run: Drawn) -> list[Any]:
    asked = question(run)
    found: list[Any] = []
    for name, text in asked["files"].items():
        raw = decode(text.encode(), name)
        if not isinstance(raw, Unreadable):
            found.append(load(raw, "deepspeed" if name == "ds.json" else "accelerate"))
    kinds = (("environment", dict(run.variables)), ("python", {"calls": calls(run)}))
    words = [Word(word, Extent(0, 0)) for word in ("--config_file", "config.yaml", *run.flags, "train.py")]
    found.append(launch_document("<launch>", "", Word("accelerate", Extent(0, 0)), words, {}))
    return found + [Document(f"<{kind}>", kind, "json", "", data, {}) for kind, data in kinds]  # type: ignore[arg-type]


def calls(run: Drawn) -> list[dict[str, Any]]:
    """The constructor calls, each after those whose objects it is given."""
    names = sorted(run.python, key=lambda name: (name == "Accelerator", name == "ParallelismConfig"))
    found: list[dict[str, Any]] = [{"name": name, "arguments": dict(run.python[name])} for name in names]
    for place, name in enumerate(names):
        owner, _, parameter = HANDED_OVER.get(name, "").partition(".")
        if owner in names:
            found[names.index(owner)]["arguments"][parameter] = Made(name, place)
    return found


def theirs(answer: Answer) -> dict[str, Any] | None:
    """What the library did, by the emulation's names; None where it refused to launch."""
    facts = answer["facts"]
    launch = facts.get("launch") or (facts if answer.get("stage") == "launched" else None)
    if launch is None or not launch["arguments"]:
        return None
    found = {f"argument.{name}": value for name, value in launch["arguments"].items()}
    found |= {f"variable.{name}": value for name, value in launch["environment"].items()}
    found |= {f"torchrun.{name}": value for name, value in (launch["torchrun"] or {}).items()}
    if launch["command"]:
        words = ["python" if word.endswith("/python") else word for word in launch["command"]]
        found["command.line"] = words
    state = facts.get("state")
    return found | (dict(of_worker(state)) if state and answer["verdict"] == "accepted" else {})


def of_worker(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((f"accelerator.{name}", state[name]) for name in STATE)
    for plugin in PLUGINS:
        for name, value in (state[plugin] or {}).items() if isinstance(state[plugin], dict) else ():
            yield from plain_fields(plugin, name, value)
    deepspeed = state["deepspeed_plugin"]
    for name, value in (deepspeed or {}).items() if isinstance(deepspeed, dict) else ():
        if name == "deepspeed_config":
            yield from flat(f"deepspeed_plugin.{name}", value)
        elif name not in ("hf_ds_config", "_selected"):
            yield f"deepspeed_plugin.{name}", value


def plain_fields(plugin: str, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """One field; handlers in their parts, and what a plugin makes of its own fields left out."""
    if name == "megatron_lm_default_args":
        yield from ((f"{plugin}.{name}.{kind}", value[kind]) for kind in ("fp16", "bf16") if kind in value)
    elif name.endswith("_handler"):
        for part in re.findall(r"(\w+)=('[^']*'|\w+)", value or ""):
            yield f"{plugin}.{name}.{part[0]}", yaml.safe_load(part[1].replace("None", "null"))
    elif name not in ("param_init_fn", "_sizes", "device_mesh", "cp_backend_config"):
        yield f"{plugin}.{name}", simple(name, value)


def flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(f"{path}.{key}", inner)
    else:
        yield path, value


def simple(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if found := re.fullmatch(r"<\w+\.(\w+): .*>", value):
        return found[1]
    if name == "cpu_offload":
        return value.startswith("CPUOffloadPolicy") or "offload_params=True" in value
    if name == "mixed_precision_policy" and (found := re.search(r"reduce_dtype=([\w.]+)", value)):
        return DTYPES.get(found[1], value)
    if name == "auto_wrap_policy":
        return next((word for end, word in POLICIES.items() if value.endswith(f"{end}>")), value)
    return value.replace(", _use_dtensor=False", "")


# --- comparing -----------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One setting of one run on which both sides differ."""

    release: str
    number: int
    name: str
    ours: Any
    theirs: Any


class Tally(NamedTuple):
    """How a comparison went."""

    counts: Counter[str]
    rows: list[Row]

    @property
    def share(self) -> float:
        return self.counts["equal"] / max(1, self.counts["equal"] + len(self.rows))


MISSING = "(not there)"


def equal(one: Any, other: Any) -> bool:
    return bool(json.loads(json.dumps(one, default=str)) == other) and isinstance(one, bool) == isinstance(other, bool)


def compare(run: Drawn, number: int, release: str, oracle: Oracle, tally: Tally) -> None:
    real = theirs(oracle.ask(question(run)))
    tally.counts["runs refused by the launcher" if real is None else "runs"] += 1
    if real is None:
        return
    said = ours(run, release)
    inside = any(name.startswith("accelerator.") for name in real)
    tally.counts["runs built"] += inside
    names = set(real) | {name for name in said if inside or name.startswith(("argument.", "variable.", "torchrun."))}
    if said.get("accelerator.fp8_backend") is OPEN:
        names -= {name for name in names if name.partition(".")[0] in HANDLERS}
    for name in sorted(names - set(NOT_SETTINGS)):
        one, other = said.get(name, MISSING), real.get(name, MISSING)
        if one is OPEN:
            tally.counts["open"] += 1
        elif equal(one, other):
            tally.counts["equal"] += 1
            tally.counts[name.partition(".")[0]] += 1
        else:
            tally.rows.append(Row(release, number, name, one, other))


def run_all(cases: int, releases: tuple[str, ...], seed: int) -> Tally:
    tally = Tally(Counter(), [])
    for release in releases:
        rng = random.Random(f"{seed} {release}")
        with Oracle(environment.default(), "accelerate", release) as oracle:
            for number in range(cases // len(releases)):
                compare(drawn(rng, release), number, release, oracle, tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--release", action="append")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--show", type=int, default=40, help="how many disagreements to print")
    options = parser.parse_args()
    tally = run_all(options.cases, tuple(options.release or RELEASES), options.seed)
    for row in tally.rows[: options.show]:
        print(f"{row.release} #{row.number} {row.name}: ours {row.ours!r}, theirs {row.theirs!r}")
    print(", ".join(f"{name} {count}" for name, count in sorted(tally.counts.items())))
    print(f"{tally.share:.2%} of {tally.counts['equal'] + len(tally.rows)} settings equal, {len(tally.rows)} differ")
    return int(tally.share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
