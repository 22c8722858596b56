"""Which keys does anything read? Asks the library with each key left out and changed, and looks for any difference.

    python -m tests.oracle.liveness [--quick]

A key is live when some other value changes what is launched or built, `env_only` when only an environment variable
changes that nothing reads, and dead when nothing changes. The validator must warn about keys of the last two kinds
unless they hold the value that takes effect anyway: the one that the launcher or its plugin works with when the key is
left out, or one that says in other words what happens (IN_OTHER_WORDS). A warning about the key or about the whole
block counts. About a live key nothing may say that it is not read; other warnings about its values are their own.
"""

import argparse
import copy
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml
from tests.oracle import environment
from tests.oracle.cases import Case, questions
from tests.oracle.client import Oracle
from tests.oracle.environment import PINS, ROOT
from tests.oracle.judge import Judgement, Said, judge
from tests.oracle.mutations import Path as KeyPath
from tests.oracle.mutations import dump, mapping_at

import packed

Status: TypeAlias = Literal["live", "env_only", "dead"]
CONFIGS = ROOT / "tests" / "cases" / "liveness.yaml.gz"
FREE_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
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
# Rules that say of a key, or of the block around it, that nothing reads it.
UNREAD = (
	*("ACC020", "ACC021", "ACC022", "ACC024", "ACC030", "FSD002", "FSD003", "FSD004"),
	*("PAR002", "PAR031", "PRC014", "PRC015"),
)
# Spellings of "off" and of "not given". The FSDP plugin turns NO_PREFETCH into None.
OFF = ("", "[]", "{}", "false", "no", "none", "off", "null", "no_prefetch")
# Variables that torch reads where workers meet, which the oracle's process group does not do for real.
MEETING_POINT = ("MASTER_ADDR", "MASTER_PORT")
# What the promise asks for: the least share of values of each group that are judged as expected.
LEAST = {"unread, another value": 0.98, "unread, the value in effect": 1.0, "live": 0.99}


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


# --- the library's side ---


def configs() -> list[Case]:
	pool = yaml.safe_load(packed.unpacked(CONFIGS))
	companions = {"zero3.json": json.dumps(pool["deepspeed_file"])}
	texts = {name: dump(config, ".yaml") for name, config in pool["configs"].items()}
	return [
		Case(name, "accelerate", text, group="liveness", files={k: v for k, v in companions.items() if k in text})
		for name, text in texts.items()
	]


def probe(oracle: Oracle, case: Case) -> Iterator[Key]:
	"""Every key of a config and of its blocks; nothing of a config that is refused, which tells nothing about them."""
	flags = questions(case)["launch"]["flags"]
	base = ask(oracle, case, flags)
	if base["verdict"] != "accepted":
		return
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
	seen = {name: launch.get(name) for name in ("route", "torchrun", "sagemaker")}
	seen |= {name: facts.get(name) for name in ("state", "process_groups", "deepspeed")}
	seen |= {"verdict": answer["verdict"], "error": (answer.get("error") or {}).get("message")}
	seen["command"] = [Path(part).name if part.endswith("/python") else part for part in launch.get("command") or ()]
	variables = launch.get("environment") or {}
	# MULTI_CPU without `mpirun_config` is started under a mpirun of the user's own, as the documentation has it.
	under_mpirun = launch.get("route") == "simple_launcher" and variables.get("ACCELERATE_USE_CPU") == "True"
	if facts.get("process_groups") or under_mpirun:
		seen["meeting point"] = {name: variables.get(name) for name in MEETING_POINT}
	if environment:
		seen["environment"] = variables
	text = json.dumps(seen, sort_keys=True)
	if (launch.get("arguments") or {}).get("main_process_port") == 0:  # any free port, another one in each run
		text = FREE_PORT.sub("a free port", text)
	return text


def effective_value(without: dict[str, Any], path: KeyPath) -> Any:
	"""What the launcher's arguments, or else the FSDP plugin's switches, hold when the file does not have the key."""
	facts = without.get("facts") or {}
	arguments = (facts.get("launch") or facts).get("arguments") or {}
	prefix = PREFIXES.get(path[0], "") if len(path) > 1 else ""
	name = path[-1] if path[-1].startswith(prefix) else prefix.rstrip("_") + "_" + path[-1]
	plugin = (facts.get("state") or {}).get("fsdp_plugin") or {}
	switch = plugin.get(path[-1].removeprefix("fsdp_")) if path[0] == "fsdp_config" else None
	return arguments.get(name, switch if isinstance(switch, bool) else UNKNOWN)


def alternatives(key: str, value: Any) -> list[Any]:
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


# --- the validator's side ---


class Expectation(NamedTuple):
	"""One value of one key, and whether the validator may, must or must not warn about it."""

	config: str
	release: str
	key: Key
	value: Any
	in_effect: bool
	findings: tuple[Said, ...]

	@property
	def group(self) -> str:
		if self.key.status == "live":
			return "live"
		return "unread, the value in effect" if self.in_effect else "unread, another value"

	@property
	def met(self) -> bool:
		"""Whether the findings are as they must be; a warning about the whole block is none about a value in effect."""
		if self.key.status == "live":
			return not any(finding.code in UNREAD for finding in self.findings)
		here = [finding for finding in self.findings if finding.pointer == pointer(self.key.path)]
		return not here if self.in_effect else bool(self.findings)


