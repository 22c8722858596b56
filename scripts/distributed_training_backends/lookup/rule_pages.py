"""The pages about rules as look-up reads them: with the documentation of each rule and all examples in full."""

from __future__ import annotations

import re

from ..rules import catalog
from ..rules.registry import RULES

FOLDER = "references/rules/"
_WHERE = re.compile(r"^All about a rule(?s:.*?)\. ", re.MULTILINE)
_EXAMPLE = re.compile(r"^### (\w+): .*\n\n((?:```(?s:.*?)^```\n+)+)", re.MULTILINE)
_AS_IN = re.compile(r"^As in \[(\w+)\]\(#\w+\)\.$", re.MULTILINE)
_SECTION = re.compile(r"^(## (\w+)\n\n\*\*.*\n\n).*$", re.MULTILINE)


def documented(page: str, text: str) -> str:
    """The text of a page, on one about rules with a table of them, the documentation of each and its examples."""
    if not page.startswith(FOLDER):
        return text
    catalog.load()
    text = _WHERE.sub("", text, 1)  # it says how to look up
    head, _, sections = text.partition("\n## ")
    table = "".join(map(row, re.findall(r"^## (\w+)\n\n\*\*", text, re.MULTILINE)))
    text = f"{head}\n| code | name | severity | |\n|---|---|---|---|\n{table}\n## {sections}"
    text = _SECTION.sub(lambda section: section[1] + RULES[section[2]].documentation, text)
    good = first_good(text)
    return _AS_IN.sub(lambda reference: good[reference[1]], text)


def row(code: str) -> str:
    """The row of a rule in the table with which look-up begins a page."""
    rule = RULES[code]
    severity = ", ".join(dict.fromkeys(severity.value for severity, _ in rule.severities))
    summary = rule.summary.replace("|", "\\|")
    return f"| [{code}](#{code.lower()}) | {rule.name} | {severity} | {summary} |\n"


def first_good(text: str) -> dict[str, str]:
    """The files of the first good example that each rule has in full; below those of a bad one stands an output."""
    found: dict[str, str] = {}
    for code, files in _EXAMPLE.findall(text):
        if "\n```text\n" not in files:
            found.setdefault(code, files.rstrip("\n"))
    return found
