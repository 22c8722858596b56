"""How the workers are started: torchrun's own configuration, or the command line of another program.

torchrun's follows torch 2.13.0, distributed/run.py (`run`, `config_from_args`), for the arguments that `_filter_args`
copies; the commands follow Accelerate's utils/launch.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..model_effective import Setting
from .effective_plugins import number
from .effective_run import Run, elastic, runs_deepspeed

Arguments = Mapping[str, Setting]
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
