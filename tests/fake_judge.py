"""A judge for the tests of the command line: what it finds is told by words in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.reports import finding, place

from distributed_training_backends import api
from distributed_training_backends.model import Applicability, Edit, FileReport, Finding, Fix, Report, Severity


def judged(text: str, path: str) -> FileReport:
    """A judge for tests: misspelt keys are errors with fixes, "odd" is a hint, "crash" breaks it."""
    if "crash" in text:
        raise RuntimeError("no\nway")
    if "limit" in text:
        told = finding(place(text, 0, 0, path), Severity.INFO, "it is too large")
        return FileReport(path, None, "unreadable", (told,), None)
    found = [*_misspelt(text, path), *_odd(text, path)]
    verdict = "rejected" if any(item.severity is Severity.ERROR for item in found) else "accepted"
    return FileReport(path, "accelerate", verdict, tuple(found), text)  # type: ignore[arg-type]


def _misspelt(text: str, path: str) -> list[Finding]:
    words = {
        "confg": ("config_", Applicability.SAFE),
        "config_": ("config", Applicability.SAFE),
        "risk": ("calm", Applicability.UNSAFE),
    }
    words |= {"trap": ("limit", Applicability.SAFE), "loop": ("loop ", Applicability.SAFE)}
    return [
        finding(
            place(text, hit.start(), hit.end(), path),
            message=f"{hit.group()} is wrong",
            fix=Fix(
                words[hit.group()][1], f"write {words[hit.group()][0]}", (Edit(*hit.span(), words[hit.group()][0]),)
            ),
        )
        for hit in re.finditer("confg|config_|risk|trap|loop", text)
    ]


def _odd(text: str, path: str) -> list[Finding]:
    hits = re.finditer("odd|warn", text)
    heavy = {"odd": Severity.INFO, "warn": Severity.WARNING}
    return [finding(place(text, *hit.span(), path), heavy[hit.group()], code="XCF009", name="odd") for hit in hits]


class FakeJudge:
    """Stands in for api.validate_paths and api.validate_text, and remembers how they were called."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def validate_paths(self, paths: Sequence[str], options: api.Options, stdin: bytes | None = None) -> Report:
        self.calls.append((list(paths), options))
        texts = [(stdin or b"").decode() if path == "-" else Path(path).read_bytes().decode() for path in paths]
        return Report(options.targets, tuple(judged(text, path) for text, path in zip(texts, paths, strict=True)))

    def validate_text(
        self, text: str, options: api.Options, path: str = "<text>", files: Mapping[str, str] | None = None
    ) -> Report:
        self.calls.append((path, dict(files or {})))
        return Report(options.targets, (judged(text, path),))
