"""One run as it was given, and the first step of what takes effect: the launcher's arguments, each with its origin."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..knowledge import accelerate as knowledge
from ..model import Place, Pointer
from ..model_effective import Loser, Setting, Surface
from ..resources import load_json
from ..sources.document import OPEN, At, Document
from ..versions import covers, in_span
from .arguments import Arg, OpenValueError
from .launch import Launch, destination
from .placement import LAUNCHERS, is_read

NAMES: Mapping[str, Surface] = {"launch": "command line", "environment": "environment", "python": "python"}


class Call(NamedTuple):
    """A constructor as the script calls it: its arguments that are known, each as a setting."""

    name: str
    arguments: Mapping[str, Setting]
    place: Place | None


class Run(NamedTuple):
    """Everything that is known of a run. `calls` are by name, the last one of a name counts."""

    launch: Launch
    environment: Mapping[str, Setting] = {}
    calls: Mapping[str, Call] = {}
    deepspeed: Document | None = None

    @property
    def release(self) -> str:
        """The release of Accelerate that is asked about."""
        return self.launch.release

    def covers(self, spans: str) -> bool:
        """Tell whether the release lies in the spans."""
        return covers(spans, self.release)

    def table(self, section: str) -> Any:
        """A section of the data."""
        return load_json("effective.json")[section]


def place_of(document: Document, pointer: Pointer, key: bool = False) -> Place:
    """Where an entry stands."""
    return document.place(At(document, pointer, "key" if key else "value"))


def setting_at(name: str, value: Any, document: Document, pointer: Pointer) -> Setting:
    """A setting that an entry of a document gives."""
    surface = NAMES.get(document.kind, "file")
    return Setting(name, value, surface, place_of(document, pointer), (), "open" if value is OPEN else "set")


def variables_given(documents: list[Document]) -> dict[str, Setting]:
    """The user's own environment; assignments before the command count more than a file of them."""
    found: dict[str, Setting] = {}
    for document in sorted(documents, key=lambda one: one.kind == "launch"):
        base: Pointer = ("environment",) if document.kind == "launch" else ()
        given = document.get(*base)
        for name, value in given.items() if isinstance(given, dict) else ():
            setting = setting_at(f"variable.{name}", value, document, (*base, name))._replace(surface="environment")
            beaten = found[name].beaten("assigned again before the command") if name in found else ()
            found[name] = setting._replace(losers=beaten)
    return found


def calls_of(document: Document) -> dict[str, Call]:
    """The constructors that a script calls."""
    found = {}
    for number, call in enumerate(document.get("calls") or ()):
        at: Pointer = ("calls", number)
        given = call.get("arguments") or {}
        arguments = {name: setting_at(name, value, document, (*at, "arguments", name)) for name, value in given.items()}
        found[call["name"]] = Call(call["name"], arguments, place_of(document, at))
    return found


def arguments(run: Run) -> dict[str, Setting]:
    """The launcher's arguments as it has them when it has read everything, each with those who lost."""
    launch = run.launch
    found = {name: argument(launch, name, arg) for name, arg in launch.arguments.items()}
    for name, reason, lost in beaten(launch):
        if name in found:
            found[name] = found[name]._replace(losers=(*found[name].losers, lost._replace(reason=reason)))
    found |= threads(run, found)
    return {name: setting._replace(reader=reader(launch, name)) for name, setting in found.items()}


def reader(launch: Launch, name: str) -> str:
    """The launcher that looks at an argument; "" where the one of this run does not."""
    try:
        return LAUNCHERS[launch.route][0] if is_read(launch, name) else ""
    except OpenValueError:
        return LAUNCHERS[launch.route][0]


def argument(launch: Launch, name: str, arg: Arg) -> Setting:
    """One argument; what the file leaves open for the launch command is open."""
    title = f"argument.{name}"
    document = arg.document or launch.document
    if arg.pointer is not None:
        return setting_at(title, arg.value, document, arg.pointer)
    if arg.value is OPEN or (name == "num_processes" and arg.value in (None, -1)):
        return Setting(title, "as many as the launch command says, or as there are devices", state="open")
    given = getattr(launch.context, name, None) is not None
    return Setting(title, arg.value, "command line" if given else "default", state="set" if given else "default")


def beaten(launch: Launch) -> Iterator[tuple[str, str, Loser]]:
    """What the config says of arguments that have their value from somewhere else."""
    document = launch.document
    blocks = document.data if document.kind == "accelerate" and isinstance(document.data, dict) else {}
    for key, value in blocks.items():
        entries = value.items() if isinstance(value, dict) else [(None, value)]
        for inner, item in entries:
            name = str(key) if inner is None else destination(str(key), str(inner), launch.release)
            pointer: Pointer = (key,) if inner is None else (key, inner)
            arg = launch.arguments.get(name)
            if arg is not None and (arg.pointer != pointer or arg.document not in (None, document)):
                if inner is not None and not knowledge.for_release(launch.release).merges(str(key)):
                    continue
                yield name, why_beaten(launch, name, arg), Loser("file", item, place_of(document, pointer), "")


def why_beaten(launch: Launch, name: str, arg: Arg) -> str:
    """Why an entry of the config does not decide an argument of its name."""
    if getattr(launch.context, name, None) is not None or arg.document not in (None, launch.document):
        return "the command line counts more"
    if arg.pointer is not None:
        return "another entry of the config sets the same argument"
    return "the option has its own default, which a file cannot change"


def threads(run: Run, found: Mapping[str, Setting]) -> dict[str, Setting]:
    """`num_cpu_threads_per_process`, which the launcher makes up: OMP_NUM_THREADS since 0.30.1, or a share of cores."""
    name = "num_cpu_threads_per_process"
    given, variable = found[name], run.environment.get("OMP_NUM_THREADS")
    if given.value is not None:
        return {}
    if variable is not None and in_span(run.release, "0.30.1", None):
        number = variable.value
        known = int(number) if isinstance(number, str) and number.isdecimal() else number
        return {name: variable.becomes(known, given.name)}
    if found["use_cpu"].value and variable is None:
        return {name: given._replace(value="the machine's cores shared out among the processes", state="open")}
    return {name: given.becomes(1)._replace(surface="launcher")}
