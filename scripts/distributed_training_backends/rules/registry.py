"""What a rule is, and the registry that holds them.

A rule is a function whose parameters name its inputs; it is called once for each run that has all of them, and
yields hits. Its name and its docstring are those of the rule. The severity may differ from release to release:

    @rule("FSD003", warning="1.6.0..")
    def reshard_under_fsdp1(fsdp: Launch) -> Hits:
        '''FSDP1 does not read `fsdp_reshard_after_forward`. …'''
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ..model import Applicability, Pointer, Severity
from ..sources.document import At, OpenValueError
from ..versions import covers

Library = Literal["accelerate", "deepspeed", "transformers", "torch"]
FAMILIES = {
	"ACC": ("accelerate", "The Accelerate config file"),
	"LCH": ("launch", "Launch and topology"),
	"FSD": ("fsdp", "FSDP and FSDP2"),
	"PAR": ("parallelism", "Tensor, context, sequence and Megatron-LM parallelism, TPU"),
	"PRC": ("precision", "Mixed precision, FP8, quantization and torch.compile"),
	"DSP": ("deepspeed", "The DeepSpeed config"),
	"TRN": ("trainer", "Transformers TrainingArguments"),
	"PYS": ("python", "Plugin calls in Python"),
	"XCF": ("cross-file", "Files, and settings in several places"),
}
LIBRARIES: dict[str, Library] = {"DSP": "deepspeed", "TRN": "transformers"}  # of a family, where it is not accelerate


class Operation(NamedTuple):
	"""One step of a fix, in terms of entries.

	rename: the key becomes `text`. replace: the value becomes `value`. remove: the entry goes, with its line.
	add: an entry `text: value` is put at the end of the mapping at `pointer`. move: the entry goes below the
	mapping at `target`, under its own key or under `text`. text: the extent `at` is replaced by `text` verbatim.
	"""

	action: Literal["rename", "replace", "remove", "add", "move", "text"]
	pointer: Pointer
	text: str = ""
	value: object = None
	target: Pointer = ()
	extent: tuple[int, int] | None = None


class Repair(NamedTuple):
	"""A fix before its positions are known."""

	title: str
	operations: tuple[Operation, ...]
	applicability: Applicability = Applicability.SAFE


class Hit(NamedTuple):
	"""What a rule yields: where, what to say, and how to mend it. `severity` beats the rule's own."""

	at: At
	message: str
	repair: Repair | None = None
	severity: Severity | None = None
	related: tuple[At, ...] = ()


Hits = Iterator[Hit]


def in_whole(hit: Hit) -> Hit:
	outer = hit.at.document.outer
	if outer is None:
		return hit
	whole, base = outer

	def there(at: At) -> At:
		return At(whole, (*base, *at.pointer), at.part if at.pointer else "key", at.extent)

	def moved(step: Operation) -> Operation:
		return step._replace(pointer=(*base, *step.pointer), target=(*base, *step.target))

	repair = hit.repair and hit.repair._replace(operations=tuple(map(moved, hit.repair.operations)))
	return in_whole(hit._replace(at=there(hit.at), repair=repair, related=tuple(map(there, hit.related))))


class Rule(NamedTuple):
	code: str
	name: str
	check: Callable[..., Hits]
	inputs: tuple[str, ...]
	severities: tuple[tuple[Severity, str], ...]
	library: Library
	links: tuple[str, ...]

	@property
	def documentation(self) -> str:
		from textwrap import dedent

		first, _, rest = (self.check.__doc__ or "").strip().partition("\n")
		return f"{first}\n{dedent(rest)}".strip()

	@property
	def summary(self) -> str:
		return self.documentation.split("\n\n")[0].replace("\n", " ")

	@property
	def page(self) -> str:
		return f"references/rules/{FAMILIES[self.code[:3]][0]}.md#{self.code.lower()}"

	def severity_for(self, release: str) -> Severity | None:
		for severity, spans in self.severities:
			if covers(spans, release):
				return severity
		return None


RULES: dict[str, Rule] = {}


def rule(
	code: str,
	*,
	error: str | None = None,
	warning: str | None = None,
	info: str | None = None,
	of: Library | None = None,
	links: tuple[str, ...] = (),
) -> Callable[[Callable[..., Hits]], Callable[..., Hits]]:
	"""Register a rule under the name of its function. `error`, `warning` and `info` say for which
	releases of the library `of` (or of the family's) it is what: "*" for all, "1.6.0..", "..0.33.0", "1.4.0..1.8.1",
	or several joined with a comma; the heavier one wins."""
	spans = ((Severity.ERROR, error), (Severity.WARNING, warning), (Severity.INFO, info))
	severities = tuple((severity, text) for severity, text in spans if text is not None)

	def register(check: Callable[..., Hits]) -> Callable[..., Hits]:
		if code in RULES or not severities or code[:3] not in FAMILIES:
			raise ValueError(f"{code} is registered already, has no severity, or is of an unknown family")
		inputs = check.__code__.co_varnames[: check.__code__.co_argcount]
		library = of or LIBRARIES.get(code[:3], "accelerate")
		RULES[code] = Rule(code, check.__name__.replace("_", "-"), check, inputs, severities, library, links)
		return check

	return register


@lru_cache(maxsize=256)
def applicable(
	there: frozenset[str], releases: tuple[tuple[str, str], ...], _known: int
) -> tuple[tuple[Rule, Severity], ...]:
	of_library = dict(releases)
	fitting = (item for item in RULES.values() if there.issuperset(item.inputs))
	judged = ((item, item.severity_for(of_library[item.library])) for item in fitting)
	return tuple((item, severity) for item, severity in judged if severity is not None)


def run_rules(inputs: dict[str, Any], releases: dict[str, str]) -> Iterator[tuple[Rule, Severity, Hit]]:
	"""Call every rule that applies to these releases and whose inputs are all there."""
	there = frozenset(name for name, value in inputs.items() if value is not None)
	for item, severity in applicable(there, tuple(releases.items()), len(RULES)):
		try:
			for hit in item.check(*(inputs[name] for name in item.inputs)):
				yield item, hit.severity or severity, hit
		except OpenValueError:
			continue
