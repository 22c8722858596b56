"""What takes effect in the run that was given, and what another release of Accelerate would change in it."""

from collections.abc import Iterator, Sequence

from .flow.effective import effective, run_of
from .model import FileReport, Finding, Report
from .model_effective import Change, Comparison, Effective, Setting
from .sources.document import Document
from .validate import Options, Unit, judge


def added(report: Report, units: Sequence[Unit], options: Options) -> Report:
	documents = documents_of(units)
	now = takes_effect(documents, options)
	if now is None or not options.compare:
		return report._replace(effective=now if options.effective else None)
	earlier = options._replace(targets=options.targets._replace(accelerate=options.compare))
	before = takes_effect(documents, earlier)
	was = Report(earlier.targets, tuple(judge(units, earlier)))
	changes = tuple(changed(before, now)) if before is not None else ()
	appear, go = differing(report.files, was.files), differing(was.files, report.files)
	comparison = Comparison(earlier.targets.accelerate, options.targets.accelerate, changes, appear, go)
	return report._replace(effective=now if options.effective else None, comparison=comparison)


def documents_of(units: Sequence[Unit]) -> list[Document]:
	configs = [unit for unit in units if unit.document.kind == "accelerate"]
	own = [unit.document for unit in units if unit.document.kind in ("launch", "environment", "python")]
	companions = [unit.companion for unit in configs[:1] if unit.companion is not None]
	return [*(unit.document for unit in configs[:1]), *companions, *own]


def takes_effect(documents: Sequence[Document], options: Options) -> Effective | None:
	run = run_of(documents, options.targets.accelerate, options.context)
	return effective(run) if run is not None else None


def changed(before: Effective, after: Effective) -> Iterator[Change]:
	was = {setting.name: setting for setting in before.settings}
	now = {setting.name: setting for setting in after.settings}
	if before.route != after.route:
		yield Change("route", Setting("route", before.route), Setting("route", after.route))
	yield from filter(differs, (Change(name, was.get(name), now.get(name)) for name in {**now, **was}))


def differs(change: Change) -> bool:
	"""Tell whether a change is one; options that nobody has set may come and go."""
	one, other = change.before, change.after
	if one is None or other is None:
		return not change.name.startswith("argument.") or any(side is not None and side.told for side in (one, other))
	if one.layer == "argument" and not (one.told or other.told):
		return False
	return alike(one) != alike(other)


def alike(setting: Setting) -> tuple[object, ...]:
	read = bool(setting.reader) if setting.layer in ("argument", "variable") else None
	return setting.state == "open", str(setting.value), type(setting.value).__name__, read


def differing(files: Sequence[FileReport], others: Sequence[FileReport]) -> tuple[Finding, ...]:
	known = {mark(finding) for file in others for finding in file.findings}
	return tuple(finding for file in files for finding in file.findings if mark(finding) not in known)


def mark(finding: Finding) -> tuple[str, str, str, str]:
	return finding.code, finding.severity.value, finding.place.path, finding.place.pointer
