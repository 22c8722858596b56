"""A launch command, with or without a config file, as one config file; and a config as a command that needs no file."""

import shlex
from typing import Any

from ..flow.arguments import PARADIGMS
from ..flow.command import CommandLine, command_line
from ..flow.effect import same
from ..flow.launch import ROUTES, launch_of
from ..flow.placement import block_of
from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate import Option
from ..model import Context
from ..model_convert import BadConversionError, Note
from ..sources.document import OPEN, Document
from ..sources.writing import write
from ..versions import covers
from .source import Draft, Run, Settings, entries, fresh, table, truth

# What decides about the launcher, or is the script's.
STRUCTURE = {"config_file", "cpu", "use_parallelism_config", "training_script", "training_script_args", "help"}
STRUCTURE |= {option for option, _ in PARADIGMS.values()}


def to_config(
	command: Document, config: Document | None, release: str, context: Context | None = None
) -> tuple[Document, tuple[Note, ...]]:
	"""The config that starts the same run, and what has to stay on the command line."""
	if command.data.get("launcher") not in ("accelerate", "accelerate-launch"):
		raise BadConversionError(f"{command.path} starts {command.data.get('launcher')}, which reads no such config")
	line = command_line(command, release)
	for fault in line.faults:
		raise BadConversionError(f"{command.path}: argparse refuses {fault.text or 'it'} ({fault.name})")
	launch = launch_of(config, release, context or Context(), line)
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
		if name in STRUCTURE:
			continue
		flag, where = f"--{name}", line.document.place(line.at(given.flag)).line
		if given.value is OPEN:
			draft.say("open", name, f"the shell fills it in: write its value, or keep {flag}", where)
		elif name.startswith("parallelism_config_") and not parallel:
			draft.say("same", name, "without --use_parallelism_config nothing reads it", where)
		elif block_of(name, line.release) or (name in known.cluster and known.options[name].default is None):
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


DEFAULT_CONFIG = (
	"nothing else is read, unless this user has a default config file: accelerate launch reads it where none is given"
)
TOP = ("mixed_precision", "gpu_ids", "debug", "machine_rank", "main_process_ip", "main_process_port")
# Without these the command line would take something else than the file does.
TOLD_APART = ("mixed_precision", "num_processes", "use_cpu", "distributed_type")


