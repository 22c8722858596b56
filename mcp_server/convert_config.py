"""The tool convert_config: the text of a config in, the same run for another backend or surface out."""

from typing import Any

from distributed_training_backends import api
from distributed_training_backends.model_convert import TARGETS, BadConversionError, ConvertReport
from distributed_training_backends.render.convert import convert_data, summary
from distributed_training_backends.render.redact import redact

from .shared import VERSIONS, compact, refuse_paths, size, targets_from
from .tool import ROWS, Answer, Arguments, CallError, Tool, choice, text, whole

ROOM = {"concise": 2_900, "full": 60_000}  # bytes of text and notes; with the default at most 1,200 tokens in all
LONGEST = 240  # code points of a note in a short answer


def call(given: Arguments) -> Answer:
	refuse_paths(given, "config", "deepspeed_config")
	options = api.Options(targets_from(given), api.Context(num_processes=given.get("num_processes")))
	try:
		report = api.convert_text(given["config"], given["to"], options, deepspeed=given.get("deepspeed_config"))
	except BadConversionError as error:
		raise CallError(redact(str(error)).replace("<text>", "config")) from None
	return shaped(report, given["detail"])


def shaped(report: ConvertReport, detail: str) -> Answer:
	data = convert_data(report)
	room = ROOM[detail] - size(data["text"])
	whole_text = room >= 0
	told = [entry(note, detail) for note in data["notes"] if detail == "full" or note["status"] != "same"]
	told += [entry({"status": "rejected", "setting": one.pop("code"), **one}, detail) for one in data["findings"]]
	notes: list[Any] = []
	for note in told:
		room -= size(compact(note)) + 1
		if room < 0 and notes:
			break
		notes.append(note)
	said = [said_of(report)]
	if len(notes) < len(told):
		said.append(f"{len(told) - len(notes)} more notes: detail full gives them.")
	if not whole_text:
		said.append("The text is long: detail full gives it." if detail == "concise" else "The text is too long.")
	head = {"summary": " ".join(said), "verdict": data["verdict"], "equivalent": data["equivalent"]}
	return {**head, "kind": data["result"], "text": data["text"] if whole_text else "", "notes": notes}


def said_of(report: ConvertReport) -> str:
	if report.text:
		return summary(report).partition(": ")[2].replace("said above", "in notes") + "."
	refused = "The config is refused as it is: mend it first (validate_config)."
	return refused if report.verdict == "rejected" else "The config cannot be judged."


def entry(note: dict[str, Any], detail: str) -> dict[str, Any]:
	message = note["message"][: LONGEST if detail == "concise" else None]
	line = {"line": note["line"]} if note["line"] else {}
	return {"status": note["status"], "setting": note["setting"], "message": message, **line}


TOOL = Tool(
	name="convert_config",
	title="Convert a training backend config",
	description=(
		"Says what a config says for another backend or surface (FSDP1 to FSDP2, DeepSpeed and FSDP, launch flags, "
		"plugin code, TrainingArguments), and what gets lost."
	),
	properties={
		"config": text("Accelerate YAML, command or TrainingArguments", minLength=1),
		"to": {"type": "string", "enum": list(TARGETS), "description": "fsdp: from DeepSpeed"},
		"deepspeed_config": text(),
		"num_processes": whole(),
		**{name: VERSIONS[name] for name in ("accelerate_version", "transformers_version")},
		"detail": choice("concise", "full"),
	},
	required=("config", "to"),
	answers={**dict.fromkeys(("summary", "text"), text()), "notes": ROWS},
	call=call,
)
