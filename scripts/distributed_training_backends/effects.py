"""What takes effect in the run that was given, and what another release of Accelerate would change in it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from .flow.effective import effective, run_of, scripts_of
from .model import FileReport, Finding, Report
from .model_effective import Change, Comparison, Effective, Setting
from .sources.document import Document
from .validate import Options, Unit, judge


def added(report: Report, units: Sequence[Unit], options: Options, files: Sequence[Document]) -> Report:
	now = list(runs(units, options, files))
	first = now[0]._replace(others=tuple(now[1:])) if now and options.effective else None
	if not now or not options.compare:
		return report._replace(effective=first)
	earlier = options._replace(targets=options.targets._replace(accelerate=options.compare))
	before = {one.place: one for one in runs(units, earlier, files)}
	was = Report(earlier.targets, tuple(judge(units, earlier)))
	there = [(one, before[one.place]) for one in now if one.place in before]
	several = len(now) > 1
	changes = [one._replace(run=run.place if several else None) for run, old in there for one in changed(old, run)]
	appear, go = differing(report.files, was.files), differing(was.files, report.files)
	comparison = Comparison(earlier.targets.accelerate, options.targets.accelerate, tuple(changes), appear, go)
	return report._replace(effective=first, comparison=comparison)


def runs(units: Sequence[Unit], options: Options, files: Sequence[Document]) -> Iterator[Effective]:
	"""What takes effect in the run of each command, and of each config that no command reads."""
	targets, kinds = options.targets, ("deepspeed", "environment", "fsdp", "trainer")
	shared = {kind: [unit for unit in units if unit.document.kind == kind] for kind in kinds}
	beside = [unit.document for several in shared.values() for unit in several]
	companions, given = [unit.companion for unit in shared["trainer"]], [unit.document for unit in units]
	for unit in units:
		command = unit.command or unit.document
		if not unit.alone or command.get("launcher") not in (None, "accelerate"):
			continue
		scripts = scripts_of(command, given, targets.accelerate)
		documents = reversed(
			dict.fromkeys((*companions, unit.companion, command, unit.document, *beside, *files, *scripts))
		)
		run = run_of([one for one in documents if one], targets.accelerate, options.context, targets.transformers)
		if run is not None:
			begin = command.value("launcher" if command.kind == "launch" else "distributed_type")
			yield effective(run)._replace(place=command.place(begin))


def changed(before: Effective, after: Effective) -> Iterator[Change]:
	was = {setting.name: setting for setting in before.settings}
	now = {setting.name: setting for setting in after.settings}
	if before.route != after.route:
		yield Change("route", Setting("route", before.route), Setting("route", after.route))
	yield from filter(differs, (Change(name, was.get(name), now.get(name)) for name in {**now, **was}))


def differs(change: Change) -> bool:
	"""Whether a change is one; options that nobody has set may come and go."""
	one, other = change.before, change.after
	if one is None or other is None:
		return not change.name.startswith("argument.") or any(side is not None and side.told for side in (one, other))
	if one.layer == "argument" and not (one.told or other.told):
		return False
	return alike(one) != alike(other)


def alike(setting: Setting) -> tuple[object, ...]:
	read = bool(setting.reader) if setting.layer in ("argument", "variable") else None
	value = setting.value
	with suppress(TypeError, ValueError):  # 1e8 and 100000000 are one number
		value = value if isinstance(value, bool) else float(value)
	return setting.state == "open", str(value), type(value).__name__, read


def differing(files: Sequence[FileReport], others: Sequence[FileReport]) -> tuple[Finding, ...]:
	known = {mark(finding) for file in others for finding in file.findings}
	return tuple(finding for file in files for finding in file.findings if mark(finding) not in known)


def mark(finding: Finding) -> tuple[str, str, str, str]:
	return finding.code, finding.severity.value, finding.place.path, finding.place.pointer
