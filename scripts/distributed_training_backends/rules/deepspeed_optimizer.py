"""DSP rules about the `optimizer` block: its type, and the parameters that the chosen class takes."""

from collections.abc import Callable, Mapping
from typing import Any

from ..flow.deepspeed import Reading
from ..flow.inputs import DeepSpeedFile
from ..knowledge.deepspeed import Constructor
from ..model import Applicability, Pointer, Severity
from ..resources import load_json
from .deepspeed_conditions import is_number, rows
from .registry import Hit, Hits, Repair, rule
from .rewriting import renaming, rewriting
from .suggest import closest, listing, shown, unlike


def parameters(reading: Reading) -> dict[str, Any]:
	"""The keyword arguments that the class is called with, before DeepSpeed takes its own out."""
	return reading.block("optimizer.params")


def case_of(reading: Reading) -> str:
	"""What decides on the class of an optimizer: torch_adam, offloading, ZenFlow."""
	if parameters(reading).get("torch_adam"):
		return "torch_adam"
	if reading.cpu_optimizer:
		return "zenflow" if reading.zenflow else "cpu"
	return "default"


def constructor(reading: Reading) -> Constructor | None:
	return reading.facts.optimizer(reading.optimizer, case_of(reading)) if reading.optimizer else None


@rule("DSP030", error="*")
def unknown_optimizer(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""The optimizer's `type` is neither one of DeepSpeed's own nor the name of a class in `torch.optim`.

	DeepSpeed's own names may be written in any case, those of PyTorch have to be exact ("SGD", not "sgd"). 0.19.7
	removed the 1-bit optimizers. Source: `runtime/engine.py`, `_do_sanity_check`.
	"""
	kind = reading.block("optimizer").get("type")
	if kind is None:
		return
	at = deepspeed.document.value("optimizer", "type")
	if not isinstance(kind, str):
		yield Hit(at, f'`optimizer.type` has to be a name such as "AdamW", but is {shown(kind)}')
	elif reading.facts.optimizer(kind) is None:
		near, advice = instead_of(reading, kind)
		fix = rewriting(at, near, Applicability.UNSAFE) if near else None
		message = f'"{kind}" is no optimizer of DeepSpeed {reading.release}, and no class of torch.optim; {advice}'
		yield Hit(at, message, fix)


def instead_of(reading: Reading, kind: str) -> tuple[str | None, str]:
	"""What to write instead of an unknown type, as a name where one is near, and in words."""
	near = closest(kind, [*reading.facts.optimizers, *load_json("deepspeed.json")["torch"]["optimizers"]])
	if near:
		return near, f"did you mean {near}?"
	gone = load_json("deepspeed_rules.json")["removed_optimizers"].get(kind.lower())
	return None, gone or f"DeepSpeed {reading.release} has {listing(reading.facts.optimizers)}"


@rule("DSP031", error="*")
def optimizer_without_type(reading: Reading) -> Hits:
	"""An `optimizer` block without a `type` (or with null) builds no optimizer.

	ZeRO stages 1 and 2 are refused then: "zero stage 2 requires an optimizer". Accelerate and the Trainer take the mere
	presence of the block for "DeepSpeed builds the optimizer" and build none themselves. In the other stages nothing
	reads the block, which is a warning. Write the type, or take the block out. Source: deepspeed 0.19.8,
	runtime/engine.py, `_configure_zero_optimizer`; accelerate 1.15.0, `_prepare_deepspeed`.
	"""
	block = reading.document.get("optimizer")
	if not isinstance(block, dict) or block.get("type") is not None:
		return
	refused = reading.stage in (1, 2)
	what = f"DeepSpeed builds none, which ZeRO stage {reading.stage} refuses" if refused else "nothing reads it"
	message = f"this `optimizer` block has no `type`, so that {what}; write the type, or take the block out"
	yield Hit(reading.document.key("optimizer"), message, None, None if refused else Severity.WARNING)


@rule("DSP032", error="*")
def optimizer_parameter(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""A parameter that the optimizer's class does not take, or one that it needs and does not get.

	`optimizer.params` become the keyword arguments of the class, which refuses others. Which class it is depends on the
	rest of the file: "Adam" and "AdamW" are FusedAdam, DeepSpeedCPUAdam where the optimizer is offloaded, and PyTorch's
	with `"torch_adam": true`. `max_grad_norm` is refused for every optimizer: use `gradient_clipping`. Source: 0.19.8,
	runtime/engine.py, `_configure_basic_optimizer`.
	"""
	if reading.optimizer is None:
		return
	given = deepspeed.document.get("optimizer", "params")
	if given is not None and not isinstance(given, dict):
		message = f"`optimizer.params` has to be a mapping, but is {shown(given)}"
		yield Hit(deepspeed.document.value("optimizer", "params"), message)
		return
	known = constructor(reading)
	yield from filter(None, (about_parameter(reading, known, name) for name in parameters(reading)))


def about_parameter(reading: Reading, known: Constructor | None, name: str) -> Hit | None:
	at = reading.document.key("optimizer", "params", name)
	if name == "max_grad_norm":
		return Hit(
			at, "DeepSpeed refuses `max_grad_norm` as an optimizer parameter; use `gradient_clipping` at the top"
		)
	if known is None or known.open or name in known.parameters:
		return None
	advice, fix = parameter_meant(known, parameters(reading), ("optimizer", "params", name))
	ignored = known.unknown == "ignored"
	message = f"{known.name} {'ignores the' if ignored else 'takes no'} parameter `{name}`; {advice}"
	return Hit(at, message, fix, Severity.WARNING if ignored else None)


@rule("DSP033", error="*")
def optimizer_value(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""A value that the optimizer's class refuses when it is built.

	PyTorch's classes compare `lr`, `eps`, `weight_decay` and `betas` with their limits, and fail on a text or a
	negative number. FusedAdam, FusedLamb and DeepSpeedCPUAdam refuse `"amsgrad": true`. DeepSpeed's own classes look at
	little else, so that a learning rate that is a text fails only at the first step. Source: 0.19.8,
	ops/adam/fused_adam.py; PyTorch 2.13, torch/optim.
	"""
	known = constructor(reading)
	for name, value in parameters(reading).items() if known else ():
		if f"optimizer.params.{name}" in reading.filled or (value == "auto" and deepspeed.huggingface):
			continue
		row = objection(reading, known.name, name, value) if known else None
		if row is not None:
			at = deepspeed.document.value("optimizer", "params", name)
			severity = Severity.WARNING if row.get("late") else None
			yield Hit(at, unlike(name, row["reason"], value), None, severity)


def parameter_meant(known: Constructor, given: Mapping[str, Any], pointer: Pointer) -> tuple[str, Repair | None]:
	near = closest(str(pointer[-1]), known.parameters)
	advice = f"did you mean `{near}`?" if near else f"it takes {listing(known.parameters)}"
	return advice, None if near in given else renaming(pointer, near)


def objection(reading: Reading, kind: str, name: str, value: Any) -> dict[str, Any] | None:
	for row in rows("optimizer_values"):
		about = kind in row["classes"] or ("torch.*" in row["classes"] and kind.startswith("torch."))
		about = about and name in row["names"] and reading.covers(row.get("releases", "*"))
		if about and not TESTS[row["test"]](value):
			return row
	return None


def fractions(value: Any) -> bool:
	return isinstance(value, list) and len(value) > 1 and all(is_number(item) and 0 <= item < 1 for item in value[:2])


TESTS: Mapping[str, Callable[[Any], bool]] = {
	"falsy": lambda value: not value,
	"at least 0": lambda value: isinstance(value, (int, float)) and value >= 0,
	"fractions": fractions,
	"pair": lambda value: isinstance(value, (list, str)) and len(value) == 2,
	"two": lambda value: isinstance(value, (list, str)) and len(value) > 1,
}
