"""Who reads a DeepSpeed JSON decides its fate: DeepSpeed itself, Accelerate, or the Transformers Trainer.

A lone file is an error only if none of them takes it. Where the file says who is meant (an "auto" means Accelerate or
the Trainer, since DeepSpeed itself fills in nothing), a warning names a meant reader that refuses it; refusals by
the others are one info.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .model import Consumer, Finding, Severity
from .sources.document import Document

NAMES: Mapping[Consumer, str] = {"deepspeed": "DeepSpeed itself", "accelerate": "Accelerate", "trainer": "the Trainer"}
# Blocks and keys for which "auto" is a value of DeepSpeed's own
KNOWS_AUTO = ("zenflow", "pipeline", "expert_parallel", "keep_in_fp32_modules")
Findings = Mapping[Consumer, Sequence[Finding]]


def combine(document: Document, by_reader: Findings) -> Iterator[Finding]:
	refusing = [reader for reader, findings in by_reader.items() if errors(findings)]
	# an "auto" needs Accelerate or the Trainer
	meant: list[Consumer] = ["accelerate", "trainer"] if holds_auto(document.data) else []
	taking = [reader for reader in by_reader if reader not in refusing]
	if not taking:
		yield from by_reader[gentlest(meant or refusing, by_reader)]
		return
	best = next((reader for reader in meant if reader in taking), taking[0])
	yield from by_reader[best]
	warned = gentlest(meant, by_reader) if meant and best not in meant else None
	if warned is not None:
		for finding in errors(by_reader[warned]):
			message = f"{NAMES[warned]} refuses this: {finding.message}"
			yield finding._replace(severity=Severity.WARNING, message=message)
	others = [reader for reader in refusing if reader != warned]
	if others:
		yield others_refuse(best, others, by_reader)


def gentlest(readers: Sequence[Consumer], by_reader: Findings) -> Consumer:
	return min(readers, key=lambda reader: len(errors(by_reader[reader])))


def errors(findings: Sequence[Finding]) -> list[Finding]:
	return [finding for finding in findings if finding.severity is Severity.ERROR]


def holds_auto(data: Any) -> bool:
	waiting = [data]
	while waiting:
		node = waiting.pop()
		if node == "auto":
			return True
		if isinstance(node, dict):
			waiting.extend(value for name, value in node.items() if name not in KNOWS_AUTO)
	return False


def others_refuse(taker: Consumer, readers: Sequence[Consumer], by_reader: Findings) -> Finding:
	"""One info for the refusals of readers that the file is not written for, at the first reader's first error."""
	first = errors(by_reader[readers[0]])[0]
	said: dict[str, list[str]] = {}
	for reader in readers:
		said.setdefault(errors(by_reader[reader])[0].message, []).append(NAMES[reader])
	refusals = "; ".join(f"{' and '.join(names)} would refuse it: {text}" for text, names in said.items())
	message = f"this file is judged for {NAMES[taker]} (--consumer chooses another reader); {refusals}"
	return first._replace(
		code="DSP000",
		name="other-readers-refuse",
		severity=Severity.INFO,
		message=message,
		fix=None,
		reference="references/rules/deepspeed.md#dsp000",
	)
