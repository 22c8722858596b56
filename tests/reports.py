"""Findings and reports made by hand, for the tests of renderers."""

from distributed_training_backends.model import (
	Applicability,
	Edit,
	Extent,
	FileReport,
	Finding,
	Fix,
	Place,
	Report,
	Severity,
	Targets,
	Verdict,
)

TARGETS = Targets("1.15.0", "0.19.8", "5.24.0", "2.13.0")
CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_confg:\n  fsdp_version: 2\n"


def position(text: str, offset: int) -> tuple[int, int]:
	before = text[:offset]
	return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def place(text: str, start: int, end: int, path: str = "cfg.yaml", pointer: str = "/fsdp_confg") -> Place:
	return Place(path, pointer, Extent(start, end), *position(text, start), *position(text, end))


def finding(
	where: Place, severity: Severity = Severity.ERROR, message: str = "it is refused", **more: object
) -> Finding:
	fields: dict[str, object] = {
		"code": "ACC001",
		"name": "unknown-key",
		"reference": "references/rules/accelerate.md#acc001",
	}
	return Finding(severity=severity, message=message, place=where, **{**fields, **more})  # type: ignore[arg-type]


def file_report(
	text: str | None, *findings: Finding, path: str = "cfg.yaml", verdict: Verdict | None = None
) -> FileReport:
	rejected = any(item.severity is Severity.ERROR for item in findings)
	return FileReport(path, "accelerate", verdict or ("rejected" if rejected else "accepted"), findings, text)


def report(*files: FileReport) -> Report:
	return Report(TARGETS, files)


def misspelt() -> Finding:
	"""The finding of design: a misspelt key with a safe fix."""
	start = CONFIG.index("fsdp_confg")
	fix = Fix(Applicability.SAFE, "rename to fsdp_config", (Edit(start, start + 10, "fsdp_config"),))
	message = "`fsdp_confg` is not a key of an Accelerate config; did you mean `fsdp_config`?"
	return finding(place(CONFIG, start, start + 10), message=message, fix=fix)
