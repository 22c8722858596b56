"""XCF rules about what the launcher and TrainingArguments say of the same settings."""

from collections.abc import Iterator

from ..flow.effect import normal, same
from ..flow.effective import effective
from ..flow.effective_plugins import shaped
from ..flow.effective_run import Run
from ..flow.effective_trainer import filled
from ..model import Severity
from ..model_effective import Setting
from ..sources.document import Document
from .registry import Hit, rule
from .suggest import shown

SURFACES = ("file", "command line", "deepspeed file")
HANDED = "deepspeed_plugin.deepspeed_config."
OWNERS = {"fsdp_plugin": "FullyShardedDataParallelPlugin", "deepspeed_plugin": "DeepSpeedPlugin"}


@rule("XCF034", warning="*", of="transformers")
def trainer_beats_the_launcher(trained: tuple[Document, Run]) -> Iterator[Hit]:
	"""TrainingArguments and the launcher do not agree on a setting.

	TrainingArguments set the launcher's variables again, or hand arguments to the plugins, and both count more than the
	config file. Only of DeepSpeed's settings the launcher's stay, and the Trainer refuses to train with them: "Please
	correct the following DeepSpeed config values that mismatch TrainingArguments values". Write each setting in one
	place. Source: 5.24.0, training_args.py, `TrainingArguments.__post_init__`; integrations/deepspeed.py,
	`HfTrainerDeepSpeedConfig`.
	"""
	document, run = trained
	settings = {one.name: one for one in effective(run).settings}
	told = set()
	for name, one in settings.items():
		plugin, _, field = name.partition(".")
		for lost in one.losers if one.argued and one.state == "set" and plugin in (*OWNERS, "accelerator") else ():
			value = shaped(run, f"{OWNERS.get(plugin)}.{field}", "text", lost.value)
			if lost.surface in SURFACES and lost.place not in told and not same(value, one.value):
				told.add(lost.place)
				text = f"{shown(one.value)} counts for {field}, as TrainingArguments say, and not {shown(lost.value)}"
				yield placed(document, run, one, Setting("", None, place=lost.place), text, normal(value) is None)
	for one in (one for name, one in settings.items() if name.startswith(HANDED) and one.surface in SURFACES):
		field, wanted = one.name.removeprefix(HANDED), {one.name.removeprefix(HANDED): one._replace(value="auto")}
		filled(run, wanted, settings["accelerator.num_processes"])
		other = wanted[field]
		if one.place not in told and one.value not in (None, "auto", other.value) and other.state == "set":
			text = f"{field} is {shown(one.value)} for DeepSpeed and {shown(other.value)} by TrainingArguments"
			yield placed(document, run, other, one, f"{text}: the Trainer refuses to train with both", False)


def placed(document: Document, run: Run, one: Setting, other: Setting, text: str, off: bool) -> Hit:
	places = [one.place, run.trainer and run.trainer.by.place]
	at = next(
		(document.stretch(place.extent) for place in places if place and place.path == document.path), document.value()
	)
	sources = [run.launch.document, *([run.launch.command.document] if run.launch.command else []), run.deepspeed]
	there = [doc.stretch(other.place.extent) for doc in sources if doc and other.place and doc.path == other.place.path]
	return Hit(at, text, None, Severity.INFO if off else None, tuple(there[:1]))
