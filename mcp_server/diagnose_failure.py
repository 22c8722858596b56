"""The tool diagnose_failure: a log or a symptom in, ranked causes out."""

from typing import Any

from distributed_training_backends import api
from distributed_training_backends.model_diagnose import SYMPTOMS
from distributed_training_backends.render.diagnose import diagnose_data, first_failure_line, seen

from .shared import fitting, following, left_out, paging, refuse_paths
from .tool import ROWS, Answer, Arguments, CallError, Tool, text

MOST_NOTES, MOST_EVIDENCE = 2, 2  # in a concise answer


def call(given: Arguments) -> Answer:
	log, symptom = given.get("log", ""), given.get("symptom", "")
	refuse_paths(given, "log", "config", "deepspeed_config")
	if not log.strip() and not symptom.strip():
		raise CallError("diagnose_failure needs a log or a symptom: the text of the log, or what goes wrong in words")
	configs = {name: given[name] for name in ("config", "deepspeed_config") if given.get(name)}
	symptoms = [symptom.strip()] if symptom.strip() else []
	report = api.diagnose(log, symptoms, configs, given.get("launch", ""), given.get("versions", ""))
	full = given["detail"] == "full"
	data = diagnose_data(report, True)
	entries = [entry(cause, full) for cause in data["causes"]]
	causes = fitting(entries, given)
	more = left_out(causes, len(entries), given)
	answer: Answer = {
		"summary": " ".join([f"{data['summary']}.", *more]),
		"verdict": data["verdict"],
		"failure": first_failure_line(data["failure"])[:300] if data["failure"] else "",
		"causes": causes,
		"notes": data["notes"] if full else [note[:160] for note in data["notes"][:MOST_NOTES]],
		"collect": data["collect"] if full or not causes else data["collect"][:1],
		"run": data["run"],
		"total": len(entries),
		"next_offset": following(causes, len(entries), given),
	}
	return answer


def entry(cause: dict[str, Any], full: bool) -> dict[str, Any]:
	evidence = [seen(one) for one in cause["evidence"]]
	found = {name: cause[name] for name in ("id", "title", "level", "confidence", "why")}
	found["evidence"] = evidence if full else [one[:200] for one in evidence[:MOST_EVIDENCE]]
	found |= {name: cause[name] for name in ("fix", "verify", "rules", "reference")}
	edits = [one if full else {"path": one["path"], "title": one["fix"]["title"]} for one in cause["fixes"]]
	return found | ({"edits": edits} if edits else {})


TOOL = Tool(
	name="diagnose_failure",
	title="Diagnose a failed training run",
	description=(
		"Tells why a training run failed, hangs, is slow or computes wrongly: ranked causes with evidence, fix and "
		"check. Give a log (any size, ranks mixed) or a symptom; config, launch command and releases make it surer."
	),
	properties={
		"log": text("Its text, not a path"),
		"symptom": text(f"{', '.join(SYMPTOMS)}, or in words"),
		"config": text("Text of the config"),
		"deepspeed_config": text(),
		"launch": text(),
		"versions": text("accelerate 1.10.1, … or the output of accelerate env, ds_report, pip list"),
		**paging(3, 5),
	},
	required=(),
	answers={**dict.fromkeys(("summary", "verdict", "failure"), text()), "causes": ROWS},
	call=call,
)
