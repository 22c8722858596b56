"""What really takes effect in a run: from the launcher's arguments to the fields of the plugins in the workers."""

from collections.abc import Mapping, Sequence

from ..knowledge import accelerate as knowledge
from ..model import Context
from ..model_effective import Effective
from ..sources.document import Document
from .command import command_line
from .effective_run import Run, arguments, calls_of, variables_given
from .effective_start import start
from .effective_variables import variables
from .effective_worker import worker
from .launch import launch_of


def run_of(documents: Sequence[Document], release: str, context: Context) -> Run | None:
	"""Put together what belongs to one run; None where nothing is launched."""
	by_kind: Mapping[str, Document] = {document.kind: document for document in documents}
	line, judged = by_kind.get("launch"), knowledge.nearest(release)
	command = command_line(line, judged) if line is not None and line.get("launcher") == "accelerate" else None
	launch = launch_of(by_kind.get("accelerate"), judged, context, command)
	if launch is None:
		return None
	given = variables_given([one for one in documents if one.kind in ("environment", "launch")])
	script, deepspeed = by_kind.get("python"), by_kind.get("deepspeed")
	readable = deepspeed if deepspeed is not None and isinstance(deepspeed.data, dict) else None
	return Run(launch, given, calls_of(script) if script is not None else {}, readable)


def effective(run: Run) -> Effective:
	launched = arguments(run)
	exported = variables(run, launched)
	started = {setting.name: setting for setting in start(run, launched)}
	outside = (*started.values(), *exported.values(), *launched.values())
	return Effective(run.release, run.launch.route, (*worker(run, exported, started), *outside))
