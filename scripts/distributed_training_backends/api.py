"""What the doors call: validate files or texts, list and explain rules, look up. Nothing here prints or exits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from os.path import dirname, isdir, isfile, join, normpath
from typing import Any, Literal, NamedTuple

from distributed_training_backends import validate
from distributed_training_backends.model import BadQueryError, Context, Kind, LookupReport, Report, Targets
from distributed_training_backends.resources import load_json
from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import RULES, Rule
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.limits import Unreadable
from distributed_training_backends.sources.load import load
from distributed_training_backends.sources.reading import Raw, find_files, first_newline, read_path, read_stdin
from distributed_training_backends.validate import Options

__all__ = [
    "BadQueryError",
    "Context",
    "Options",
    "Targets",
    "default_targets",
    "editor_schema",
    "explain",
    "look_up",
    "rules",
    "validate_paths",
    "validate_text",
]
Reader = Callable[[str], "Raw | Unreadable | None"]


@cache
def default_targets() -> Targets:
    """The newest releases that the knowledge covers."""
    newest = load_json("targets.json")
    return Targets(newest["accelerate"], newest["deepspeed"], newest["transformers"], newest["torch"])


def validate_paths(paths: Sequence[str], options: Options, stdin: bytes | None = None) -> Report:
    """Judge files as one run. "-" is the bytes given as `stdin`; directories are walked for files of our kinds."""
    sources = [source for path in paths for source in read_all(path, stdin, options.kind)]
    return judged(sources, options, read_file)


def validate_text(text: str, options: Options, path: str = "<text>", files: Mapping[str, str] | None = None) -> Report:
    """Judge one text. `files` holds companions by the name under which the text refers to them; no file is read."""
    companions = files or {}

    def read(name: str) -> Raw | None:
        return from_text(name, companions[name]) if name in companions else None

    return judged([parsed(from_text(path, text), options.kind)], options, read)


def from_text(path: str, text: str) -> Raw:
    """Take a text as it came, without its byte order mark."""
    bare = text.removeprefix("\ufeff")
    return Raw(path, bare, first_newline(bare), bare != text)


def read_file(path: str) -> Raw | Unreadable | None:
    """Read a file that another one names; None when there is none."""
    return read_path(path) if isfile(path) else None


def read_all(path: str, stdin: bytes | None, kind: Kind | None) -> Iterator[Document | Unreadable]:
    """Read one argument: standard input, a file, or every file below a directory that looks like one of our kinds.

    What a directory holds besides is passed over, and with a `kind` the files of other kinds too.
    """
    if path == "-" and stdin is not None:
        yield parsed(read_stdin(stdin), kind)
    elif isdir(path):
        for name in find_files(path):
            found = parsed(read_path(name), None)
            if isinstance(found, Document) and kind in (None, found.kind):
                yield found
    else:
        yield parsed(read_path(path), kind)


def parsed(raw: Raw | Unreadable, kind: Kind | None) -> Document | Unreadable:
    """Parse what could be read."""
    return raw if isinstance(raw, Unreadable) else load(raw, kind)


def judged(sources: Sequence[Document | Unreadable], options: Options, read: Reader) -> Report:
    """Follow references between files, and judge."""
    documents = [source for source in sources if isinstance(source, Document)]
    failed = [validate.unreadable(source) for source in sources if isinstance(source, Unreadable)]
    links = dict(references(documents, read))
    if options.check_imports and options.absent is None:
        options = options._replace(absent=absent_features())
    return Report(options.targets, (*validate.judge(documents, links, options), *failed))


def absent_features() -> frozenset[str]:
    """The features of data/packages.json whose package this interpreter would not find; nothing is imported."""
    from distributed_training_backends import installed

    features = load_json("packages.json")["features"]
    missing = set(installed.missing({record["module"] for record in features.values()}))
    return frozenset(name for name, record in features.items() if record["module"] in missing)


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


def parsed_companion(raw: Raw | Unreadable | None) -> Document | None:
    """Parse a DeepSpeed file that another file names."""
    found = load(raw, "deepspeed") if isinstance(raw, Raw) else None
    return found if isinstance(found, Document) else None


def editor_schema(kind: str, targets: Targets) -> dict[str, Any]:
    """The JSON Schema of a kind for editors: accelerate, deepspeed or fsdp. Raises KeyError for another kind."""
    from distributed_training_backends import schemas

    return schemas.schema(kind, targets)


class RuleInfo(NamedTuple):
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
    return f"{rule.code} {rule.name}\n\n{rule.documentation}\n\nSee {rule.page}\n" if rule else None


def look_up(
    query: str,
    detail: Literal["concise", "full"] = "concise",
    limit: int = 5,
    offset: int = 0,
    targets: Targets | None = None,
) -> LookupReport:
    """Find the sections of the reference that answer a question; raises BadQueryError, which says why, in one line."""
    from distributed_training_backends.lookup import search  # needs markdown-it-py, which validating does not

    return search.look_up(query, targets or default_targets(), detail, limit, offset)
