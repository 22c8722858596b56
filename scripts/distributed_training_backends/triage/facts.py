"""What triage is told about a run, as typed values; None is what nobody said."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..model import Targets
from ..resources import load_json
from ..rules.suggest import listing, shown
from ..versions import InvalidReleaseError, parse
from .fact_schema import Problem, check


class ModelFacts(NamedTuple):
	"""A model: by name, by the content of its config.json, or by sizes."""

	name: str | None = None
	config: Mapping[str, Any] | None = None
	params: int | None = None
	layers: int | None = None
	hidden: int | None = None
	heads: int | None = None
	kv_heads: int | None = None
	head_dim: int | None = None
	vocab: int | None = None
	intermediate: int | None = None
	experts: int | None = None
	experts_per_token: int | None = None
	tied: bool | None = None
	gated: bool | None = None


class TaskFacts(NamedTuple):
	"""What is trained: everything, adapters, or nothing."""

	kind: str | None = None
	lora_rank: int | None = None
	lora_targets: tuple[str, ...] | None = None
	lora_dropout: float | None = None
	quantization: str | None = None
	kbit_preparation: bool | None = None

	@property
	def trains(self) -> bool:
		return self.kind != "inference"

	@property
	def adapts(self) -> bool:
		return self.kind in ("lora", "qlora")

	@property
	def quantized(self) -> bool:
		return self.quantization not in (None, "none")


class BatchFacts(NamedTuple):
	"""Tokens in a sequence, sequences per GPU and pass, passes per step, sequences per step on all GPUs."""

	seq: int | None = None
	micro_batch: int | None = None
	accumulation: int | None = None
	global_batch: int | None = None


class HardwareFacts(NamedTuple):
	"""What there is to run on; memory in GiB, `inter_gbit` in Gbit/s per node."""

	device: str | None = None
	nodes: int | None = None
	gpus_per_node: int | None = None
	gpu: str | None = None
	gpu_memory_gib: float | None = None
	intra: str | None = None
	inter_gbit: float | None = None
	cpu_ram_gib: float | None = None
	nvme_gib: float | None = None

	@property
	def world(self) -> int:
		return (self.nodes or 1) * (self.gpus_per_node or 1)


class ParallelFacts(NamedTuple):
	"""Sizes that the user insists on: tensor, context, sequence and pipeline parallel."""

	tp: int | None = None
	cp: int | None = None
	sp: int | None = None
	pp: int | None = None


class Facts(NamedTuple):
	"""Everything that triage is told, or assumes.

	`versions` are the newest known where none was named; `named_releases` are the libraries that were.
	"""

	model: ModelFacts
	task: TaskFacts
	batch: BatchFacts
	hardware: HardwareFacts
	versions: Targets
	parallel: ParallelFacts = ParallelFacts()
	precision: str | None = None
	weights: str | None = None
	optimizer: str | None = None
	attention: str | None = None
	loss: str | None = None
	checkpointing: str | None = None
	compile: bool | None = None
	bitsandbytes: str | None = None
	wish: str | None = None
	named_releases: tuple[str, ...] = ()


GROUPS = {
	"model": ModelFacts,
	"task": TaskFacts,
	"batch": BatchFacts,
	"hardware": HardwareFacts,
	"parallel": ParallelFacts,
}


def roles(targets: Iterable[str]) -> set[str]:
	"""The matrices that module names stand for, as PEFT takes them; unknown names stand for nothing."""
	known: dict[str, list[str]] = load_json("memory.json")["modules"]
	return {role for target in targets for role in known.get(target.rsplit(".", 1)[-1].lower(), ())}


def read_facts(data: Mapping[str, Any]) -> tuple[Facts, list[Problem]]:
	"""Read facts; where there is a problem they hold what could be read, and nothing should be computed from them."""
	problems = check(data)
	bad = {problem.pointer for problem in problems}
	groups = {name: _group(kind, data.get(name), f"/{name}", bad) for name, kind in GROUPS.items()}
	single = {
		name: data[name]
		for name in Facts._fields
		if name not in GROUPS and name in data and name != "versions" and f"/{name}" not in bad
	}
	named, wrong = _releases(data.get("versions"), bad)
	newest = load_json("targets.json")
	facts = Facts(
		**groups,
		**single,
		versions=Targets(*(named.get(name, newest[name]) for name in Targets._fields)),
		bitsandbytes=named.get("bitsandbytes"),
		named_releases=tuple(named),
	)
	return facts, problems + wrong + ([] if problems else list(contradictions(facts)))


def _group(kind: Any, given: object, at: str, bad: Iterable[str]) -> Any:
	items = given.items() if isinstance(given, Mapping) else ()
	wrong = {pointer.split("/")[2] for pointer in bad if pointer.startswith(at + "/")}
	return kind(**{key: _plain(value) for key, value in items if key in kind._fields and key not in wrong})


def _plain(value: object) -> object:
	"""A list as a tuple; 8.0 as 8, which JSON does not tell from it."""
	if isinstance(value, list):
		return tuple(value)
	return int(value) if isinstance(value, float) and value.is_integer() else value


def _releases(given: object, bad: set[str]) -> tuple[dict[str, str], list[Problem]]:
	named: dict[str, str] = {}
	wrong = []
	for name, text in given.items() if isinstance(given, Mapping) else ():
		if f"/versions/{name}" in bad or name not in (*Targets._fields, "bitsandbytes"):
			continue
		try:
			parse(text)
			named[name] = text
		except InvalidReleaseError as error:
			wrong.append(Problem(f"/versions/{name}", str(error)))
	return named, wrong


def contradictions(facts: Facts) -> Iterator[Problem]:
	yield from _model_contradictions(facts.model)
	yield from _batch_contradictions(facts.batch)
	task = facts.task
	if task.kind in ("full", "continued", "inference") and task.lora_rank is not None:
		yield Problem("/task/lora_rank", f"task.kind is {task.kind}, which has no adapters; write lora or qlora")
	if task.kind in ("full", "continued", "lora") and task.quantized:
		said = f"quantized weights cannot be trained (task.kind is {task.kind}); write qlora, or quantization: none"
		yield Problem("/task/quantization", said)
	if task.kind == "qlora" and task.quantization == "none":
		yield Problem("/task/quantization", "qlora trains adapters on quantized weights; write nf4, or kind: lora")
	strange = [target for target in task.lora_targets or () if not roles((target,))]
	if strange:
		known = listing(sorted(load_json("memory.json")["modules"]))
		yield Problem("/task/lora_targets", f"no matrix is called {shown(strange[0])}; known are {known}")
	if facts.precision == "pure_bf16" and facts.weights in ("fp32", "fp16"):
		yield Problem("/weights", f"pure_bf16 means bf16 weights, not {facts.weights}; write bf16, or precision: bf16")


def _batch_contradictions(batch: BatchFacts) -> Iterator[Problem]:
	if batch.global_batch is None:
		return
	if batch.accumulation is not None:
		yield Problem("/batch/accumulation", "with a global batch the accumulation follows from it; leave one out")
	elif batch.micro_batch and batch.global_batch % batch.micro_batch:
		wanted = f"a micro batch that divides {batch.global_batch}, or a multiple of {batch.micro_batch}"
		said = f"micro batches of {batch.micro_batch} do not make {batch.global_batch}; write {wanted}"
		yield Problem("/batch/global_batch", said)


def _model_contradictions(model: ModelFacts) -> Iterator[Problem]:
	if not any(value is not None for value in model):
		yield Problem("/model", "the model is empty; give a name, the content of a config.json, or sizes")
	if model.heads and model.kv_heads and model.heads % model.kv_heads:
		yield Problem("/model/kv_heads", f"{model.kv_heads} does not divide the {model.heads} heads")
	if model.hidden and model.heads and not model.head_dim and model.hidden % model.heads:
		yield Problem("/model/heads", f"{model.heads} does not divide hidden {model.hidden}; give head_dim")
	by_sizes = model.name is None and model.config is None
	experts = model.experts or (1 if by_sizes else model.experts_per_token)
	if model.experts_per_token and model.experts_per_token > (experts or 1):
		message = f"{model.experts_per_token} is more than the number of experts, {experts}"
		yield Problem("/model/experts_per_token", message)
