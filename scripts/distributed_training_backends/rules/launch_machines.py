"""LCH rules about how processes and machines come together: launchers, addresses, host files."""

import re

from ..flow.launch import Launch
from ..flow.placement import alone
from ..knowledge import accelerate as knowledge
from ..model import Severity, Targets
from ..versions import in_span
from .launch_counts import machines_of
from .registry import Hit, Hits, rule
from .rewriting import rewriting
from .suggest import closest, did_you_mean, listing, shown

LOOPBACK = r"(?i)localhost|127(\.\d+){3}|\[?::1\]?"
HOST = r"[\w.:-]+"
# Launchers that the deepspeed program itself knows (deepspeed/launcher/runner.py, 0.9.0 to 0.19.8).
RUNNERS = ("pdsh", "openmpi", "mpich", "impi", "slurm", "mvapich")


@rule("LCH020", error="*")
def address_left_open(launch: Launch) -> Hits:
	"""Several machines, and no address of the main one.

	torchrun would look up a machine called "None"; the launcher of NO and MULTI_CPU refuses since 1.8.0. Source:
	1.15.0, utils/launch.py, `prepare_multi_gpu_env`.
	"""
	needed = launch.elastic or launch.route == "simple"
	if machines_of(launch) > 1 and needed and not launch.value("main_process_ip"):
		text = "several machines need main_process_ip: the address of machine 0, the same on every machine"
		yield Hit(launch.at("num_machines"), text, severity=None if launch.context.launched else Severity.INFO)


@rule("LCH021", error="*")
def port_left_open(launch: Launch) -> Hits:
	"""Several machines, and no port of the main one.

	Up to 1.6 the meeting point becomes "ADDRESS:None", which torchrun refuses; since 1.7.0 the port is 29500. The
	launcher of NO and MULTI_CPU asserts a port since 1.8.0. Source: 1.6.0 and 1.15.0, utils/launch.py.
	"""
	if machines_of(launch) <= 1 or launch.value("main_process_port") is not None:
		return
	started = launch.elastic or launch.deepspeed_runner
	missing = launch.since("1.8.0") if launch.route == "simple" else started and launch.before("1.7.0")
	if missing:
		text = f"several machines need main_process_port with accelerate {launch.release}; write for instance 29500"
		yield Hit(launch.at("num_machines"), text)


@rule("LCH022", warning="1.7.0..")
def port_zero_on_several_machines(launch: Launch) -> Hits:
	"""`main_process_port: 0` on several machines.

	Zero asks for any free port, and every machine finds another one: they never meet. Source: 1.15.0,
	utils/launch.py, `prepare_multi_gpu_env`.
	"""
	port = launch.value("main_process_port")
	if machines_of(launch) > 1 and port == 0 and isinstance(port, int) and launch.elastic:
		yield Hit(launch.at("main_process_port"), "port 0 makes every machine choose its own port; write a fixed one")


@rule("LCH023", warning="*")
def processes_not_divisible(launch: Launch) -> Hits:
	"""`num_processes` is not a multiple of `num_machines`.

	It is the number over all machines, and every machine starts the same number of processes, rounded down: 5 on 2
	machines starts 4. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`.
	"""
	world, machines = launch.world, launch.value("num_machines")
	if world is None or not isinstance(machines, int) or machines < 2 or launch.route in ("simple", "tpu"):
		return
	if world % machines and world > machines:
		share = world // machines
		text = f"{world} processes on {machines} machines: each starts {share}, so {share * machines} run in all"
		text += f"; write a multiple of {machines}"
		yield Hit(launch.at("num_processes"), text, related=(launch.at("num_machines"),))


@rule("LCH024", warning="*")
def one_process_only(simple: Launch) -> Hits:
	"""Several processes with a `distributed_type` that starts one.

	For NO, and for MULTI_CPU without `mpirun_config`, the launcher starts the script once and only exports an
	address. For several GPUs write MULTI_GPU, FSDP or DEEPSPEED; for several CPU processes give `mpirun_config` or
	start `accelerate launch` under mpirun. Source: 1.15.0, commands/launch.py, `simple_launcher`.
	"""
	world = simple.world
	if world is None or world < 2 or simple.value("mpirun_hostfile") is not None:
		return
	cpu = simple.distributed_type == "MULTI_CPU"
	kind = shown(simple.distributed_type)
	text = f"distributed_type {kind} starts one process, and num_processes {world} has no effect"
	several_gpus, mpi = "write MULTI_GPU for several GPUs", "give mpirun_config (--mpirun_hostfile), or use mpirun"
	hint = mpi if cpu or simple.value("use_cpu") else several_gpus
	yield Hit(simple.at("num_processes"), f"{text}; {hint}", severity=Severity.INFO if cpu else None)


@rule("LCH025", error="*")
def unknown_multinode_launcher(deepspeed_launch: Launch, targets: Targets) -> Hits:
	"""`deepspeed_multinode_launcher` is none that the target knows.

	With several machines the value goes to the `deepspeed` program, which knows pdsh, openmpi, mpich, impi, slurm and
	mvapich; `standard` makes torchrun start the workers, and `nossh` exists since Accelerate 1.6.0 (with DeepSpeed
	0.14.5). Source: deepspeed 0.19.8, launcher/runner.py, `main`.
	"""
	value = deepspeed_launch.value("deepspeed_multinode_launcher")
	if not deepspeed_launch.deepspeed_runner or value is None:
		return
	nossh = value == "nossh" and deepspeed_launch.since("1.6.0")
	if (nossh and in_span(targets.deepspeed, "0.14.5", None)) or str(value).lower() in RUNNERS:
		return
	if nossh:
		text = f"the nossh launcher needs deepspeed 0.14.5 or later, not {targets.deepspeed}"
	else:
		values = knowledge.for_release(deepspeed_launch.release).constant("DEEPSPEED_MULTINODE_LAUNCHERS")
		near = closest(str(value), values)
		text = f"deepspeed has no launcher {shown(value)}{did_you_mean(near)} (it has {listing(values)})"
	yield Hit(deepspeed_launch.at("deepspeed_multinode_launcher"), text)


