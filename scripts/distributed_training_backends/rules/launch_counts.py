"""LCH rules about numbers: processes, machines, ranks, ports and GPU ids of an Accelerate config."""

from typing import Any

from ..flow.arguments import FALSE, TRUE
from ..flow.launch import Launch, is_number
from ..model import Severity
from .registry import Hit, Hits, Repair, rule
from .rewriting import as_written, rewriting
from .suggest import shown

WORDS_FOR_ALL = ("auto", "cpu", "gpu", "xpu")
OPEN = (None, -1, "auto")
PORTS = range(65536)


def is_open(launch: Launch) -> bool:
	value = launch.value("num_processes")
	if isinstance(launch.document.get("num_processes"), dict) and launch.context.num_processes is None:
		return False
	return any(value is word or (value == word and not isinstance(value, bool)) for word in OPEN)


def machines_of(launch: Launch) -> float:
	value = launch.value("num_machines")
	return value if is_number(value) else 1


def integer(value: object) -> int | None:
	try:
		return int(str(value))
	except ValueError:
		return None


@rule("LCH001", error="*")
def processes_left_open(launch: Launch) -> Hits:
	"""The number of processes is not in the file and has to be given at launch.

	`accelerate launch` ends with "You need to manually pass in `--num_processes`" unless the command line has it.
	Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	if is_open(launch) and launch.route != "tpu" and launch.since("0.34.0"):
		text = "num_processes is not in the file; pass --num_processes at launch"
		yield Hit(launch.at("num_processes"), text, severity=None if launch.context.launched else Severity.INFO)


@rule("LCH002", error="*")
def invalid_process_count(launch: Launch) -> Hits:
	"""`num_processes` is of a type, or a number, that the launcher cannot work with.

	torchrun takes a whole number as text too, and the words auto, cpu, gpu and xpu, on one machine; on several the
	launcher divides the number, and the launcher of NO and MULTI_CPU compares it. Zero processes fail inside torchrun.
	Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`, `prepare_simple_launcher_cmd_env`; torch 2.13.0,
	torch/distributed/run.py, `determine_local_world_size`.
	"""
	value = launch.value("num_processes")
	if not is_open(launch) and launch.route != "tpu" and (problem := count_problem(value, launch)):
		whole = integer(value) if isinstance(value, str) else None
		whole = int(value) if isinstance(value, float) and value.is_integer() else whole
		repair = rewritten(launch, "num_processes", whole) if whole else None
		yield Hit(launch.at("num_processes"), f"num_processes {shown(value)} {problem}", repair)


def count_problem(value: Any, launch: Launch) -> str:
	machines = machines_of(launch)
	if launch.route == "simple":
		return simple_count_problem(value, launch)
	if machines > 1:
		if not is_number(value):
			return "cannot be divided among the machines; write a whole number"
		share = value // machines
		if launch.deepspeed_runner:
			return "" if integer(share) is not None else "is no whole number"
		return "leaves no process for a machine" if share < 1 else "" if integer(share) else "is no whole number"
	if isinstance(value, str) and value in WORDS_FOR_ALL:
		return ""
	count = integer(value)
	if count is None:
		return "is no whole number, and torchrun refuses it"
	return "" if count > 0 else "starts no process, and torchrun refuses that"


def simple_count_problem(value: Any, launch: Launch) -> str:
	if value is None and launch.since("1.8.0"):
		return ""
	compared = machines_of(launch) <= 1 or launch.since("1.8.0")
	return "is no number, and the launcher compares it with 1" if compared and not is_number(value) else ""


def rewritten(launch: Launch, key: str, value: object) -> Repair | None:
	return rewriting(launch.at(key), value, key=key) if launch.given(key) else None


@rule("LCH003", error="*")
def invalid_machine_count(launch: Launch) -> Hits:
	"""`num_machines` is no whole number.

	Every launcher compares it with 1, which fails for a text or null, and torchrun refuses "2.0" nodes. Source:
	1.15.0, utils/launch.py, `prepare_multi_gpu_env`.
	"""
	value = launch.value("num_machines")
	if launch.route == "tpu" or (is_number(value) and not (value > 1 and integer(value) is None and launch.elastic)):
		return
	whole = integer(value)
	repair = rewritten(launch, "num_machines", whole) if whole else None
	text = f"num_machines {shown(value)} is no whole number, and the launcher fails"
	yield Hit(launch.at("num_machines"), text, repair)


@rule("LCH004", error="*")
def invalid_machine_rank(launch: Launch) -> Hits:
	"""`machine_rank` is no whole number although there are several machines.

	The launcher converts it with `int`. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`.
	"""
	value = launch.value("machine_rank")
	if machines_of(launch) <= 1 or launch.route in ("simple", "tpu") or launch.context.machine_rank is not None:
		return
	if launch.deepspeed_runner and launch.before("0.21.0"):
		return
	if not is_number(value) and (not isinstance(value, str) or integer(value) is None):
		text = f"machine_rank {shown(value)} is no whole number, and the launcher fails on it"
		severity = None if launch.has_config else Severity.INFO  # the default config may have it
		yield Hit(launch.at("machine_rank"), f"{text}; give it with --machine_rank on each machine", severity=severity)


@rule("LCH005", warning="*")
def rank_out_of_range(launch: Launch) -> Hits:
	"""`machine_rank` is not below `num_machines`.

	Ranks count from 0. The static rendezvous waits for a rank that never comes, until it times out. Source: torch
	2.13.0, torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py.
	"""
	rank, machines = launch.value("machine_rank"), launch.value("num_machines")
	whole = isinstance(rank, int) and isinstance(machines, int) and machines > 1
	if whole and launch.elastic and not 0 <= rank < machines:
		text = f"machine_rank {rank} with num_machines {machines}: ranks count from 0 to {machines - 1}"
		yield Hit(launch.at("machine_rank"), f"{text}; the machines wait for each other until a timeout")


@rule("LCH006", error="*")
def invalid_port(launch: Launch) -> Hits:
	"""`main_process_port` is no port number.

	The launcher asks the operating system whether the port is taken (since 0.21.0), which fails for a text and for a
	number above 65535; torchrun wants a number of that size as well. Source: 1.15.0, utils/other.py, `is_port_in_use`.
	"""
	port = launch.value("main_process_port")
	if port is None or launch.route in ("simple", "tpu") or launch.context.main_process_port is not None:
		return
	if isinstance(port, int) and port in PORTS and (not isinstance(port, bool) or (not port and launch.since("1.7.0"))):
		return
	number = integer(port)
	in_range = number is not None and number in PORTS
	if launch.since("0.21.0") or number is None or isinstance(port, bool) or (launch.elastic and not in_range):
		repair = rewritten(launch, "main_process_port", number) if in_range else None
		text = f"main_process_port {shown(port)} is no port number; write a number from 0 to 65535 without quotes"
		yield Hit(launch.at("main_process_port"), text, repair)


@rule("LCH007", error="*")
def gpu_ids_not_text(launch: Launch) -> Hits:
	"""`gpu_ids` is no text: `gpu_ids: 0` is a number for YAML, and a YAML list is a list.

	The launcher splits the value at commas and fails with "has no attribute 'split'". Quote it: `gpu_ids: '0'`.
	Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	value = launch.value("gpu_ids")
	if isinstance(value, str) or not launch.has_config:
		return
	ids = value if isinstance(value, list) else [value]
	plain = bool(ids) and all(isinstance(item, (int, str)) and not isinstance(item, bool) for item in ids)
	text = ",".join(map(str, ids))
	at, repair = launch.at("gpu_ids"), rewritten(launch, "gpu_ids", text) if plain else None
	better = as_written(at, text if plain else "0,1")
	yield Hit(at, f"gpu_ids {shown(value)} is no text, and the launcher fails; write {better}", repair)


