"""PRC rules about a lone file of bitsandbytes fields: BitsAndBytesConfig of Transformers, BnbQuantizationConfig of
Accelerate.

The two share half of their fields and take different words for a dtype, so a file mostly says for whom it is. Where
it does not, it is an error only if neither takes it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from ..knowledge import accelerate_api, transformers
from ..model import Severity, Targets
from ..resources import load_json
from ..sources.document import At, Document
from .registry import Hit, Hits, Repair, rule
from .rewriting import removing, renaming, rewriting
from .suggest import closest, did_you_mean, listing, shown

DATA = "quantization.json"
Library = Literal["transformers", "accelerate"]
CLASSES: Mapping[Library, str] = {"transformers": "BitsAndBytesConfig", "accelerate": "BnbQuantizationConfig"}
PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
	"bool": bool,
	"int": int,
	"float": float,
	"str": str,
	"list": list,
	"None": type(None),
	"torch.dtype": (),
}
TORCH_NAME = "the name of a dtype as PyTorch has it, such as bfloat16"


class Fault(NamedTuple):
	at: At
	text: str
	repair: Repair | None = None


@cache
def facts() -> Mapping[str, Any]:
	found: Mapping[str, Any] = load_json(DATA)
	return found


def fields(library: Library, targets: Targets) -> Mapping[str, Any]:
	if library == "accelerate":
		return accelerate_api.parameters("BnbQuantizationConfig", targets.accelerate)
	return transformers.for_release(targets.transformers).bits_and_bytes


def readers(targets: Targets) -> list[Library]:
	return ["transformers", "accelerate"] if fields("accelerate", targets) else ["transformers"]


def is_ours(document: Document) -> bool:
	"""Tell whether the file is for bitsandbytes, and not for another method of Transformers."""
	method = document.get("quant_method")
	return isinstance(document.data, dict) and (method is None or str(method).startswith("bitsandbytes"))


def meant_for(document: Document, targets: Targets) -> list[Library]:
	own, other = fields("transformers", targets), fields("accelerate", targets)
	saved = facts()["saved_with_model"]
	votes = sum((key in own or key in saved) - (key in other) for key in document.data)
	for key in ("bnb_4bit_compute_dtype", "torch_dtype"):
		value = document.get(key)
		votes += isinstance(value, str) and value in facts()["dtypes"] and value != "half"
		votes -= value in ("fp16", "bf16", "fp32")
	if votes and other:
		return ["transformers"] if votes > 0 else ["accelerate"]
	return readers(targets)


def faults(document: Document, library: Library, targets: Targets) -> Iterator[Fault]:
	known = fields(library, targets)
	for key, value in document.data.items():
		if key not in known and library == "accelerate":
			near = closest(str(key), known)
			text = f"there is no field {shown(key)}{did_you_mean(near)}"
			yield Fault(document.key(key), text, renaming((key,), near))
		elif key in known and (expected := refused(known[key], value, library)):
			yield value_fault(document, key, expected)
	yield from mode_faults(document, library)


def refused(field: Any, value: Any, library: Library) -> str:
	if value is None and field.default is None:
		return ""
	if field.allowed and (isinstance(value, str) or not field.instance):
		return "" if value in field.allowed else listing(field.allowed)
	if field.instance and not isinstance(value, tuple(flat(field.instance))):
		words = [facts()["types"][name] for name in field.instance]
		return " or ".join(word for word in words if word) or "a dtype"
	by_name = library == "transformers" and field.name in ("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage")
	return TORCH_NAME if by_name and value not in facts()["dtypes"] else ""


def flat(names: tuple[str, ...]) -> Iterator[type]:
	for name in names:
		found = PYTHON_TYPES[name]
		yield from found if isinstance(found, tuple) else (found,)


def value_fault(document: Document, key: str, expected: str) -> Fault:
	value = document.get(key)
	better = meant(value, expected)
	at = document.value(key)
	return Fault(at, f"{key} {shown(value)} is not {expected}", rewriting(at, better) if better else None)


def meant(value: Any, expected: str) -> Any:
	if isinstance(value, str):
		plain = value.removeprefix("torch.")
		long = facts()["same_dtype"].get(plain, plain)
		short = {name: word for word, name in facts()["same_dtype"].items()}.get(long, long)
		offered = facts()["dtypes"] if expected == TORCH_NAME else expected.replace(" or ", ", ").split(", ")
		return next((word for word in (long, plain, short) if word in offered and word != value), None)
	whole = isinstance(value, int) and not isinstance(value, bool)
	return float(value) if whole and expected == facts()["types"]["float"] else None


def mode_faults(document: Document, library: Library) -> Iterator[Fault]:
	four, eight = document.get("load_in_4bit"), document.get("load_in_8bit")
	if four and eight:
		yield Fault(document.key("load_in_8bit"), "load_in_4bit and load_in_8bit cannot both be true")
	elif library == "accelerate" and four in (None, False) and eight in (None, False):
		yield Fault(document.value(), "neither load_in_4bit nor load_in_8bit is true, and one of them has to be")


@rule("PRC050", error="*")
def quantization_refused(quantization: Document, targets: Targets) -> Hits:
	"""A bitsandbytes file that its reader does not take.

	`BitsAndBytesConfig` of Transformers wants texts of PyTorch for dtypes (bfloat16), a float for `llm_int8_threshold`
	(6.0, not 6), booleans and lists of names, and ignores other keys. `BnbQuantizationConfig` of Accelerate wants fp32,
	fp16 or bf16, exactly one of the two modes, fp4 or nf4, and refuses other keys. Source: transformers 5.24.0,
	utils/quantization_config.py, `BitsAndBytesConfig.post_init`; accelerate 1.15.0, utils/dataclasses.py,
	`BnbQuantizationConfig.__post_init__`.
	"""
	if not is_ours(quantization):
		return
	found = {library: list(faults(quantization, library, targets)) for library in readers(targets)}
	meant = meant_for(quantization, targets)
	first = next((library for library in meant if found[library]), None)
	if first is None:
		return
	taken, sure = not all(found.values()), first == "transformers" or len(meant) == 1
	severity = None if not taken else Severity.WARNING if sure else Severity.INFO
	for fault in found[first]:
		yield Hit(fault.at, f"{CLASSES[first]} of {first} refuses this: {fault.text}", fault.repair, severity)


@rule("PRC051", warning="*", of="transformers")
def quantization_key_ignored(quantization: Document, targets: Targets) -> Hits:
	"""A key that `BitsAndBytesConfig` does not have and passes over.

	It takes any keyword and logs the unused ones at level info, which is not shown by default. Source: 5.24.0,
	utils/quantization_config.py, `BitsAndBytesConfig.__init__`.
	"""
	if not is_ours(quantization) or meant_for(quantization, targets)[0] != "transformers":
		return
	known = fields("transformers", targets)
	for key in quantization.data:
		if key in known or key in facts()["saved_with_model"]:
			continue
		near = {"skip_modules": "llm_int8_skip_modules"}.get(key) or closest(str(key), known)
		text = f"BitsAndBytesConfig has no field {shown(key)} and ignores it{did_you_mean(near)}"
		yield Hit(quantization.key(key), text, None if near in quantization.data else renaming((key,), near))


@rule("PRC052", warning="*", of="transformers")
def quantization_of_another_mode(quantization: Document, targets: Targets) -> Hits:
	"""A field of the other mode, or of no mode at all.

	The `bnb_4bit_*` fields are used when `load_in_4bit` is true, `llm_int8_threshold` and
	`llm_int8_has_fp16_weight` when `load_in_8bit` is. With neither, `BitsAndBytesConfig` is taken and quantizes
	nothing. Source: 5.24.0, utils/quantization_config.py, `BitsAndBytesConfig.quantization_method`, and
	integrations/bitsandbytes.py.
	"""
	if not is_ours(quantization):
		return
	four, eight = quantization.get("load_in_4bit") is True, quantization.get("load_in_8bit") is True
	off = all(quantization.get(mode) in (None, False) for mode in ("load_in_4bit", "load_in_8bit"))
	if off and "transformers" in meant_for(quantization, targets):
		yield Hit(quantization.value(), "neither load_in_4bit nor load_in_8bit is true, so nothing is quantized")
	if four == eight:
		return
	other, mode = (facts()["only_8bit"], "4-bit") if four else (facts()["only_4bit"], "8-bit")
	known = {**fields("accelerate", targets), **fields("transformers", targets)}
	for key in other:
		if key in quantization.data and key in known:
			moot = quantization.get(key) in (known[key].default, None)
			text = f"{key} has no effect in {mode} mode"
			yield Hit(quantization.key(key), text, removing((key,)), Severity.INFO if moot else None)


@rule("PRC053", warning="*", of="transformers")
def quantization_type_unknown(quantization: Document, targets: Targets) -> Hits:
	"""`bnb_4bit_quant_type` is neither fp4 nor nf4.

	`BitsAndBytesConfig` takes any text; bitsandbytes refuses it when the first layer is quantized. Source: 5.24.0,
	utils/quantization_config.py, `BitsAndBytesConfig.post_init`; bitsandbytes, functional.py, `quantize_4bit`.
	"""
	value = quantization.get("bnb_4bit_quant_type")
	if not is_ours(quantization) or not isinstance(value, str) or value in facts()["quant_types"]:
		return
	if "transformers" in meant_for(quantization, targets):
		near = closest(value, facts()["quant_types"], 0.34) or ("nf4" if value.lower() == "nf4" else None)
		at = quantization.value("bnb_4bit_quant_type")
		text = f"bitsandbytes has no 4-bit type {shown(value)}; it has fp4 and nf4{did_you_mean(near)}"
		yield Hit(at, text, rewriting(at, near) if near else None)


@rule("PRC054", info="*", of="transformers")
def quantization_under_fsdp(quantization: Document) -> Hits:
	"""4-bit weights under FSDP need `bnb_4bit_quant_storage` to be the dtype of the other weights.

	FSDP shards parameters of one dtype together; the default storage uint8 makes it fail or leave the quantized layers
	unsharded. With QLoRA and FSDP write the dtype that the model is loaded in, such as bfloat16. Source: 5.24.0,
	utils/quantization_config.py, `BitsAndBytesConfig.__init__`.
	"""
	storage = quantization.get("bnb_4bit_quant_storage")
	if is_ours(quantization) and quantization.get("load_in_4bit") is True and storage in (None, "uint8", "int8"):
		at = quantization.value("bnb_4bit_quant_storage" if storage else "load_in_4bit")
		yield Hit(at, "for FSDP set bnb_4bit_quant_storage to the dtype of the other weights, such as bfloat16")
