"""A launch command, with or without a config file, as one config file."""

import shlex
from typing import Any

from ..flow.command import CommandLine, command_line
from ..flow.launch import launch_of
from ..flow.placement import block_of
from ..knowledge import accelerate as knowledge
from ..model import Context
from ..model_convert import BadConversionError, Note
from ..sources.document import OPEN, Document
from .draft import Draft, entries, fresh
from .source import Settings, table, truth

# What decides about the launcher, or is the script's.
STRUCTURE = ("config_file", "cpu", "use_parallelism_config", "training_script", "training_script_args", "help")


def to_config(command: Document, config: Document | None, release: str) -> tuple[Document, tuple[Note, ...]]:
	"""The config that starts the same run, and what has to stay on the command line."""
	if command.data.get("launcher") not in ("accelerate", "accelerate-launch"):
		raise BadConversionError(f"{command.path} starts {command.data.get('launcher')}, which reads no such config")
	line = command_line(command, release)
	for fault in line.faults:
		raise BadConversionError(f"{command.path}: argparse refuses {fault.text or 'it'} ({fault.name})")
	launch = launch_of(config, release, Context(), line)
	if launch is None:
		raise BadConversionError(f"{config.path if config else command.path}: nothing says how it is launched")
	kind, count = launch.distributed_type, launch.arguments["num_processes"].value
	if launch.value("cpu"):
		kind = "MULTI_CPU" if count is OPEN or (isinstance(count, int) and count > 1) else "NO"
	draft = Draft(config or fresh(command, start(kind)))
	if launch.value("cpu"):
		draft.set(True, "use_cpu")
	if draft.document.get("distributed_type") != kind:
		draft.set(kind, "distributed_type")
	if config is not None:
		beaten(draft, kind, launch.uses_parallelism)
	place(draft, said(line, launch.uses_parallelism, draft), release)
	if line.open_at is not None and line.open_at != line.script:
		told, where = "the shell fills it in: what it holds is not here", command.place(line.at(line.open_at)).line
		draft.say("open", line.text(line.open_at), told, where)
	place(draft, variables(line, draft), release)
	if count is OPEN and "num_processes" not in line.given:
		draft.say("open", "num_processes", "as many as the machine has devices: write how many")
	about_command = len(draft.notes)
	if config is not None:
		draft.finished()
	of_config = (note._replace(line=None) for note in draft.notes[about_command:])
	return draft.document, (*draft.notes[:about_command], *of_config)


def beaten(draft: Draft, kind: str, parallel: bool) -> None:
	"""Drop the blocks that a flag of the command leaves without a reader."""
	own = {"FSDP": "fsdp_config", "DEEPSPEED": "deepspeed_config", "MEGATRON_LM": "megatron_lm_config"}
	other = draft.first.get("distributed_type") != kind
	blocks = [block for name, block in own.items() if name != kind and other]
	for block in (*blocks, *(() if parallel else ("parallelism_config",))):
		if draft.first.has(block):
			told = f"goes from {draft.first.path}: as {kind}, which the command asks for, the run does not read it"
			draft.say("same", block, told)
			draft.remove(block)


def script_in(command: Document, release: str) -> str:
	"""The script of a command with its arguments, in the words of the shell where they are open."""
	line = command_line(command, release)
	first = len(line.tokens) if line.script is None else line.script
	tokens = [*enumerate(line.tokens)][first:]
	return " ".join(line.text(index) if token is OPEN else shlex.quote(token) for index, token in tokens)


def start(kind: str) -> dict[str, Any]:
	return {"compute_environment": "LOCAL_MACHINE", "distributed_type": kind}


def said(line: CommandLine, parallel: bool, draft: Draft) -> Settings:
	"""The options that are given a value a file can hold; notes on the others."""
	known = knowledge.for_release(line.release)
	for name, given in line.given.items():
		if name in STRUCTURE or name in table("surfaces", "types"):
			continue
		flag, where = f"--{name}", line.document.place(line.at(given.flag)).line
		if given.value is OPEN:
			draft.say("open", name, f"the shell fills it in: write its value, or keep {flag}", where)
		elif name.startswith("parallelism_config_") and not parallel:
			draft.say("same", name, "without --use_parallelism_config nothing reads it", where)
		elif block_of(name, line.release) or (name in known.cluster_fields and known.options[name].default is None):
			yield name, given.value
		else:
			draft.say("open", name, f"no file sets it: keep {flag} on the command line", where)
	if line.value("use_parallelism_config") and not any(name.startswith("parallelism_config_") for name in line.given):
		yield "parallelism_config_dp_replicate_size", 1


def variables(line: CommandLine, draft: Draft) -> Settings:
	"""What variables in front of the command say that a file has a key for; notes on the others."""
	options = {variable: option for option, variable in table("surfaces", "environment").items()}
	for name, value in line.environment.items():
		option = options.get(name, "")
		if value is not OPEN and option not in ("", "gpu_ids", *line.given):
			yield option, value
		else:
			draft.say("open", name, f"no file sets it: keep {name} in front of the command")


def place(draft: Draft, settings: Settings, release: str) -> None:
	known = knowledge.for_release(release)
	for name, given in settings:
		value: Any = list(map(bool, given)) if isinstance(given, tuple) else given
		if isinstance(value, str) and value.lower() in ("true", "false"):
			value = truth(value)
		if name == "fsdp_version":
			value = int(value)
		block = block_of(name, release)
		keys = {known.destination(block, key): key for key in entries(draft.document, block)} if block else {}
		draft.set(value, *([block] if block else []), keys.get(name, name))
