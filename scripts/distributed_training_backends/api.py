"""What the doors call: validate files or texts, list and explain rules. Nothing here prints or exits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os.path import dirname, isdir, isfile, join, normpath

from distributed_training_backends import validate
from distributed_training_backends.knowledge import accelerate, deepspeed, transformers
from distributed_training_backends.model import Context, FileReport, Report, Targets
from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import RULES, Rule
from distributed_training_backends.sources import load, reading
from distributed_training_backends.sources.document import Document
from distributed_training_backends.validate import Options

__all__ = ["Context", "Options", "Targets", "default_targets", "explain", "rules", "validate_paths", "validate_text"]
NEWEST_TORCH = "2.13.0"
Reader = Callable[[str], "reading.Raw | reading.Unreadable | None"]


@cache
def default_targets() -> Targets:
    """The newest releases that the knowledge covers."""
    return Targets(accelerate.RELEASES[-1], deepspeed.RELEASES[-1], transformers.RELEASES[-1], NEWEST_TORCH)


def validate_paths(paths: Sequence[str], options: Options, stdin: bytes | None = None) -> Report:
    """Judge files as one run. "-" is the bytes given as `stdin`; directories are walked for files of our kinds."""
    raws = [raw for path in paths for raw in read_all(path, stdin)]
    return judged(raws, options, read_file)


def validate_text(
    text: str, options: Options, path: str = "<text>", files: Mapping[str, str] | None = None
) -> Report:
    """Judge one text. `files` holds companions by the name under which the text refers to them; no file is read."""
    companions = files or {}

    def read(name: str) -> reading.Raw | None:
        return reading.from_text(name, companions[name]) if name in companions else None

    return judged([reading.from_text(path, text)], options, read)


def read_file(path: str) -> reading.Raw | reading.Unreadable | None:
    """Read a file that another one names; None when there is none."""
    return reading.read_path(path) if isfile(path) else None


def read_all(path: str, stdin: bytes | None) -> Iterator[reading.Raw | reading.Unreadable]:
    """Read one argument: standard input, a file, or every file of our kinds below a directory."""
    if path == "-" and stdin is not None:
        yield reading.read_stdin(stdin)
    elif isdir(path):
        for name in reading.find_files(path):
            raw = reading.read_path(name)
            if isinstance(load.load(raw, None) if isinstance(raw, reading.Raw) else None, Document):
                yield raw
    else:
        yield reading.read_path(path)


def judged(raws: Sequence[reading.Raw | reading.Unreadable], options: Options, read: Reader) -> Report:
    """Parse, follow references between files, and judge."""
    documents: list[Document] = []
    failed: list[FileReport] = []
    for raw in raws:
        parsed = raw if isinstance(raw, reading.Unreadable) else load.load(raw, options.kind)
        if isinstance(parsed, Document):
            documents.append(parsed)
        else:
            failed.append(validate.unreadable(parsed))
    links = dict(references(documents, read))
    return Report(options.targets, (*validate.judge(documents, links, options), *failed))


def references(documents: Sequence[Document], read: Reader) -> Iterator[tuple[str, Document]]:
    """Follow `deepspeed_config_file`: among the files given, then from the working directory, then from the config."""
    given = {normpath(document.path): document for document in documents}
    for document in documents:
        name = document.get("deepspeed_config", "deepspeed_config_file") if document.kind == "accelerate" else None
        if not isinstance(name, str):
            continue
        for candidate in (name, join(dirname(document.path), name)):
            found = given.get(normpath(candidate)) or parsed_companion(read(candidate))
            if found is not None:
                yield document.path, found
                break


def parsed_companion(raw: reading.Raw | reading.Unreadable | None) -> Document | None:
    """Parse a DeepSpeed file that another file names."""
    parsed = load.load(raw, "deepspeed") if isinstance(raw, reading.Raw) else None
    return parsed if isinstance(parsed, Document) else None


@dataclass(frozen=True)
class RuleInfo:
    """A rule as lists show it."""

    code: str
    name: str
    summary: str
    severities: tuple[tuple[str, str], ...]
    library: str
    page: str


def rules() -> Sequence[RuleInfo]:
    """Every rule, by code."""
    catalog.load()
    return [info(RULES[code]) for code in sorted(RULES)]


def info(rule: Rule) -> RuleInfo:
    """Describe one rule."""
    severities = tuple((severity.value, spans) for severity, spans in rule.severities)
    return RuleInfo(rule.code, rule.name, rule.summary, severities, rule.library, rule.page)


def explain(code: str) -> str | None:
    """The documentation of a rule, or None for an unknown code."""
    catalog.load()
    rule = RULES.get(code.upper())
    return f"{rule.code} {rule.name}\n\n{rule.documentation.strip()}\n\nSee {rule.page}\n" if rule else None
