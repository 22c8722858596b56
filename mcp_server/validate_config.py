"""The tool validate_config: the text of a config in, what will become of it out."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Literal

from distributed_training_backends import api
from distributed_training_backends.mending import settle
from distributed_training_backends.model import KINDS, Applicability, FileReport, Finding, Kind, Report, Severity
from distributed_training_backends.render.characters import visible
from distributed_training_backends.render.diff import render_diff
from distributed_training_backends.render.effective import NOTHING, lines
from distributed_training_backends.render.redact import redact_report
from distributed_training_backends.render.style import counted

from .shared import (
	BUDGETS,
	VERSIONS,
	about,
	compact,
	fitting,
	following,
	left_out,
	paging,
	refuse_paths,
	size,
	targets_from,
)
from .tool import ROWS, Answer, Arguments, CallError, Tool, choice, text, whole

# Arguments that are texts to judge, and the kind that each is of
TEXTS: dict[str, Literal["config"] | Kind] = {
	"config": "config",
	"launch": "launch",
	"environment": "environment",
	"python": "python",
	"deepspeed_config": "deepspeed",
}
LONGEST = 300  # code points of a message in a short answer
DIFF_LIMIT = 12_000  # characters
MOST_FIXES = 100  # of a file; where fixes clash each is tried alone, which takes as many runs
# What messages call options of the command line, in the words of this tool.
OPTIONS = (("--format says which kind it is", "the argument kind says which it is"), ("--consumer", "consumer"))


def call(given: Arguments) -> Answer:
	options = options_from(given)
	report = judged(given, options)
	shown = redact_report(report)
	full = given["detail"] == "full"
	found = [(file, finding) for file in shown.files for finding in file.findings]
	told = [(file, finding) for file, finding in found if full or matters(file, finding)]
	told.sort(key=lambda item: item[1].severity.rank)
	entries = [entry(finding, full) | named(file, given) for file, finding in told]
	findings = fitting(entries, given, 0.5 if given["effective"] else 1)
	answer: Answer = {
		"summary": " ".join([*sentences(shown, given), *left_out(findings, len(told), given), *about(shown.targets)]),
		"verdict": verdict(shown),
		"kind": shown.files[0].kind or "unknown",
		"targets": dict(shown.targets.items()),
		"findings": findings,
		"total": len(told),
		"next_offset": following(findings, len(told), given),
	}
	answer |= {"effective": settings(shown, findings, full)} if given["effective"] else {}
	return {**answer, "diff": fixes(report, options)} if full else answer


def settings(report: Report, findings: list[dict[str, Any]], full: bool) -> list[str]:
	"""What takes effect, a setting a line, in the room that the findings leave."""
	if report.effective is None:
		return [NOTHING]
	told = [shortened(line.replace("<text>:", "")) for line in lines(report.effective, full)]
	room = BUDGETS["full" if full else "concise"] - size(compact({"findings": findings}))
	sizes = list(accumulate(size(compact({"": line})) for line in told))
	kept = sum(size <= room for size in sizes)
	return [*told[:kept], *([f"{len(told) - kept} more"] if kept < len(told) else [])]


def options_from(given: Arguments) -> api.Options:
	names = ("num_processes", "num_machines", "mixed_precision", "consumer")
	context = api.Context(**{name: given[name] for name in names if name in given})
	kind = None if given["kind"] == "auto" else given["kind"]
	return api.Options(targets_from(given), context, kind, effective=given["effective"])


def judged(given: Arguments, options: api.Options) -> Report:
	refuse_paths(given, *TEXTS)
	texts = {kind: given[name] for name, kind in TEXTS.items() if name in given}
	if not texts:
		raise CallError(f"give one of {', '.join(TEXTS)}")
	if [*texts] == ["config"]:
		return api.validate_text(given["config"], options)
	return api.validate_together(texts, options)


def matters(file: FileReport, finding: Finding) -> bool:
	"""Tell whether a finding belongs in a short answer: hints do not, unless they say why nothing could be judged."""
	return finding.severity is not Severity.INFO or file.verdict == "unreadable"


def entry(finding: Finding, full: bool) -> dict[str, Any]:
	message, title = finding.message, finding.fix.title if finding.fix else ""
	for option, argument in OPTIONS:
		message = message.replace(option, argument)
	if not full:
		message, title = shortened(message), shortened(title)
	shown = {"code": finding.code, "severity": finding.severity.value, "line": finding.place.line}
	shown |= {"message": visible(message), **({"fix": visible(title)} if title else {})}
	return {**shown, "reference": finding.reference, **(exactly(finding) if full else {})}


def shortened(text: str) -> str:
	"""A text that may be cut; a file may hold a name of a megabyte."""
	return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def exactly(finding: Finding) -> dict[str, Any]:
	"""What only a full answer has: the rule's name, the exact place, and how safe a fix is."""
	place = finding.place
	where = {"pointer": place.pointer, "column": place.column, "end_line": place.end_line}
	safety = {"applicability": finding.fix.applicability.value} if finding.fix else {}
	return {"name": finding.name, **where, "end_column": place.end_column, **safety}


