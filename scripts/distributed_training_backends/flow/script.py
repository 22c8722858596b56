"""The plugin calls of a script, as one release of Accelerate takes them, and what the launcher has set beside them.

A field that the caller leaves empty gets its value from an environment variable, so what a call comes to is known only
with the launch. Where that is not known, a field is as without the variable, and the answer is marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..model import Context, Targets
from ..resources import load_json
from ..sources.document import OPEN, At, Document
from ..sources.python_values import Made, Symbol
from .launch import Launch
from .placement import LAUNCHERS

DATA = "python_calls.json"
Backend = Literal["deepspeed", "fsdp", "megatron", "other", "unknown"]

PLUGINS: Mapping[str, Backend] = {
    "deepspeed_plugin": "deepspeed",
    "megatron_lm_plugin": "megatron",
    "fsdp_plugin": "fsdp",
}


class Field(NamedTuple):
    """What an argument comes to: its value (OPEN if unknown), whether the call gives it, and the variables that would
    give it another value if the launcher sets them."""

    value: Any
    given: bool = False
    unless: tuple[str, ...] = ()


class Call:
    """One call, with its positional arguments by their names where the order is known."""

    def __init__(self, script: Script, place: int) -> None:
        found = script.document.data["calls"][place]
        self.script, self.place = script, place
        self.name: str = found["name"]
        self.module: str = found["module"]
        self.open: bool = found["open"]
        self.main: bool = found["main"]
        self.conditional: bool = found["conditional"]
        self.positional: list[Any] = found["positional"]
        order = positional(self.name, script.release)
        named = dict(zip(order, self.positional, strict=False))
        self.given: Mapping[str, Any] = {**named, **found["arguments"]}
        self._places = {name: ("positional", number) for number, name in enumerate(order) if name in named}

    @property
    def parameters(self) -> Mapping[str, api.Parameter]:
        """What the release takes; empty where it has no such class."""
        return api.parameters(self.name, self.script.release)

    def at(self, name: str = "", part: Literal["key", "value"] = "value") -> At:
        """Point at an argument, or at the name of what is called."""
        if not name or name not in self.given:
            return At(self.script.document, ("calls", self.place), "key")
        path = self._places.get(name, ("arguments", name))
        return At(self.script.document, ("calls", self.place, *path), part)

    def field(self, name: str) -> Field:
        """What an argument comes to. None means for most plugins that the launcher's variable decides."""
        given = name in self.given
        value = self.given.get(name)
        source = api.sources(self.name, self.script.release).get(name)
        if value is OPEN or (not given and self.open):
            return Field(OPEN, given)
        parameter = self.parameters.get(name)
        if source is None or value is not None:
            plain = parameter.default if parameter else None
            return Field(value if given else plain, given)
        set_to = self.script.variables
        known = next((set_to[one] for one in source.variables if one in set_to), None)
        kind = parameter.type if parameter else ""
        if known is not None:
            return Field(typed(known, kind), given)
        otherwise = typed(source.otherwise, kind) if source.known else OPEN
        return Field(otherwise, given, () if self.script.launched else source.variables)


class Script:
    """The calls of one script. `launch` is what starts it, where that is known."""

    def __init__(self, document: Document, targets: Targets, context: Context, launch: Launch | None = None) -> None:
        self.document, self.targets, self.context, self.launch = document, targets, context, launch
        self.release = targets.accelerate

    @property
    def launched(self) -> bool:
        """Tell whether the variables that the launcher sets are known."""
        return self.launch is not None or self.context.launched

    @cached_property
    def calls(self) -> list[Call]:
        """Every call of a class or function that is known here, in the order of the text."""
        return [Call(self, place) for place in range(len(self.document.data["calls"]))]

    def of(self, *names: str) -> Iterator[Call]:
        """The calls of some classes or functions."""
        return (call for call in self.calls if call.name in names)

    def made_by(self, value: Any) -> Call | None:
        """The call that makes an object."""
        return self.calls[value.call] if isinstance(value, Made) else None

    @cached_property
    def variables(self) -> Mapping[str, Any]:
        """The variables that the launcher sets, with the values that their readers make of them."""
        return launched_variables(self.launch) if self.launch is not None else {}

    @cached_property
    def wrappers(self) -> dict[str, Call]:
        """The plugins that decide who wraps the model, by the argument of `Accelerator` that they are given to."""
        found: dict[str, Call] = {}
        for call in self.of("Accelerator"):
            for name in ("deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin", "megatron_lm_plugin"):
                value = call.given.get(name)
                one = next(iter(value.values()), None) if isinstance(value, dict) and value else value
                if (made := self.made_by(one)) is not None:
                    found.setdefault("deepspeed_plugin" if name == "deepspeed_plugins" else name, made)
        return found

    @property
    def backend(self) -> Backend:
        """Who wraps the models: what the script passes, else what the launcher says; unknown where neither is."""
        for argument, backend in PLUGINS.items():
            if argument in self.wrappers:
                return backend
        if any(call.open or call.given.get(name) is OPEN for call in self.of("Accelerator") for name in PLUGINS):
            return "unknown"
        if self.launch is None:
            return "other" if self.context.launched else "unknown"
        return next((backend for backend in PLUGINS.values() if backend == self.launch.route), "other")


@lru_cache(maxsize=256)
def positional(name: str, release: str) -> tuple[str, ...]:
    """The order of the arguments of a class or function, as far as it is known for a release."""
    known = api.parameters(name, release)
    return tuple(one for one in load_json(DATA)["positional"].get(name, ()) if not known or one in known)


def launched_variables(launch: Launch) -> dict[str, Any]:
    """What the launcher exports of the options that are set: truth and numbers as such, everything else as text."""
    known = knowledge.for_release(launch.release)
    found: dict[str, Any] = {}
    functions = {name for start in LAUNCHERS[launch.route] for name in known.calls(start)}
    for function in functions:
        for option, names in known.exports_of(function).items():
            given = launch.arguments.get(option)
            value = given.value if given else None
            if value is not None:
                found |= dict.fromkeys(names, value)
    if launch.route != "fsdp":
        found = {name: value for name, value in found.items() if not name.startswith("FSDP_")}
    if not launch.uses_parallelism:
        found = {name: value for name, value in found.items() if not name.startswith("PARALLELISM_CONFIG_")}
    return found


def typed(value: Any, kind: str) -> Any:
    """The text of a variable as a field of this type has it."""
    if not isinstance(value, str):
        return value
    if "int" in kind and value.isascii() and value.isdigit():
        return int(value)
    return value.lower() == "true" if "bool" in kind and value.lower() in ("true", "false") else value


def plain(value: Any, release: str) -> Any:
    """A member of one of Accelerate's enumerations by its value; other values as they are."""
    if isinstance(value, Symbol) and value.dotted.startswith("accelerate."):
        return knowledge.for_release(release).enum(value.owner).get(str(value), value)
    return value
