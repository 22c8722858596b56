"""What the validator says takes effect, setting by setting, against the real launcher and plugins.

    python -m tests.oracle.effective [--cases 400] [--release 1.15.0 …] [--seed 6] [--show 40]

Runs are drawn from the tables in tests/cases/effective.yaml.gz: file, flags, environment and constructor arguments. A
setting is one argument of the launcher, one variable, one field of torchrun or a plugin. Open ones are counted apart.
With a release of Transformers (1.15.0/5.24.0) the script has a Trainer, whose arguments are drawn.
"""

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import yaml
from tests.oracle import environment
from tests.oracle.client import Answer, Oracle
from tests.oracle.environment import ROOT
from tests.oracle.worker import HANDED_OVER

import packed
from distributed_training_backends.flow import effective
from distributed_training_backends.flow.placement import block_keys
from distributed_training_backends.knowledge import accelerate, accelerate_api
from distributed_training_backends.knowledge.transformers import nearest
from distributed_training_backends.model import Context, Extent
from distributed_training_backends.sources.command import Word, launch_document
from distributed_training_backends.sources.document import OPEN, Document
from distributed_training_backends.sources.python_values import Made
from distributed_training_backends.sources.yaml_source import parse_yaml
from distributed_training_backends.versions import covers

RELEASES = ("0.30.1", "0.34.2", "1.4.0", "1.8.1", "1.12.0", "1.15.0", "1.12.0/4.57.6", "1.15.0/5.24.0")
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
	trainer: dict[str, Any] | None = None


@cache
def tables() -> dict[str, Any]:
	found: dict[str, Any] = yaml.safe_load(packed.unpacked(ROOT / "tests" / "cases" / "effective.yaml.gz"))
	return found


def some(rng: random.Random, table: Mapping[str, Any], share: float) -> dict[str, Any]:
	return {key: rng.choice(values) for key, values in table.items() if rng.random() < share}


def drawn(rng: random.Random, release: str) -> Drawn:
	release, _, transformers = release.partition("/")
	if transformers:
		return with_trainer(rng, release, transformers)
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


def with_trainer(rng: random.Random, release: str, transformers: str) -> Drawn:
	run, table = drawn(rng, release), tables()["trainer"]
	while run.config["distributed_type"] not in table["routes"]:
		run = drawn(rng, release)
	found = some(rng, table["arguments"], 0.25)
	if run.config["distributed_type"] in ("FSDP", "MULTI_GPU") and rng.random() < 0.6:
		eras = table["fsdp"][next(span for span in table["fsdp"] if covers(span, nearest(transformers)))]
		found |= {"fsdp": rng.choice(eras["fsdp"]), "fsdp_config": some(rng, rng.choice(eras["fsdp_config"]), 0.4)}
	elif rng.random() < 0.5:
		found["deepspeed"] = some(rng, tables()["deepspeed_file"], 0.6) | {"zero_optimization": {"stage": 2}}
	if found.get("fp16"):
		found.pop("bf16", None)
	return run._replace(python={}, trainer=found)


def config_of(rng: random.Random, kind: str, route: Mapping[str, Any], release: str) -> dict[str, Any]:
	fields = accelerate.for_release(release).cluster
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


def question(run: Drawn) -> Answer:
	files = {"config.yaml": yaml.safe_dump(run.config, sort_keys=False)}
	files |= {"ds.json": json.dumps(run.deepspeed)} if run.deepspeed is not None else {}
	asked: Answer = {"mode": "launch", "files": files, "config": "config.yaml", "flags": list(run.flags), "gpus": GPUS}
	asked |= {"trainer": run.trainer} if run.trainer is not None else {}
	return {**asked, "environment": dict(run.variables), "python": {k: dict(v) for k, v in run.python.items()}}


def ours(run: Drawn, release: str) -> dict[str, Any]:
	release, _, transformers = release.partition("/")
	found = effective.run_of(documents(run), release, Context(), transformers)
	settings = effective.effective(found).settings if found is not None else ()
	return {one.name: OPEN if one.state == "open" else one.value for one in settings}


def documents(run: Drawn) -> list[Document]:
	words = [Word(word, Extent(0, 0)) for word in ("--config_file", "config.yaml", *run.flags, "train.py")]
	found = [parse_yaml("config.yaml", question(run)["files"]["config.yaml"], "accelerate")]
	found += [Document("ds.json", "deepspeed", "json", "", run.deepspeed, {})] if run.deepspeed is not None else []
	found.append(launch_document("<launch>", "", Word("accelerate", Extent(0, 0)), words, {}))
	found += [] if run.trainer is None else [Document("args.yaml", "trainer", "yaml", "", run.trainer, {})]
	found.append(Document("<environment>", "environment", "json", "", dict(run.variables), {}))
	return [*found, Document("<python>", "python", "json", "", {"calls": calls(run)}, {})]


def calls(run: Drawn) -> list[dict[str, Any]]:
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
		found["command.line"] = ["python" if word.endswith("/python") else word for word in launch["command"]]
	state, left = facts.get("state"), facts.get("left", {})
	if left:
		changed = {name for name in found if name.startswith(("variable.ACCELERATE_", "variable.FSDP_"))}
		found = {name: value for name, value in found.items() if name not in changed}
		found |= {f"variable.{name}": value for name, value in left.items()}
		found["trainer.gradient_accumulation_steps"] = facts["steps"]
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


class Tally(NamedTuple):
	"""How a comparison went; `rows` are the settings on which both sides differ."""

	counts: Counter[str]
	rows: list[str]


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
	if run.trainer is not None and not inside:
		tally.counts["runs refused by the Trainer"] += 1
		return
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
			tally.rows.append(f"{release} #{number} {name}: ours {one!r}, theirs {other!r}")


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
	parser.add_argument("--cases", type=int, default=400)
	parser.add_argument("--release", action="append")
	parser.add_argument("--seed", type=int, default=6)
	parser.add_argument("--show", type=int, default=40, help="how many disagreements to print")
	options = parser.parse_args()
	tally = run_all(options.cases, tuple(options.release or RELEASES), options.seed)
	print(*tally.rows[: options.show], sep="\n")
	print(", ".join(f"{name} {count}" for name, count in sorted(tally.counts.items())))
	every = tally.counts["equal"] + len(tally.rows)
	share = tally.counts["equal"] / max(1, every)
	print(f"{share:.2%} of {every} settings equal, {len(tally.rows)} differ")
	return int(share < WANTED)


if __name__ == "__main__":
	sys.exit(main())
