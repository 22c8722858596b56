"""Documents in, findings out: gathers what belongs together, runs the rules, and sorts what they say by file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from . import consumers
from .flow.inputs import DeepSpeedFile, Variables, lone_inputs, run_inputs, trains
from .model import Consumer, Context, Extent, FileReport, Finding, Fix, Kind, Place, Severity, Targets, verdict_of
from .rules import catalog
from .rules.registry import RULES, Hit, Repair, Rule, in_whole, run_rules
from .sources.detect import detect
from .sources.document import Document, OpenValueError
from .sources.limits import Unreadable
from .sources.marks import ignores

if TYPE_CHECKING:
	from .flow.script import Launched

LONGEST = 1_000  # code points of a message; a file may hold a name of a megabyte
# what is missing in a block of a page may stand elsewhere
MISSING = frozenset({"ACC004", "DSP021", "DSP050", "TRN013"})
READERS: tuple[Consumer, ...] = ("deepspeed", "accelerate", "trainer")


class Options(NamedTuple):
	"""How to judge: the targets, the context, a forced kind, and which codes to show (prefixes of codes).

	`skip_unknown` passes over files of no known kind.
	`effective` asks for what takes effect, `compare` for what differs from that with another release of Accelerate.
	`absent` names the features (data/packages.json) whose package the interpreter lacks; None if nobody looked.
	"""

	targets: Targets
	context: Context = Context()
	kind: Kind | None = None
	select: tuple[str, ...] = ()
	ignore: tuple[str, ...] = ()
	check_imports: bool = False
	absent: frozenset[str] | None = None
	skip_unknown: bool = False
	fixes: bool = True
	effective: bool = False
	compare: str | None = None


class Unit(NamedTuple):
	"""What is judged together: a document, the DeepSpeed file that it names, and the command that reads it.

	`alone` is false for a document that another unit of the same call has for its companion or command.
	`config_file` is how the command names its config: a name, OPEN, or None where it does not.
	"""

	document: Document
	companion: Document | None = None
	alone: bool = True
	command: Document | None = None
	config_file: Any = None


def judge(units: Sequence[Unit], options: Options) -> Iterator[FileReport]:
	"""Judge what was given together. A file that another one names is reported in its own place."""
	given = {unit.document.path: unit.document for unit in units}
	named = {unit.companion.path: unit for unit in units if unit.companion}
	companions = (unit.companion for path, unit in named.items() if unit.companion and path not in given)
	launches = [one for one in units if one.alone and one.document.kind in ("accelerate", "launch")]
	starts = [(one.document, one.command) if one.command else (one.document,) for one in launches]
	beside = (starts, (*(unit.document for unit in units), *companions))
	found: dict[str, list[Finding]] = {path: [] for path in (*given, *named)}
	for unit in units:
		for finding in unit_findings(unit, options, beside) if unit.alone else ():
			path = finding.place.path
			# to its author the file is what it looks like, and is mended as such
			foreign = unit.companion is not None and path != unit.document.path and path in given
			stays = not foreign or given[path].kind in ("deepspeed", "launch")
			found[path].append(finding if stays else finding._replace(fix=None))
	for path, findings in found.items():
		if path in given:
			yield report(given[path], findings, options)
		elif companion := named[path].companion:
			# lines of a file that is no config are nobody's business: a config may name any file
			ours = detect(companion.data if companion.parsed else None, companion.text, path)
			shown = companion.text if ours else None
			yield report(companion, findings, options)._replace(named_by=named[path].document.path, text=shown)


def unit_findings(unit: Unit, options: Options, beside: "Launched") -> Iterator[Finding]:
	"""The findings of one unit; a script is judged with what else was given."""
	document, companion = unit.document, unit.companion
	targets, context = options.targets, options.context
	if document.kind == "deepspeed":
		yield from deepspeed_findings(document, options)
		return
	if document.kind == "python":
		yield from script_findings(document, options, beside)
		return
	if document.kind in ("accelerate", "launch"):
		try:
			inputs = run_inputs(document, unit.command, targets, context, unit.config_file)
		except OpenValueError:
			return
		context = inputs.get("context", context)
	elif document.kind == "environment":
		inputs = {"variables": Variables(document, (), targets)}
	else:
		inputs = lone_inputs(document)
	if document.kind == "trainer":
		from .flow.trainer import Arguments, deepspeed_of, file_named, unfolded  # with it comes what the Trainer reads

		document = unfolded(document)
		trainer = Arguments(document, targets)
		inputs = {"trainer": trainer, "lone": document, "deepspeed": deepspeed_of(trainer, companion, context)}
		inputs["absent_file"] = None if companion else file_named(trainer)
		if beside[0]:
			from .flow.script import runs_beside

			runs = runs_beside(document, beside, targets, context)
			inputs["trained"] = (document, runs) if runs else None
	elif companion is not None:
		trained = any(map(trains, beside[1]))
		inputs["deepspeed"] = DeepSpeedFile(companion, "accelerate", targets, context, inputs.get("launch"), trained)
	else:
		with suppress(OpenValueError):
			name = document.get("deepspeed_config", "deepspeed_config_file")
			inputs["missing_file"] = name if isinstance(name, str) and name != "none" else None
	yield from run(inputs, options)


def deepspeed_findings(document: Document, options: Options) -> Iterator[Finding]:
	asked = options.context.consumer
	readers = READERS if asked == "auto" else (asked,)
	by_reader = {reader: list(findings_of_reader(document, reader, options)) for reader in readers}
	yield from by_reader[asked] if asked != "auto" else consumers.combine(document, by_reader)


def findings_of_reader(document: Document, reader: Consumer, options: Options) -> Iterator[Finding]:
	if not document.filled:
		yield from run({"deepspeed": DeepSpeedFile(document, reader, options.targets, options.context)}, options)
		return
	from .flow.script import file_parts

	for part in file_parts(document, reader, options.targets, options.context):
		yield from (finding for finding in run(part.inputs, options) if part.gives(finding.code))


def script_findings(document: Document, options: Options, beside: "Launched") -> Iterator[Finding]:
	from .flow.script import script_of, script_parts  # with it comes what the classes of each release take

	script = script_of(document, beside, options.targets, options.context)
	yield from run({"script": script, "beside": script.launch, "trained": script.trained}, options)
	for part in script_parts(script):
		yield from (finding for finding in run(part.inputs, options) if part.gives(finding.code))


def unreadable(source: Unreadable) -> FileReport:
	"""The report of a source that cannot be judged, with the reason as its only finding."""
	place = Place(source.path, "", Extent(0, 0), 1, 1, 1, 1)
	catalog.register("reported")
	rule = RULES["XCF900"]
	finding = Finding(rule.code, rule.name, Severity.INFO, source.message, place, reference=rule.page)
	return FileReport(source.path, None, "unreadable", (finding,))


def run(inputs: dict[str, Any], options: Options) -> Iterator[Finding]:
	given = {"context": options.context, **inputs, "targets": options.targets, "absent": options.absent}
	if file := given.get("deepspeed"):
		from .flow.deepspeed import read  # no other file needs it

		with suppress(OpenValueError):
			given["reading"] = read(file)
	catalog.load(given)
	for rule, severity, hit in run_rules(given, dict(options.targets.items())):
		yield finding_of(rule, severity, hit if options.fixes else hit._replace(repair=None))


def finding_of(rule: Rule, severity: Severity, hit: Hit) -> Finding:
	hit = in_whole(hit)
	document = hit.at.document
	fix = resolved(document, hit.repair) if hit.repair is not None else None
	related = tuple(at.document.place(at) for at in hit.related)
	if rule.code in MISSING and any(defect.name == "page" for defect in document.defects):
		severity = Severity.INFO
	message = hit.message if len(hit.message) <= LONGEST else f"{hit.message[:LONGEST]}…"
	return Finding(rule.code, rule.name, severity, message, document.place(hit.at), fix, rule.page, related)


def resolved(document: Document, repair: Repair) -> Fix | None:
	from . import edits  # not before there is something to mend: most files need no fix

	return edits.resolve(document, repair)


def report(document: Document, findings: Iterable[Finding], options: Options) -> FileReport:
	"""Make the report of one file: what is selected and not ignored, in order, each finding once."""
	silenced = ignores(document)
	shown = {finding: None for finding in findings if selected(finding.code, options)}
	kept = [finding for finding in shown if not is_silenced(finding, silenced)]
	ordered = tuple(sorted(kept, key=lambda finding: finding.order))
	return FileReport(document.path, document.kind, verdict_of(ordered), ordered, document.text)


def selected(code: str, options: Options) -> bool:
	"""Whether --select and --ignore let a code through; the longer prefix wins, --select where both are equal."""

	def longest(prefixes: Sequence[str]) -> int:
		return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=-1)

	chosen, dropped = longest(options.select), longest(options.ignore)
	return (chosen >= 0 or not options.select) and (dropped < 0 or chosen >= dropped)


def is_silenced(finding: Finding, silenced: Mapping[int, frozenset[str] | None]) -> bool:
	if finding.place.line not in silenced:
		return False
	codes = silenced[finding.place.line]
	return codes is None or finding.code in codes
