"""Which keys does anything read? Asks the library with each key left out and changed, and looks for any difference.

    python -m tests.oracle.liveness [--accelerate 1.15.0] [--quick]

A key is live when some other value changes what is launched or built, `env_only` when only an environment variable
changes that nothing reads, and dead when nothing changes. The validator must warn about keys of the last two kinds
unless they hold the value that takes effect anyway: the one that the launcher works with when the key is left out.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from tests.oracle import environment
from tests.oracle.cases import Case, questions
from tests.oracle.client import Oracle
from tests.oracle.environment import PINS, ROOT
from tests.oracle.judge import Judgement, judge
from tests.oracle.mutations import Path as KeyPath
from tests.oracle.mutations import dump, mapping_at

Status: TypeAlias = Literal["live", "env_only", "dead"]
Outcome: TypeAlias = Literal["warned", "silent"]
FOLDER = ROOT / "tests" / "cases" / "liveness"
# Blocks whose keys the launcher knows under a prefix.
PREFIXES = {"fsdp_config": "fsdp", "fp8_config": "fp8", "dynamo_config": "dynamo_"}
WORDS = (
    ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"),
    ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
    ("FULL_STATE_DICT", "SHARDED_STATE_DICT"),
    ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"),
    ("none", "cpu", "nvme"),
    ("no", "fp16", "bf16"),
    ("static", "c10d"),
    ("allgather", "alltoall"),
    ("default", "reduce-overhead", "max-autotune"),
    ("INDUCTOR", "EAGER", "NO"),
    ("pdsh", "standard", "openmpi"),
    ("max", "most_recent"),
    ("HYBRID", "E4M3", "E5M2"),
    ("O1", "O2"),
    ("TE", "AO", "MSAMP"),
    ("all", "0,1", "2,3"),
    ("sdpa", "flash_attention_2"),
)
# Plausible values for keys that a file leaves empty.
FOR_EMPTY = {
    "main_process_ip": "10.0.0.7",
    "tpu_name": "pod-1",
    "tpu_zone": "us-central2-b",
    "command_file": "setup.sh",
    "commands": ["ls"],
    "tpu_vm": ["vm-1"],
    "tpu_env": ["LOG=1"],
}
UNKNOWN = object()


class Trial(NamedTuple):
    """One value of a key (None in `left_out` cases) and what it changes against the config as it is."""

    value: Any
    left_out: bool
    accepted: bool
    changes: bool
    changes_environment: bool


class Key(NamedTuple):
    """One key of a config: what was tried, and the value that takes effect without it (UNKNOWN: there is none)."""

    path: KeyPath
    value: Any
    trials: tuple[Trial, ...]
    effective: Any

    @property
    def status(self) -> Status:
        if any(trial.changes for trial in self.trials):
            return "live"
        return "env_only" if any(trial.changes_environment for trial in self.trials) else "dead"


# --- the library's side --------------------------------------------------------------------------------------


def configs() -> list[Case]:
    """The configs whose keys are probed, with the DeepSpeed files that some of them name."""
    companions = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.json")}
    named = sorted(FOLDER.glob("*.yaml"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in named}
    return [
        Case(name, "accelerate", text, group="liveness", files={k: v for k, v in companions.items() if k in text})
        for name, text in texts.items()
    ]


def probe(oracle: Oracle, case: Case) -> Iterator[Key]:
    """Every key of a config and of its blocks."""
    flags = questions(case)["launch"]["flags"]
    base = ask(oracle, case, flags)
    for path in key_paths(case.data):
        value = mapping_at(case.data, path[:-1])[path[-1]]
        without = ask(oracle, changed(case, path, UNKNOWN), flags)
        trials = [trial(base, without, None, left_out=True)]
        for other in alternatives(path[-1], value):
            trials.append(trial(base, ask(oracle, changed(case, path, other), flags), other))
        yield Key(path, value, tuple(trials), effective_value(without, path))


def key_paths(data: dict[str, Any]) -> Iterator[KeyPath]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from ((key, inner) for inner in value)
        else:
            yield (key,)


def ask(oracle: Oracle, case: Case, flags: Sequence[str]) -> dict[str, Any]:
    """Ask with the flags of the config as it is: what a changed one leaves open is a change, too."""
    return oracle.ask({**questions(case)["launch"], "flags": list(flags)})


def changed(case: Case, path: KeyPath, value: Any) -> Case:
    """The case with another value, or (UNKNOWN) without the key; the files beside it stay."""
    data = copy.deepcopy(case.data)
    mapping = mapping_at(data, path[:-1])
    if value is UNKNOWN:
        del mapping[path[-1]]
    else:
        mapping[path[-1]] = value
    return replace(case, text=dump(data, case.suffix), files=case.companions)


def trial(base: dict[str, Any], answer: dict[str, Any], value: Any, left_out: bool = False) -> Trial:
    changes = fingerprint(base) != fingerprint(answer)
    environment_changes = fingerprint(base, environment=True) != fingerprint(answer, environment=True)
    return Trial(value, left_out, answer["verdict"] == "accepted", changes, environment_changes)


def fingerprint(answer: dict[str, Any], environment: bool = False) -> str:
    """Everything that is launched or built; with `environment` also variables that perhaps nothing reads."""
    facts = answer.get("facts") or {}
    launch = facts.get("launch") or facts
    seen = {name: launch.get(name) for name in ("route", "command", "torchrun", "sagemaker")}
    seen |= {name: facts.get(name) for name in ("state", "process_groups", "deepspeed")}
    seen |= {"verdict": answer["verdict"], "error": (answer.get("error") or {}).get("message")}
    if environment:
        seen["environment"] = launch.get("environment")
    return json.dumps(seen, sort_keys=True)


def effective_value(without: dict[str, Any], path: KeyPath) -> Any:
    """What the launcher's arguments hold when the file does not have the key."""
    facts = without.get("facts") or {}
    arguments = (facts.get("launch") or facts).get("arguments") or {}
    prefix = PREFIXES.get(path[0], "") if len(path) > 1 else ""
    name = path[-1] if path[-1].startswith(prefix) else prefix.rstrip("_") + "_" + path[-1]
    return arguments.get(name, UNKNOWN)


