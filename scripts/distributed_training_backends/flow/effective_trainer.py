"""What the Trainer makes of a run: variables that TrainingArguments set, and the arguments of its `Accelerator`.

What each release does in training_args.py and trainer.py are rows of data/effective.json (`trainer`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from os.path import basename
from typing import Any

from ..knowledge import accelerate as knowledge
from ..model import Pointer
from ..model_effective import Setting
from ..sources.document import OPEN, Document
from ..sources.python_values import Made
from .effective_plugins import typed
from .effective_run import Call, Run, Trainer, call_at, made, setting_at

PLAIN = ("TrainingArguments", "Seq2SeqTrainingArguments", "Trainer", "Seq2SeqTrainer")  # with the same defaults
OF_TRL = frozenset({"bf16", "learning_rate"})  # have other defaults there
AGAIN = "TrainingArguments set it again"
FORMS: Mapping[str, Any] = {
	"": lambda value: value,
	"upper": lambda value: str(value).upper(),
	"lower": lambda value: str(value).lower(),
	"on": lambda value: bool(value) or None,  # handed over only where it is true
	"flag": lambda value: typed("bool", str(value)),
	"classes": lambda value: ",".join(map(str, value)) if isinstance(value, list) else value,
}


def product(several: list[Any]) -> Any:
	return math.prod(several) if all(isinstance(one, int) for one in several) else several


FILLS: Mapping[str, Any] = {"only": itemgetter(0), "any": any, "list": list, "product": product}


def trainer_of(
	file: Document | None, script: Document | None, release: str, fsdp: Document | None = None
) -> Trainer | None:
	"""The arguments of the run's Trainer: of a call, or a file; all of them open where a script parses them.

	`fsdp` is the file that `fsdp_config` may name.
	"""
	found, names = arguments_of(file, script, release), {one["name"] for one in (script and script.get("calls")) or ()}
	makers = (script and script.get("trainers")) or ()
	idle = "Accelerator" in names and not any(one["name"].endswith("Trainer") for one in makers)
	config = found.given.get("fsdp_config") if found else None
	if not found or not config or not isinstance(config.value, str) or config.state == "open":
		return found and found._replace(idle=idle)
	more = {"fsdp_config": config._replace(value=f"what {config.value} says", state="open")}
	if fsdp and basename(fsdp.path) == basename(config.value) and isinstance(fsdp.data, dict):
		more = {"fsdp_config": config._replace(value=fsdp.data)}
		for key, value in fsdp.data.items():
			one = setting_at("", value, fsdp, (key,))._replace(surface="trainer")
			more[f"fsdp_config.{str(key).removeprefix('fsdp_')}"] = one
	return found._replace(idle=idle, given={**found.given, **more})


def arguments_of(file: Document | None, script: Document | None, release: str) -> Trainer | None:
	calls, makers = (script.get("calls") or [], script.get("trainers") or []) if script else ([], [])
	handed = {one["args"].call for one in makers if isinstance(one["args"], Made)}
	handed = handed or {place for place, call in enumerate(calls) if call.get("module", "accelerate") != "accelerate"}
	if script is not None and handed:
		every = [of_call(script, number, release) for number in sorted(handed)]  # of several calls any may count
		same = {k: v for k, v in every[0].given.items() if all(v.value == one.of(k).value for one in every)}
		unlike = frozenset(name for one in every for name in one.given if name not in same)
		left = None if any(one.open is None for one in every) else unlike.union(*(one.open or () for one in every))
		return every[0]._replace(given=same, open=left)
	if file is not None:
		return Trainer(release, dict(given(file, ())), setting_at("", None, file, ()))
	if script is None or not makers:
		return None
	left = left_open(makers[0]) if makers[0]["args"] is None else None
	return Trainer(release, {}, setting_at("", None, script, ("trainers", 0)), left)


def of_call(script: Document, number: int, release: str) -> Trainer:
	calls, at = script.data["calls"], ("calls", number)
	unseen = calls[number].get("open") or len(calls[number].get("positional", ())) > 1
	left = None if unseen else left_open(calls[number])
	handed = {calls[place]["name"]: call_at(script, place) for place in made(calls, number)}
	return Trainer(release, dict(given(script, (*at, "arguments"))), setting_at("", None, script, at), left, handed)


def left_open(call: Mapping[str, Any]) -> frozenset[str] | None:
	return OF_TRL if call["module"] == "trl" else frozenset() if call["name"] in PLAIN else None


def given(document: Document, base: Pointer) -> Iterator[tuple[str, Setting]]:
	found = document.get(*base)
	for name, value in found.items() if isinstance(found, dict) else ():
		unknown = type(value) is list and OPEN in value
		yield name, setting_at("", OPEN if unknown else value, document, (*base, name))
		for key, one in value.items() if isinstance(value, dict) else ():
			yield f"{name}.{key}", setting_at("", one, document, (*base, name, key))
			if key == "gradient_accumulation_kwargs" and isinstance(one, dict) and "num_steps" in one:
				yield "gradient_accumulation_steps", setting_at("", one["num_steps"], document, (*base, name, key))


def trained(run: Run, variables: dict[str, Setting]) -> tuple[Run, dict[str, Setting]]:
	"""The run as its `Accelerator` finds it: the Trainer's calls, and the variables that TrainingArguments leave."""
	trainer = run.trainer
	if trainer is None:
		return run, variables
	calls, left = {**trainer.calls, "Accelerator": Call("Accelerator", {}, trainer.by.place)}, dict(variables)
	for target, one in writes(trainer, variables):
		owner, _, name = target.partition(".")
		if owner == "variable":
			beaten = left[name].beaten(AGAIN) if name in left and left[name].value != one.value else ()
			reader = ", ".join(knowledge.for_release(run.release).read_from_environment(name))
			left[name] = one._replace(name=target, losers=beaten, reader=reader)
		elif owner == "without":
			left.pop(name, None)
		elif not trainer.idle:
			call = calls.get(owner) or Call(owner, {}, trainer.by.place)
			calls[owner] = call._replace(arguments={**call.arguments, name: one})
	return run._replace(trainer=None) if trainer.idle else run._replace(calls=calls), left


