"""PAR rules about a lone file of parallel sizes, as a script would pass it to `ParallelismConfig`."""

from ..flow.arguments import Arg, defaults
from ..flow.launch import Launch
from ..knowledge import accelerate as knowledge
from ..model import Context, Targets
from ..sources.document import Document
from .parallelism_sizes import PREFIX, context_and_sequence_parallelism, mesh_of, replication_with_tensor_parallelism
from .registry import Hit, Hits, rule
from .rewriting import renaming
from .suggest import closest, did_you_mean, shown
from .values import value_hits

HANDLERS = ("tp_handler", "cp_handler", "sp_handler")


def as_launch(document: Document, targets: Targets, context: Context) -> Launch:
	"""The sizes as they would arrive in the workers of an FSDP2 run; keys may have the launcher's prefix or not."""
	release = targets.accelerate
	arguments = {**defaults(release), "use_parallelism_config": Arg(True), "fsdp_version": Arg("2")}
	arguments["num_processes"] = Arg(context.num_processes)
	for key, value in document.mapping.items():
		if value is not None:
			arguments[option_of(key)] = Arg(value, (key,))
	return Launch(document, release, "fsdp", "FSDP", arguments, context)


def option_of(key: object) -> str:
	return str(key) if str(key).startswith(PREFIX) else f"{PREFIX}{key}"


@rule("PAR050", error="..1.9.0")
def parallelism_file_too_new(parallelism_file: Document, targets: Targets) -> Hits:
	"""A file of parallel sizes for a release that has no `ParallelismConfig`.

	It exists since 1.10.0. Source: 1.10.0, parallelism_config.py.
	"""
	text = f"accelerate {targets.accelerate} has no ParallelismConfig; use 1.10.0 or newer"
	yield Hit(parallelism_file.value(), text)


@rule("PAR051", error="1.10.0..")
def parallelism_file_unknown_key(parallelism_file: Document, targets: Targets) -> Hits:
	"""A key that `ParallelismConfig` has no field for.

	A script that passes the file on ends with a `TypeError`. Source: 1.15.0, parallelism_config.py,
	`ParallelismConfig`.
	"""
	options = knowledge.for_release(targets.accelerate).options
	known = {name.removeprefix(PREFIX) for name in options if name.startswith(PREFIX)} | set(HANDLERS)
	for key in parallelism_file.mapping:
		if (name := str(key).removeprefix(PREFIX)) not in known:
			near = closest(name, known)
			text = f"ParallelismConfig of accelerate {targets.accelerate} has no {shown(key)}"
			yield Hit(parallelism_file.key(key), text + did_you_mean(near), renaming((key,), near))


@rule("PAR052", error="1.10.0..")
def parallelism_file_value(parallelism_file: Document, targets: Targets, context: Context) -> Hits:
	"""A value that `ParallelismConfig` refuses, or sizes that do not go together.

	See PAR001 (values), PAR003 (product), PAR006 (replication with tensor or context parallelism) and PAR007 (context
	and sequence parallelism). Source: 1.15.0, parallelism_config.py.
	"""
	launch = as_launch(parallelism_file, targets, context)
	yield from value_hits(launch, (PREFIX,))
	mesh = mesh_of(launch)
	yield from replication_with_tensor_parallelism(launch)
	if launch.since("1.13.0"):
		yield from context_and_sequence_parallelism(launch)
	if context.num_processes is not None and mesh.total not in (1, context.num_processes) and mesh.sp == 1:
		text = f"the sizes ask for {mesh.total} processes ({mesh.words}), not {context.num_processes}"
		yield Hit(parallelism_file.value(), text)
