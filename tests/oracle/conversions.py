"""What conversions keep: every Accelerate file of the corpus, converted, launched and built by the real libraries.

    python -m tests.oracle.conversions [--release 1.15.0] [--count N] [--to fsdp2,launch,…] [--write]

Each result has to validate without findings that its source did not have, to be accepted by the library, and to build
the same where it claims so. FSDP1 files are also given to `accelerate to-fsdp2`, and files go there and back.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import yaml
from tests.oracle import environment
from tests.oracle.alike import BESIDE, FIELDS, Facts, other_backend, other_fsdp, senses, unlike
from tests.oracle.cases import Case, corpus, flags, questions
from tests.oracle.client import Answer
from tests.oracle.commands import parsed
from tests.oracle.triage_checks import NOT_HERE, SAME, Libraries

from distributed_training_backends import api
from distributed_training_backends.convert.launch import to_config as from_launch
from distributed_training_backends.model_convert import BadConversionError, ConvertReport
from reference_tables import keep_figures

IN_PLACE = ("fsdp2", "fsdp", "deepspeed")
EXPECTED = ("FSD024", "FSD026")  # one process, and bugs of the release, whatever the file says
TRIPS = {
	"trip-backends": ("fsdp", "deepspeed"),
	"trip-flags": ("launch", "accelerate"),
	"trip-python": ("python", "accelerate"),
	"trip-trainer": ("trainer", "accelerate"),
}
KINDS: Mapping[str, Any] = {"python": "python", "trainer": "trainer"}
TO_FSDP2 = """
import json, sys, yaml
from accelerate.commands.to_fsdp2 import convert_config_to_fsdp2
print(json.dumps([yaml.dump(convert_config_to_fsdp2(yaml.safe_load(text))) for text in json.load(sys.stdin)]))
"""


def refusal(answer: Answer) -> str:
	"""Why an answer is no acceptance; empty if it is one, or where only this machine refuses."""
	error = (answer.get("error") or {}).get("message", "")
	fine = answer["verdict"] == "accepted" or any(part in error for part in NOT_HERE)
	return "" if fine else f"library: {answer['verdict']} {error[:300]}"


class Outcome(NamedTuple):
	"""What became of one file; `wrong` says what should not be."""

	name: str
	state: str
	wrong: tuple[str, ...] = ()


class Bench:
	"""Converts, and asks one release."""

	def __init__(self, libraries: Libraries, release: str) -> None:
		self.libraries, self.release = libraries, release
		self.options = api.Options(api.default_targets()._replace(accelerate=release))

	def convert(self, case: Case, to: str) -> ConvertReport | str:
		try:
			return api.convert_text(case.text, to, self.options, case.companions)
		except BadConversionError as error:
			return str(error)

	def launched(self, case: Case, **other: Any) -> Answer:
		question = questions(case)["launch"] | other
		return self.libraries.oracle("accelerate", self.release).ask(question)

	def of_text(self, case: Case, text: str) -> Answer:
		return self.launched(Case(case.name, "accelerate", text, case.suffix, files=case.companions))

	def outcome(self, case: Case, to: str) -> Outcome:
		before = self.launched(case)
		if before["verdict"] != "accepted":
			return Outcome(case.name, "input not accepted by the library")
		report = self.convert(case, to)
		if isinstance(report, str) or not report.text:
			why = f"refused: {report}" if isinstance(report, str) else f"input {report.verdict}"
			return Outcome(case.name, re.sub(r"<text>|\S+\.json", "it", why)[:70])
		wrong = [f"validator: {n.message}" for n in report.notes if n.status == "check" and n.setting not in EXPECTED]
		wrong += self.after(case, report, before, to)
		return Outcome(case.name, "same run" if report.equivalent else "said what differs", tuple(wrong))

	def after(self, case: Case, report: ConvertReport, before: Answer, to: str) -> Iterator[str]:
		said, state = said_of(report), before["facts"]["state"]
		if to == "trainer":
			yield from self.trained(report, state)
		elif to == "python":
			yield from self.code_builds(case, report, state)
		else:
			after = self.launched_again(case, report, to)
			if after["verdict"] != "accepted":
				yield from filter(None, [refusal(after)])
			elif to == "launch":
				yield from unlike(before["facts"], after["facts"], said)
			else:
				compare = other_fsdp if state["fsdp_plugin"] and to == "fsdp2" else other_backend
				yield from compare(state, after["facts"]["state"], said)

	def launched_again(self, case: Case, report: ConvertReport, to: str) -> Answer:
		if to in IN_PLACE:
			return self.of_text(case, report.text)
		variables, words = command_of(report)
		return self.launched(case, flags=[], environment=variables, words=[*flags(case.data), *words])

	def trained(self, report: ConvertReport, meant: Facts) -> Iterator[str]:
		data = yaml.safe_load(report.text)
		config = data.pop("fsdp_config", None) or data.pop("deepspeed", None)
		if not isinstance(config, dict):
			return
		asked: Answer = {"mode": "fsdp" if "fsdp" in data else "trainer", "config": "c.json", "world_size": 2}
		asked |= {"files": {"c.json": json.dumps(config)}}
		asked["arguments"] = {name: value for name, value in data.items() if name != "output_dir"}
		answer = self.libraries.oracle("deepspeed", environment.PINS["deepspeed"]).ask(asked)
		yield from filter(None, [refusal(answer)])
		ours: Any = (answer.get("facts") or {}).get("plugin")
		theirs = meant["fsdp_plugin"]
		if ours and theirs:
			strategy = "reshard_after_forward" if ours["fsdp_version"] == 2 else "sharding_strategy"
			yield from (f"trainer {text}" for text in senses(ours, theirs, (*FIELDS, strategy), said_of(report)))

	def code_builds(self, case: Case, report: ConvertReport, state: Facts) -> Iterator[str]:
		meant = {name: value for name, value in state.items() if name not in BESIDE}
		if isinstance(mesh := meant.get("parallelism_config"), dict):
			meant["parallelism_config"] = {k: v for k, v in mesh.items() if k != "device_mesh"}
		if "dynamo_plugin=" not in report.text:
			del meant["dynamo_plugin"]
		if state["num_processes"] == 1 and "torchrun" in report.text:
			return  # the worker starts one process without torchrun
		code = report.text + f"MEANT = {json.dumps(meant)!r}\n" + SAME
		asked = {"mode": "python", "name": "p.py", "config": "", "files": case.companions, "code": code}
		answer = self.libraries.oracle("snippets", self.release).ask({**asked, "processes": state["num_processes"]})
		yield from filter(None, [refusal(answer)])


def command_of(report: ConvertReport) -> tuple[dict[str, str], list[str]]:
	words = shlex.split(report.text.replace("\\\n", " "))
	start = words.index("accelerate")
	return dict(word.split("=", 1) for word in words[:start]), words[start + 2 :]


def said_of(report: ConvertReport) -> set[str]:
	return {note.setting for note in report.notes if note.status in ("lost", "changed", "open")}


def side_by_side(bench: Bench, cases: Sequence[Case], home: environment.Environment) -> Iterator[str]:
	"""How many FSDP1 files each of the two keeps whole, by what; a table."""
	ours: dict[str, ConvertReport] = {}
	for case in cases:
		report = bench.convert(case, "fsdp2")
		sharded = case.data.get("distributed_type") == "FSDP" and "fsdp_config" in case.data
		if sharded and isinstance(report, ConvertReport) and report.verdict == "converted":
			ours[case.name] = report
	chosen = [case for case in cases if case.name in ours]
	texts = json.dumps([case.text for case in chosen])
	done = subprocess.run([home.python, "-c", TO_FSDP2], input=texts, capture_output=True, text=True, check=True)
	theirs = dict(zip((case.name for case in chosen), json.loads(done.stdout), strict=True))
	counts: Counter[tuple[str, str]] = Counter()
	for case in chosen:
		for who, text in (("ours", ours[case.name].text), ("to-fsdp2", theirs[case.name])):
			said = said_of(ours[case.name]) if who == "ours" else set()
			counts.update((who, what) for what in kept(bench, case, text, said))
			counts[who, "comments"] += len(comments(text))
	yield f"| FSDP1 to FSDP2, {len(chosen)} files | here | `accelerate to-fsdp2` |"
	yield "|---|---:|---:|"
	for what, name in (
		*zip(KEPT, KEPT, strict=True),
		("comments", f"comments, of {sum(len(comments(one.text)) for one in chosen)}"),
	):
		yield f"| {name} | {counts['ours', what]} | {counts['to-fsdp2', what]} |"


KEPT = ("accepted by the library", "nothing new for the validator", "order of keys", "same meaning, or said")


def kept(bench: Bench, case: Case, text: str, said: set[str]) -> Iterator[str]:
	made = Case(case.name, "accelerate", text, case.suffix)
	old, new = bench.launched(case), bench.launched(made)
	if new["verdict"] == "accepted":
		yield KEPT[0]
	if not clean(bench, text) - clean(bench, case.text):
		yield KEPT[1]
	if in_order(case.data, made.data) and in_order(case.data["fsdp_config"], made.data.get("fsdp_config")):
		yield KEPT[2]
	if old["verdict"] == new["verdict"] == "accepted" and not list(
		other_fsdp(old["facts"]["state"], new["facts"]["state"], said)
	):
		yield KEPT[3]


def in_order(one: Any, other: Any) -> bool:  # of the keys that both have
	return [key for key in one or () if key in (other or ())] == [key for key in other or () if key in (one or ())]


def comments(text: str) -> list[str]:
	return re.findall(r"(?m)(?:^|[ \t])(#.*)$", text)


def clean(bench: Bench, text: str) -> set[str]:
	report = api.validate_text(text, bench.options, "config.yaml")
	return {one.code + one.message for file in report.files for one in file.findings if one.severity.value != "info"}


def round_trip(bench: Bench, case: Case, there: str, back: str) -> Outcome | None:
	"""A file through another spelling; None where it does not go there."""
	first, before = bench.convert(case, there), bench.launched(case)
	if before["verdict"] != "accepted" or isinstance(first, str) or not first.text:
		return None
	if isinstance(second := way_back(bench, case, first, back), str):
		known = "runs MULTI_GPU" in second  # stage 0
		return Outcome(case.name, "said what differs" if known else "no way back", () if known else (second[:200],))
	text, said, same = second
	after = bench.of_text(case if there in IN_PLACE else replace(case, suffix=".yaml"), text)
	if after["verdict"] != "accepted":
		return Outcome(case.name, "refused", (refusal(after),))
	compare = changed_on_the_way if there in IN_PLACE else unlike
	state = "same run" if same and first.equivalent else "said what differs"
	return Outcome(case.name, state, tuple(compare(before["facts"], after["facts"], said_of(first) | said)))


def way_back(bench: Bench, case: Case, first: ConvertReport, back: str) -> tuple[str, set[str], bool] | str:
	"""The file that comes of the middle one, what is told, and whether it claims to be the same."""
	if first.to == "launch":
		variables, words = command_of(first)
		command = parsed(words, bench.release).document
		command.data["environment"].update(variables)
		hub, notes = from_launch(command, None, bench.release)
		return hub.text, {note.setting for note in notes}, not any(note.status == "lost" for note in notes)
	options = bench.options._replace(kind=KINDS.get(first.to))
	world = yaml.safe_load(case.text).get("num_processes")
	try:
		second = api.convert_text(first.text, back, options, case.companions)
	except BadConversionError as error:
		return str(error)
	text, said = second.text, said_of(second)
	if first.to == "trainer":
		said -= {"distributed_type"} if case.data["distributed_type"] == "MULTI_GPU" else set()
		if "fsdp_sharding_strategy" in said:  # as it was
			text = text.replace("FULL_SHARD", str(case.data["fsdp_config"]["fsdp_sharding_strategy"]))
	if options.kind and isinstance(world, int):
		text = f"num_processes: {world}\n" + text
	if world == 1:  # torchrun starts one process as it does eight
		said |= {"distributed_type", "num_machines"}
	return (text, said, second.equivalent) if second.text else f"{[one.message for _, one in second.findings]}"


def changed_on_the_way(before: Facts, after: Facts, said: set[str]) -> Iterator[str]:
	old, new = before["state"]["deepspeed_plugin"], after["state"]["deepspeed_plugin"]
	for name in ("zero_stage", "offload_optimizer_device", "offload_param_device", "zero3_init_flag"):
		unread = name == "offload_param_device" and old["zero_stage"] < 3
		if old.get(name) != new.get(name) and name not in said and not unread:
			yield f"{name}: {old.get(name)} and {new.get(name)}"


def show(title: str, outcomes: Sequence[Outcome]) -> tuple[int, str]:
	"""Print what came of one conversion; give the number of wrong ones, and a row."""
	states, wrong = Counter(one.state for one in outcomes), [one for one in outcomes if one.wrong]
	print(f"{title}: {len(outcomes)} files; " + ", ".join(f"{count} {state}" for state, count in states.most_common()))
	print(f"  {len(wrong)} wrong")
	kinds = {re.sub(r"\d+", "N", text)[:150]: one.name for one in wrong for text in one.wrong}
	print("\n".join(f"    {text} ({name})" for text, name in kinds.items()))
	same, differs = states["same run"], states["said what differs"]
	return len(wrong), f"| {title} | {same + differs} | {same} | {differs} | {len(wrong)} |"


def main(arguments: Sequence[str] | None = None) -> int:
	parser = argparse.ArgumentParser(description="Convert the corpus, and ask the real libraries about the results.")
	parser.add_argument("--release", default=environment.PINS["accelerate"])
	parser.add_argument("--count", type=int, default=10_000, help="files at most")
	targets = ",".join((*IN_PLACE, "launch", "python", "trainer", *TRIPS))
	parser.add_argument("--to", default=targets, help="targets, joined by commas")
	parser.add_argument("--write", action="store_true", help="keep the figures in README.md")
	options = parser.parse_args(arguments)
	home = environment.default()
	cases = [case for case in corpus() if case.kind == "accelerate" and isinstance(case.data, dict)][: options.count]
	rows, table, failures = [*HEAD], list[str](), 0
	with ExitStack() as stack:
		bench = Bench(Libraries(home, stack), options.release)
		for to in options.to.split(","):
			trip = TRIPS.get(to)
			found = [round_trip(bench, case, *trip) if trip else bench.outcome(case, to) for case in cases]
			title = f"there and back: `{'`, `'.join(trip)}`" if trip else f"`--to {to}`"
			wrong, row = show(title, [one for one in found if one])
			failures, rows = failures + wrong, [*rows, row]
			table = list(side_by_side(bench, cases, home)) if to == "fsdp2" else table
	print(text := "\n".join([*rows, "", *table]) + "\n")
	if options.write:
		keep_figures("conversion", text)
	return int(bool(failures))


HEAD = ("| conversion | files | the same run | differs, and says so | wrong |", "|---|---:|---:|---:|---:|")


if __name__ == "__main__":
	sys.exit(main())
