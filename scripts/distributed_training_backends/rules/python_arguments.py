"""PYS rules about plugin calls: names that a release has or lacks, values, and arguments that do not go together."""

import re
from collections.abc import Iterator
from typing import Any

from ..flow.script import DATA, Call, Script, positional
from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..knowledge import transformers
from ..model import Applicability, Severity
from ..resources import load_json
from ..sources.document import OPEN, At
from ..sources.python_values import Made, Symbol
from ..versions import covers, describe, in_span, parse
from .python_tables import TYPES, Reading, Row, assumptions, read, rows, weighed
from .registry import Hit, Hits, Operation, Repair, rule
from .suggest import closest, did_you_mean, listing, misfit, named, shown
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
def unknown_argument(script: Script) -> Hits:
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
def argument_of_another_release(script: Script) -> Hits:
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
def class_of_another_release(script: Script) -> Hits:
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
def arguments_do_not_fit(script: Script) -> Hits:
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
def member_of_another_release(script: Script) -> Hits:
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


QUANTIZATION = "BnbQuantizationConfig"


def written(value: Any) -> str:
	if isinstance(value, Made):
		return f"{value.name}(…)"
	if isinstance(value, str):
		return shown(str(value))
	if isinstance(value, (dict, list)):
		return "a mapping" if isinstance(value, dict) else "a list"
	return repr(value)


@rule("PYS010", error="*")
def argument_value(script: Script) -> Hits:
	"""A value that a class of Accelerate refuses.

	`mixed_precision` is compared letter by letter ("bf16", not "BF16" or "bfloat16"), backends of torch.compile and
	strategies of FSDP in any case. Sizes are integers of at least 1. Texts, mappings and numbers where an object of
	torch is meant are refused. Source: 1.15.0, utils/dataclasses.py, `__post_init__` of each class; accelerator.py,
	`Accelerator.__init__`.
	"""
	for row, call in rows("values", script):
		if "late" not in row and "slip" not in row:
			yield from refusals(row, call, f"accelerate {script.release} refuses it")
	for call in script.of(QUANTIZATION):
		yield from misfits(call)


def refusals(row: Row, call: Call, refusal: str) -> Hits:
	name = row["name"]
	unless = assumptions(call, row.get("when", {}))
	if name not in call.given or unless is None:
		return
	found = read(row, call.given[name], call)
	if found.expected:
		if row.get("null") == "refused":
			# the variables that beat the argument, where it is not known that none is set
			source = api.sources(call.name, call.script.release).get(name)
			unless += source.variables if source and not call.script.launched else ()
		yield weighed(call, misread(call, name, found, refusal), unless)


def misread(call: Call, name: str, found: Reading, refusal: str) -> Hit:
	text = misfit(f"{name}={written(call.given[name])}", found.expected, refusal)
	return Hit(call.at(name), text + did_you_mean(found.near))


def misfits(call: Call) -> Hits:
	"""The fields of a quantization config whose type or value is refused; both are extracted from the source."""
	for name, item in call.parameters.items():
		value = call.given.get(name, OPEN)
		if value is OPEN or isinstance(value, (Symbol, Made)) or not item.instance:
			continue
		kinds = tuple(TYPES[kind] for kind in item.instance if kind in TYPES)
		fits = isinstance(value, kinds) or (value is None and (name == "torch_dtype" or "None" in item.instance))
		known = not item.allowed or value in item.allowed or not isinstance(value, str)
		if not fits or not known:
			expected = listing(item.allowed) if item.allowed else f"of type {listing(item.instance)}"
			yield weighed(call, misread(call, name, Reading(expected), f"accelerate {call.script.release} refuses it"))