def named(file: FileReport, given: Arguments) -> dict[str, str]:
	return {"file": argument_of(file)} if sum(name in given for name in TEXTS) > 1 else {}


def argument_of(file: FileReport) -> str:
	name = "config" if file.path == "<text>" else file.path.strip("<>")
	return name if name in TEXTS else "deepspeed_config"


def verdict(report: Report) -> str:
	"""The verdict over all files: one that cannot be judged counts most."""
	return ("accepted", "rejected", "unreadable")[report.exit_code]


def sentences(report: Report, given: Arguments) -> Iterator[str]:
	errors, warnings, hints = (report.total(severity) for severity in Severity)
	unreadable = dict.fromkeys(argument_of(file) for file in report.files if file.verdict == "unreadable")
	if unreadable:
		yield f"{' and '.join(unreadable)} could not be judged."
	else:
		word = "Refused" if errors else "Accepted, but not as written" if warnings else "Accepted as written"
		yield f"{word}: {counted(errors, 'error')}, {counted(warnings, 'warning')}, {counted(hints, 'hint')}."
		if hints and given["detail"] == "concise":
			yield "Hints come with detail full."
	if errors or warnings:
		yield "Mend what is found and validate again; lookup_reference with a code explains it."


def fixes(report: Report, options: api.Options) -> str:
	parts = []
	for file in report.files:
		if sum(finding.fix is not None for finding in file.findings) > MOST_FIXES:
			continue
		change = settle(file, report, options, {Applicability.SAFE}, note=lambda _: None)
		if change is not None:
			parts.append(render_diff(argument_of(file), file.text or "", change.text))
	diff = "".join(parts)
	return diff if len(diff) <= DIFF_LIMIT else f"{diff[:DIFF_LIMIT]}\n[cut: the diff is longer]\n"


TOOL = Tool(
	name="validate_config",
	title="Validate a training backend config",
	description=(
		"Tells what Accelerate, DeepSpeed or the Transformers Trainer will make of a config: errors (refused), "
		"warnings (not as written) and fixes. For an Accelerate YAML, DeepSpeed JSON, fsdp_config, "
		"TrainingArguments, launch command, plugin calls, FP8 or quantization."
	),
	properties={
		"config": text("Its text", minLength=1),
		"launch": text("The launch command"),
		"environment": text("NAME=value lines"),
		"deepspeed_config": text(),
		"kind": choice("auto", *KINDS),
		"consumer": choice("auto", "deepspeed", "accelerate", "trainer", description="Who reads a DeepSpeed JSON"),
		"num_processes": whole("Over all machines"),
		"num_machines": whole(),
		"effective": {"type": "boolean", "default": False, "description": "List what takes effect"},
		"mixed_precision": {"type": "string", "enum": ["no", "fp16", "bf16", "fp8"]},
		"python": text("A script"),
		**VERSIONS,
		**paging(10, 50),
	},
	required=(),
	answers={**dict.fromkeys(("summary", "verdict"), text()), "findings": ROWS},
	call=call,
)