def expectations(case: Case, key: Key, release: str) -> Iterator[Expectation]:
	"""The values of a key on which the validator is checked: as it is, as tried, and as it takes effect."""
	live = key.status == "live"  # a value that comes out as the one before it is not the point then
	tried = [trial for trial in key.trials if trial.accepted and not trial.left_out and (trial.changes or not live)]
	values = [key.value, *(trial.value for trial in tried)]
	if not live and key.effective is not UNKNOWN:
		values.append(key.effective)
	for value in unique(values):
		if key.effective is UNKNOWN and not live and value is not None and not normal(value):
			continue  # a name that nobody knows, said to be off: whether it is, nobody can tell
		said = judge(changed(case, key.path, value), {"accelerate": release})
		in_effect = same(value, key.effective) or in_other_words(case, key.path, value)
		yield Expectation(case.name, release, key, value, in_effect, tuple(warnings_at(said, key.path)))


def in_other_words(case: Case, path: KeyPath, value: Any) -> bool:
	"""Tell whether a value says what happens anyway, although the launcher's argument of that name holds another one.

	On one machine the workers meet on its loopback address, as `same_network: true` asks for; torchrun starts them
	there, as `deepspeed_multinode_launcher: standard` does; and FSDP1 has its strategy under another name.
	"""
	one_machine = case.data.get("num_machines") in (None, 1)
	if path == ("same_network",) or path[-1] == "deepspeed_multinode_launcher":
		return one_machine and value in (True, "standard")
	block = case.data.get(path[0])
	if path[-1] == "fsdp_reshard_after_forward" and isinstance(block, dict):
		return bool(block.get("fsdp_version", 1) == 1 and value == block.get("fsdp_sharding_strategy", "FULL_SHARD"))
	return False


def unique(values: Sequence[Any]) -> Iterator[Any]:
	seen: set[str] = set()
	for value in values:
		if json.dumps(value) not in seen:
			seen.add(json.dumps(value))
			yield value


def same(value: Any, effective: Any) -> bool:
	"""The launcher turns most values into text, so that true and "true" are one value; off has many spellings."""
	if effective is UNKNOWN:
		return value is None
	return value == effective or normal(value) == normal(effective)


def normal(value: Any) -> str:
	text = str(value).lower()
	return "" if text in OFF else text


def pointer(path: KeyPath) -> str:
	return "/" + "/".join(path)


def warnings_at(said: Judgement, path: KeyPath) -> Iterator[Said]:
	"""Findings above info about a key, and those that say of the block around it that it is not read."""
	for finding in said.findings:
		around = finding.pointer == pointer(path[:1]) and finding.code in UNREAD
		if (around or finding.pointer == pointer(path)) and finding.severity != "info":
			yield finding


# --- the command line ---


def check(oracle: Oracle, release: str, drawn: Sequence[Case]) -> list[Expectation]:
	return [
		expectation for case in drawn for key in probe(oracle, case) for expectation in expectations(case, key, release)
	]


def summary(found: Sequence[Expectation]) -> str:
	lines = ["| keys | values | as expected | share |", "|---|---:|---:|---:|"]
	for group, met in groups(found).items():
		lines.append(f"| {group} | {len(met)} | {sum(met)} | {100 * sum(met) / len(met) if met else 100:.1f} % |")
	return "\n".join(lines)


def kept(found: Sequence[Expectation]) -> bool:
	return all(sum(met) >= LEAST[group] * len(met) for group, met in groups(found).items())


def groups(found: Sequence[Expectation]) -> dict[str, list[bool]]:
	return {group: [expectation.met for expectation in found if expectation.group == group] for group in LEAST}


def describe(expectation: Expectation) -> str:
	key = expectation.key
	effective = "unknown to the launcher" if key.effective is UNKNOWN else f"{key.effective!r} takes effect"
	said = "; ".join(f"{one.severity} {one.code}: {one.message}" for one in expectation.findings) or "no warning"
	where = f"{expectation.config}, accelerate {expectation.release}"
	return f"- {where}: {'.'.join(key.path)}: {expectation.value!r} is {key.status} ({effective}): {said}"


def main(arguments: Sequence[str] | None = None) -> int:
	parser = argparse.ArgumentParser(description="Compare warnings about unread keys with what the library reads.")
	parser.add_argument("--quick", action="store_true", help="four configs only")
	options = parser.parse_args(arguments)
	drawn = configs()
	if options.quick:
		drawn = random.Random(0).sample(drawn, 4)
	home = environment.default()
	home.build()
	with Oracle(home, "accelerate", PINS["accelerate"]) as oracle:
		found = check(oracle, PINS["accelerate"], drawn)
	refused = {case.name for case in drawn} - {expectation.config for expectation in found}
	print(summary(found), "", *(describe(expectation) for expectation in found if not expectation.met), sep="\n")
	print(*(f"- {name} is refused, so that it tells nothing about its keys" for name in sorted(refused)), sep="\n")
	return int(not kept(found) or bool(refused))


if __name__ == "__main__":
	sys.exit(main())
