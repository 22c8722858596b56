"""DSP rules about the value "auto": who fills it in, and what becomes of one that nobody fills in."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from ..flow.deepspeed import Reading
from ..flow.inputs import DeepSpeedFile
from ..knowledge.deepspeed import auto_fillers
from ..model import Pointer, Severity
from .deepspeed_keys import explained
from .deepspeed_walk import walk
from .registry import Hit, Hits, rule
from .suggest import shown


@rule("DSP023", error="*")
def unfilled_auto(deepspeed: DeepSpeedFile, reading: Reading) -> Hits:
	"""An "auto" that Accelerate does not know how to replace.

	Before DeepSpeed gets the config, Accelerate goes through all its blocks and refuses every "auto" that is left:
	"`optimizer.params.betas` not found in kwargs" (`DeepSpeedPlugin.deepspeed_config_process`). It fills in batch
	sizes, clipping, precision, the stage, offload devices, sizes that follow from the model's hidden size, and `lr`,
	`weight_decay` and the warm-up of DummyOptim and DummyScheduler. The Trainer also fills in `betas` and `eps`. Even
	an "auto" that DeepSpeed itself knows, as in `zenflow`, is refused on this way. Write a value. Source: accelerate
	1.15.0, utils/dataclasses.py, `DeepSpeedPlugin.fill_match`.
	"""
	if not deepspeed.huggingface:
		return
	targets = deepspeed.targets
	who = "Accelerate" if deepspeed.consumer == "accelerate" else "The Trainer"
	slips = {entry.pointer: (f"; {why.advice}", why.repair) for _, entry, why in explained(deepspeed) if why.repair}
	for pointer in autos(reading.data):
		path, at = ".".join(map(str, pointer)), deepspeed.document.value(*pointer)
		filled = deepspeed.launch and auto_fillers(path, "trainer", targets.accelerate, targets.transformers)
		if filled and not deepspeed.trained:
			message = 'only a script with the Trainer fills in this "auto": Accelerate itself refuses'
			yield Hit(at, f"{message} `{path}`{hint(path)}", None, Severity.WARNING)
		elif not filled:
			advice, repair = slips.get(pointer, (hint(path), None))
			message = f'{who} fills in no "auto" for `{path}`, and refuses the file for it{advice}'
			yield Hit(at, message, repair)


def hint(path: str) -> str:
	usual = {"optimizer.params.betas": "[0.9, 0.999]", "optimizer.params.eps": "1e-8"}
	return f"; write a value such as {usual[path]}" if path in usual else "; write a value, or take the key out"


def autos(data: dict[str, Any]) -> Iterator[Pointer]:
	waiting: deque[tuple[Pointer, Any]] = deque([((), data)])
	while waiting:
		pointer, node = waiting.popleft()
		if isinstance(node, dict):
			waiting.extend(((*pointer, name), value) for name, value in node.items())
		elif node == "auto":
			yield pointer


@rule("DSP024", warning="*")
def auto_means_default(deepspeed: DeepSpeedFile) -> Hits:
	"""An "auto" in a file that DeepSpeed reads itself counts as absent: the default applies, without a word.

	`"stage": "auto"` turns ZeRO off, `"enabled": "auto"` leaves fp16 or bf16 off (before 0.17.1 it turned them on, as
	any text did). Write the value that is meant. Source: 0.19.8, runtime/config_utils.py,
	`DeepSpeedConfigModel.__init__`.
	"""
	for reading, entry in walk(deepspeed) if not deepspeed.huggingface else ():
		if entry.value != "auto" or entry.key is None or not loses_meaning(reading, entry.path):
			continue
		becomes = shown(entry.key.default) if entry.key.read == "model" else "true, as any text does"
		message = f'DeepSpeed itself fills in no "auto": `{entry.path}` becomes {becomes}; write the value meant'
		yield Hit(deepspeed.document.value(*entry.pointer), message)


def loses_meaning(reading: Reading, path: str) -> bool:
	key = reading.key(path)
	if key is None or key.default == "auto" or "auto" in key.choices:
		return False
	return key.read == "model" or path in ("fp16.enabled", "bf16.enabled")
