"""Random questions to triage, and what the real libraries make of the answers.

    python -m tests.oracle.triage [--count 200] [--seed N] [--minutes N]

Every config that is emitted has to validate clean, to be accepted, and to build what was meant; plugin objects in
Python have to build the same; commands have to be commands. What is removed as refused by the library is refused.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from tests.oracle import environment
from tests.oracle.agreement import RELEASES
from tests.oracle.client import Library
from tests.oracle.environment import Environment
from tests.oracle.triage_checks import Emitted, Failure, Libraries, check, refused

Facts = dict[str, Any]
MODELS = (
	*("llama-3-8b", "llama-3.2-1b", "llama-3-70b", "mistral-7b", "qwen3-8b", "gemma-2-9b", "mixtral-8x7b"),
	*("gpt2-xl", "phi-2", "falcon-7b", "qwen2.5-32b", "yi-34b"),
)
GPUS = ("A100-80GB", "A100-40GB", "H100-80GB", "H200", "L40S", "RTX-4090", "V100-32GB", "T4", "MI300X", "Gaudi2")
SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8), (3, 4))
SEED = 20_260_801


def fact_sets(count: int, seed: int) -> Iterator[Facts]:
	draw = random.Random(seed)
	for _ in range(count):
		yield {name: group for name, group in fact_set(draw).items() if group}


def fact_set(draw: random.Random) -> Facts:
	nodes, local = draw.choice(SHAPES)
	device: Facts = {"gpu": draw.choice(GPUS), "nodes": nodes, "gpus_per_node": local}
	if draw.random() < 0.1:
		device = draw.choice(
			[
				{"device": "cpu", "nodes": nodes},
				{"gpu": "v5e-8"},
				{"gpu": "v4-32"},
				{"device": "mps", "gpu_memory_gib": 64},
			]
		)
	kind = draw.choice(["full", "full", "continued", "lora", "qlora", "inference"])
	return {
		"model": {"name": draw.choice(MODELS)},
		"task": {"kind": kind},
		"batch": some(draw, seq=[512, 2048, 4096, 8192, 32768], micro_batch=[1, 2, 4], accumulation=[1, 4, 8]),
		"hardware": {
			**device,
			**some(draw, inter_gbit=[25, 100, 400, 3200], cpu_ram_gib=[64, 512, 2048], nvme_gib=[0, 2000]),
		},
		"versions": versions(draw),
		**some(draw, optimizer=["adamw_torch", "adamw_torch_fused", "adamw_8bit", "adafactor", "sgd_momentum"]),
		**some(draw, attention=["sdpa", "flash_attention_2", "eager"], checkpointing=["none", "full"]),
		**some(draw, precision=["bf16", "bf16", "fp16", "fp32", "fp8"], compile=[True, False]),
	}


def some(draw: random.Random, **values: Sequence[Any]) -> Facts:
	return {name: draw.choice(list(choices)) for name, choices in values.items() if draw.random() < 0.5}


def versions(draw: random.Random) -> Facts:
	shares: dict[Library, float] = {"accelerate": 0.4, "deepspeed": 0.3}
	return {library: draw.choice(RELEASES[library]) for library, share in shares.items() if draw.random() < share}


# --- what is asked ---


class Answers(NamedTuple):
	"""All that triage answered: every possible candidate, and every removal with the setup that it is about."""

	emitted: tuple[Emitted, ...]
	removed: tuple[tuple[Any, Any, Any], ...]


def answers(facts: Facts) -> Answers:
	from distributed_training_backends.model_triage import BadFactsError
	from distributed_training_backends.triage import answer, emit

	try:
		asked = answer.question(facts)
		found = answer.answer(asked)
	except BadFactsError as error:
		unfused = facts.get("optimizer") == "adamw_torch_fused" and "no fused optimizers for XLA" in str(error)
		if "nothing is possible" in str(error) and (facts.get("precision") == "fp8" or unfused):
			return Answers((), ())  # as it should be on most accelerators
		raise AssertionError(f"{error}: {json.dumps(facts)}") from None
	emitted = []
	for one in found.ranked:
		files = {file.name: file.text for file in emit.files(one.made.facts, one.setup)}
		emitted.append(Emitted(f"{one.setup.backend}", one.made.facts, one.setup, files))
	return Answers(tuple(emitted), tuple((asked.facts, out.setup, out.obstacle) for out in found.out))


# --- all together ---


class Result(NamedTuple):
	passed: Counter[str]
	failures: tuple[Failure, ...]
	sets: int
	configs: int


Check = Callable[[], Iterator[Failure | str]]


def run(count: int, seed: int, home: Environment, until: float = float("inf")) -> Result:
	"""Ask about so many sets of facts, or until there is no time left; what is the same is checked once."""
	passed: Counter[str] = Counter()
	failures: list[Failure] = []
	done: set[str] = set()
	sets = configs = 0
	with ExitStack() as stack:
		libraries = Libraries(home, stack)
		for facts in fact_sets(count, seed):
			found = answers(facts)
			sets, configs = sets + 1, configs + len(found.emitted)
			for key, ask in to_check(found, libraries):
				if key not in done:
					done.add(key)
					sort(ask(), passed, failures)
				if time.monotonic() > until:
					return Result(passed, tuple(failures), sets, configs)
	return Result(passed, tuple(failures), sets, configs)


def to_check(found: Answers, libraries: Libraries) -> Iterator[tuple[str, Check]]:
	for one in found.emitted:
		yield json.dumps([one.files, list(one.facts.versions)], sort_keys=True), partial(check, one, libraries)
	for removed in found.removed:
		key = json.dumps([removed[1], removed[2], list(removed[0].versions)], default=str)
		yield key, partial(refused, removed, libraries)


def sort(said: Iterator[Failure | str], passed: Counter[str], failures: list[Failure]) -> None:
	for one in said:
		if isinstance(one, Failure):
			failures.append(one)
		else:
			passed[one] += 1


def main(arguments: Sequence[str] | None = None) -> int:
	parser = argparse.ArgumentParser(description="Ask triage at random, and the real libraries about its answers.")
	parser.add_argument("--count", type=int, default=200, help="sets of facts (200)")
	parser.add_argument("--seed", type=int, default=SEED)
	parser.add_argument("--minutes", type=float, default=float("inf"), help="ask for so long at most")
	options = parser.parse_args(arguments)
	until = time.monotonic() + 60 * options.minutes
	result = run(options.count, options.seed, environment.default(), until)
	print(f"{result.sets} sets of facts, {result.configs} configs")
	for name, times in sorted(result.passed.items()):
		print(f"{times:6} {name}")
	kinds = Counter((failure.check, failure.what, failure.why[:160]) for failure in result.failures)
	for (check_name, what, why), times in kinds.most_common(40):
		print(f"FAILED {times} x {check_name}: {what}: {why}")
	print(f"{len(result.failures)} failures")
	return int(bool(result.failures))


if __name__ == "__main__":
	sys.exit(main())
