"""How the workers are started: their environment, and torchrun's own configuration or another program's command line.

torchrun's follows torch 2.13.0, distributed/run.py (`run`, `config_from_args`), for the arguments that `_filter_args`
copies; the commands and the environment, which is the launcher's own variables over a copy of the user's, follow
Accelerate's utils/launch.py (`prepare_*_env`): which arguments are exported says the knowledge, in which form and when
says data/effective.json.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..knowledge import accelerate as knowledge
from ..model_effective import Setting
from .effect import number
from .effective_run import Run, elastic, runs_deepspeed

Arguments = Mapping[str, Setting]
Named = Iterator[tuple[str, Setting]]
COPIED = ("max_restarts", "monitor_interval", "role")
STATIC_TIMEOUT = 900  # of torchrun's static rendezvous, in seconds
PYTHON = "python"


def start(run: Run, arguments: Arguments) -> Iterator[Setting]:
	if elastic(run.launch):
		yield from torchrun(run, arguments)
	elif runs_deepspeed(run.launch):
		yield Setting("command.line", deepspeed_command(run, arguments), "accelerate")
	elif run.launch.route == "simple":
		yield Setting("command.line", [*mpirun(arguments), *script(run)], "accelerate")


def torchrun(run: Run, arguments: Arguments) -> Iterator[Setting]:
	processes, machines = arguments["num_processes"], arguments["num_machines"]
	several = is_count(machines.value) and machines.value > 1
	local = each(processes.value, machines.value) if several else processes.value
	share = machines._replace(losers=processes.losers) if machines.state == "open" else processes
	yield share.becomes(local, "torchrun.nproc_per_node")
	least, _, most = str(int(machines.value) if several else from_variable(run, "nnodes", 1)).partition(":")
	yield machines.becomes(number(least), "torchrun.min_nodes")
	yield machines.becomes(number(most or least), "torchrun.max_nodes")
	for name in COPIED:
		if name in arguments:
			yield arguments[name].becomes(arguments[name].value, f"torchrun.{name}")
	yield Setting("torchrun.start_method", from_variable(run, "start_method", "spawn"))
	yield from rendezvous(run, arguments, several)


def from_variable(run: Run, name: str, default: Any) -> Any:
	variable = run.environment.get(f"PET_{name.upper()}")
	return default if variable is None else variable.value


def is_count(value: Any) -> bool:
	return isinstance(value, (int, float))


def each(processes: Any, machines: Any) -> Any:
	return processes // machines if is_count(processes) and is_count(machines) and machines else processes


def rendezvous(run: Run, arguments: Arguments, several: bool) -> Iterator[Setting]:
	backend, conf, machines = arguments["rdzv_backend"], arguments["rdzv_conf"], arguments["num_machines"]
	ip, port = arguments["main_process_ip"], default_port(run, arguments["main_process_port"])
	configs, alone = parsed(conf.value), not several and port.value is None and backend.value == "static"
	rank = arguments["machine_rank"].value if several else 0
	unknown = machines.state == "open"  # one machine meets elsewhere than several
	if unknown:
		machines = machines._replace(losers=())
		endpoint, conf, alone = machines, machines if backend.value == "static" else conf, False
	else:
		endpoint = port.becomes(f"{ip.value if several else '127.0.0.1'}:{port.value}")
	if several and ip.state != "default" and port.state != "open":
		endpoint = ip.becomes(endpoint.value)
	if backend.value != "static" and (not (several or unknown) or arguments["same_network"].value):
		endpoint = Setting("", "")
	if several and ip.value is None and backend.value == "static":
		text = f"torchrun gets the text {endpoint.value}, unless the launch command gives main_process_ip"
		endpoint = ip._replace(value=text, state="open")
	if alone:
		backend = backend.becomes("c10d")._replace(surface="accelerate")
		endpoint = Setting("", "localhost:0", "accelerate")
	elif backend.value == "static":
		configs["rank"] = int(rank) if str(rank).isdigit() else rank
	yield backend.becomes(backend.value, "torchrun.rdzv_backend")
	yield endpoint.becomes(endpoint.value, "torchrun.rdzv_endpoint")
	yield conf.becomes({"timeout": STATIC_TIMEOUT, **configs}, "torchrun.rdzv_configs")


def default_port(run: Run, port: Setting) -> Setting:
	for spans, filled in run.table("main_process_port").items():
		if port.value is None and run.covers(spans):
			return port.becomes(filled)._replace(surface="accelerate")
		if port.value == 0 and run.covers(spans):
			return port._replace(value="a free port", state="open")
	return port


def parsed(conf: Any) -> dict[str, Any]:
	pairs = [entry.split("=", 1) for entry in str(conf or "").split(",") if "=" in entry]
	return {name.strip(): value.strip() for name, value in pairs}


def script(run: Run) -> list[str]:
	arguments = run.launch.arguments
	words = [str(arguments["training_script"].value or "train.py"), *map(str, arguments["training_script_args"].value)]
	if arguments["no_python"].value:
		return words
	return [PYTHON, *(["-m"] if arguments["module"].value else []), *words]


def mpirun(arguments: Arguments) -> list[str]:
	hosts = arguments.get("mpirun_hostfile")
	if hosts is None or hosts.value is None:
		return []
	processes, machines = arguments["num_processes"].value, arguments["num_machines"].value
	local = str(each(processes, machines)) if processes and machines else "1"
	return ["mpirun", "-f", str(hosts.value), "-ppn", local, *(["-n", str(processes)] if processes else [])]


def deepspeed_command(run: Run, arguments: Arguments) -> list[str]:
	value = {name: "?" if setting.state == "open" else setting.value for name, setting in arguments.items()}
	launcher = str(value["deepspeed_multinode_launcher"] or "pdsh")
	words = ["deepspeed", "--hostfile", str(value["deepspeed_hostfile"])]
	if run.covers("..1.5.2"):
		words = [words[0], "--no_local_rank", *words[1:], "--launcher", launcher]
	elif launcher == "nossh":
		words += ["--node_rank", str(value["machine_rank"]), "--no_ssh"]
	else:
		words += ["--no_local_rank", "--launcher", launcher]
	without, only = value["deepspeed_exclusion_filter"], value["deepspeed_inclusion_filter"]
	if without is not None or only is not None:
		words += ["--include", str(only)] if without is None else ["--exclude", str(without)]
	else:
		words += ["--num_gpus", str(each(value["num_processes"], value["num_machines"]))]
	if value["main_process_ip"] and run.covers("0.29.0.."):
		words += ["--master_addr", str(value["main_process_ip"])]
	words += ["--master_port", str(default_port(run, arguments["main_process_port"]).value)]
	words += ["--module"] if value.get("module") else ["--no_python"] if value.get("no_python") else []
	return [*words, *[word for word in script(run) if word not in (PYTHON, "-m")]]


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


def exports(run: Run, arguments: Arguments) -> Named:
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


def written(run: Run, arguments: Arguments, setting: Setting, names: tuple[str, ...]) -> Named:
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


def of_deepspeed(run: Run, arguments: Arguments) -> Named:
	document = run.launch.document
	block = document.get("deepspeed_config") if document.kind == "accelerate" else None
	fields = [str(key) for key in block] if isinstance(block, dict) else []
	precision = arguments["mixed_precision"]
	if precision.surface == "file" and precision.place is not None and precision.place.pointer == "/mixed_precision":
		fields.append("mixed_precision")
	yield "ACCELERATE_CONFIG_DS_FIELDS", MADE.becomes(",".join(fields).lower())
	yield "PYTHONPATH", Setting("", "what it was, and the working directory", "accelerate", state="open")


def of_fp8(run: Run, arguments: Arguments) -> Named:
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


def of_simple(run: Run, arguments: Arguments) -> Named:
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


def of_tpu(arguments: Arguments) -> Named:
	if arguments["mixed_precision"].value == "bf16":
		downcast = arguments["downcast_bf16"]
		yield "XLA_DOWNCAST_BF16" if downcast.value else "XLA_USE_BF16", downcast.becomes("1")
