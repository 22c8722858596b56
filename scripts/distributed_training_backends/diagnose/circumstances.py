"""What is known about a run: releases and settings, read out of texts, and conditions on them."""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from ..knowledge.signatures import fact_patterns
from ..versions import InvalidReleaseError, parse

_LIBRARIES = """
accelerate deepspeed transformers torch peft trl bitsandbytes numpy torchao transformer_engine python nccl torch_xla
"""
LIBRARIES = {name: name for name in _LIBRARIES.split()} | {
	"pytorch": "torch",
	"transformer-engine": "transformer_engine",
}
LONGEST = 64 * 1024  # code points of a text that are looked at for facts
# "Accelerate" version: 1.2.0 · deepspeed==0.14.5 · torch 2.1.0+cu118 · deepspeed info ....... 0.14.0 · {"torch": "2.1"}
_RELEASE = re.compile(
	r"(?<![\w.-])(" + "|".join(LIBRARIES) + r")[`\"']?(?:[ _](?:version|info|wheel compiled w\.))?"
	r"(?:[ ]?\([^()\n]{0,20}\))?[ ]{0,3}(?:==|[:=@>~]=?|[ ][. ]{2,60}|[ ]{1,40})[ ]{0,3}[\"']?(?:version=)?"
	r"v?([0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,5})?(?:[-.+]?(?:dev|rc|post|cu|rocm|git|a|b)?[\w.]{0,20})?)",
	re.IGNORECASE,
)
_CONDITION = re.compile(r"([a-z_]+)(>=|<=|<|>|=)(.+)")


def releases(text: str) -> dict[str, str]:
	found: dict[str, str] = {}
	for match in _RELEASE.finditer(text[:LONGEST]):
		if number := re.match(r"[0-9]+(?:\.[0-9]+)*", match.group(2)):
			found.setdefault(LIBRARIES[match.group(1).lower()], number.group())
	return found


@cache
def _patterns() -> tuple[tuple[str, str, tuple[re.Pattern[str], ...]], ...]:
	return tuple(
		(fact, value, tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns))
		for fact, value, patterns in fact_patterns()
	)


def settings(texts: Iterable[str]) -> dict[str, str]:
	"""The settings that texts tell; an earlier text beats a later one, and an earlier row of the table a later one."""
	found: dict[str, str] = {}
	for text in texts:
		here: dict[str, str] = {}
		for fact, value, patterns in _patterns():
			if fact not in found and fact not in here:
				match = next((match for pattern in patterns if (match := pattern.search(text[:LONGEST]))), None)
				if match:
					here[fact] = value or match.group(1).lower()
		found |= here
	return found


def holds(condition: str, facts: Mapping[str, str]) -> bool | None:
	"""Whether a condition holds; None if that is not known. A comma joins conditions that all have to hold."""
	answers = [_holds(part, facts) for part in condition.split(",")]
	return False if False in answers else None if None in answers else True


def _holds(condition: str, facts: Mapping[str, str]) -> bool | None:
	found = _CONDITION.fullmatch(condition)
	if not found:
		raise ValueError(f"no condition: {condition!r}")
	name, sign, wanted = found.groups()
	if name not in facts:
		return None
	if sign == "=":
		return facts[name] in wanted.split("|")
	try:
		have, limit = parse(facts[name]), parse(wanted)
	except InvalidReleaseError:
		return None
	return {"<": have < limit, ">": have > limit, "<=": have <= limit, ">=": have >= limit}[sign]


def reading(condition: str, facts: Mapping[str, str]) -> list[str]:
	names = [found.group(1) for part in condition.split(",") if (found := _CONDITION.fullmatch(part))]
	return [f"{name} {facts[name]}" for name in dict.fromkeys(names) if name in facts]
