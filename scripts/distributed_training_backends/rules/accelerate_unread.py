"""ACC rules about settings at the top of an Accelerate config that never arrive."""

from ..flow.effect import normal, same
from ..flow.launch import BLOCKS, SEPARATE, Launch
from ..flow.placement import MEETING, alone, is_read
from ..knowledge import accelerate as knowledge
from ..model import Severity
from .registry import Hit, Hits, rule
from .rewriting import rewriting
from .suggest import shown

OTHER_RULES = (*BLOCKS, *SEPARATE, "num_processes")
FOR_TPU_CONFIG = ("tpu_zone", "commands", "command_file", "tpu_vm", "tpu_env", "tpu_name")
LOOPBACK = ("127.0.0.1", "localhost")


@rule("ACC030", warning="*")
def unread_setting(launch: Launch) -> Hits:
	"""A setting at the top that has no effect in this file.

	A value from the file is taken only where the parser's own default is None. `rdzv_backend`, `same_network`,
	`enable_cpu_affinity`, `downcast_bf16` and `tpu_use_sudo` have another default, so what the file says never applies;
	only the command line does. Do not pass `--same_network` with `--rdzv_backend c10d`: the machines then get no
	`main_process_ip`, and each waits for itself. Other settings are read by some launchers only: `machine_rank` and
	`main_process_ip` for several machines, `use_cpu` for NO and MULTI_CPU, `tpu_*` and `main_training_function` for
	XLA. For NO on a GPU there is one process, which looks at no address. Source: 1.15.0, commands/launch.py,
	`_validate_launch_command`, and utils/launch.py, `prepare_simple_launcher_cmd_env`.
	"""
	fields = knowledge.for_release(launch.release).cluster
	for key, value in launch.document.data.items():
		if key in fields and key not in OTHER_RULES and not isinstance(value, dict) and not arrives(launch, key):
			effect = effective(launch, key)
			severity = Severity.INFO if is_moot(launch, key, value, effect) else None
			yield Hit(launch.document.key(key), unread_text(launch, key, effect), severity=severity)


def arrives(launch: Launch, key: str) -> bool:
	if masked(launch, key):
		return False
	if launch.route == "tpu":
		return True
	if key == "use_cpu":
		return launch.route == "simple"
	return is_read(launch, key)


def masked(launch: Launch, key: str) -> bool:
	option = knowledge.for_release(launch.release).options.get(key)
	return option is not None and option.default is not None and key != "tpu_use_cluster"


def effective(launch: Launch, key: str) -> object:
	known = knowledge.for_release(launch.release)
	if launch.command and key in launch.command.given:
		return launch.value(key)
	option = known.options.get(key)
	return known.cluster[key].default if option is None or option.default is None else option.default


def is_moot(launch: Launch, key: str, value: object, effect: object) -> bool:
	"""Whether the file says what happens anyway.

	On one machine the workers meet on the loopback address, which is what `same_network: true` and a loopback
	`main_process_ip` ask for.
	"""
	if key == "same_network" and launch.value("num_machines") in (None, 1):
		return isinstance(value, bool)
	if key == "main_process_ip" and value in LOOPBACK:
		return True
	return same(value, effect)


def unread_text(launch: Launch, key: str, effect: object) -> str:
	if masked(launch, key):
		advice = instead(launch, key)
		return f"accelerate launch ignores {key} in a config file ({shown(effect)} takes effect); {advice}"
	if key in MEETING and alone(launch):
		return f'{key} has no effect here: distributed_type "NO" starts one process, which meets no other'
	if key == "machine_rank" and launch.deepspeed_runner:
		text = "machine_rank has no effect here: the deepspeed program starts the machines, and gives each its rank"
		return f"{text}; write deepspeed_multinode_launcher: standard, to start each machine by hand"
	where = "several machines" if key in ("machine_rank", "main_process_ip") else reader(key)
	return f"{key} has no effect here: it is read for {where} only; {shown(effect)} takes effect"


def instead(launch: Launch, key: str) -> str:
	"""The flag that sets what the file cannot set, where the launcher of this file looks at it.

	`--same_network` sets the same meeting point as without it for the static rendezvous, and none for c10d, whose
	machines then wait on localhost: each for itself.
	"""
	if key == "same_network":
		return "remove it: the static rendezvous needs no --same_network, and c10d hangs with it"
	if not is_read(launch, key) or (key == "rdzv_backend" and not launch.elastic):
		return "remove it: this launcher does not look at it"
	value = launch.document.get(key)
	is_switch = knowledge.for_release(launch.release).options[key].action == "store_true"
	words = f"--{key}" if is_switch or not isinstance(value, str) else f"--{key} {value}"
	return f"pass {words} on the command line"


def reader(key: str) -> str:
	if key == "use_cpu":
		return "distributed_type NO or MULTI_CPU"
	if key.startswith("tpu") or key in FOR_TPU_CONFIG or key == "main_training_function":
		return "distributed_type XLA"
	return "several processes" if key == "main_process_port" else "other launchers"


@rule("ACC031", warning="*")
def text_counts_as_true(launch: Launch) -> Hits:
	"""A quoted "no" or "false" where Accelerate only asks whether there is a value.

	`debug: 'no'` is a text, and every text that is not empty counts as true: debug mode is switched on. Write
	`debug: false`. Source: 1.15.0, commands/launch.py, `_validate_launch_command`.
	"""
	for key in ("debug", "tpu_use_cluster"):
		value = launch.document.get(key)
		applies = key == "debug" or launch.route == "tpu"
		if isinstance(value, str) and value and normal(value) is None and applies and launch.since("0.22.0"):
			text = f"{key}: {shown(value)} is a text, and accelerate takes any text for true; write {key}: false"
			at = launch.document.value(key)
			yield Hit(at, text, rewriting(at, False))
