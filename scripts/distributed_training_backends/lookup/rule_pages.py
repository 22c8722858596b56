"""The pages about rules as look-up reads them: with the documentation of each rule and all examples in full."""

import re

from ..rules import catalog
from ..rules.registry import RULES

FOLDER = "references/rules/"
_WHERE = re.compile(r"^All about a rule(?s:.*?)\. ", re.MULTILINE)
_EXAMPLE = re.compile(r"^### (\w+): .*\n+((?:```(?s:.*?)^```\n+)+)", re.MULTILINE)
_HEADING = re.compile(r"^##(#?) (\w+)(?:: (.*))?$", re.MULTILINE)
_UNTITLED = {"bad": "an example", "good": "the good way"}
_AS_IN = re.compile(r"^As in \[(\w+)\]\(#\w+\)\.$", re.MULTILINE)
_SECTION = re.compile(r"^(## (\w+)\n\n\*\*.*\n\n).*$", re.MULTILINE)


def documented(page: str, text: str) -> str:
	"""The text of a page, on one about rules with a table of them, the documentation of each and its examples."""
	if not page.startswith(FOLDER):
		return text
	catalog.load()
	text = headed(_WHERE.sub("", text, 1))  # it says how to look up
	head, _, sections = text.partition("\n## ")
	table = "".join(map(row, re.findall(r"^## (\w+)\n\n\*\*", text, re.MULTILINE)))
	text = f"{head}\n| code | name | severity | |\n|---|---|---|---|\n{table}\n## {sections}"
	text = _SECTION.sub(lambda section: section[1] + RULES[section[2]].documentation, text)
	good = first_good(text)
	return _AS_IN.sub(lambda reference: good[reference[1]], text)


def headed(text: str) -> str:
	lines: list[str] = []
	code = ""
	for line in text.split("\n"):
		found = _HEADING.match(line)
		if found and not found[1]:
			code = found[2]
		title = (found[3] or _UNTITLED.get(found[2])) if found and found[1] else ""
		lines.append(f"### {code}: {title}" if title else line)
	return "\n".join(lines)


def row(code: str) -> str:
	rule = RULES[code]
	severity = ", ".join(dict.fromkeys(severity.value for severity, _ in rule.severities))
	summary = rule.summary.replace("|", "\\|")
	return f"| [{code}](#{code.lower()}) | {rule.name} | {severity} | {summary} |\n"


def first_good(text: str) -> dict[str, str]:
	found: dict[str, str] = {}
	for code, files in _EXAMPLE.findall(text):
		if "\n```text\n" not in files:
			found.setdefault(code, files.rstrip("\n"))
	return found
