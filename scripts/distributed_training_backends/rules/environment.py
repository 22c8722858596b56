"""LCH rules about environment variables of a run."""

from functools import lru_cache

from ..flow.arguments import FALSE, TRUE
from ..flow.effective_run import Run, arguments
from ..flow.effective_start import variables as exported
from ..flow.inputs import Variables
from ..flow.launch import Launch
from ..knowledge import accelerate as knowledge
from ..knowledge import history
from ..model import Severity
from ..sources.document import OPEN
from ..versions import describe, parse
from .registry import Hit, Hits, Operation, Repair, rule
from .suggest import closest, did_you_mean, listing, shown

PREFIXES = ("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_")
# Read with `parse_flag_from_env` or `str_to_bool` by every worker, whatever it runs
FLAGS = (
	"ACCELERATE_USE_CPU",
	"ACCELERATE_DEBUG_MODE",
	"ACCELERATE_USE_FSDP",
	"ACCELERATE_CPU_AFFINITY",
	"USE_TORCH_XLA",
)
MEETING = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
MADE_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK")


@rule("LCH200", warning="*")
def unknown_variable(variables: Variables) -> Hits:
	"""A variable with a prefix of Accelerate that no part of it reads.

	Source: 1.15.0, every `os.environ` of the package.
	"""
	release = variables.targets.accelerate
	known = known_variables(knowledge.nearest(release))
	for name in variables.values:
		if not name.startswith(PREFIXES) or name in known:
			continue
		spans = history.presence("accelerate_reference.json", ("environment", name))
		near = closest(name, known)
		why = ""
		if spans:
			first, last = spans[0][0], spans[-1][1]
			newer = parse(first) > parse(release)
			why = f"; it is read {describe(first if newer else None, None if newer else last)}"
		elif near is None:
			continue  # scripts have variables of their own that begin so
		repair = (
			Repair(f"write {near}", (Operation("rename", (*variables.base, name), near),)) if near and not why else None
		)
		text = f"accelerate {release} does not read {name}{why or did_you_mean(near)}"
		yield Hit(variables.at(name, "key"), text, repair)


@lru_cache(maxsize=8)
def known_variables(release: str) -> frozenset[str]:
	view = knowledge.for_release(release)
	read = history.at("accelerate_reference.json", ("environment",), release)
	return frozenset(read) | {name for names in view.exports.values() for name in names}


@rule("LCH201", error="*")
def variable_not_a_truth_word(variables: Variables) -> Hits:
	"""A switch in the environment that is no word for true or false.

	The workers convert it with `str_to_bool`, and end with "invalid truth value". A warning where `accelerate launch`
	starts them, because it sets some of these itself. Source: 1.15.0, state.py; utils/environment.py, `str_to_bool`.
	"""
	words = (*TRUE, *FALSE)
	for name in FLAGS:
		value = variables.values.get(name)
		if isinstance(value, str) and value.lower() not in words and knowledge_reads(variables, name):
			severity = Severity.WARNING if variables.base else None
			yield Hit(variables.at(name), f"{name}={value} is no truth value; write true or false", severity=severity)


def knowledge_reads(variables: Variables, name: str) -> bool:
	return bool(knowledge.for_release(variables.targets.accelerate).read_from_environment(name))


@rule("LCH202", error="*")
def unknown_precision_variable(variables: Variables) -> Hits:
	"""`ACCELERATE_MIXED_PRECISION` is none of the precisions.

	Without `accelerate launch`, which sets it, the workers refuse it. Source: 1.15.0, state.py,
	`AcceleratorState.__init__`; utils/dataclasses.py, `PrecisionType`.
	"""
	value = variables.values.get("ACCELERATE_MIXED_PRECISION")
	choices = [str(item) for item in knowledge.for_release(variables.targets.accelerate).enum("PrecisionType").values()]
	if isinstance(value, str) and choices and value.lower() not in choices and not variables.base:
		text = f"ACCELERATE_MIXED_PRECISION={value} is refused; write one of {listing(choices)}"
		yield Hit(variables.at("ACCELERATE_MIXED_PRECISION"), f"{text}{did_you_mean(closest(value, choices))}")


@rule("LCH203", warning="*")
def variable_is_overwritten(variables: Variables, launch: Launch) -> Hits:
	"""A variable that `accelerate launch` sets itself, to another value.

	What the command or the config says counts, or the parser's default. Source: 1.15.0, utils/launch.py,
	`prepare_multi_gpu_env` and its siblings.
	"""
	run = Run(launch, {})
	made = exported(run, arguments(run))
	for name, value in variables.values.items():
		found = made.get(name)
		if name in MADE_BY_TORCHRUN and launch.elastic and value is not OPEN:
			text = f"{name} is set for each worker anew, and {shown(value)} has no effect"
			yield Hit(variables.at(name), text, severity=Severity.INFO)
		elif found is None or OPEN in (value, found.value) or found.state == "open" or name == "PYTHONPATH":
			continue
		elif str(found.value) != value:
			severity = Severity.INFO if found.value == "" else None
			text = f"accelerate launch sets {name} to {shown(found.value)}, and {shown(value)} has no effect"
			yield Hit(variables.at(name), f"{text}; give it as an option or in the config", severity=severity)


@rule("LCH204", warning="*")
def address_in_the_environment(variables: Variables, elastic: Launch) -> Hits:
	"""`MASTER_ADDR` and `MASTER_PORT` under `accelerate launch`, which does not read them.

	It takes `--main_process_ip` and `--main_process_port`, or the config's. Source: 1.15.0, utils/launch.py,
	`prepare_multi_gpu_env`.
	"""
	options = {"MASTER_ADDR": "main_process_ip", "MASTER_PORT": "main_process_port"}
	for name, option in options.items():
		if name in variables.values and elastic.arguments[option].value is None:
			several = (
				isinstance(elastic.arguments["num_machines"].value, int) and elastic.arguments["num_machines"].value > 1
			)
			text = f"accelerate launch does not read {name}; pass --{option}"
			yield Hit(variables.at(name, "key"), text, severity=None if several else Severity.INFO)
