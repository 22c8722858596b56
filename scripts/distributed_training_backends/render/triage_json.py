"""An answer of triage as JSON (data/schemas/triage_report.schema.json.gz); the order of the keys is part of it."""

import json
from typing import Any

from ..model_triage import Candidate, TriageReport
from .redact import redact

FORMAT_VERSION = 1


def triage_data(report: TriageReport) -> dict[str, Any]:
	return {
		"version": FORMAT_VERSION,
		"summary": redact(report.summary),
		"targets": dict(report.targets.items()),
		"facts": dict(report.facts),
		"notes": list(report.notes),
		"advice": list(report.advice),
		"assumptions": [assumption._asdict() for assumption in report.assumptions],
		"candidates": [candidate_data(candidate) for candidate in report.candidates],
		"removed": [{**one._asdict(), "names": list(one.names)} for one in report.removed],
	}


def candidate_data(candidate: Candidate) -> dict[str, Any]:
	memory = candidate.memory
	amounts = {name: getattr(memory, name)._asdict() for name in ("allocated", "reserved", "smi", "cpu_ram")}
	components = [component._asdict() for component in memory.components]
	shown = {**memory._asdict(), **amounts, "components": components, "sentences": list(memory.sentences)}
	return {
		**candidate._asdict(),
		"memory": shown,
		"speed": candidate.speed._asdict(),
		**{name: list(getattr(candidate, name)) for name in ("choices", "cautions", "checks")},
		**{name: [one._asdict() for one in getattr(candidate, name)] for name in ("addons", "files")},
	}


def render_triage_json(report: TriageReport) -> str:
	return json.dumps(triage_data(report), indent=2) + "\n"
