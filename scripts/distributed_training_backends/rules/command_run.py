"""XCF and LCH rules about a command together with a file, a job, or another launcher."""

import re
from collections.abc import Iterator
from typing import Any

from ..flow.arguments import paradigm_of
from ..flow.command import CommandLine, flags_of
from ..flow.effect import same
from ..flow.launch import BLOCKS, Launch, block_entries
from ..knowledge import accelerate as knowledge
from ..resources import load_json
from ..sources.document import OPEN, Document
from .cross_file import OVERRULED, PRECISION, file_of
from .registry import Hit, Hits, Operation, Repair, rule
from .suggest import shown

LAUNCHERS = load_json("launchers.json")
TORCHRUN = {*(name.replace("-", "_") for name in knowledge.TORCHRUN_OPTIONS), *LAUNCHERS["options"]["torchrun"]}
OWN = {
	"torchrun": TORCHRUN,
	"torch.distributed.launch": TORCHRUN | {"use_env"},
	"deepspeed": LAUNCHERS["options"]["deepspeed"],
}


@rule("XCF010", warning="*")
def paradigm_flag_drops_type(command: CommandLine, commanded: Launch) -> Hits:
	"""A paradigm on the command line makes the launcher pass over the file's `distributed_type`.

	With any of `--multi_gpu`, `--tpu`, `--use_deepspeed`, `--use_fsdp` and `--use_megatron_lm` neither
	`distributed_type` nor `parallelism_config` of the file counts. Source: 1.15.0, commands/launch.py,
	`_validate_launch_command`.
	"""
	config, name = commanded.document, paradigm_of(command)
	if name is None or command.value(name) is OPEN:
		return
	flag, kind = command.at(command.given[name].flag), config.get("distributed_type")
	multi = name == "multi_gpu" and str(kind).startswith("MULTI_") and kind != "MULTI_CPU"
	if kind is not None and kind != commanded.distributed_type and not multi:
		text = (
			f"--{name} makes accelerate pass over distributed_type {shown(kind)} of the file; remove the one not meant"
		)
		yield Hit(flag, text, related=(config.value("distributed_type"),))
	if config.get("parallelism_config") and not command.value("use_parallelism_config") and commanded.since("1.10.0"):
		text = f"--{name} makes accelerate pass over parallelism_config of the file; remove --{name}"
		yield Hit(flag, text, related=(config.key("parallelism_config"),))


@rule("XCF011", warning="..1.4.0")
def block_beats_flag(command: CommandLine, commanded: Launch) -> Hits:
	"""A block of the file sets the option that the command line sets too, and wins.

	Since 1.5.0 the command line wins. Source: 1.4.0, commands/launch.py, `_validate_launch_command`.
	"""
	for name, given in command.given.items():
		arg = commanded.arguments[name]
		if arg.document is None and arg.pointer is not None and not alike(given.value, arg.value):
			at, text = commanded.document.value(*arg.pointer), shown(arg.value)
			said = f"accelerate {commanded.release} takes {text} from the file, not {shown(given.value)} from here"
			yield Hit(command.at(given.where), f"{said}; use 1.5.0 or newer, or change the file", related=(at,))


