"""What the real libraries make of one answer of triage: see the module `triage`."""

import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from tests.oracle.cases import Case, questions
from tests.oracle.client import Answer, Library, Oracle
from tests.oracle.environment import PINS, Environment

# Errors of a machine without a GPU, or of packages that are not here: they say nothing about a config or a script.
NOT_HERE = (
	"torch_xla",
	"No module named",
	"Megatron is not installed",
	"_cuda_",
	"accelerator device when none",
	"not compiled with CUDA",
	"MagicMock",
	"is required for a normal functioning",
)


class Emitted(NamedTuple):
	"""A candidate of one answer: its files by name, and the facts and the setup behind them."""

	name: str
	facts: Any
	setup: Any
	files: Mapping[str, str]

	@property
	def companions(self) -> dict[str, str]:
		return {name: text for name, text in self.files.items() if name == "ds_config.json"}


class Failure(NamedTuple):
	check: str
	what: str
	why: str
	text: str


class Libraries:
	def __init__(self, home: Environment, stack: ExitStack) -> None:
		self.home, self.stack = home, stack
		self.known: dict[tuple[Library, str], Oracle] = {}

	def oracle(self, library: Library, release: str) -> Oracle:
		key = (library, release)
		if key not in self.known:
			self.known[key] = self.stack.enter_context(Oracle(self.home, library, release))
		return self.known[key]


def outcome(check: str, what: str, answer: Answer, text: str) -> Failure | str:
	error = (answer.get("error") or {}).get("message", "")
	if answer["verdict"] == "accepted":
		return check
	if answer["verdict"] == "undecided" or any(part in error for part in NOT_HERE):
		return f"{check}, undecided"
	return Failure(check, what, f"{answer.get('stage', '')}: {error}"[:600], text)


def check(one: Emitted, libraries: Libraries) -> Iterator[Failure | str]:
	"""Everything about one candidate: failures, and the names of the checks that passed."""
	yield from clean(one)
	yield from accepted(one, libraries)
	yield from deepspeed_accepts(one, libraries)
	yield from same_in_code(one, libraries)
	yield from commands(one, libraries)


def clean(one: Emitted) -> Iterator[Failure | str]:
	from distributed_training_backends import api

	options = api.Options(one.facts.versions)
	report = api.validate_text(one.files["accelerate.yaml"], options, "accelerate.yaml", one.companions)
	found = [finding for file in report.files for finding in file.findings if finding.severity.value != "info"]
	if found or report.exit_code:
		said = "; ".join(f"{finding.code} {finding.message}" for finding in found)
		yield Failure("validator", one.name, said, one.files["accelerate.yaml"])
	else:
		yield "validator"


def launch_question(one: Emitted) -> dict[str, Any]:
	case = Case("triage", "accelerate", one.files["accelerate.yaml"], files=one.companions)
	question = questions(case)["launch"]
	return {**question, "gpus": max(8, one.setup.world)}


def accepted(one: Emitted, libraries: Libraries) -> Iterator[Failure | str]:
	"""`accelerate launch` takes the file, and Accelerator() builds what was meant."""
	answer = libraries.oracle("accelerate", one.facts.versions.accelerate).ask(launch_question(one))
	yield outcome("launch", one.name, answer, one.files["accelerate.yaml"])
	if answer["verdict"] == "accepted":
		wrong = list(differences(one, answer["facts"]))
		yield Failure("meaning", one.name, "; ".join(wrong), one.files["accelerate.yaml"]) if wrong else "meaning"


def differences(one: Emitted, facts: Mapping[str, Any]) -> Iterator[str]:
	setup, state = one.setup, facts["state"]
	if state["num_processes"] != setup.world:
		yield f"{state['num_processes']} processes, not {setup.world}"
	stages = {"zero1": 1, "zero2": 2, "zero3": 3}
	if setup.backend in stages and facts["deepspeed"]["stage"] != stages[setup.backend]:
		yield f"stage {facts['deepspeed']['stage']}"
	plugin = state["fsdp_plugin"] if setup.backend in ("fsdp1", "fsdp2") else None
	if plugin and setup.backend == "fsdp2":
		if (plugin["fsdp_version"], plugin["reshard_after_forward"]) != (2, setup.reshard):
			yield f"FSDP {plugin['fsdp_version']}, reshard {plugin['reshard_after_forward']}"
		offloads = "CPUOffloadPolicy" in str(plugin["cpu_offload"])
		if offloads != (setup.offload_params == "cpu"):
			yield f"offload {plugin['cpu_offload']}"
	mesh = (state.get("mesh") or {}).get("shape") or []
	sizes = [size for size in (setup.replicate, setup.shard, setup.cp, setup.tp) if size > 1]
	if setup.backend == "fsdp2" and setup.replicate * setup.cp * setup.tp > 1 and sorted(mesh) != sorted(sizes):
		yield f"mesh {mesh}, not {sizes}"
	megatron = state["megatron_lm_plugin"] if setup.backend == "megatron" else None
	if megatron and (megatron["tp_degree"], megatron["pp_degree"]) != (setup.tp, setup.pp):
		yield f"degrees {megatron['tp_degree']} and {megatron['pp_degree']}"


