"""Plugin objects in Python: which argument of which class says what an option says, and a config as such code."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..flow.effect import normal, same
from ..knowledge.accelerate_api import parameters, sources
from ..model_convert import BadConversionError
from .source import Run, strategy_named, table

Row = Mapping[str, Any]
OLDEST = "0.34.0"  # before it FSDP's plugin took torch's own objects instead of names


class Name(str):
	"""A text that is code already."""


def call(owner: str, arguments: Mapping[str, Any], *first: Name) -> str:
	words = [*first, *(f"{name}={code(value)}" for name, value in arguments.items())]
	short = f"{owner}({', '.join(words)})"
	if len(short) <= 80:
		return short
	return "\n".join([f"{owner}(", *(f"    {word}," for word in words), ")"])


def code(value: Any) -> str:
	if isinstance(value, Name):
		return value
	return json.dumps(value) if isinstance(value, (str, list)) else repr(value)


def rows() -> Iterator[tuple[str, Row]]:
	yield from table("plugins").items()


def option_of(row: Row, field: str) -> str:
	found: str = row["fields"].get(field, row["prefix"] + field)
	return found


def class_arguments(row: Row, options: Mapping[str, Any], release: str, owner: str = "") -> dict[str, Any]:
	"""The arguments of a class that options come to; what the class of this release does not have is left out."""
	wanted = ((field, option_of(row, field)) for field in parameters(owner or row["class"], release))
	found = {field: argument(row, field, options[option]) for field, option in wanted if option in options}
	return {field: value for field, value in found.items() if value is not None}


def argument(row: Row, field: str, value: Any) -> Any:
	if field == "sharding_strategy":
		strategy = strategy_named(value)
		return strategy.name if strategy else value
	if field in row.get("lists", ()) and isinstance(value, str):
		return value.split(",")
	if field == "override_linear_precision" and isinstance(value, list):
		return tuple(value)
	if isinstance(value, str) and normal(value) in (None, True) and value.lower() in ("true", "false"):
		return normal(value) is True
	return value.lower() if field in row.get("lower", ()) and isinstance(value, str) else value


def applies(row: Row, field: str, options: Mapping[str, Any], version: int) -> bool:
	only, condition = row.get("only", {}).get(field), row.get("when", {}).get(field)
	return only in (None, version) and (condition is None or same(options.get(condition[0]), condition[1]))


def to_python(run: Run) -> str:
	if not run.since(OLDEST):
		raise BadConversionError(f"plugins of accelerate {run.release} take no names: {OLDEST} does")
	if run.route in ("tpu", "tensor_parallel"):
		raise BadConversionError(f"{run.launch.distributed_type} is started by the launcher only: no plugin says it")
	text = Code(run).text()
	beside(run)
	unsaid(run)
	return text


class Code:
	def __init__(self, run: Run) -> None:
		self.run = run
		self.names: set[str] = set()
		self.lines: list[str] = []

	def text(self) -> str:
		run, given = self.run, dict[str, Any]()
		precision, steps = run.value("mixed_precision"), run.value("gradient_accumulation_steps")
		if precision not in (None, "no", False):
			given["mixed_precision"] = precision
		if run.route == "simple" and run.on("use_cpu"):
			given["cpu"] = True
		if run.route == "deepspeed" and isinstance(steps, int) and steps != 1:
			given["gradient_accumulation_steps"] = steps  # the launcher tells Accelerator too
		given |= run.own or {}
		plugins, known = dict(self.plugins()), parameters("Accelerator", run.release)
		given |= {name: value for name, value in plugins.items() if name in known}
		imports = [f"from accelerate.utils import {', '.join(sorted(self.names))}"] if self.names else []
		head = [f"# start it with: {start(run)}", "from accelerate import Accelerator", *imports, ""]
		return "\n".join([*head, *self.lines, f"accelerator = {call('Accelerator', given)}"]) + "\n"

	def make(self, name: str, row: Row, owner: str, **more: Name) -> Name:
		self.names.add(owner)
		self.lines.append(f"{name} = {call(owner, {**chosen(self.run, row, owner), **more})}")
		return Name(name)

	def plugins(self) -> Iterator[tuple[str, Name]]:
		run, inner = self.run, dict(self.handlers())
		for kind, row in rows():
			parallel = kind == "parallelism" and run.launch.uses_parallelism
			if kind == run.route or (kind == "dynamo" and run.compiled) or parallel:
				more = inner if kind == "parallelism" else {}
				yield row["argument"], self.make(row["argument"], row, row["class"], **more)
		if owner := fp8_class(run):
			self.make("recipe", table("plugins", "fp8"), owner)
			yield "kwargs_handlers", Name("[recipe]")

	def handlers(self) -> Iterator[tuple[str, Name]]:
		for kind in ("cp", "sp"):
			row, size = table("plugins", kind), self.run.value(f"parallelism_config_{kind}_size")
			if isinstance(size, int) and size > 1 and parameters(row["class"], self.run.release):
				yield row["argument"], self.make(row["argument"], row, row["class"])


def fp8_class(run: Run) -> str:
	found: str = table("plugins", "fp8", "classes").get(str(run.value("fp8_backend")).upper(), "")
	return found if parameters(found, run.release) and str(run.value("mixed_precision")).lower() == "fp8" else ""


def chosen(run: Run, row: Row, owner: str) -> dict[str, Any]:
	"""The arguments that have to be said: what the file gives, and what the launcher takes but the class does not."""
	launch, unset = run.launch, sources(owner, run.release)
	options: dict[str, Any] = {}
	effective = {option: run.value(option) for option in launch.arguments}
	for field in parameters(owner, run.release):
		option = option_of(row, field)
		old = row.get("old", {}).get(option, "")
		old = old if old in run.known.options else ""
		value = run.value(old if launch.given(old) else option)
		if value is None or not applies(row, field, effective, 2 if run.fsdp2 else 1):
			continue
		known = unset[field] if field in unset and unset[field].known else None
		differs = known is not None and (known.otherwise is None or not same(value, known.otherwise))
		if launch.given(option) or launch.given(old) or differs:
			options[option] = value
	return class_arguments(row, options, run.release, owner)


def start(run: Run) -> str:
	machines, world, script = run.value("num_machines"), run.launch.world, run.script
	rank, ip, port = map(run.value, ("machine_rank", "main_process_ip", "main_process_port"))
	if run.route == "simple":
		hosts = run.value("mpirun_hostfile")
		return f"mpirun -n {world or 'N'} --hostfile {hosts} python {script}" if hosts else f"python {script}"
	if not isinstance(machines, int) or machines < 2:
		return f"torchrun --nproc_per_node {world or 'N'} {f'--master_port {port} ' if port else ''}{script}"
	each = f"--nnodes {machines} --nproc_per_node {world // machines if world else 'N'} --node_rank {rank or 0}"
	return f"torchrun {each} --master_addr {ip or 'ADDRESS'} --master_port {port or 29500} {script}"


def beside(run: Run) -> None:
	run.note("open", "num_processes", f"the script does not start processes: {start(run)}")
	for name in ("gpu_ids", "debug"):
		value, variable = run.value(name), table("surfaces", "environment")[name]
		if run.launch.given(name) and value not in (None, False, "all"):
			run.note("open", name, f"no argument says it: export {variable}={str(value).lower()}", name)


def unsaid(run: Run) -> None:
	classes = [*((row["class"], row) for _, row in rows()), (fp8_class(run), table("plugins", "fp8"))]
	said = {option_of(row, field) for owner, row in classes for field in parameters(owner, run.release)}
	said |= {old for _, row in rows() for old in row.get("old", {}).values()}
	said |= {"dynamo_backend", "fp8_backend", "mixed_precision", "mpirun_hostfile"}
	for name, found in run.launch.arguments.items():
		if found.pointer is None or len(found.pointer) < 2 or name in said or found.value in (None, False, "no"):
			continue
		alone = name.startswith("deepspeed_") and run.value("num_machines") in (None, 1)
		if not alone and (run.compiled or not name.startswith("dynamo_")):
			run.note("lost", name, "no argument of a plugin says it", *found.pointer)