@rule("PYS011", error="*")
def not_the_object(script: Script) -> Hits:
	"""A mapping, a text or another object where a plugin is meant.

	Plugins are objects: `deepspeed_plugin=DeepSpeedPlugin(hf_ds_config="ds.json")`, not the path or the settings
	themselves. Several DeepSpeed plugins come as a mapping of names to plugins (since 1.0.0). Source: 1.15.0,
	accelerator.py, `Accelerator.__init__`; parallelism_config.py, `ParallelismConfig.__post_init__`.
	"""
	for row, call in rows("objects", script):
		name = row["name"]
		value = call.given.get(name)
		unless = assumptions(call, row.get("when", {}))
		if value in (None, OPEN, False) or unless is None or fits(row, value, script):
			continue
		late = covers(row["late"], script.release) if "late" in row else False
		then = "using it fails" if late else f"accelerate {script.release} refuses it"
		text = f"{name} is {written(value)}; {then}: it wants {row['class']}(…)"
		hit = weighed(call, Hit(call.at(name), text), unless)
		yield hit._replace(severity=Severity.WARNING) if late and hit.severity is None else hit


def fits(row: Row, value: Any, script: Script) -> bool:
	if isinstance(value, dict) and value and "mapping" in row and covers(row["mapping"], script.release):
		return all(one is OPEN or fits({"class": row["class"]}, one, script) for one in value.values())
	if isinstance(value, Made):
		return bool(value.name == row["class"])
	return isinstance(value, Symbol)


@rule("PYS012", error="*")
def refused_together(script: Script) -> Hits:
	"""Arguments that a class of Accelerate refuses together.

	Alone each is taken. An argument that is left out may come from the launcher: with `fsdp_version: 2` in the config
	file, a plugin without `fsdp_version` is one of FSDP2. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`; parallelism_config.py, `ParallelismConfig.__post_init__`;
	accelerator.py, `Accelerator.__init__`.
	"""
	for row, call in rows("together", script):
		if (unless := met(call, row)) is not None:
			yield weighed(call, Hit(call.at(row["at"]), row["says"]), unless)


def met(call: Call, row: Row) -> list[str] | None:
	return assumptions(call, row["when"]) if all(name in call.parameters for name in row["when"]) else None


@rule("PYS020", warning="*")
def argument_without_effect(script: Script) -> Hits:
	"""An argument that Accelerate overrules, or does not look at.

	FSDP2 knows no `backward_prefetch`, `use_orig_params` and `sync_module_states`; a wrap policy reads only its own
	setting. Source: 1.15.0, utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`.
	"""
	for row, call in rows("unread", script):
		if (unless := met(call, row)) is not None:
			doubt = f" (unless the launcher sets {' or '.join(dict.fromkeys(unless))})" if unless else ""
			yield Hit(call.at(row["at"], "key"), f"{row['at']} has no effect: {row['says']}{doubt}")
	for row, call in rows("values", script):
		if "slip" in row and (name := row["name"]) in call.given and read(row, call.given[name], call).expected:
			text = f"{name}={written(call.given[name])} {row['slip']}; write {row['what']}"
			yield Hit(call.at(name), text)


@rule("PYS021", warning="*")
def refused_later(script: Script) -> Hits:
	"""A value that the class takes and that is refused when it is used.

	DeepSpeed knows ZeRO stages 0 to 3 and the devices none, cpu and nvme, and looks at them in `prepare`; torch wants a
	`timedelta` in `init_process_group`, and its own modes in `torch.compile`. Source: deepspeed 0.19.8,
	runtime/zero/config.py; torch 2.13.0, distributed/distributed_c10d.py.
	"""
	for row, call in rows("values", script):
		if "late" in row:
			for hit in refusals(row, call, row["late"]):
				yield hit if hit.severity else hit._replace(severity=Severity.WARNING)


@rule("PYS022", info="*")
def deprecated_argument(script: Script) -> Hits:
	"""A class or an argument that still works and has a successor.

	Accelerate warns of it. Source: 1.15.0, utils/dataclasses.py, `FP8RecipeKwargs`; accelerator.py,
	`Accelerator.__init__`.
	"""
	for row, call in rows("deprecated", script):
		if call.parameters and (not row["at"] or row["at"] in call.given):
			yield Hit(call.at(row["at"], "key"), f"{row['at'] or call.name} is deprecated; {row['says']}")