def deepspeed_accepts(one: Emitted, libraries: Libraries) -> Iterator[Failure | str]:
	"""This release of DeepSpeed initialises an engine with the JSON, through Accelerate and through the Trainer."""
	if not one.companions:
		return
	text = one.files["ds_config.json"]
	asked = questions(Case("triage", "deepspeed", text, ".json"))
	for reader in ("accelerate", "trainer"):
		answer = libraries.oracle("deepspeed", one.facts.versions.deepspeed).ask(asked[reader])
		yield outcome(f"DeepSpeed through {reader}", one.name, answer, text)


# What the objects leave to the launcher's variables, so that only these may differ.
LEFT_OUT = {"variables", "device", "backend", "gradient_accumulation_steps", "process_groups", "debug"}
SAME = """
import json
from tests.oracle import building, worker
wrong = list(worker.unlike(building.describe(accelerator), json.loads(MEANT)))
assert not wrong, "UNLIKE " + "; ".join(f"{name}: {mine} and {other}" for name, mine, other in wrong)
"""


def same_in_code(one: Emitted, libraries: Libraries) -> Iterator[Failure | str]:
	code = one.files.get("plugins.py")
	if code is None or one.setup.backend in ("xla", "cpu"):
		return
	config = libraries.oracle("accelerate", one.facts.versions.accelerate).ask(launch_question(one))
	if config["verdict"] != "accepted":
		return
	if one.companions and one.setup.world == 1:
		yield "plugins, undecided"  # the worker starts one process without a launcher, which DeepSpeed refuses
		return
	meant = what_counts(config["facts"]["state"], one)
	code += f"MEANT = {json.dumps(meant)!r}\n" + SAME
	processes = one.setup.world if one.setup.world > 1 or one.companions else 1
	question = {"mode": "python", "name": "plugins.py", "config": "", "files": one.companions, "processes": processes}
	answer = libraries.oracle("snippets", one.facts.versions.accelerate).ask({**question, "code": code})
	yield outcome("plugins", one.name, answer, one.files["plugins.py"])


def what_counts(state: Mapping[str, Any], one: Emitted) -> dict[str, Any]:
	meant = {name: value for name, value in state.items() if name not in LEFT_OUT}
	if one.setup.comm_hook != "no":
		del meant["ddp_handler"]
	if one.facts.precision == "fp16":  # the worker's tensors live on the CPU, where fp16 has no scaler
		del meant["native_amp"], meant["scaler"]
	if not one.setup.compile:
		del meant["dynamo_plugin"]
	if isinstance(meant.get("parallelism_config"), dict):  # the mesh is compared as a mesh; here lives on the CPU
		meant["parallelism_config"] = {k: v for k, v in meant["parallelism_config"].items() if k != "device_mesh"}
	return meant


def commands(one: Emitted, libraries: Libraries) -> Iterator[Failure | str]:
	for name in ("launch.sh", "slurm.sbatch"):
		if name in one.files:
			checked = subprocess.run(["bash", "-n"], input=one.files[name], text=True, capture_output=True, check=False)
			yield Failure(name, one.name, checked.stderr, one.files[name]) if checked.returncode else name
	compile(one.files["script_lines.py"], "script_lines.py", "exec")
	for line in one.files["launch.sh"].splitlines():
		if line.startswith("accelerate "):
			words = [word.replace("$RANK", "0").replace("$MAIN_ADDRESS", "10.0.0.1") for word in shlex.split(line)]
			files = {
				**one.companions,
				"accelerate.yaml": one.files["accelerate.yaml"],
				"hostfile": "a\n",
				"train.py": "",
			}
			snippets = libraries.oracle("snippets", one.facts.versions.accelerate)
			answer = snippets.ask({"mode": "shell", "command": words, "files": files})
			yield outcome("command", one.name, answer, line)


# --- what is removed ---


def refused(removed: tuple[Any, Any, Any], libraries: Libraries) -> Iterator[Failure | str]:
	"""A removal has a source; one that the library is said to make is asked for."""
	from distributed_training_backends.resources import load_json
	from distributed_training_backends.triage import emit

	facts, setup, obstacle = removed
	if not obstacle.source:
		yield Failure("removal", obstacle.row, "no source", obstacle.reason)
	rows = {row["id"]: row for row in load_json("compatibility.json")["rows"]}
	if not rows.get(obstacle.row, {}).get("refused"):
		yield "removal with a source"
		return
	newest = facts._replace(versions=facts.versions._replace(accelerate=PINS["accelerate"]))
	files = {file.name: file.text for file in emit.files(newest, setup)}
	text = files["accelerate.yaml"]
	if obstacle.row == "zero-fp8":
		text += "mixed_precision: fp8\n"
	one = Emitted(obstacle.row, facts, setup, {**files, "accelerate.yaml": text})
	answer = libraries.oracle("accelerate", facts.versions.accelerate).ask(launch_question(one))
	if answer["verdict"] == "rejected":
		yield "removal, refused by the library"
	else:
		yield Failure("removal", obstacle.row, f"the library says {answer['verdict']}", text)
