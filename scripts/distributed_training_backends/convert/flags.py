"""An Accelerate config as an `accelerate launch` command that needs no file."""

import shlex
from collections.abc import Iterator
from typing import Any

from ..flow.effect import same
from ..flow.launch import ROUTES
from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate import Option
from ..model_convert import Note
from ..sources.writing import write
from ..versions import covers
from .draft import line_of
from .source import Source, table, truth

DEFAULT_CONFIG = (
    "nothing else is read, unless this user has a default config file: accelerate launch reads it where none is given"
)
# Without these the command line would take something else than the file does.
TOLD_APART = ("mixed_precision", "num_processes", "use_cpu")


class Flags:
    """The words of the command, and what they cannot say."""

    def __init__(self, source: Source) -> None:
        self.source, self.launch, self.document = source, source.launch, source.document
        self.options = knowledge.for_release(source.targets.accelerate).options
        self.words: list[list[str]] = []
        self.variables: list[str] = []
        self.notes: list[Note] = []

    def say(self, name: str, value: Any) -> None:
        """Give an option a value, or note that it cannot have it."""
        words = spelled(self.options[name], value)
        if words is None:
            self.lost(name, f"{write(value, 'yaml')} cannot be given on the command line")
        elif words:
            self.words.append(words)

    def works(self, name: str) -> bool:
        """Tell whether there is a flag, and one that the library itself takes."""
        spans = table("surfaces", "refused_flags").get(name)
        return name in self.options and not (spans and covers(spans, self.source.targets.accelerate))

    def lost(self, name: str, why: str, *pointer: str | int) -> None:
        """Note what has no flag."""
        found = self.launch.arguments.get(name)
        place = pointer or (found.pointer if found else None) or ()
        self.notes.append(Note("lost", str(place[-1]) if place else name, why, line_of(self.document, *place)))

    def note(self, status: Any, name: str, why: str) -> None:
        """Say something about a key at the top."""
        self.notes.append(Note(status, name, why, line_of(self.document, name)))


def to_flags(source: Source) -> tuple[str, tuple[Note, ...]]:
    """The command, and notes."""
    flags = Flags(source)
    paradigm(flags)
    counts(flags)
    for name in (*TOP, *blocks(source)):
        given(flags, name)
    unread(flags)
    flags.notes.append(Note("same", "config_file", DEFAULT_CONFIG))
    lines = [shlex.join(words) for words in flags.words]
    return " \\\n    ".join([" ".join([*flags.variables, "accelerate launch"]), *lines, source.script]) + "\n", tuple(
        flags.notes
    )


TOP = ("mixed_precision", "gpu_ids", "debug", "machine_rank", "main_process_ip", "main_process_port")


def blocks(source: Source) -> Iterator[str]:
    """The options that blocks set, in the order of the file."""
    for block in knowledge.for_release(source.targets.accelerate).cluster_fields:
        if block != "parallelism_config" or source.launch.uses_parallelism:
            yield from source.keys(block)


def paradigm(flags: Flags) -> None:
    """The flag that picks the launcher."""
    launch = flags.launch
    flag = table("surfaces", "flags").get(launch.route)
    if launch.route == "multi_device" and launch.world == 1:
        told = "--multi_gpu wants two processes: one is started without torchrun"
        flags.note("changed", "distributed_type", told)
    elif flag:
        flags.words.append([f"--{flag}"])
    elif truth(launch.value("use_cpu")):
        flags.words.append(["--cpu"])
    if flag and truth(launch.value("use_cpu")):
        flags.note("same", "use_cpu", f"beside --{flag} it reaches no process")
    if launch.route == "tpu":
        flags.words += [["--tpu_cluster"]] if launch.value("tpu_use_cluster") is True else []
        flags.say("main_training_function", launch.value("main_training_function"))
    if launch.uses_parallelism and launch.route == "fsdp" and flags.source.fsdp2:
        flags.words.append(["--use_parallelism_config"])


