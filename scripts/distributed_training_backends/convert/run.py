"""Which conversion leads from a config to a target, and what is made of its result."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..model import Context, Kind, Report, Severity
from ..model_convert import TARGETS, BadConversionError, ConvertReport, Note, ordered
from ..sources.document import Document
from ..validate import Options
from .backends import to_deepspeed, to_fsdp, to_fsdp2
from .from_script import COUNT, DEEPSPEED_FILE, Hub
from .from_script import hub_of as of_script
from .launch import script_in, to_config, to_flags
from .python_code import to_python
from .source import Draft, Run, fresh, reread, written
from .trainer import to_trainer

SCRIPT = "train.py"
IN_PLACE = ("fsdp2", "fsdp", "deepspeed")
TO: dict[str, Callable[[Run], str]] = {
	"fsdp2": lambda run: to_fsdp(run) if run.route == "deepspeed" else to_fsdp2(run),
	"fsdp": to_fsdp,
	"deepspeed": to_deepspeed,
	"launch": to_flags,
	"python": to_python,
	"trainer": to_trainer,
	"accelerate": lambda run: run.first.text,
}
# What goes with a kind; files of the other settings go with scripts and files of the Trainer.
BESIDE: dict[Kind, tuple[Kind, ...]] = {"launch": ("accelerate", "deepspeed"), "accelerate": ("deepspeed",)}
BESIDE |= {"deepspeed": (), "fsdp": ()}


class Given(NamedTuple):
	"""What was given: the document that is converted, and those that go with it."""

	main: Document
	config: Document | None = None
	fsdp: Document | None = None


def main_of(documents: Sequence[Document]) -> Given:
	"""The one document that says how the run is launched: a command counts more than the config that it may take."""
	kinds: tuple[Kind, ...] = ("launch", "python", "accelerate", "trainer", "deepspeed", "fsdp")
	found = {kind: [one for one in documents if one.kind == kind] for kind in kinds}
	mains = next(filter(None, found.values()), [])
	if not mains:
		what = [f"{one.path} is of the kind {one.kind}, which is no run" for one in documents[:1]]
		raise BadConversionError("".join(what) or "there is no run in it")
	main = mains[0]
	beside = BESIDE.get(main.kind, ("deepspeed", "fsdp"))
	taken = {kind: found[kind][0] for kind in beside if found[kind]}
	for other in documents:
		if other is not main and other is not taken.get(other.kind):
			more = "has more than one" if other.path == main.path else f"says more beside {main.path}"
			raise BadConversionError(f"one run is converted at a time, and {other.path} {more}")
	return Given(main, taken.get("accelerate"), taken.get("fsdp"))


def with_config(given: Given, config: Document | None, named: object) -> Given:
	"""A command with the config that it reads; BadConversionError where that is named and not there."""
	if config is None and isinstance(named, str):
		raise BadConversionError(f"{given.main.path} reads {named}, which is not here: give it too")
	return given._replace(config=config or given.config)


def convert(
	given: Given, find: Callable[[Document], Document | None], to: str, options: Options, script: str = ""
) -> tuple[ConvertReport, Document | None, bool]:
	"""Convert a document; `find` gives the DeepSpeed file that a config names. Raises BadConversionError.

	The second is the result as it was read already, where the same file was edited, or the DeepSpeed file that goes
	with code. The third tells that there was a Trainer.
	"""
	if to not in TARGETS:
		raise BadConversionError(f"there is no target {to!r}; there are {', '.join(TARGETS)}")
	if any(one is not None and one.filled for one in given):
		raise BadConversionError(f"{given.main.path}: the shell fills in values; convert the file that it writes")
	main, targets = given.main, options.targets
	if main.kind == to == "trainer":
		raise BadConversionError(f"{main.path} is a file of TrainingArguments already")
	hub, notes, inner, own = hub_of(given, options, to)
	script = script or (script_in(main, targets.accelerate) if main.kind == "launch" else "")
	companion = main if main.kind == "deepspeed" else inner or find(hub)
	run = Run(hub, companion, targets, options.context, script or SCRIPT)
	run.own = own
	text, in_place = TO[to](run), to in IN_PLACE
	made = run.notes if hub is main else [note._replace(line=None) for note in run.notes]
	report = ConvertReport(
		targets,
		main.path,
		main.kind,
		to,
		"unchanged" if text == main.text else "converted",
		text,
		hub.text if in_place else "",
		"accelerate" if in_place else to,
		in_place and hub is main,
		(*notes, *made),
	)
	return report, run.latest if report.same_format else companion if to == "python" else None, own is not None


def hub_of(given: Given, options: Options, to: str) -> Hub:
	main = given.main
	if main.kind == "accelerate":
		return Hub(main if not main.begin else reread(main, written(main.data, "yaml")))
	if main.kind == "deepspeed":
		block = {"deepspeed_config_file": main.path if main.path != "<text>" else DEEPSPEED_FILE}
		hub = Hub(fresh(main, {"distributed_type": "DEEPSPEED", "deepspeed_config": block}), (COUNT,))
	elif main.kind == "launch":
		hub = Hub(*to_config(main, given.config, options.targets.accelerate, options.context))
	else:
		hub = of_script(main, given.fsdp, options.targets, to)
	return counted(hub, options.context)


def counted(hub: Hub, context: Context) -> Hub:
	"""A config with the number of processes and machines that the caller knows; nothing is open about them then."""
	told = {name: value for name in ("num_processes", "num_machines") if (value := getattr(context, name))}
	draft, gone = Draft(hub.document), {*told, *(("distributed_type",) if "num_processes" in told else ())}
	if told.get("num_processes") == 1 and draft.document.get("distributed_type") == "MULTI_GPU":
		draft.set("NO", "distributed_type")
	for name, value in told.items():
		draft.set(value, name)
	return hub._replace(document=draft.document, notes=tuple(note for note in hub.notes if note.setting not in gone))


# --- what the validator says ---------------------------------------------------------------------------------


def refused(report: Report, documents: Sequence[Document], to: str) -> ConvertReport:
	"""Why nothing was converted."""
	unreadable = report.exit_code == 2
	least = Severity.INFO if unreadable else Severity.ERROR
	found = [(file, one) for file in report.files for one in file.findings if one.severity.rank <= least.rank]
	bad = tuple((file.path, one) for file, one in found if file.verdict == "unreadable" or not unreadable)
	main = next((one for one in documents if one.kind != "deepspeed"), documents[0] if documents else None)
	path = main.path if main else next((file.path for file in report.files), "")
	verdict = "unreadable" if unreadable else "rejected"
	kind = main.kind if main else None
	return ConvertReport(report.targets, path, kind, to, verdict, findings=bad)  # type: ignore[arg-type]


def checked(done: ConvertReport, before: Report, after: Report) -> ConvertReport:
	"""Tell what the validator finds in the result that it did not find in the input."""
	old = {(one.code, one.message) for file in before.files for one in file.findings}
	found = [one for file in after.files for one in file.findings if one.severity is not Severity.INFO]
	new = [Note("check", one.code, one.message) for one in found if (one.code, one.message) not in old]
	return done._replace(notes=ordered([*done.notes, *new]))