@rule("LCH008", error="*")
def one_gpu_id(multi_device: Launch) -> Hits:
	"""A MULTI_* type with a single GPU id on one machine.

	Refused with "Less than two GPU ids were configured". Use several ids, `all`, or `distributed_type: 'NO'`. Source:
	1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	ids = multi_device.value("gpu_ids")
	single = isinstance(ids, str) and "," not in ids and ids != "all"
	if multi_device.has_config and single and machines_of(multi_device) <= 1:
		text = f"{multi_device.distributed_type} with the one GPU id {shown(ids)} is refused; list several or write all"
		yield Hit(multi_device.at("gpu_ids"), text)


@rule("LCH009", warning="*")
def more_processes_than_gpu_ids(launch: Launch) -> Hits:
	"""More processes on a machine than GPU ids.

	The launcher makes only the listed GPUs visible and a process takes the GPU of its local rank, counted round: two
	processes share one GPU, which NCCL refuses ("Duplicate GPU detected") or memory does not hold. Source: 1.15.0,
	state.py, `PartialState.set_device`.
	"""
	ids, processes = launch.value("gpu_ids"), launch.world
	if not isinstance(ids, str) or ids in ("all", "") or processes is None or launch.route in ("simple", "tpu"):
		return
	count = len([part for part in ids.split(",") if part.strip()])
	here = int(processes // max(1, machines_of(launch)))
	if 0 < count < here:
		text = f"{here} processes on a machine, but gpu_ids lists {count}: several get the same GPU; list as many ids"
		yield Hit(launch.at("gpu_ids"), text, related=(launch.at("num_processes"),))


@rule("LCH010", error="*")
def use_cpu_not_a_truth_word(simple: Launch) -> Hits:
	"""`use_cpu` is no word for true or false.

	The launcher of NO and MULTI_CPU exports it as text, and the workers convert that with `str_to_bool`. Source:
	1.15.0, utils/environment.py, `str_to_bool`.
	"""
	value = simple.value("use_cpu")
	if value and str(value).lower() not in (*TRUE, *FALSE):
		yield Hit(simple.at("use_cpu"), f"use_cpu {shown(value)} is neither true nor false, and accelerate refuses it")
	elif (value is None and simple.given("use_cpu")) or value in ("", [], {}):
		yield Hit(simple.at("use_cpu"), f"use_cpu {shown(value)} is neither true nor false; write false")