def counts(flags: Flags) -> None:
    """How many processes and machines: what the command line takes for granted is not what a file does."""
    launch = flags.launch
    world, machines = launch.value("num_processes"), launch.value("num_machines")
    if world in (None, -1):
        flags.note("open", "num_processes", "give --num_processes, which the file leaves open too")
    elif one_process(flags.source) and world != 1:
        flags.note("changed", "num_processes", f"{world}: distributed_type NO starts one process, and so does 1")
        flags.say("num_processes", 1)
    else:
        flags.say("num_processes", world)
    if machines != 1:
        flags.say("num_machines", machines)
        if not launch.given("machine_rank"):
            flags.say("machine_rank", launch.value("machine_rank"))


def one_process(source: Source) -> bool:
    """Tell whether the file starts one process, whatever the number; the command line would start several."""
    launch = source.launch
    return launch.route == "simple" and launch.distributed_type in ("NO", None) and not truth(launch.value("use_cpu"))


def given(flags: Flags, name: str) -> None:
    """An option that the file gives."""
    argument = flags.launch.arguments.get(name)
    if argument is None or argument.pointer is None or (name == "gpu_ids" and argument.value == "all"):
        return
    parallel = name.startswith("parallelism_config_")
    if parallel and not (flags.launch.route == "fsdp" and flags.source.fsdp2):
        if argument.value not in (None, 1):
            flags.lost(name, "the command line takes it with --use_fsdp and --fsdp_version 2 only")
    elif name in table("surfaces", "environment") and not flags.works(name):
        if argument.value is not None:
            variable = table("surfaces", "environment")[name]
            flags.variables.append(f"{variable}={shlex.quote(str(argument.value))}")
    elif name in flags.options:
        alone = ("machine_rank",) if flags.launch.value("num_machines") == 1 else ()
        if name not in ("num_machines", "num_processes", *alone):
            flags.say(name, argument.value)
    elif argument.value is not None:
        flags.lost(name, "no flag sets it" if name.startswith("tpu_") else "no flag sets it, and nothing reads it")


def unread(flags: Flags) -> None:
    """Keys at the top that the launcher does not take from a file, and what stands there for no flag at all."""
    for key, value in flags.document.data.items():
        argument = flags.launch.arguments.get(str(key))
        if argument is not None and argument.pointer is None and str(key) in flags.options:
            if key not in (*TOLD_APART, "distributed_type") and value is not None and not same(value, argument.value):
                told = f"accelerate launch ignores it in a file ({write(argument.value, 'yaml')} takes effect)"
                flags.note("open", str(key), f"{told}; give --{key} {write(value, 'yaml')} if it was meant")
        elif argument is not None and str(key).startswith("tpu_") and str(key) not in flags.options and value:
            flags.note("lost", str(key), "no flag sets it")
    kind = flags.launch.distributed_type
    if (
        flags.launch.route == "simple"
        and kind not in (*ROUTES, "NO", None)
        and not truth(flags.launch.value("use_cpu"))
    ):
        flags.note("changed", "distributed_type", f"no flag says {kind}: on a machine with GPUs it would be MULTI_GPU")


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
        return [flag, ",".join(word(item) for item in value)]
    if isinstance(value, (dict, list)) or not fits(option, value):
        return None
    text = word(value)
    if option.choices and text not in option.choices:
        text = next((str(one) for one in option.choices if str(one).lower() == text.lower()), "")
        return [flag, text] if text else None
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def fits(option: Option, value: Any) -> bool:
    """Tell whether the parser can read the text of a value as a number, where it wants one."""
    if option.type not in ("int", "float") or isinstance(value, bool):
        return option.type not in ("int", "float")
    try:
        int(str(value)) if option.type == "int" else float(value)
    except (TypeError, ValueError):
        return False
    return True


def word(value: Any) -> str:
    """A value as Accelerate reads it from a variable."""
    return str(value).lower() if isinstance(value, bool) else str(value)
