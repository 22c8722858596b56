"""An answer of triage as one page that needs nothing else: bars against the GPU's memory, configs, assumptions."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ..model_triage import Amount, Candidate, File, Memory, TriageReport, shown_by, unit_of
from .redact import redact
from .triage_assets import COLOURS, SCRIPT, STYLE
from .triage_text import WORDS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
NUMBER = ' class="number"'
HEADS = (("#", ""), ("Setup", ""), ("Verdict", ""), ("{} GiB", NUMBER), ("Memory", ""), ("Speed", NUMBER))
Colours = Mapping[str, str]


def render_page(report: TriageReport) -> str:
	names = dict.fromkeys(part.name for one in report.candidates for part in one.memory.components)
	colours = {name: f"c{number % COLOURS}" for number, name in enumerate(names)}
	return "\n".join(page(report, colours)) + "\n"


def page(report: TriageReport, colours: Colours) -> Iterator[str]:
	yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
	yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
	yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
	yield f"<title>Which training backend: {text(named(report))}</title>"
	yield f"<style>{STYLE}</style>\n</head>\n<body>\n<header>"
	yield f"<h1>Which training backend: {text(named(report))}</h1>"
	yield f'<p class="summary">{text(report.summary)}</p>'
	yield f'<p class="soft">Judged for {text(", ".join(f"{k} {v}" for k, v in report.targets.items()))}.</p>'
	yield "</header>\n<main>"
	device = report.facts.get("hardware", {}).get("device")
	for candidate in report.candidates:
		if candidate.files or candidate.rank == 1:
			yield from card(candidate, colours, device)
	yield from comparison(report.candidates, colours, device)
	yield from block(f"What would make it {report.goal}", report.advice)
	yield from assumptions(report)
	yield from block("What is out, and why", [one.said for one in report.removed])
	yield from block("Notes", report.notes)
	yield f'</main>\n<p id="said" role="status"></p>\n<script>{SCRIPT}</script>\n</body>\n</html>'


def named(report: TriageReport) -> str:
	model, hardware = report.facts.get("model", {}), report.facts.get("hardware", {})
	count = (hardware.get("nodes") or 1) * (hardware.get("gpus_per_node") or 1)
	where = f"{count} x {hardware.get('gpu') or hardware.get('device') or 'GPU'}"
	return f"{model.get('name') or 'a model'} on {where}"


def text(value: str) -> str:
	return escape(redact(value))


# --- a candidate ---


def card(candidate: Candidate, colours: Colours, device: str | None) -> Iterator[str]:
	yield f'<article id="{candidate.name}">'
	yield f"<h2>{candidate.rank}. {text(candidate.title)}</h2>"
	speed = f"speed {candidate.speed.relative:.2f} of the first"
	verdict = f'<span class="verdict {candidate.verdict}">{WORDS[candidate.verdict]}</span>'
	yield f'<p>{verdict} <span class="soft">({candidate.name}; {speed})</span></p>'
	yield from bar(candidate, colours)
	yield from parts(candidate.memory, colours, device)
	said = [*candidate.memory.sentences, *(f"With {choice}." for choice in candidate.choices)]
	if candidate.largest_micro_batch:
		said.append(f"A micro batch of up to {candidate.largest_micro_batch} fits.")
	said += [f"Careful: {caution}" for caution in candidate.cautions]
	said += [one.said for one in candidate.addons]
	yield from items(said)
	for file in candidate.files:
		yield from listing(candidate, file)
	if candidate.checks:
		yield "<h3>Look at this after two steps</h3>"
		yield from items(candidate.checks)
	yield "</article>"


def bar(candidate: Candidate, colours: Colours) -> Iterator[str]:
	"""The parts beside each other, with a mark where the GPU ends and a line for the uncertainty."""
	memory = candidate.memory
	whole = scale(memory)
	label = f"{memory.allocated.point:.1f} GiB allocated"
	label += f" of {memory.capacity:g} GiB" if memory.capacity else ""
	label += ": " + ", ".join(f"{part.name} {part.gib:.1f}" for part in memory.components)
	yield f'<svg class="bar" viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-label="{text(label)}">'
	yield '<rect class="track" x="0" y="0" width="1000" height="28"/>'
	position = 0.0
	for part in memory.components:
		yield rectangle(colours[part.name], position, part.gib, whole)
		position += part.gib
	yield rectangle("range", memory.smi.low, memory.smi.high - memory.smi.low, whole, 32, 5)
	if memory.capacity:
		yield rectangle("limit", memory.capacity, 0.004 * whole, whole, 0, 40)
	yield "</svg>"


def rectangle(kind: str, start: float, width: float, whole: float, top: int = 0, height: int = 28) -> str:
	left, wide = 1000 * start / whole, 1000 * width / whole
	return f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{height}"/>'


def scale(memory: Memory) -> float:
	return max(memory.capacity * 1.05, memory.smi.high, sum(part.gib for part in memory.components), 0.01)


def parts(memory: Memory, colours: Colours, device: str | None) -> Iterator[str]:
	yield f'<div class="wide"><table><thead><tr><th scope="col">Memory of a {unit_of(device)}</th>'
	yield '<th scope="col" class="number">GiB</th><th scope="col" class="number">from, to</th></tr></thead><tbody>'
	for part in memory.components:
		key = f'<span class="key {colours[part.name]}"></span>'
		yield f'<tr><td>{key}{text(part.name)}</td><td class="number">{part.gib:.2f}</td><td></td></tr>'
	rows = [("allocated", memory.allocated), ("reserved", memory.reserved), (shown_by(device), memory.smi)]
	if memory.cpu_ram.point >= 1:
		rows.append((f"CPU memory of a node: {WORDS[memory.cpu_verdict]}", memory.cpu_ram))
	yield from (total(name, amount) for name, amount in rows)
	yield "</tbody></table></div>"
	yield f'<p class="soft">The parts are those of the {text(memory.peak)} phase, which decides.</p>'


def total(name: str, amount: Amount) -> str:
	span = f"{amount.low:.1f} to {amount.high:.1f}"
	return f'<tr><td>{text(name)}</td><td class="number">{amount.point:.2f}</td><td class="number">{span}</td></tr>'


def listing(candidate: Candidate, file: File) -> Iterator[str]:
	name = f"{candidate.name}-{file.name.replace('.', '-')}"
	shown = " open" if candidate.rank == 1 and file.name == "accelerate.yaml" else ""
	yield f"<details{shown}><summary>{file.name}</summary><figure><figcaption><code>{file.name}</code>"
	label = f"{file.name} of {candidate.name}"
	yield (
		f'<button type="button" data-copy="{name}" data-name="{label}" aria-label="Copy {label}">Copy</button>'
		"</figcaption>"
	)
	yield (
		f'<section class="wide" tabindex="0" aria-label="{label}"><pre><code id="{name}">{text(file.text)}</code></pre>'
		"</section></figure></details>"
	)


# --- all candidates, lists ---


def comparison(candidates: Sequence[Candidate], colours: Colours, device: str | None) -> Iterator[str]:
	if not candidates:
		return
	yield "<section>\n<h2>All that is possible</h2>"
	yield '<section class="wide" tabindex="0" aria-label="All that is possible"><table><thead><tr>'
	yield "".join(f'<th scope="col"{kind}>{name.format(unit_of(device))}</th>' for name, kind in HEADS)
	yield "</tr></thead><tbody>"
	for one in candidates:
		amount = f"{one.memory.smi.point:.1f}<br>{one.memory.smi.low:.0f} to {one.memory.smi.high:.0f}"
		yield f"<tr><td>{one.rank}</td><td>{text(one.title)}<br><code>{one.name}</code></td>"
		yield f'<td class="verdict {one.verdict}">{WORDS[one.verdict]}</td><td class="number">{amount}</td><td>'
		yield from bar(one, colours)
		yield f'</td><td class="number">{one.speed.relative:.2f}</td></tr>'
	yield "</tbody></table></section>\n</section>"


def assumptions(report: TriageReport) -> Iterator[str]:
	if not report.assumptions:
		return
	yield "<section>\n<h2>Assumed, the most decisive first</h2>"
	yield '<section class="wide" tabindex="0" aria-label="Assumptions"><table><thead><tr>'
	yield "".join(f'<th scope="col">{name}</th>' for name in ("Fact", "Taken", "Why", "What else would change"))
	yield "</tr></thead><tbody>"
	for one in report.assumptions:
		cells = (f"<code>{text(one.fact)}</code>", text(one.value), text(one.why), text(one.effect))
		yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
	yield "</tbody></table></section>\n</section>"


def block(title: str, texts: Sequence[str]) -> Iterator[str]:
	if texts:
		yield f"<section>\n<h2>{title}</h2>"
		yield from items(texts)
		yield "</section>"


def items(texts: Sequence[str]) -> Iterator[str]:
	if texts:
		yield "<ul>" + "".join(f"<li>{text(one)}</li>" for one in texts) + "</ul>"
