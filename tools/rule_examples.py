"""The examples of the rules: tests/cases/rules/<CODE>.md, read as data.

    # FSD003
    options: --accelerate-version 1.15.0
    ## bad: what it shows
    ```yaml config.yaml
    …
    ```
    ## good
    …

`options:` right below the title holds for all examples, below an example's heading for that one. The first fence of
an example is the file that is judged, further ones are companions. `bad` raises the code, `good` nothing above info.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "rules"
_FENCE = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (bad|good)(?:: (.*))?$", re.MULTILINE)
_OPTIONS = re.compile(r"^options: (.*)$", re.MULTILINE)


class CaseError(ValueError):
    """A case file that is not written as described above."""


@dataclass(frozen=True)
class Example:
    """One example: its files by name, the one to judge first, and the options of the command line."""

    code: str
    verdict: Literal["bad", "good"]
    title: str
    options: tuple[str, ...]
    files: tuple[tuple[str, str], ...]

    @property
    def command(self) -> list[str]:
        """The arguments for validate-backend-config."""
        return [self.files[0][0], *self.options]

    def language(self) -> str:
        """The language of the file that is judged, for a fence."""
        return "json" if self.files[0][0].endswith(".json") else "yaml"


def read_cases(code: str) -> list[Example]:
    """Read the examples of one rule. Raises CaseError where the file is missing or has no bad example."""
    path = CASES / f"{code}.md"
    if not path.is_file():
        raise CaseError(f"{code} has no examples: write tests/cases/rules/{code}.md")
    examples = list(parse(path.read_text(encoding="utf-8"), code))
    if not any(example.verdict == "bad" for example in examples):
        raise CaseError(f"{path.name} has no bad example")
    return examples


def parse(text: str, code: str) -> Iterator[Example]:
    """Read the text of a case file."""
    if not text.startswith(f"# {code}\n"):
        raise CaseError(f"the cases of {code} begin with the line # {code}")
    headings = list(_HEADING.finditer(text))
    common = _options(text[: headings[0].start()]) if headings else ()
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : following.start() if following else len(text)]
        files = tuple((name, content) for _, name, content in _FENCE.findall(body))
        if not files:
            raise CaseError(f"an example of {code} has no file: ```yaml config.yaml")
        own = _options(_FENCE.sub("", body))
        verdict: Literal["bad", "good"] = "bad" if heading.group(1) == "bad" else "good"
        yield Example(code, verdict, heading.group(2) or "", own or common, files)


def _options(text: str) -> tuple[str, ...]:
    found = _OPTIONS.search(text)
    return tuple(shlex.split(found.group(1))) if found else ()
