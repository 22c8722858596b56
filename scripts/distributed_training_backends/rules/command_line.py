"""LCH rules about the command line of `accelerate launch`: what its parser refuses or takes otherwise than meant."""

import re

from ..flow.arguments import FALSE, TRUE
from ..flow.command import CommandLine, Fault, flags_of
from ..knowledge import accelerate as knowledge
from ..model import Severity
from ..resources import load_json
from ..sources.document import OPEN, At
from ..versions import describe, in_span, parse
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import rewriting
from .suggest import closest, did_you_mean, listing, shown

# Options that no training script is likely to have for itself
DISTINCTIVE = re.compile(
	r"multi_gpu|num_machines|machine_rank|main_process_(ip|port)|same_network|rdzv_(backend|conf)|use_megatron_lm"
	r"|use_parallelism_config|num_cpu_threads_per_process|enable_cpu_affinity|mpirun_hostfile"
	r"|deepspeed_(hostfile|multinode_launcher|(ex|in)clusion_filter)|(dynamo|fp8|megatron_lm|parallelism_config|fsdp)_.*"
)
OF_THE_TRAINER = ("fsdp_config", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap")
OF_BOTH = ("num_processes", "gpu_ids", "use_fsdp", "use_deepspeed", "zero_stage", "mixed_precision", "config_file")
SWITCHED = (*TRUE, *FALSE, "none")


@rule("LCH100", error="*")
def unknown_launch_option(command: CommandLine) -> Hits:
	"""An option before the training script that the release does not have.

	argparse ends with "unrecognized arguments", and takes the word behind it for the training script; options of the
	script belong behind its name. Hyphens in the place of underscores are taken since 0.28.0. Source: 1.15.0,
	commands/launch.py, `launch_command_parser`; commands/utils.py, `CustomArgumentParser`.
	"""
	for fault in command.faults:
		if fault.name == "unknown" and fault.sure:
			why, better = instead_of(fault.text, command.release)
			at = command.at(fault.token)
			repair = Repair(f"write {better}", (Operation("rename", at.pointer, better),)) if better else None
			text = f"accelerate launch {command.release} has no option {fault.text}"
			yield Hit(at._replace(part="key"), f"{text}{why}", repair)


def instead_of(flag: str, release: str) -> tuple[str, str]:
	name = flag.lstrip("-").replace("-", "_")
	flags = flags_of(release)
	if f"--{name}" in flags and flag.startswith("--"):
		return f"; hyphens are taken since 0.28.0, write --{name}", f"--{name}"
	if ours := load_json("launchers.json")["instead"]["accelerate"].get(name):
		return f", which another launcher has; use {ours}", ""
	if (known := knowledge.for_release(release).options.get(name)) and known.flags:
		return did_you_mean(known.flags[0]), known.flags[0]
	if spans := knowledge.spans("options", name):
		first, last = spans[0][0], spans[-1][1]
		newer = bool(first) and parse(first) > parse(release)
		return f"; it exists {describe(first if newer else None, None if newer else last)}", ""
	style = [known for known in flags if known.startswith("--") and ("-" in flag[2:] or "-" not in known[2:])]
	near = closest(flag, style) if flag.startswith("--") else None
	longer = [known for known in style if known.startswith(flag)]  # accelerate takes no abbreviations
	near = near or (longer[0] if len(longer) == 1 and len(flag) > len("--x") else None)
	return did_you_mean(near) or "; options of the training script belong behind its name", near or ""


@rule("LCH101", warning="*")
def launcher_option_behind_script(command: CommandLine) -> Hits:
	"""An option of the launcher behind the name of the training script.

	All that follows goes to the script. A hint where scripts often have an option of that name themselves. Source:
	1.15.0, commands/launch.py, `training_script_args`.
	"""
	flags, told = flags_of(command.release), set[str]()
	lost = command.open_at is not None or any(fault.name == "unknown" for fault in command.faults)
	for index in () if lost else command.arguments:
		token = command.tokens[index]
		flag = token.partition("=")[0] if isinstance(token, str) else ""
		name = flags[flag][0].dest if flag.startswith("--") and flag in flags else ""
		sure = DISTINCTIVE.fullmatch(name) is not None and name not in OF_THE_TRAINER
		if (sure or name in OF_BOTH) and name not in command.given and name not in told:
			told.add(name)
			text = (
				f"{flag} stands behind {command.text(command.script or 0)} and goes to that script, not to accelerate"
			)
			severity = None if sure else Severity.INFO
			yield Hit(command.at(index)._replace(part="key"), f"{text}; write it before the script", severity=severity)


@rule("LCH102", error="*")
def invalid_option_value(command: CommandLine) -> Hits:
	"""A value that the parser refuses: of another type, or none of the choices, which are case-sensitive.

	Source: 1.15.0, commands/launch.py, `launch_command_parser`; argparse.
	"""
	for fault in command.faults:
		option = fault.option
		if option is None or fault.name not in ("wrong-type", "wrong-choice"):
			continue
		flag, at = option.flags[-1] if len(option.flags[0]) == 2 else option.flags[0], value_at(command, fault)
		if fault.name == "wrong-type":
			kind = {"int": "a whole number", "float": "a number"}.get(option.type or "", "true or false")
			yield Hit(at, f"{flag} takes {kind}, not {shown(fault.text)}")
			continue
		choices = [str(choice) for choice in option.choices or ()]
		near = closest(fault.text, choices)
		text = f"{flag} {fault.text} is refused (accelerate {command.release})"
		repair = rewriting(at, near) if near and near.lower() == fault.text.lower() else None
		yield Hit(at, f"{text}; write one of {listing(choices)}{did_you_mean(near)}", repair)


def value_at(command: CommandLine, fault: Fault) -> At:
	"""Point at the value of a fault, apart from the option where both are one word."""
	at = command.at(fault.token)
	inside = (*at.pointer, "value")
	return at._replace(pointer=inside) if inside in command.document.nodes else at


@rule("LCH103", error="*")
def option_without_value(command: CommandLine) -> Hits:
	"""An option that needs a value has none, or a switch has one.

	"expected one argument", or "ignored explicit argument", says argparse. Source: 1.15.0, commands/launch.py,
	`launch_command_parser`.
	"""
	for fault in command.faults:
		if fault.name == "no-value":
			yield Hit(command.at(fault.token), f"{fault.text} needs a value, and an option or nothing follows")
		elif fault.name == "ignored-value" and fault.option:
			flag = command.text(fault.token).partition("=")[0]
			repair = Repair(f"write {flag}", (Operation("text", (), flag, extent=extent_of(command, fault.token)),))
			yield Hit(command.at(fault.token), f"{flag} is a switch and takes no value; write it alone", repair)


def extent_of(command: CommandLine, token: int) -> tuple[int, int]:
	start, end = command.document.nodes["tokens", token].value
	return start, end


@rule("LCH104", warning="*")
def script_is_a_value(command: CommandLine) -> Hits:
	"""A word such as true or 8 behind a switch: it counts as the training script.

	Switches take no value. Python then looks for a file of that name. Source: 1.15.0, commands/launch.py,
	`training_script`.
	"""
	index = command.script
	word = command.tokens[index] if index is not None else None
	if index and isinstance(word, str) and (word.lower() in SWITCHED or word.isdecimal()):
		before = command.text(index - 1)
		if before in flags_of(command.release):
			yield Hit(
				command.at(index), f"{shown(word)} counts as the training script: {before} takes no value; remove it"
			)


@rule("LCH105", error="*")
def no_training_script(command: CommandLine) -> Hits:
	"""A command without a training script.

	"the following arguments are required: training_script", says argparse. Source: 1.15.0, commands/launch.py,
	`launch_command_parser`.
	"""
	cut = any(defect.name in CUTS for defect in command.document.defects)
	if any(fault.name == "no-script" and fault.sure for fault in command.faults) and not cut:
		yield Hit(command.at(-1), "no training script follows the options; write its path behind them")


CUTS = {
	"cut-by-comment": "this comment ends the command, because the shell joins no line behind a comment",
	"blank-after-continuation": "a blank follows this backslash, so that the line is not continued",
}


@rule("LCH106", error="*")
def command_is_cut(command: CommandLine) -> Hits:
	"""A comment, or a blank behind a backslash, in the middle of a command over several lines.

	What follows is a command of its own, which is not found. An error where the training script is lost with it.
	Source: the Bash reference manual, "Escape Character", "Comments".
	"""
	for defect in command.document.defects:
		if defect.name not in CUTS:
			continue
		whole = command.script is not None and command.tokens[command.script] not in ("", " ")
		text = f"{CUTS[defect.name]}: what follows is lost; remove it, or move it out of the command"
		yield Hit(command.document.stretch(defect.extent), text, severity=Severity.WARNING if whole else None)


@rule("LCH107", error="*")
def unclosed_quote(command: CommandLine) -> Hits:
	"""A quotation mark, or the bracket of an array, that is never closed: the shell refuses the script.

	"unexpected EOF while looking for matching", says bash. Source: the Bash reference manual, "Quoting".
	"""
	for defect in command.document.defects:
		if defect.name == "unclosed-quote":
			text = "a quote or bracket of this word is never closed, and the shell refuses the script; close it"
			yield Hit(command.document.stretch(defect.extent), text)


@rule("LCH108", error="*")
def two_paradigms(command: CommandLine) -> Hits:
	"""More than one of `--cpu`, `--multi_gpu`, `--tpu`, `--use_deepspeed` and `--use_fsdp`.

	Refused before the file is read; `--use_tp` counted in its time, `--use_megatron_lm` does not. Source: 1.15.0,
	commands/launch.py, `_validate_launch_command`.
	"""
	counted = ["multi_gpu", "cpu", "tpu", "use_deepspeed", "use_fsdp"]
	counted += ["use_tp"] if in_span(command.release, "1.4.0", "1.6.0") else []
	both = [name for name in counted if command.value(name) is True]
	if len(both) > 1:
		at = [command.at(command.given[name].flag) for name in both]
		text = f"accelerate launch takes one of {' and '.join(f'--{name}' for name in both)}; remove the others"
		yield Hit(at[1], text, related=(at[0],))


@rule("LCH109", error="*")
def multi_gpu_with_one_process(command: CommandLine) -> Hits:
	"""`--multi_gpu` with fewer than two `--num_processes` on the command line.

	"You need to use at least 2 processes to use `--multi_gpu`"; this is checked before the file is read. Source:
	1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	count = command.value("num_processes")
	if command.value("multi_gpu") and isinstance(count, int) and count < 2:
		text = f"--multi_gpu needs two processes at least, not {count}; leave it out"
		yield Hit(command.at(command.given["num_processes"].where), text)


@rule("LCH110", error="1.10.0..")
def parallelism_flag_without_fsdp(command: CommandLine) -> Hits:
	"""`--use_parallelism_config` without `--use_fsdp`.

	The launcher wants both on the command line, also where the file asks for FSDP; a `parallelism_config` in the file
	needs neither. Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	if command.value("use_parallelism_config") and not command.value("use_fsdp"):
		at = command.at(command.given["use_parallelism_config"].flag)
		text = "--use_parallelism_config is refused without --use_fsdp; add it, or write parallelism_config in the file"
		yield Hit(at, text)


@rule("LCH111", warning="*")
def any_text_is_true(command: CommandLine) -> Hits:
	"""false for an option that takes every text for true.

	Its type is `bool`, and Python's `bool("false")` is true; only an empty text is false. Source: 1.15.0,
	commands/launch.py, `megatron_lm_*` and `parallelism_config_sp_seq_length_is_variable`.
	"""
	options = knowledge.for_release(command.release).options
	for name, given in command.given.items():
		token = command.tokens[given.where]
		text = token.partition("=")[2] if given.where == given.flag and isinstance(token, str) else token
		if options[name].type == "bool" and isinstance(text, str) and text.lower() in (*FALSE, "none"):
			advice = "write an empty text: ''" if options[name].default else "leave it out"
			yield Hit(command.at(given.where), f"--{name} {text} switches it on: every text counts as true; {advice}")


@rule("LCH112", warning="*")
def option_given_twice(command: CommandLine) -> Hits:
	"""An option twice with different values: the last one counts.

	Source: argparse.
	"""
	for name, given in command.repeated:
		last = command.given[name]
		if given.value != last.value and OPEN not in (given.value, last.value):
			text = f"--{name} is given again, and {shown(last.value)} counts; remove this one"
			yield Hit(command.at(given.where), text, related=(command.at(last.where),))


@rule("LCH113", info="*")
def config_not_seen(command: CommandLine, config_file: object) -> Hits:
	"""The config that the command names is not here, so that only the command is judged.

	Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	at = command.at(command.given["config_file"].where) if "config_file" in command.given else command.at(-1)
	name = "whatever --config_file is" if config_file is OPEN else shown(config_file)
	yield Hit(at, f"{name} is not here; give the file too, so that both are judged together")


@rule("LCH114", info="*")
def default_config_applies(command: CommandLine) -> Hits:
	"""Without `--config_file`, the file that `accelerate config` has written applies, where there is one.

	It lies in default_config.yaml below HF_HOME/accelerate, and decides what the command leaves open; `--cpu` alone
	keeps it out. Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	if "config_file" not in command.given and not command.value("cpu") and command.open_at is None:
		yield Hit(command.at(-1), "without --config_file the default config of the machine decides what is left open")
