"""XCF rules about what the launcher and TrainingArguments say of the same settings."""

from collections.abc import Iterator

from ..flow.effect import normal, same
from ..flow.effective import effective
from ..flow.effective_plugins import shaped
from ..flow.effective_run import Run
from ..flow.effective_trainer import filled
from ..model import Place, Severity
from ..model_effective import Setting
from ..sources.document import Document
from .registry import Hit, rule
from .suggest import shown

SURFACES = ("file", "command line", "deepspeed file")
PRECISION = "accelerator.mixed_precision"
OWNERS = {"fsdp_plugin": "FullyShardedDataParallelPlugin", "deepspeed_plugin": "DeepSpeedPlugin"}


@rule("XCF034", warning="*", of="transformers")
def trainer_beats_the_launcher(trained: tuple[Document, Run]) -> Iterator[Hit]:
	"""TrainingArguments and the launcher do not agree on a setting.

	What TrainingArguments say counts more than the config file: they set its variables again, or hand arguments to the
	plugins. Of DeepSpeed's settings the launcher's stay, and the Trainer refuses to train: "Please correct the
	following DeepSpeed config values that mismatch TrainingArguments values". Write each in one place. Source: 5.24.0,
	training_args.py, `__post_init__`; integrations/deepspeed.py, `HfTrainerDeepSpeedConfig`.
	"""
	document, run = trained
	settings, told = {one.name: one for one in effective(run).settings}, set()
	for name, one, other in unlike(run, settings):
		told.add(one.place)
		text = f"{name} is {shown(one.value)} for DeepSpeed and {shown(other.value)} by TrainingArguments"
		yield placed(document, run, other, one.place, f"{text}: the Trainer refuses to train with both")
	for name, one in settings.items():
		plugin, _, field = name.partition(".")
		for lost in one.losers if one.argued and one.state == "set" and (plugin in OWNERS or name == PRECISION) else ():
			value = shaped(run, f"{OWNERS.get(plugin)}.{field}", "text", lost.value)
			if lost.surface in SURFACES and lost.place not in told and not same(value, one.value):
				told.add(lost.place)
				text = f"{shown(one.value)} counts for {field}, as TrainingArguments say, and not {shown(lost.value)}"
				severity = Severity.INFO if normal(value) is None else None
				yield placed(document, run, one, lost.place, text)._replace(severity=severity)


def unlike(run: Run, settings: dict[str, Setting]) -> Iterator[tuple[str, Setting, Setting]]:
	assert run.trainer is not None
	for path in run.trainer.table("fills") if not run.trainer.value("deepspeed") else ():
		one = settings.get(f"deepspeed_plugin.deepspeed_config.{path}")
		if one is not None and one.surface in SURFACES and one.value not in (None, "auto"):
			wanted = {path: one._replace(value="auto")}
			filled(run, wanted, settings["accelerator.num_processes"])
			if wanted[path].state == "set" and wanted[path].value != one.value:
				yield path, one, wanted[path]


def placed(document: Document, run: Run, one: Setting, other: Place | None, text: str) -> Hit:
	places = [one.place, run.trainer and run.trainer.by.place]
	here = next((place for place in places if place and place.path == document.path), None)
	sources = [run.launch.document, *([run.launch.command.document] if run.launch.command else []), run.deepspeed]
	there = [doc.stretch(other.extent) for doc in sources if doc and other and doc.path == other.path]
	return Hit(document.stretch(here.extent) if here else document.value(), text, related=tuple(there[:1]))