def alternatives(key: str, value: Any) -> list[Any]:
    """Other values of the same type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value + 4]
    if isinstance(value, float):
        return [2 * value + 0.5]
    if value is None:
        return [FOR_EMPTY.get(key, "other"), 3]
    if key in FOR_EMPTY and not value:
        return [FOR_EMPTY[key]]
    if isinstance(value, str):
        return next(
            ([word for word in words if word != value] for words in WORDS if value in words), ["other", "/other"]
        )
    return [["other"]]


# --- the validator's side ------------------------------------------------------------------------------------


class Expectation(NamedTuple):
    """One value of one key, and whether the validator may, must or must not warn about it."""

    config: str
    release: str
    key: Key
    value: Any
    must_warn: bool
    findings: tuple[str, ...]

    @property
    def group(self) -> str:
        if self.key.status == "live":
            return "live"
        return "unread, another value" if self.must_warn else "unread, the value in effect"

    @property
    def met(self) -> bool:
        return bool(self.findings) == self.must_warn


def expectations(case: Case, key: Key, release: str) -> Iterator[Expectation]:
    """The values of a key on which the validator is checked: as it is, as tried, and as it takes effect."""
    values = [key.value, *(trial.value for trial in key.trials if not trial.left_out and trial.accepted)]
    if key.status == "live":  # a value that comes out as the one before it is not the point here
        values = [
            key.value,
            *(trial.value for trial in key.trials if trial.accepted and trial.changes and not trial.left_out),
        ]
    elif key.effective is not UNKNOWN:
        values.append(key.effective)
    for value in unique(values):
        said = judge(changed(case, key.path, value), {"accelerate": release})
        must_warn = key.status != "live" and not same(value, key.effective)
        yield Expectation(case.name, release, key, value, must_warn, tuple(warnings_at(said, key.path)))


def unique(values: Sequence[Any]) -> Iterator[Any]:
    seen: set[str] = set()
    for value in values:
        if json.dumps(value) not in seen:
            seen.add(json.dumps(value))
            yield value


def same(value: Any, effective: Any) -> bool:
    """The launcher turns most values into text, so that true and "true" are one value."""
    if effective is UNKNOWN or value is None or effective is None:
        return value is effective
    return value == effective or str(value).lower() == str(effective).lower()


def warnings_at(said: Judgement, path: KeyPath) -> Iterator[str]:
    pointer = "/" + "/".join(path)
    for finding in said.findings:
        if finding.pointer == pointer and finding.severity != "info":
            yield f"{finding.severity} {finding.code}: {finding.message}"


# --- the command line ----------------------------------------------------------------------------------------


def check(oracle: Oracle, release: str, drawn: Sequence[Case]) -> list[Expectation]:
    return [
        expectation for case in drawn for key in probe(oracle, case) for expectation in expectations(case, key, release)
    ]


def summary(found: Sequence[Expectation]) -> str:
    count = Counter((expectation.group, expectation.met) for expectation in found)
    lines = ["| keys | values | as expected | share |", "|---|---:|---:|---:|"]
    for group in ("unread, another value", "unread, the value in effect", "live"):
        good, total = count[group, True], count[group, True] + count[group, False]
        lines.append(f"| {group} | {total} | {good} | {100 * good / total if total else 100:.1f} % |")
    return "\n".join(lines)


def describe(expectation: Expectation) -> str:
    key = expectation.key
    effective = "unknown to the launcher" if key.effective is UNKNOWN else f"{key.effective!r} takes effect"
    said = "; ".join(expectation.findings) or "no warning"
    where = f"{expectation.config}, accelerate {expectation.release}"
    return f"- {where}: {'.'.join(key.path)}: {expectation.value!r} is {key.status} ({effective}): {said}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare warnings about unread keys with what the library reads.")
    parser.add_argument("--accelerate", default=PINS["accelerate"], metavar="RELEASES")
    parser.add_argument("--quick", action="store_true", help="four configs only")
    parser.add_argument("--output", type=Path, help="file for everything that differs")
    options = parser.parse_args(arguments)
    drawn = configs()
    if options.quick:
        drawn = random.Random(0).sample(drawn, 4)
    home = environment.default()
    found: list[Expectation] = []
    for release in options.accelerate.split(","):
        with Oracle(home, "accelerate", release) as oracle:
            found += check(oracle, release, drawn)
    different = [describe(expectation) for expectation in found if not expectation.met]
    text = summary(found) + "\n\n" + "\n".join(different) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
