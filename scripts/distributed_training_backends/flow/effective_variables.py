"""The environment that `accelerate launch` gives the workers: its own variables over a copy of the user's.

Follows the functions `prepare_*_env` of utils/launch.py: which arguments they export says the knowledge, in which form
and when says data/effective.json.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..knowledge import accelerate as knowledge
from ..model_effective import Setting
from .effective_run import Run

Arguments = Mapping[str, Setting]
FUNCTIONS = {
	"deepspeed": "prepare_deepspeed_cmd_env",
	"simple": "prepare_simple_launcher_cmd_env",
	"tpu": "prepare_tpu",
}
DEVICES = "CUDA_VISIBLE_DEVICES"
APART = ("gpu_ids", "main_process_ip", "main_process_port", "downcast_bf16", "cpu", "use_cpu", "ipex", "use_xpu")
WORKERS = "mpirun_ccl"
MADE = Setting("", None, "accelerate")  # by the launcher itself, of no option
OVERRIDES = ("FPROP", "DGRAD", "WGRAD")


def variables(run: Run, arguments: Arguments) -> dict[str, Setting]:
	exported = dict(exports(run, arguments))
	found = dict(run.environment)
	for name, setting in exported.items():
		users = run.environment.get(name)
		beaten = users.beaten("the launcher sets it") if users is not None and users.place != setting.place else ()
		found[name] = setting._replace(name=f"variable.{name}", losers=(*beaten, *setting.losers))
	known = knowledge.for_release(run.release)
	return {name: one._replace(reader=", ".join(known.read_from_environment(name))) for name, one in found.items()}


def exports(run: Run, arguments: Arguments) -> Iterator[tuple[str, Setting]]:
	route = run.launch.route
	function = FUNCTIONS.get(route, "prepare_multi_gpu_env")
	functions = [function, "prepare_extend_env_parallelism_config"] if route not in ("simple", "tpu") else [function]
	for one in functions:
		for option, names in knowledge.for_release(run.release).exports_of(one).items():
			if option not in (*APART, WORKERS):
				yield from written(run, arguments, arguments.get(option, MADE), names)
	if route == "deepspeed":
		yield from of_deepspeed(run, arguments)
	if route == "simple":
		yield from of_simple(run, arguments)
	if route == "tpu":
		yield from of_tpu(arguments)
	elif str(arguments["mixed_precision"].value).lower() == "fp8":
		yield from of_fp8(run, arguments)
	devices = arguments.get("gpu_ids")
	if devices is not None and route != "tpu" and devices.value not in (None, "all"):
		yield DEVICES, devices


def written(run: Run, arguments: Arguments, setting: Setting, names: tuple[str, ...]) -> Iterator[tuple[str, Setting]]:
	for name in names:
		fixed = run.table("fixed").get(name)
		if (fixed or setting is not MADE) and is_written(run, arguments, name, setting):
			yield name, setting.becomes(form(run, name, setting.value) if fixed is None else fixed)


def is_written(run: Run, arguments: Arguments, name: str, setting: Setting) -> bool:
	switches = [option for prefix, option in run.table("when").items() if name.startswith(prefix)]
	counted = run.table("above_one").get(name)
	if any(option not in arguments or not arguments[option].value for option in switches) or (
		counted is not None and not above_one(arguments[counted].value)
	):
		return False
	optional = name.startswith(tuple(run.table("if_given"))) and name not in run.table("always")
	return not optional or setting.value is not None


def above_one(value: Any) -> bool:
	return isinstance(value, (int, float)) and value > 1


def form(run: Run, name: str, value: Any) -> str:
	if name in run.table("lower"):
		return str(value).lower()
	return str(value).upper() if name in run.table("upper") else str(value)


def of_deepspeed(run: Run, arguments: Arguments) -> Iterator[tuple[str, Setting]]:
	document = run.launch.document
	block = document.get("deepspeed_config") if document.kind == "accelerate" else None
	fields = [str(key) for key in block] if isinstance(block, dict) else []
	precision = arguments["mixed_precision"]
	if precision.surface == "file" and precision.place is not None and precision.place.pointer == "/mixed_precision":
		fields.append("mixed_precision")
	yield "ACCELERATE_CONFIG_DS_FIELDS", MADE.becomes(",".join(fields).lower())
	yield "PYTHONPATH", Setting("", "what it was, and the working directory", "accelerate", state="open")


def of_fp8(run: Run, arguments: Arguments) -> Iterator[tuple[str, Setting]]:
	known = knowledge.for_release(run.release)
	for option, setting in arguments.items():
		if not option.startswith("fp8_") or setting.value is None:
			continue
		names = known.exported_as("setup_fp8_env", option)
		if any(name.endswith(OVERRIDES) for name in names) and isinstance(setting.value, (list, tuple)):
			for place, end in enumerate(OVERRIDES):
				value = str(setting.value[place]) if place < len(setting.value) else None
				yield from ((name, setting.becomes(value)) for name in names if name.endswith(end))
		else:
			text = tuple(setting.value) if isinstance(setting.value, list) else setting.value  # as argparse has it
			yield from ((name, setting.becomes(str(text))) for name in names)


def of_simple(run: Run, arguments: Arguments) -> Iterator[tuple[str, Setting]]:
	cpu = arguments["cpu"] if arguments["cpu"].value else arguments.get("use_cpu", arguments["cpu"])
	yield "ACCELERATE_USE_CPU", cpu.becomes(str(cpu.value))
	machines, processes = arguments["num_machines"], arguments["num_processes"]
	several = above_one(machines.value) or above_one(processes.value)
	if several:
		ip, port = arguments["main_process_ip"], arguments["main_process_port"]
		yield "MASTER_ADDR", ip if ip.value is not None else ip.becomes("127.0.0.1")._replace(surface="accelerate")
		old = above_one(machines.value) and run.covers("..1.7.0")  # writes what it has, be it None
		yield "MASTER_PORT", port.becomes(str(port.value)) if old or port.value is not None else MADE.becomes("29500")
	holds = {"always": True, "several": several, "cpu": cpu.value is True}
	hosts, workers = arguments.get("mpirun_hostfile"), arguments.get(WORKERS)
	if hosts and workers and above_one(machines.value) and hosts.value is not None and run.covers("..1.7.0"):
		yield "CCL_WORKER_COUNT", workers.becomes(str(workers.value))
	for name, spans in run.table("simple").items():
		if any(run.covers(span) and holds[when] for span, when in spans.items()):
			yield name, MADE.becomes(run.table("simple_values")[name])


def of_tpu(arguments: Arguments) -> Iterator[tuple[str, Setting]]:
	if arguments["mixed_precision"].value == "bf16":
		downcast = arguments["downcast_bf16"]
		yield "XLA_DOWNCAST_BF16" if downcast.value else "XLA_USE_BF16", downcast.becomes("1")