@rule("XCF012", info="*")
def flag_beats_file(command: CommandLine, commanded: Launch) -> Hits:
	"""The command line sets what the file sets too, to another value, and wins.

	Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	for name, pointer, value in file_values(commanded):
		arg = commanded.arguments[name]
		if name in command.given and arg.document is not None and not alike(arg.value, value):
			text = f"--{name} {shown(arg.value)} of the command counts, not {shown(value)}"
			yield Hit(commanded.document.value(*pointer), text, related=(commanded.at(name),))


def alike(one: Any, other: Any) -> bool:
	return OPEN in (one, other) or same(one, other)


def file_values(launch: Launch) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
	for name, value in launch.document.data.items():
		if name in BLOCKS and isinstance(value, dict):
			for option, (key, item) in block_entries(name, value, launch.release):
				if option in launch.arguments:
					yield option, (name, key), item
		elif name in launch.arguments:
			yield name, (name,), value


@rule("XCF013", warning="*")
def deepspeed_file_beats_flags(command: CommandLine, deepspeed_launch: Launch) -> Hits:
	"""A DeepSpeed file, and on the command line settings that it decides.

	Accelerate refuses them in its own file, but passes over those on the command line without a word. Source: 1.15.0,
	utils/dataclasses.py, `DeepSpeedPlugin.__post_init__`.
	"""
	if file_of(deepspeed_launch) is None:
		return
	for name in OVERRULED:
		if name in command.given and name != PRECISION and deepspeed_launch.arguments[name].document is not None:
			text = f"--{name} has no effect beside a DeepSpeed file; write it in that file"
			yield Hit(
				command.at(command.given[name].where), text, related=(deepspeed_launch.at("deepspeed_config_file"),)
			)


@rule("LCH115", warning="*")
def processes_multiplied(command: CommandLine) -> Hits:
	"""Another launcher starts several copies of `accelerate launch` on a machine, and each starts several processes.

	Start one copy for each machine (`--ntasks-per-node=1`), and let it start the processes. Source: 1.15.0,
	commands/launch.py, `multi_gpu_launcher`.
	"""
	count, machines = command.value("num_processes"), command.value("num_machines")
	copies, at = copies_of(command)
	share = (
		count // max(machines or 1, 1)
		if isinstance(count, int) and (machines is None or isinstance(machines, int))
		else 0
	)
	if copies > 1 and share > 1 and not command.value("cpu"):
		text = f"{copies} copies of this command run on a machine, and each starts {share} processes"
		related = (command.document.value("scheduler", at),) if at in command.document.data["scheduler"] else ()
		yield Hit(command.at(-1), f"{text}; start one copy on each machine", related=related)


def copies_of(command: CommandLine) -> tuple[int, str]:
	prefix: list[str] = command.document.data["prefix"]
	if "srun" not in [word.rsplit("/", 1)[-1] for word in prefix]:
		return 1, ""
	if any(
		word.startswith(("-n", "-N", "--ntasks", "--nodes", "-r", "--relative", "-w", "--nodelist")) for word in prefix
	):
		told = [word.partition("=")[2] for word in prefix if word.startswith("--ntasks-per-node=")]
		return (int(told[-1]), "") if told and told[-1].isdecimal() else (1, "")
	value = command.document.data["scheduler"].get("ntasks-per-node", "")
	return (int(value), "ntasks-per-node") if value.isdecimal() and len(value) < 6 else (1, "")


@rule("LCH116", error="*", of="torch")
def option_of_another_launcher(runner: Document) -> Hits:
	"""An option of `accelerate launch`, or of the other one, before the script of `torchrun` or `deepspeed`.

	Their parsers refuse it. Source: torch 2.13.0, torch/distributed/run.py; deepspeed 0.19.8, launcher/runner.py.
	"""
	own = OWN[runner.data["launcher"]]
	sort = "deepspeed" if runner.data["launcher"] == "deepspeed" else "torchrun"
	instead = LAUNCHERS["instead"][sort]
	options = {flag for release in (knowledge.RELEASES[0], knowledge.RELEASES[-1]) for flag in flags_of(release)}
	for index, token in enumerate(runner.data["tokens"]):
		flag = token.partition("=")[0] if isinstance(token, str) else ""
		if token is OPEN or not flag.startswith("-"):
			if index == 0 or not takes_value(runner.data["tokens"][index - 1]) or flag.endswith(".py"):
				return  # the script, or what may be
			continue
		name = flag.lstrip("-").replace("-", "_")
		foreign = flag in options or name in instead
		if flag.startswith("--") and foreign and not any(known.startswith(name) for known in own):
			better = instead.get(name)
			advice = f"use {better}" if better else "only accelerate launch has it"
			yield Hit(runner.key("tokens", index), f"{sort} has no option {flag}; {advice}")


def takes_value(token: object) -> bool:
	text = token if isinstance(token, str) else ""
	return text.startswith("-") and "=" not in text and text.lstrip("-").replace("-", "_") not in LAUNCHERS["switches"]


@rule("LCH117", warning="*")
def secret_on_the_command_line(command: CommandLine) -> Hits:
	"""A key for AWS on the command line, where every user of the machine can read it.

	Use the profile of the config, or the environment. Source: 1.15.0, commands/launch.py, `aws_secret_access_key`.
	"""
	given = command.given.get("aws_secret_access_key")
	if given is not None and given.value is not OPEN:
		yield Hit(command.at(given.flag), "a secret on the command line can be read by every user of the machine")


@rule("LCH118", warning="*")
def crlf_line_ends(started: Document) -> Hits:
	"""A shell script whose lines end in CRLF, as git on Windows may check them out.

	To bash the carriage return is a part of the last word: `train.py` is not found, and a backslash before it continues
	no line. The commands are judged as with LF ends. Source: the Bash reference manual, "Shell Operation".
	"""
	for defect in started.defects:
		if defect.name == "crlf":
			ends = [found.start() for found in re.finditer("\r\n", started.text)]
			steps = tuple(Operation("text", (), "", extent=(end, end + 1)) for end in ends)
			whole = len(ends) == started.text.count("\n")  # else some may stand in data
			text = "lines end in CRLF: to bash the CR is a part of the last word, and \\ before it continues no line"
			repair = Repair("write LF line ends", steps)
			yield Hit(started.stretch(defect.extent), f"{text}; write LF line ends", repair if whole else None)


@rule("LCH119", warning="*")
def rank_filled_in_once(started: Document) -> Hits:
	"""A rank from a variable such as `SLURM_PROCID`, which the job's own shell fills in before srun starts the tasks.

	Every task gets the rank of that shell: 0. A shell of each task has to fill it in: `srun bash -c '…'` in single
	quotes, or a script of its own. No rank is read where the tasks meet by c10d. Source: Slurm's manual, srun, "OUTPUT
	ENVIRONMENT VARIABLES".
	"""
	prefix, job = " ".join(started.data["prefix"]), started.data["scheduler"]
	alone = re.search(r"(?<!\S)(?:-[Nn] ?|--(?:nodes|ntasks)[= ])1(?!\S)", prefix)
	unread = any(re.search(r"(?:^|=)(?:c10d|etcd)", str(token)) for token in started.data["tokens"])
	if alone or unread or "1" in (job.get("nodes"), job.get("ntasks")):
		return
	for defect in started.defects:
		if defect.name == "filled-once":
			text = f"{defect.detail} is filled in once, before srun starts the tasks, so that it is the same in each"
			yield Hit(started.stretch(defect.extent), f"{text}; write srun bash -c '… {defect.detail} …'")
