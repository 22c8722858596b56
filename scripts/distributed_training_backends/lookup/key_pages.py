"""The generated pages as look-up reads them: with room in their tables, and the names in full that these abbreviate.

A key that begins with a point belongs to the block of its section, and a flag stands for a key and a variable by the
rule above the table, unless its row names others; `--…` is the flag that ends in the name of the field.
"""

import re
from collections.abc import Iterator

PAGES = ("references/api-reference.md", "references/config-keys.md", "references/versions.md")
_BLOCK = re.compile(r"#+ DeepSpeed: ([\w.]+)$")
_RULE = re.compile(r"`--(\w*)x` is the key `([\w.]+)x`(?: and the variable `(\w*)X`)? too;")
_FLAG = re.compile(r"`--(\w+)`")
_NAME = re.compile(r"`([\w.]+)`")
_CELL = re.compile(r"(?<!\\) ?\| ?")


def spelled_out(text: str) -> str:
	return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
	block, column = "", 0
	rule: re.Match[str] | None = None
	for line in map(_roomy, text.split("\n")):
		if line.startswith("#"):
			rule = None if ": part " not in line else rule
			block = found[1] if (found := _BLOCK.match(line)) else ""
		elif found := _RULE.search(line):
			rule = found
			continue
		elif rule and line.startswith("| field |"):
			column = _CELL.split(line).index("launcher")
		elif rule and line.startswith("| `"):
			yield _with_others(line, column, rule)
			continue
		yield line.replace("| `.", f"| `{block}.", 1) if block else line


def _roomy(line: str) -> str:
	row = line.startswith("|") and not line.startswith("|-|")
	return f"| {' | '.join(_CELL.split(line)[1:-1])} |" if row else line


def _with_others(line: str, column: int, rule: re.Match[str]) -> str:
	cells = _CELL.split(line.replace("`--…`", f"`--{rule[1]}{_NAME.findall(line)[0]}`"))
	if column >= len(cells) or not (flag := _FLAG.search(cells[column])):
		return line
	rest = flag[1].removeprefix(rule[1])
	named = _NAME.findall(cells[column])
	variable = [] if rule[3] is None or any(name.isupper() for name in named) else [f"`{rule[3]}{rest.upper()}`"]
	key = [] if any(not name.isupper() for name in named) else [f"`{rule[2]}{rest}`"]
	cells[column] = ", ".join([*variable, *key, cells[column]])
	return " | ".join(cells).strip()
