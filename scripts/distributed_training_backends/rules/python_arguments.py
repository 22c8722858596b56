"""PYS rules about the names in plugin calls: classes, arguments and members that a release has or lacks."""

import re
from collections.abc import Iterator

from ..flow.script import DATA, Call, Script, positional
from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..knowledge import transformers
from ..model import Applicability, Severity
from ..resources import load_json
from ..sources.document import At
from ..versions import describe, in_span, parse
from .python_tables import weighed
from .registry import Hit, Operation, Repair, rule
from .suggest import closest, did_you_mean, named, shown
from .trainer_arguments import KIND


def judged(script: Script) -> Iterator[Call]:
	return (call for call in script.calls if call.module == "accelerate" and call.parameters)


def life(spans: list[tuple[str, str | None]], release: str) -> str:
	first, last = spans[0]
	if parse(first) > parse(knowledge.nearest(release)):
		return f"came with {first}" if last is None else f"exists {describe(first, last)}"
	return f"went after {spans[-1][1]}"


def renaming(at: At, name: str) -> Repair:
	"""Write another name for an argument. Unsafe: the value may have been meant for something else."""
	extent = at.document.extent_of(at)
	step = Operation("text", at.pointer, name, extent=(extent.start, extent.end))
	return Repair(f"rename to {name}", (step,), Applicability.UNSAFE)


@rule("PYS001", error="*")
def unknown_argument(script: Script) -> Iterator[Hit]:
	"""An argument that a class of Accelerate never had.

	Python refuses the call: "got an unexpected keyword argument". Names of the config file differ from those of the
	plugins: `fsdp_sharding_strategy` is `sharding_strategy` there, `deepspeed_config_file` is `hf_ds_config`. Source:
	1.15.0, utils/dataclasses.py, accelerator.py.
	"""
	for call in judged(script):
		for name in unexpected(call):
			if not owners_spans(call.name, name):
				yield weighed(call, misnamed(call, name))
	for call in script.of("TrainingArguments"):
		known = transformers.for_release(script.targets.transformers).training_arguments
		for name in call.given:
			if name not in known and not transformers.spans(KIND, name):
				text = f"TrainingArguments has no argument {named(name)}, and Python refuses the call"
				near = closest(name, known)
				yield weighed(call, Hit(call.at(name, "key"), text + did_you_mean(near)))


def unexpected(call: Call) -> list[str]:
	takes_any = any(name.startswith("**") for name in call.parameters)
	return [] if takes_any else [name for name in call.given if name not in call.parameters]


def owners_spans(owner: str, name: str) -> list[tuple[str, str | None]]:
	if found := api.spans(owner, name):
		return found
	bases = ("TERecipeKwargs", "MSAMPRecipeKwargs") if owner == "FP8RecipeKwargs" else ()
	return next((found for base in bases if (found := api.spans(base, name))), [])


def instead(call: Call, name: str) -> str:
	return str(load_json(DATA)["instead"].get(call.name, {}).get(name, ""))


def misnamed(call: Call, name: str) -> Hit:
	at = call.at(name, "key")
	text = f"{call.name} has no argument {named(name)}, and Python refuses the call"
	if advice := instead(call, name):
		return Hit(at, f"{text}; {advice}")
	bare = re.sub("^(fsdp_)?(deepspeed_)?(megatron_lm_)?(dynamo_)?", "", name)
	near = bare if bare in call.parameters else closest(name, call.parameters)
	near = near if near and near not in call.given else None
	return Hit(at, text + did_you_mean(near), renaming(at, near) if near else None)


