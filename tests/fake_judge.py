"""A judge for the tests of the command line: what it finds is told by words in the text."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.reports import finding, place

from distributed_training_backends import api
from distributed_training_backends.model import (
	Applicability,
	Edit,
	FileReport,
	Finding,
	Fix,
	Report,
	Severity,
	verdict_of,
)


class Word(NamedTuple):
	"""What is found where a word stands, and what a fix writes there."""

	severity: Severity
	instead: str = ""
	applicability: Applicability = Applicability.SAFE


WORDS = {
	"confg": Word(Severity.ERROR, "config_"),
	"config_": Word(Severity.ERROR, "config"),
	"risk": Word(Severity.ERROR, "calm", Applicability.UNSAFE),
	"veil": Word(Severity.ERROR, "risk"),
	"bait": Word(Severity.WARNING, "risk"),
	"trap": Word(Severity.ERROR, "limit"),
	"loop": Word(Severity.ERROR, "loop "),
	"dull": Word(Severity.WARNING, "keen"),
	"warn": Word(Severity.WARNING),
	"odd": Word(Severity.INFO),
}


def judged(text: str, path: str) -> FileReport:
	"""Find the words of WORDS; "limit" makes a text unreadable, and "crash" breaks the judge."""
	if "crash" in text:
		raise RuntimeError("no\nway")
	if "limit" in text:
		told = finding(place(text, 0, 0, path), Severity.INFO, "it is too large")
		return FileReport(path, None, "unreadable", (told,), None)
	found = tuple(_found(text, path, hit) for hit in re.finditer("|".join(WORDS), text))
	return FileReport(path, "accelerate", verdict_of(found), found, text)


def _found(text: str, path: str, hit: re.Match[str]) -> Finding:
	word = WORDS[hit.group()]
	fix = Fix(word.applicability, f"write {word.instead}", (Edit(*hit.span(), word.instead),)) if word.instead else None
	return finding(place(text, *hit.span(), path), word.severity, f"{hit.group()} is wrong", fix=fix)


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
