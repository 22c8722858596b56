"""An answer of triage for a terminal: the best candidate with a bar for each part of its memory, then the others."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..model_triage import Amount, Candidate, Memory, TriageReport, shown_by, unit_of
from .characters import visible
from .style import Style

BAR = 40
COLOURS = {"fits": "green", "tight": "yellow", "unknown": "cyan", "does_not_fit": "red"}
WORDS = {"fits": "fits", "tight": "tight", "unknown": "unknown", "does_not_fit": "does not fit"}
BLOCKS = ("\u2588", "\u2591")  # a full and a light block
PLAIN_BLOCKS = ("#", ".")
STARTING = ("accelerate.yaml", "ds_config.json", "launch.sh")
AT_TOP = 12
MOST_ALIKE = 3


class Choice(NamedTuple):
	"""What is shown: the candidate in detail (the best if none is named), all its files or those that start it, bars.

	`blocks` are the characters of full and uncertain parts of a bar; the device is taken from the report.
	"""

	name: str = ""
	full: bool = False
	blocks: tuple[str, str] = PLAIN_BLOCKS
	device: str | None = None


BEST = Choice()


def render_triage(report: TriageReport, style: Style, choice: Choice = BEST) -> str:
	return "\n".join(lines(report, style, choice)) + "\n"


def lines(report: TriageReport, style: Style, choice: Choice) -> Iterator[str]:
	choice = choice._replace(device=report.facts.get("hardware", {}).get("device"))
	yield from wrapped(report.summary, style, "")
	for candidate in report.candidates:
		if candidate.name == choice.name if choice.name else candidate.rank == 1:
			yield ""
			yield from in_full(candidate, style, choice)
	yield from table(report.candidates, style, choice)
	yield from listed(f"would make it {report.goal}", report.advice, style)
	assumptions = [
		f"{one.fact}: {one.value} ({one.why})" + (f"; {one.effect}" if one.effect else "") for one in report.assumptions
	]
	yield from listed("assumed, the most decisive first", assumptions, style)
	yield from listed("out", [one.said for one in report.removed], style)
	yield from listed("notes", report.notes, style)


def in_full(candidate: Candidate, style: Style, choice: Choice) -> Iterator[str]:
	verdict = style.paint(WORDS[candidate.verdict], COLOURS[candidate.verdict])
	yield f"{style.paint(f'{candidate.rank}. {candidate.name}', 'bold')}: {candidate.title}: {verdict}"
	yield from bars(candidate.memory, choice.blocks, shown_by(choice.device))
	yield from wrapped(" ".join(candidate.memory.sentences), style, "  ")
	said = [*(f"with {choice}" for choice in candidate.choices)]
	if candidate.largest_micro_batch:
		said.append(f"micro batch: up to {candidate.largest_micro_batch} fits")
	said += [f"careful: {caution}" for caution in candidate.cautions]
	said += [one.said for one in candidate.addons]
	yield from items(said, style)
	for file in candidate.files:
		if choice.full or file.name in STARTING:
			yield ""
			yield style.paint(f"  --- {file.name}", "cyan")
			yield from (f"  {visible(line)}".rstrip() for line in file.text.rstrip("\n").split("\n"))
	others = [file.name for file in candidate.files if file.name not in STARTING]
	if others and not choice.full:
		yield f"  also {', '.join(others)}: --detail full shows them, --write DIR writes them"
	yield from listed("look at this after two steps", candidate.checks, style)


def bars(memory: Memory, blocks: Sequence[str], whole_name: str) -> Iterator[str]:
	whole = max(memory.capacity, memory.smi.high, 0.01)
	width = max((len(component.name) for component in memory.components), default=0)
	width = max(width, len(whole_name))
	position = 0.0
	for component in memory.components:
		start, end = round(position / whole * BAR), round((position + component.gib) / whole * BAR)
		position += component.gib
		bar = " " * start + blocks[0] * max(end - start, 1 if component.gib > 0 else 0)
		yield f"  {component.name:{width}} {component.gib:8.2f} GiB |{bar[:BAR]:{BAR}}|"
	yield total("allocated", memory.allocated, whole, width, blocks)
	yield total("reserved", memory.reserved, whole, width, blocks)
	yield total(whole_name, memory.smi, whole, width, blocks)
	if memory.capacity:
		mark = min(BAR - 1, round(memory.capacity / whole * BAR) - 1)
		yield f"  {'capacity':{width}} {memory.capacity:8.2f} GiB |{' ' * mark}^{' ' * (BAR - mark - 1)}|"
	if memory.cpu_ram.point >= 1:
		have = f" of {memory.cpu_capacity:g}" if memory.cpu_capacity else ""
		yield f"  CPU memory of a node: {span(memory.cpu_ram)}{have} GiB: {WORDS[memory.cpu_verdict]}"


def total(name: str, amount: Amount, whole: float, width: int, blocks: Sequence[str]) -> str:
	solid, light = (round(value / whole * BAR) for value in (amount.low, amount.high))
	bar = blocks[0] * solid + blocks[1] * max(light - solid, 0)
	return f"  {name:{width}} {amount.point:8.2f} GiB |{bar[:BAR]:{BAR}}| {amount.low:.1f} to {amount.high:.1f}"


def table(candidates: Sequence[Candidate], style: Style, choice: Choice) -> Iterator[str]:
	if not candidates:
		return
	every = len(candidates)
	candidates = candidates if choice.full else list(at_top(candidates))
	width = max(len("candidate"), *(len(one.name) for one in candidates))
	heading = f"{unit_of(choice.device)} GiB (low to high)"
	yield ""
	yield style.paint(f"  # {'candidate':{width}}  verdict       {heading:24}  speed  simplicity", "bold")
	for one in candidates:
		verdict = style.paint(f"{WORDS[one.verdict]:12}", COLOURS[one.verdict])
		amount = f"{one.memory.smi.point:7.1f} ({one.memory.smi.low:.0f} to {one.memory.smi.high:.0f})"
		yield f"{one.rank:3} {one.name:{width}}  {verdict}  {amount:24}  {one.speed.relative:5.2f}  {one.simplicity}"
	if len(candidates) < every:
		yield f"    and {every - len(candidates)} more: --detail full"


def at_top(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
	seen: Counter[str] = Counter()
	shown = 0
	for one in candidates:
		backend = one.name.partition("-")[0]
		seen[backend] += 1
		if (seen[backend] <= MOST_ALIKE or one.files) and shown < AT_TOP:
			shown += 1
			yield one


def listed(title: str, texts: Sequence[str], style: Style) -> Iterator[str]:
	if texts:
		yield ""
		yield style.paint(f"{title}:", "bold")
		yield from items(texts, style)


def items(texts: Sequence[str], style: Style) -> Iterator[str]:
	for text in texts:
		made = textwrap.wrap(visible(text), max(40, style.width - 4), break_long_words=False, break_on_hyphens=False)
		yield from (f"  {'- ' if number == 0 else '  '}{line}" for number, line in enumerate(made))


def wrapped(text: str, style: Style, indent: str) -> Iterator[str]:
	if text:
		yield from textwrap.wrap(
			text, style.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
		)


def span(amount: Amount) -> str:
	return f"{amount.point:.0f} ({amount.low:.0f} to {amount.high:.0f})"