def writes(trainer: Trainer, variables: Mapping[str, Setting]) -> Iterator[tuple[str, Setting]]:
	words, done = words_of(trainer) | variables.keys(), set()
	rows = [row for spans, rows in trainer.table("writes").items() if trainer.covers(spans) for row in rows]
	for target, when, source, form, default in rows:
		if target in done or any((word.lstrip("-") in words) is word.startswith("-") for word in when.split()):
			continue
		asked = next((trainer.given[word] for word in when.split() if word in trainer.given), trainer.by)
		if (one := trainer.entry(source, asked, default)) is not None:
			done.add(target)
			yield target, one.becomes(FORMS[form](one.value))


def words_of(trainer: Trainer) -> set[str]:
	config = {name: one.value for name, one in trainer.given.items() if one.value and one.state != "open"}
	fsdp = config.get("fsdp", "")
	chosen = fsdp.split() if isinstance(fsdp, str) else fsdp if isinstance(fsdp, list) else ["full_shard"]
	version = config.get("fsdp_config.version", 2 if trainer.covers("5.10..") else 1)
	policy = config.get("fsdp_config.auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
	return {*config, *(str(word).rpartition(".")[2].lower() for word in chosen), f"v{version}", str(policy)}


def filled(run: Run, config: dict[str, Setting], processes: Setting) -> None:
	"""Put arguments in the place of "auto", as `HfTrainerDeepSpeedConfig.trainer_config_process` does."""
	for path, (how, *names) in run.trainer.table("fills").items() if run.trainer else ():
		if run.trainer and path in config and config[path].value == "auto":
			parts = [processes if name == "processes" else run.trainer.of(name) for name in names]
			unknown = next((one for one in parts if one.state == "open"), run.trainer.by)
			config[path] = unknown.becomes(FILLS[how]([one.value for one in parts] or [0]))


def finished(run: Run, settings: Iterable[Setting], variables: Mapping[str, Setting]) -> Iterator[Setting]:
	"""The worker's settings, with what the Trainer changes at last, and what is open by it."""
	trainer = run.trainer
	for one in settings:
		lost = tuple(loser for loser in one.losers if loser.place != one.place)
		yield one if trainer is None else marked(trainer, changed(trainer, one._replace(losers=lost)))
	if trainer is not None:
		before, steps = variables.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"), "gradient_accumulation_steps"
		lost = before.beaten("the Trainer counts by its own argument") if before else ()
		yield trainer.of(steps)._replace(name=f"trainer.{steps}", losers=lost)


def changed(trainer: Trainer, one: Setting) -> Setting:
	field = one.name.removeprefix("fsdp_plugin.")
	if field in ("limit_all_gathers", "activation_checkpointing") and trainer.covers("..5.9"):
		late = trainer.entry(f"fsdp_config.{field}", one, one.value) or one
		return late._replace(name=one.name, losers=one.losers if late == one else one.beaten(AGAIN))
	by = {"FSDP": "fsdp", "DEEPSPEED": "deepspeed"}.get(str(one.value), "") if "distributed_type" in field else ""
	known = trainer.of(by)._replace(name=one.name, value=one.value, losers=one.losers)
	return known if by and trainer.value(by) else one


def marked(trainer: Trainer, one: Setting) -> Setting:
	known = {"fp16", "bf16"} if trainer.value("fp16") or trainer.value("bf16") else set()
	known |= {"fsdp_config"} if trainer.of("fsdp").state != "open" and not trainer.value("fsdp") else set()
	rows = [row for spans, rows in trainer.table("changes").items() if trainer.covers(spans) for row in rows.items()]
	owners = {one.name, *(one.name[: end + 1] for end, mark in enumerate(one.name) if mark == ".")}
	may = " ".join(by for names, by in rows if owners & set(names.split()) and one.state != "open")
	for name in may.split():
		if name not in known and (unknown := trainer.of(name)).state == "open":
			text = f"{one.value}, unless {name} changes it"
			return unknown._replace(name=one.name, value=text, losers=one.losers)
	return one