class Flags:
	"""The words of the command, and what they cannot say."""

	def __init__(self, run: Run) -> None:
		self.run, self.launch, self.options = run, run.launch, run.known.options
		self.words: list[list[str]] = []
		self.variables: list[str] = []

	def say(self, name: str, value: Any) -> None:
		words = spelled(self.options[name], value)
		if words is None:
			self.run.about("lost", name, f"{write(value, 'yaml')} cannot be given on the command line")
		elif words:
			self.words.append(words)

	def changed(self, name: str, why: str) -> None:
		self.run.note("changed", name, why, name)

	def paradigm(self) -> None:
		run, launch = self.run, self.launch
		(flag, _), cpu = PARADIGMS.get(run.route, ("", "")), run.on("use_cpu")
		if run.route == "multi_device" and launch.world == 1:
			self.changed("distributed_type", "--multi_gpu wants two processes: one is started without torchrun")
		elif flag or cpu:
			self.words.append([f"--{flag or 'cpu'}"])
		if flag and cpu:
			run.note("same", "use_cpu", f"beside --{flag} it reaches no process", "use_cpu")
		if run.route == "tpu":
			self.words += [["--tpu_cluster"]] if run.value("tpu_use_cluster") is True else []
			self.say("main_training_function", run.value("main_training_function"))
		if launch.uses_parallelism and run.route == "fsdp" and run.fsdp2:
			self.words.append(["--use_parallelism_config"])

	def counts(self) -> None:
		"""How many processes and machines: what the command line takes for granted is not what a file does."""
		run, launch = self.run, self.launch
		world, machines = run.value("num_processes"), run.value("num_machines")
		if world in (None, -1):
			run.note("open", "num_processes", "give --num_processes, which the file leaves open too", "num_processes")
		else:
			# One process, whatever the number; the command line would start several.
			one = run.route == "simple" and launch.distributed_type in ("NO", None) and not run.on("use_cpu")
			if one and world != 1:
				self.changed("num_processes", f"{world}: distributed_type NO starts one process, and so does 1")
			self.say("num_processes", 1 if one else world)
		if machines != 1:
			self.say("num_machines", machines)
			if not launch.given("machine_rank"):
				self.say("machine_rank", run.value("machine_rank"))

	def given(self, name: str) -> None:
		run, argument = self.run, self.launch.arguments.get(name)
		if argument is None or argument.pointer is None or (name == "gpu_ids" and argument.value == "all"):
			return
		value, variable = argument.value, table("surfaces", "environment").get(name)
		if name.startswith("parallelism_config_") and not (run.route == "fsdp" and run.fsdp2):
			if value not in (None, 1):
				run.about("lost", name, "the command line takes it with --use_fsdp and --fsdp_version 2 only")
		elif variable and not self.works(name):
			if value is not None:
				self.variables.append(f"{variable}={shlex.quote(str(value))}")
		elif name in self.options:
			alone = name == "machine_rank" and run.value("num_machines") == 1
			if name not in ("num_machines", "num_processes") and not alone:
				self.say(name, value)
		elif value is not None:
			run.about("lost", name, "no flag sets it" + ("" if name.startswith("tpu_") else ", and nothing reads it"))

	def works(self, name: str) -> bool:
		spans = table("surfaces", "refused_flags").get(name)
		return name in self.options and not (spans and covers(spans, self.run.release))

	def unread(self) -> None:
		"""Keys at the top that the launcher does not take from a file, and what stands there for no flag at all."""
		run = self.run
		for key, value in run.first.data.items():
			argument, flag = self.launch.arguments.get(str(key)), str(key) in self.options
			if argument is not None and argument.pointer is None and flag:
				if key not in TOLD_APART and value is not None and not same(value, argument.value):
					told = f"accelerate launch ignores it in a file ({write(argument.value, 'yaml')} takes effect)"
					run.note("open", key, f"{told}; give --{key} {write(value, 'yaml')} if it was meant", key)
			elif argument is not None and str(key).startswith("tpu_") and not flag and value:
				run.note("lost", key, "no flag sets it", key)
		kind = self.launch.distributed_type
		if run.route == "simple" and kind not in (*ROUTES, "NO", None) and not run.on("use_cpu"):
			self.changed("distributed_type", f"no flag says {kind}: on a machine with GPUs it would be MULTI_GPU")


def to_flags(run: Run) -> str:
	flags = Flags(run)
	flags.paradigm()
	flags.counts()
	for name in TOP:
		flags.given(name)
	for block in run.known.cluster:
		if block != "parallelism_config" or run.launch.uses_parallelism:
			for name in run.keys(block):
				flags.given(name)
	flags.unread()
	run.note("same", "config_file", DEFAULT_CONFIG)
	first = " ".join([*flags.variables, "accelerate launch"])
	return " \\\n    ".join([first, *map(shlex.join, flags.words), run.script]) + "\n"


def spelled(option: Option, value: Any) -> list[str] | None:
	"""The words that give an option a value; none where it has it anyway, None where they cannot."""
	flag = option.flags[0] if option.flags[0].startswith("--") else option.flags[-1]
	if option.action == "store_true":
		return [flag] if truth(value) else []
	if value is None:
		return [] if option.default is None else None
	if option.type == "bool":  # any text but the empty one is true
		return [] if truth(value) is option.default else [flag, "true" if truth(value) else ""]
	if isinstance(value, (list, tuple)) and "split(','" in (option.type or ""):
		return [flag, ",".join(map(word, value))]
	if isinstance(value, (dict, list)) or not fits(option, value):
		return None
	text = word(value)
	if option.choices and text not in option.choices:
		text = next((str(one) for one in option.choices if str(one).lower() == text.lower()), "")
		return [flag, text] if text else None
	return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def fits(option: Option, value: Any) -> bool:
	"""Tell whether the parser can read the text of a value as a number, where it wants one."""
	number = {"int": int, "float": float}.get(option.type or "")
	if number is None or isinstance(value, bool):
		return number is None
	try:
		number(str(value))
	except ValueError:
		return False
	return True


def word(value: Any) -> str:
	return str(value).lower() if isinstance(value, bool) else str(value)
