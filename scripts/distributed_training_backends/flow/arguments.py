"""The options of `accelerate launch` before a config file is merged: defaults, command line, and what is told."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate import Option
from ..model import Context, Pointer
from ..sources.document import OPEN, Document
from ..sources.limits import MAX_DIGITS
from ..versions import in_span

if TYPE_CHECKING:
	from .command import CommandLine

Route = Literal["deepspeed", "fsdp", "megatron", "multi_device", "tensor_parallel", "tpu", "simple"]
# What starts a route: the option, and the `distributed_type`; in the order in which `launch_command` asks for them
PARADIGMS: Mapping[Route, tuple[str, str]] = {
	"deepspeed": ("use_deepspeed", "DEEPSPEED"),
	"fsdp": ("use_fsdp", "FSDP"),
	"tensor_parallel": ("use_tp", "TP"),
	"megatron": ("use_megatron_lm", "MEGATRON_LM"),
	"multi_device": ("multi_gpu", "MULTI_GPU"),
	"tpu": ("tpu", "XLA"),
}
TOLD = ("num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port", "mixed_precision")


TRUE = ("y", "yes", "t", "true", "on", "1")
FALSE = ("n", "no", "f", "false", "off", "0")


class Arg(NamedTuple):
	"""The value of a launch option, and where it is given (None: the parser's default or the context).

	`document` is where the pointer stands; None: the config.
	"""

	value: Any
	pointer: Pointer | None = None
	document: Document | None = None


def options_of(release: str, context: Context, command: "CommandLine | None") -> dict[str, Arg]:
	"""Every option with the parser's default, what the command line sets, and what the context says."""
	arguments = dict(defaults(release))
	if command:
		for name, given in command.given.items():
			pointer: Pointer = ("tokens", given.where)
			pointer = (*pointer, "value") if (*pointer, "value") in command.document.nodes else pointer
			arguments[name] = Arg(given.value, pointer, command.document)
	if command and command.script is not None:
		arguments["training_script"] = Arg(command.tokens[command.script], ("tokens", command.script), command.document)
		arguments["training_script_args"] = Arg([command.tokens[index] for index in command.arguments])
	for name in TOLD:
		if (value := getattr(context, name)) is not None:
			arguments[name] = Arg(value)
	return arguments


def fixed(release: str, context: Context, command: "CommandLine | None") -> frozenset[str]:
	"""The options that no block overrides: those on the command line (since 1.5.0), and what the context says."""
	told = frozenset(name for name in TOLD if getattr(context, name) is not None)
	wins = command is not None and knowledge.for_release(release).merging["given_option_wins"]
	return told | command.remembered if command and wins else told


def paradigm_of(command: "CommandLine") -> str | None:
	"""The option on the command line that makes the launcher pass over the file's `distributed_type`."""
	return next((name for name in paradigms(command.release) if command.value(name)), None)


def type_of(arguments: Mapping[str, Arg], release: str) -> str:
	"""The `distributed_type` that the command line's own options stand for."""
	route = route_from(arguments)
	if route == "tpu" and not in_span(release, "0.28.0", None):
		return "TPU"
	return PARADIGMS[route][1] if route in PARADIGMS else "NO"


def route_from(arguments: Mapping[str, Arg]) -> Route:
	"""Which launcher `launch_command` calls: the first of these that is set, and none of them with `--cpu`."""
	if arguments["cpu"].value:
		return "simple"
	given = (
		route
		for route, (name, _) in PARADIGMS.items()
		if arguments.get(name, Arg(OPEN)).value not in (None, False, OPEN)
	)
	return next(given, "simple")


def paradigms(release: str) -> tuple[str, ...]:
	"""The options that take the place of the file's `distributed_type`."""
	tensor = ("use_tp",) if in_span(release, "1.4.0", "1.6.0") else ()
	return ("multi_gpu", "tpu", "tpu_use_cluster", "use_deepspeed", "use_fsdp", "use_megatron_lm", *tensor)


def converted(text: str, kind: str | None) -> Any:
	"""The value that the option's type makes of a text. Raises ValueError where argparse refuses it."""
	if kind is not None and kind.startswith("lambda"):  # fp8_override_linear_precision
		return tuple(map(str_to_bool, text.split(",")))
	if kind in ("int", "float") and len(text) > MAX_DIGITS:
		raise ValueError("too long for a number")
	return CONVERTERS.get(kind or "str", str)(text)


def str_to_bool(text: str) -> int:
	if text.lower() in TRUE:
		return 1
	if text.lower() in FALSE:
		return 0
	raise ValueError(f"invalid truth value {text}")


CONVERTERS: Mapping[str, Callable[[str], Any]] = {
	"str": str,
	"int": int,
	"float": float,
	"bool": bool,
	"str_to_bool": str_to_bool,
}


def default_of(option: Option) -> Any:
	"""What argparse sets without the option: a default that is a text goes through the type."""
	if option.dest == "training_script_args":
		return []
	return converted(option.default, option.type) if isinstance(option.default, str) else option.default


@lru_cache(maxsize=32)
def defaults(release: str) -> Mapping[str, Arg]:
	"""What argparse sets without any option."""
	options = knowledge.for_release(release).options
	return {name: Arg(default_of(option)) for name, option in options.items() if name != "help"}
