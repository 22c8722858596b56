"""Which conversion leads from a config to a target, and what is made of its result."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..model import Finding, Report, Severity
from ..model_convert import TARGETS, BadConversionError, ConvertReport, Note, ordered
from ..sources.document import Document
from ..validate import Options
from .backends import to_deepspeed, to_fsdp
from .draft import Draft, reread, written
from .flags import to_flags
from .fsdp2 import to_fsdp2
from .python_code import to_python
from .source import Source
from .trainer import to_trainer

DEEPSPEED_FILE = "ds_config.json"
SCRIPT = "train.py"


class Result(NamedTuple):
    """A text of some kind and what is said about it; `before` is the text that it was made of in place."""

    text: str
    kind: str
    notes: tuple[Note, ...]
    before: str = ""


def either(source: Source) -> Draft:
    """FSDP2 from whatever shards."""
    return to_fsdp(source) if source.launch.route == "deepspeed" else to_fsdp2(source)


IN_PLACE: dict[str, Callable[[Source], Draft]] = {"fsdp2": either, "fsdp": to_fsdp, "deepspeed": to_deepspeed}
FRESH: dict[str, tuple[Callable[[Source], tuple[str, tuple[Note, ...]]], str]] = {
    "launch": (to_flags, "launch"),
    "python": (to_python, "python"),
    "trainer": (to_trainer, "trainer"),
}


class Given(NamedTuple):
    """What was given: the document that is converted, and those that go with it."""

    main: Document
    config: Document | None = None


def main_of(documents: Sequence[Document]) -> Given:
    """The one document that says how the run is launched: a command counts more than the config that it may take."""
    found = {kind: [one for one in documents if one.kind == kind] for kind in ("launch", "python", "accelerate")}
    command, code, config = found["launch"], found["python"], found["accelerate"]
    rest = [one for one in documents if one.kind not in found] if not (command or code or config) else []
    mains = command or code or config or rest
    if len(mains) != 1 or len(config) > 1:
        names = ", ".join(one.path for one in (mains if len(mains) > 1 else config)[:3])
        raise BadConversionError("one run is converted at a time" + (f", not {names}" if names else ""))
    return Given(mains[0], config[0] if config else None)


def convert(
    given: Given, find: Callable[[Document], Document | None], to: str, options: Options, script: str = ""
) -> ConvertReport:
    """Convert a document; `find` gives the DeepSpeed file that a config names. Raises BadConversionError."""
    if to not in TARGETS:
        raise BadConversionError(f"there is no target {to!r}; there are {', '.join(TARGETS)}")
    main = given.main
    hub, notes = hub_of(given, options)
    source = Source(
        hub,
        main if main.kind == "deepspeed" else find(hub),
        options.targets,
        options.context,
        script or script_of(given, options),
    )
    result = result_of(source, to)
    made = result.notes if hub is main else tuple(note._replace(line=None) for note in result.notes)
    return ConvertReport(
        options.targets,
        main.path,
        main.kind,
        to,
        "unchanged" if result.text == main.text else "converted",
        result.text,
        result.before,
        result.kind,
        bool(result.before) and hub is main,
        (*notes, *made),
    )


def script_of(given: Given, options: Options) -> str:
    """The training script in commands: that of the command that is converted."""
    if given.main.kind != "launch":
        return SCRIPT
    from .from_launch import script_in

    return script_in(given.main, options.targets.accelerate) or SCRIPT


def result_of(source: Source, to: str) -> Result:
    """The text and its notes."""
    if to in FRESH:
        make, kind = FRESH[to]
        text, notes = make(source)
        return Result(text, kind, notes)
    if to == "accelerate":
        return Result(source.document.text, "accelerate", ())
    draft = IN_PLACE[to](source)
    return Result(draft.finished(), "accelerate", tuple(draft.notes), source.document.text)


def hub_of(given: Given, options: Options) -> tuple[Document, tuple[Note, ...]]:
    """The config file of Accelerate that says what a document says, and notes."""
    main = given.main
    if main.kind == "accelerate":
        return (main if not main.begin else reread(main, written(main.data, "yaml"))), ()
    if main.kind == "deepspeed":
        block = {"deepspeed_config_file": main.path if main.path != "<text>" else DEEPSPEED_FILE}
        text = written({"distributed_type": "DEEPSPEED", "deepspeed_config": block}, "yaml")
        return reread(main, text, "accelerate", "yaml"), ()
    if main.kind == "launch":
        from .from_launch import to_config

        return to_config(main, given.config, options.targets.accelerate)
    if main.kind == "python":
        from . import from_python

        return from_python.to_config(main, options.targets)
    raise BadConversionError(f"{main.path} is of the kind {main.kind}, which is no run")


# --- what the validator says ---------------------------------------------------------------------------------


def refused(report: Report, documents: Sequence[Document], to: str) -> ConvertReport:
    """Why nothing was converted."""
    least = Severity.INFO if report.exit_code == 2 else Severity.ERROR
    found = [(file, one) for file in report.files for one in file.findings if one.severity.rank <= least.rank]
    bad = [(file.path, one) for file, one in found if file.verdict == "unreadable" or least is Severity.ERROR]
    main = next((one for one in documents if one.kind != "deepspeed"), documents[0] if documents else None)
    path = main.path if main else next((file.path for file in report.files), "")
    verdict = "unreadable" if report.exit_code == 2 else "rejected"
    kind = main.kind if main else None
    return ConvertReport(report.targets, path, kind, to, verdict, findings=tuple(bad))  # type: ignore[arg-type]


def checked(done: ConvertReport, before: Report, after: Report) -> ConvertReport:
    """Tell what the validator finds in the result that it did not find in the input."""
    old = {(one.code, one.message) for file in before.files for one in file.findings}
    found = [one for file in after.files for one in file.findings if one.severity is not Severity.INFO]
    new = [Note("check", one.code, one.message, None) for one in found if not known(one, old)]
    return done._replace(notes=ordered([*done.notes, *new]))


def known(finding: Finding, old: set[tuple[str, str]]) -> bool:
    """Tell whether the input had the same finding."""
    return (finding.code, finding.message) in old
