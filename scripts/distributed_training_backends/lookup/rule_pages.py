"""The pages about rules as look-up reads them: a page has a rule's summary, and its code the whole documentation."""

from __future__ import annotations

import re

from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import RULES

FOLDER = "references/rules/"
_WHERE = re.compile(r"^(?:> .*\n)+\n", re.MULTILINE)
_HEAD = re.compile(r"^(\| code \|.*\n\|.*)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[(\w+)\]\(#\w+\) \|.*$", re.MULTILINE)
_SECTION = re.compile(r"^(## (\w+)\n\n\*\*.*\n\n).*$", re.MULTILINE)


def documented(page: str, text: str) -> str:
    """The text of a page, on one about rules with the documentation of each and with the summary in its table."""
    if not page.startswith(FOLDER):
        return text
    catalog.load()
    text = _WHERE.sub("", text, 1)  # it says how to look up
    text = _HEAD.sub(lambda head: head[0].replace("\n", " |\n") + "---|", text)
    text = _ROW.sub(lambda row: f"{row[0]} {RULES[row[1]].summary.replace('|', chr(92) + '|')} |", text)
    return _SECTION.sub(lambda section: section[1] + RULES[section[2]].documentation, text)