@rule("PYS002", error="*")
def argument_of_another_release(script: Script) -> Iterator[Hit]:
	"""An argument that the class has in other releases of Accelerate, but not in this one.

	Python refuses the call: "got an unexpected keyword argument". 1.0.0 removed `dispatch_batches`, `even_batches` and
	`use_seedable_sampler` from `Accelerator`, which are fields of `DataLoaderConfiguration` (since 0.28.0);
	`fsdp_version` came with 1.6.0, `parallelism_config` with 1.10.0. Source: 1.15.0 and older releases,
	utils/dataclasses.py, accelerator.py.
	"""
	for call in judged(script):
		for name in unexpected(call):
			if spans := owners_spans(call.name, name):
				text = f"{call.name} of accelerate {script.release} has no argument {name}"
				advice = instead(call, name) or ("" if parse(spans[0][0]) > parse(script.release) else "remove it")
				text += f" (it {life(spans, script.release)})" + (f"; {advice}" if advice else "")
				yield weighed(call, Hit(call.at(name, "key"), text))


@rule("PYS003", error="*")
def class_of_another_release(script: Script) -> Iterator[Hit]:
	"""A class or function of Accelerate that this release does not have.

	The import fails, or the name is missing. `ParallelismConfig` came with 1.10.0, `DataLoaderConfiguration` with
	0.28.0, `TERecipeKwargs` with 1.4.0; `TorchTensorParallelPlugin` lived from 1.4.0 on. Source: 1.15.0 and older
	releases, utils/__init__.py.
	"""
	told = set[str]()
	for call in script.calls:
		if call.module == "accelerate" and not call.parameters and "." not in call.name and call.name not in told:
			spans = class_spans(call.name)
			if spans and not api.owners(script.release) & {call.name}:
				told.add(call.name)
				text = f"accelerate {script.release} has no {call.name} (it {life(spans, script.release)})"
				yield weighed(call, Hit(call.at(), text))


def class_spans(owner: str) -> list[tuple[str, str | None]]:
	releases = [one for one in knowledge.RELEASES if owner in api.owners(one)]
	if not releases:
		return []
	last = releases[-1]
	return [(releases[0], None if last == knowledge.RELEASES[-1] else last)]


@rule("PYS004", error="*")
def arguments_do_not_fit(script: Script) -> Iterator[Hit]:
	"""A call without an argument that the class needs, or with more of them than it takes.

	Python refuses the call: "missing 1 required positional argument", "takes from 1 to 5 positional arguments but 6
	were given", "got multiple values for argument". Source: 1.15.0, local_sgd.py, launchers.py,
	utils/dataclasses.py.
	"""
	for call in judged(script):
		if "." in call.name or call.open:
			continue
		known = len(positional(call.name, script.release))
		needed = [name for name, item in call.parameters.items() if item.required and name not in call.given]
		if needed and len(call.positional) <= known:
			text = f"{call.name} needs {' and '.join(needed)}, which the call does not give"
			yield weighed(call, Hit(call.at(), text))
		varying = any(name.startswith("*") for name in call.parameters)
		if not varying and len(call.positional) > len(call.parameters):
			text = f"{call.name} takes {len(call.parameters)} arguments, and the call has {len(call.positional)}"
			yield weighed(call, Hit(call.at(), text))


@rule("PYS005", error="*")
def member_of_another_release(script: Script) -> Iterator[Hit]:
	"""A member of one of Accelerate's enumerations that this release does not have.

	The line ends in an AttributeError; a warning where it may not be reached. `DistributedType.TPU` is `XLA` since
	0.28.0, and went with 1.0.0. Source: 1.15.0, utils/dataclasses.py, `DistributedType`.
	"""
	for place, one in enumerate(script.document.data["members"]):
		members = knowledge.for_release(script.release).enum(one["enum"])
		alias = one["member"] == "TPU" and in_span(script.release, "0.28.0", "0.34.99")  # another name of XLA there
		if members and one["member"] not in members and not alias:
			spans = knowledge.spans("enums", one["enum"], one["member"])
			near = "XLA" if one["member"] == "TPU" else None if spans else closest(one["member"], members)
			when = f" (it {life(spans, script.release)})" if spans else ""
			text = f"{one['enum']} of accelerate {script.release} has no member {shown(one['member'])[1:-1]}{when}"
			severity = None if one["sure"] else Severity.WARNING
			yield Hit(script.document.value("members", place), text + did_you_mean(near), severity=severity)