@rule("LCH026", warning="*")
def no_hostfile(deepspeed_launch: Launch) -> Hits:
	"""Several machines, started by the `deepspeed` program, and no host file.

	Accelerate passes `--hostfile None`; DeepSpeed finds no such file and uses the local GPUs only. Give
	`deepspeed_hostfile`, or write `deepspeed_multinode_launcher: standard` and launch on every machine. Source:
	1.15.0, utils/launch.py, `prepare_deepspeed_cmd_env`; deepspeed 0.19.8, launcher/runner.py, `fetch_hostfile`.
	"""
	if deepspeed_launch.deepspeed_runner and deepspeed_launch.value("deepspeed_hostfile") is None:
		launcher = deepspeed_launch.value("deepspeed_multinode_launcher") or "pdsh"
		text = f"the {launcher} launcher needs deepspeed_hostfile: without it only the GPUs of this machine are used"
		hint = "or write deepspeed_multinode_launcher: standard and launch on every machine"
		yield Hit(deepspeed_launch.at("num_machines"), f"{text}; {hint}")


@rule("LCH027", error="*")
def address_not_text(simple: Launch) -> Hits:
	"""`main_process_ip` is no text.

	The launcher of NO and MULTI_CPU puts it into the environment as it is, and only texts may stand there. Source:
	1.15.0, utils/launch.py, `prepare_simple_launcher_cmd_env`.
	"""
	value, processes = simple.value("main_process_ip"), simple.value("num_processes")
	used = machines_of(simple) > 1 or (isinstance(processes, int) and processes > 1)
	if used and value is not None and not isinstance(value, str):
		text = f"main_process_ip {shown(value)} is no text, and the launcher fails; quote it"
		yield Hit(simple.at("main_process_ip"), text)


@rule("LCH028", info="0.28.0..")
def mpirun_needed(simple: Launch) -> Hits:
	"""`mpirun_config` needs `mpirun` or `mpiexec` on the machine that launches.

	Without one the launcher ends with "mpirun or mpiexec were not found". Source: 1.15.0, utils/launch.py,
	`_get_mpirun_args`.
	"""
	if simple.value("mpirun_hostfile") is not None:
		yield Hit(simple.at("mpirun_hostfile"), "mpirun_config needs mpirun or mpiexec on the launching machine")


@rule("LCH029", error="0.28.0..0.31.0")
def ccl_workers_not_text(simple: Launch) -> Hits:
	"""`mpirun_ccl` is a number, in releases that put it into the environment as it is.

	With several machines the launcher sets `CCL_WORKER_COUNT` to the value itself, and only texts may stand in the
	environment. Quote it. Source: 0.30.1, utils/launch.py, `prepare_simple_launcher_cmd_env`.
	"""
	value = simple.value("mpirun_ccl")
	if machines_of(simple) > 1 and simple.value("mpirun_hostfile") is not None and not isinstance(value, str):
		at = simple.at("mpirun_ccl")
		repair = rewriting(at, str(value)) if isinstance(value, int) and simple.given("mpirun_ccl") else None
		yield Hit(at, f"mpirun_ccl {shown(value)} is no text, and the launcher fails; quote it", repair)


@rule("LCH030", error="*")
def address_not_a_host(elastic: Launch) -> Hits:
	"""`main_process_ip` cannot be the name or address of a machine, and there are several machines.

	torchrun takes letters, digits, dots, hyphens, underscores and colons only, so a variable that nobody fills in is
	refused: "The hostname of the rendezvous endpoint … must be a dot-separated list of labels". Source: torch 2.13.0,
	torch/distributed/elastic/rendezvous/utils.py, `parse_rendezvous_endpoint`.
	"""
	address = elastic.value("main_process_ip")
	odd = address and elastic.given("main_process_ip") and not re.fullmatch(HOST, str(address))
	if machines_of(elastic) > 1 and odd:
		text = f"main_process_ip {shown(address)} is no host name or address, and torchrun refuses it"
		yield Hit(elastic.at("main_process_ip"), f"{text}; fill it in, or pass --main_process_ip")


@rule("LCH031", warning="*")
def address_of_the_same_machine(launch: Launch) -> Hits:
	"""Several machines meet at `localhost`, `127.0.0.1` or `::1`.

	That is another machine on each of them: only machine 0 answers there, so every other one waits for itself until
	the time is over. Write the name or address under which the others reach machine 0. Source: 1.15.0,
	utils/launch.py, `prepare_multi_gpu_env`; torch 2.13.0, torch/distributed/run.py, `config_from_args`.
	"""
	address = launch.value("main_process_ip")
	meets = launch.elastic or (launch.route == "simple" and not alone(launch))
	if machines_of(launch) > 1 and meets and isinstance(address, str) and re.fullmatch(LOOPBACK, address):
		text = f"main_process_ip {shown(address)} is each machine itself, so the others never reach machine 0"
		yield Hit(launch.at("main_process_ip"), f"{text}; write the address that it has for all of them")
