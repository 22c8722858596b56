"""What really takes effect in a run: from the launcher's arguments to the fields of the plugins in the workers."""

import re
from collections.abc import Mapping, Sequence

from ..knowledge import accelerate as knowledge
from ..knowledge.transformers import nearest
from ..model import Context
from ..model_effective import Effective, Setting
from ..sources.document import Document
from .command import command_line
from .effective_run import MOST, Run, arguments, calls_of, variables_given
from .effective_start import start, variables
from .effective_trainer import finished, trained, trainer_of
from .effective_worker import worker
from .launch import launch_of


def run_of(documents: Sequence[Document], release: str, context: Context, transformers: str = "") -> Run | None:
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
	trainer = trainer_of(by_kind.get("trainer"), script, nearest(transformers)) if transformers else None
	return Run(launch, given, calls_of(script) if script is not None else {}, readable, trainer)


def effective(run: Run) -> Effective:
	launched = arguments(run)
	exported = variables(run, launched)
	started = {setting.name: setting for setting in start(run, launched)}
	run, exported = trained(run, exported)
	inside = finished(run, worker(run, exported, started), exported)
	outside = (*started.values(), *exported.values(), *launched.values())
	doubt = doubt_of(run)
	settings = [doubted(one, doubt) for one in (*inside, *outside)]
	return Effective(run.release, run.launch.route, tuple(settings), doubt)


def doubt_of(run: Run) -> str:
	"""What may set more than is known: a config that is not here, or a word that only the shell knows."""
	line = run.launch.command
	config, word = (line.given.get("config_file"), line.open_at) if line else (None, None)
	if line and config and not run.launch.has_config:
		word = config.where
	elif line is None or word is None or (word == line.script and re.fullmatch(r'"\$\{?\w+\}?"', line.text(word))):
		return ""
	return f"unless {line.text(word)[:MOST]} sets it"


def doubted(setting: Setting, doubt: str) -> Setting:
	sure = setting.argued or setting.surface in ("command line", "environment", "deepspeed file")
	if not doubt or sure or setting.state == "open":
		return setting
	return setting._replace(value=f"{setting.value}, {doubt}", state="open", doubted=True)
