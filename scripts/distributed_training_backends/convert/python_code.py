"""An Accelerate config as plugin objects in the training script."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..flow.effect import same
from ..knowledge import accelerate as knowledge
from ..knowledge.accelerate_api import parameters, sources
from ..model_convert import BadConversionError, Note
from .draft import line_of
from .plugins import OLDEST, Name, applies, call, class_arguments, option_of, rows
from .source import Source, table, truth

PRECISION = "mixed_precision"


def to_python(source: Source) -> tuple[str, tuple[Note, ...]]:
    """The code, and notes."""
    if not source.since(OLDEST):
        raise BadConversionError(f"plugins of accelerate {source.targets.accelerate} take no names: {OLDEST} does")
    if source.launch.route in ("tpu", "tensor_parallel"):
        raise BadConversionError(f"{source.launch.distributed_type} is started by the launcher only: no plugin says it")
    return Code(source).text(), notes(source)


class Code:
    """The lines of the script."""

    def __init__(self, source: Source) -> None:
        self.source, self.release = source, source.targets.accelerate
        self.names: set[str] = set()
        self.lines: list[str] = []

    def text(self) -> str:
        """All of it."""
        given: dict[str, Any] = {}
        precision = self.source.launch.value(PRECISION)
        if precision not in (None, "no", False):
            given[PRECISION] = precision
        if self.source.launch.route == "simple" and truth(self.source.launch.value("use_cpu")):
            given["cpu"] = True
        steps = self.source.launch.value("gradient_accumulation_steps")
        if self.source.launch.route == "deepspeed" and isinstance(steps, int) and steps != 1:
            given["gradient_accumulation_steps"] = steps  # the launcher tells Accelerator too
        plugins = dict(self.plugins())
        known = parameters("Accelerator", self.release)
        given |= {name: value for name, value in plugins.items() if name in known}
        imports = [f"from accelerate.utils import {', '.join(sorted(self.names))}"] if self.names else []
        head = [f"# start it with: {start(self.source)}", "from accelerate import Accelerator", *imports, ""]
        return "\n".join([*head, *self.lines, f"accelerator = {call('Accelerator', given)}"]) + "\n"

    def plugins(self) -> Iterator[tuple[str, Name]]:
        """The arguments of Accelerator that are objects."""
        launch, inner = self.source.launch, dict(self.handlers())
        for kind, row in rows():
            taken = kind == launch.route or (kind == "dynamo" and self.source.compiled)
            if taken or (kind == "parallelism" and launch.uses_parallelism):
                made = chosen(self.source, row, row["class"]) | (inner if kind == "parallelism" else {})
                self.names.add(row["class"])
                self.lines.append(f"{row['argument']} = {call(row['class'], made)}")
                yield row["argument"], Name(row["argument"])
        owner = fp8_class(self.source)
        if owner:
            self.names.add(owner)
            self.lines.append(f"recipe = {call(owner, chosen(self.source, table('plugins', 'fp8'), owner))}")
            yield "kwargs_handlers", Name("[recipe]")

    def handlers(self) -> Iterator[tuple[str, Name]]:
        """Objects inside ParallelismConfig, where its sizes need them."""
        for kind in ("cp", "sp"):
            row, size = table("plugins", kind), self.source.launch.value(f"parallelism_config_{kind}_size")
            if isinstance(size, int) and size > 1 and parameters(row["class"], self.release):
                self.names.add(row["class"])
                self.lines.append(f"{row['argument']} = {call(row['class'], chosen(self.source, row, row['class']))}")
                yield row["argument"], Name(row["argument"])


def fp8_class(source: Source) -> str | None:
    """The recipe that the fp8 block is about."""
    backend = str(source.launch.value("fp8_backend")).upper()
    found: str | None = table("plugins", "fp8", "classes").get(backend)
    known = found is not None and bool(parameters(found, source.targets.accelerate))
    return found if known and str(source.launch.value(PRECISION)).lower() == "fp8" else None


def chosen(source: Source, row: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The arguments that have to be said: what the file gives, and what the launcher takes but the class does not."""
    launch, version = source.launch, 2 if source.fsdp2 else 1
    unset = sources(owner, source.targets.accelerate)
    options: dict[str, Any] = {}
    known = knowledge.for_release(source.targets.accelerate).options
    effective = {option: launch.value(option) for option in launch.arguments}
    for field in parameters(owner, source.targets.accelerate):
        option = option_of(row, field)
        old = row.get("old", {}).get(option, "")
        old = old if old in known else ""
        value = launch.value(old if launch.given(old) else option)
        if value is None or not applies(row, field, effective, version):
            continue
        otherwise = unset.get(field)
        differs = otherwise is not None and (otherwise.otherwise is None or not same(value, otherwise.otherwise))
        if launch.given(option) or launch.given(old) or (differs and otherwise is not None and otherwise.known):
            options[option] = value
    return class_arguments(row, options, source.targets.accelerate, owner)


def start(source: Source) -> str:
    """The command that starts as many processes as the file."""
    launch, script = source.launch, source.script
    machines, world = launch.value("num_machines"), launch.world
    if launch.route == "simple":
        hosts = launch.value("mpirun_hostfile")
        return f"mpirun -n {world or 'N'} --hostfile {hosts} python {script}" if hosts else f"python {script}"
    if not isinstance(machines, int) or machines < 2:
        port = launch.value("main_process_port")
        return f"torchrun --nproc_per_node {world or 'N'} {f'--master_port {port} ' if port else ''}{script}"
    rank, ip, port = (launch.value(name) for name in ("machine_rank", "main_process_ip", "main_process_port"))
    each = f"--nnodes {machines} --nproc_per_node {world // machines if world else 'N'} --node_rank {rank or 0}"
    return f"torchrun {each} --master_addr {ip or 'ADDRESS'} --master_port {port or 29500} {script}"


def notes(source: Source) -> tuple[Note, ...]:
    """What no object says."""
    return (*beside(source), *unsaid(source))


def beside(source: Source) -> Iterator[Note]:
    """What the launcher does before the script runs."""
    yield Note("open", "num_processes", f"the script does not start processes: {start(source)}")
    for name in ("gpu_ids", "debug"):
        value, variable = source.launch.value(name), table("surfaces", "environment")[name]
        if source.launch.given(name) and value not in (None, False, "all"):
            told = f"no argument says it: export {variable}={str(value).lower()}"
            yield Note("open", name, told, line_of(source.document, name))


def unsaid(source: Source) -> Iterator[Note]:
    """Entries of blocks that no argument of the plugin says."""
    said = {option_of(row, field) for _, row in rows() for field in fields_of(row, source)}
    said |= {old for _, row in rows() for old in row.get("old", {}).values()}
    owner = fp8_class(source)
    said |= {option_of(table("plugins", "fp8"), field) for field in parameters(owner or "", source.targets.accelerate)}
    for name, found in source.launch.arguments.items():
        if found.pointer is None or len(found.pointer) < 2 or name in said or found.value in (None, False, "no"):
            continue
        alone = name.startswith("deepspeed_") and source.launch.value("num_machines") in (None, 1)
        if alone or (name.startswith("dynamo_") and not source.compiled):
            continue
        if name not in ("dynamo_backend", "fp8_backend", PRECISION, "mpirun_hostfile"):
            yield Note("lost", name, "no argument of a plugin says it", line_of(source.document, *found.pointer))


def fields_of(row: Mapping[str, Any], source: Source) -> Iterator[str]:
    """The arguments of a class in this release."""
    yield from parameters(row["class"], source.targets.accelerate)
