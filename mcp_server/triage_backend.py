"""The tool triage_backend: facts about a training in, the backend that fits with its config out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distributed_training_backends import api
from distributed_training_backends.model_triage import BadFactsError, Candidate, Removed, TriageReport
from distributed_training_backends.render.redact import redact
from distributed_training_backends.render.triage_json import candidate_data

from .shared import VERSIONS, compact, fitting, following, left_out, paging, size
from .tool import ROWS, Answer, Arguments, CallError, Tool, text, whole

# Arguments by the fact that they are.
FACTS = {
	"model": "model.name",
	"task": "task.kind",
	"seq": "batch.seq",
	"micro_batch": "batch.micro_batch",
	"gpu": "hardware.gpu",
	"gpus_per_node": "hardware.gpus_per_node",
	"nodes": "hardware.nodes",
	"wish": "wish",
	"accelerate_version": "versions.accelerate",
}
MOST = 3_100  # bytes of a short answer, without what its summary says about paging
STARTING = ("accelerate.yaml", "ds_config.json", "launch.sh")


def call(given: Arguments) -> Answer:
	try:
		report = api.triage(facts_from(given), 1, named(given))
	except BadFactsError as error:
		raise CallError("; ".join(f"{pointer or 'facts'}: {message}" for pointer, message in error.problems)) from None
	if given.get("candidate") and not any(one.name == given["candidate"] for one in report.candidates):
		raise CallError(f"candidate is none of {', '.join(one.name for one in report.candidates)}")
	return shaped(report, given)


def named(given: Arguments) -> tuple[str, ...]:
	return (given["candidate"],) if given.get("candidate") else ()


def facts_from(given: Arguments) -> dict[str, Any]:
	facts = api.facts_in(given["facts"]) if given.get("facts") else {}
	told = {fact: given[name] for name, fact in FACTS.items() if name in given}
	for fact, value in told.items():
		group, _, inner = fact.rpartition(".")
		target = facts.setdefault(group, {}) if group else facts
		if not isinstance(target, dict):
			raise CallError(f"{group} in facts is no mapping")
		target[inner] = value
	return facts


def shaped(report: TriageReport, given: Arguments) -> Answer:
	"""The best candidate, or the one that was asked for, with its files; the others in a line each."""
	full = given["detail"] == "full"
	chosen = next((one for one in report.candidates if one.name in named(given)), None)
	chosen = chosen or next(iter(report.candidates), None)
	parts: Answer = {
		"targets": dict(report.targets.items()),
		"best": {} if chosen is None else candidate_data(chosen) if full else short(chosen),
		"candidates": fitting([line(one) for one in report.candidates], given),
		"assumptions": list(assumed(report, full)),
		"advice": list(report.advice),
	}
	if not full:
		cut(parts, MOST - len(report.summary.encode()))
	total, others = len(report.candidates), parts["candidates"]
	answer = {"summary": " ".join([redact(report.summary), *left_out(others, total, given)]), **parts}
	answer |= {"total": total, "next_offset": following(others, total, given)}
	return {**answer, "removed": out(report.removed), "facts": dict(report.facts)} if full else answer


def cut(parts: Answer, room: int) -> None:
	"""A short answer keeps to its budget: what helps least goes first; the config and the command stay."""
	best = parts["best"]
	for part, least in (
		(parts["advice"], 3),
		(parts["assumptions"], 1),
		(best.get("checks", []), 0),
		(parts["candidates"], 1),
		(best.get("cautions", []), 0),
	):
		while len(part) > least and size(compact(parts)) > room:
			part.pop()


def short(candidate: Candidate) -> dict[str, Any]:
	memory = candidate.memory
	return {
		**line(candidate),
		"title": candidate.title,
		"choices": list(candidate.choices),
		"cautions": list(candidate.cautions),
		"memory_gib": {part.name: part.gib for part in memory.components},
		"files": {file.name: file.text for file in candidate.files if file.name in STARTING},
		"checks": list(candidate.checks[:2]),
	}


def line(candidate: Candidate) -> dict[str, Any]:
	"""A candidate in few words; memory as nvidia-smi shows it."""
	amount = candidate.memory.smi
	gib = f"{amount.point:.1f} ({amount.low:.0f} to {amount.high:.0f})"
	return {"name": candidate.name, "verdict": candidate.verdict, "gib": gib, "speed": candidate.speed.relative}


def assumed(report: TriageReport, full: bool) -> Iterator[Mapping[str, str]]:
	"""What was assumed: all of it, or what decides."""
	for one in report.assumptions:
		if full:
			yield one._asdict()
		elif one.effect:
			yield {"fact": one.fact, "value": one.value, "effect": one.effect}


def out(removed: Sequence[Removed]) -> list[dict[str, Any]]:
	return [{**one._asdict(), "names": list(one.names)} for one in removed]


TOOL = Tool(
	name="triage_backend",
	title="Choose a training backend",
	description=(
		"Chooses between DDP, FSDP1/2, ZeRO, Megatron-LM, TP/CP/Ulysses, TPU, Gaudi and CPU for a model and a machine: "
		"memory per GPU, what fits, expected speed, and the config and command that start it."
	),
	properties={
		"model": text("A name (llama-3-8b); sizes or a config.json go into facts"),
		"task": {"type": "string", "enum": ["full", "lora", "qlora", "continued", "inference"]},
		"seq": whole("Tokens in a sequence"),
		"micro_batch": whole(),
		"gpu": text("A100-80GB, RTX-4090, MI300X, Gaudi2, v5e-8 …"),
		"gpus_per_node": whole(),
		"nodes": whole(),
		"wish": text("What it must be: deepspeed, fsdp2, zero3 …"),
		"facts": text(
			"More facts as YAML or JSON: model, task, batch, hardware, precision, optimizer, versions …",
			contentMediaType="application/yaml",
		),
		"candidate": text("Show this one instead of the best"),
		"accelerate_version": VERSIONS["accelerate_version"],
		**paging(6, 50),
	},
	required=(),
	answers={"summary": text(), "best": ROWS["items"], "candidates": ROWS},
	call=call,
)
