"""What the generators of reference pages share: tables, words for releases and values, and the command line."""

import argparse
import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import project
from distributed_training_backends.lookup.key_pages import spelled_out
from distributed_training_backends.versions import describe

BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
CELL = re.compile(r"(?<!\\)\|")
PART = re.compile(r": part \d+$")
MOST_ROWS = 45  # of a table, so that a section stays within sixty lines

Spans = Sequence[tuple[str, str | None]]


def code(text: str) -> str:
	"""A name as code; one with a bar in it would end a cell of a table."""
	return f"`{text}`".replace("|", "\\|")


def codes(names: Iterable[str]) -> str:
	return ", ".join(code(name) for name in names)


def cell(text: str) -> str:
	return text.replace("|", "\\|").replace("\n", " ")


def value(item: Any) -> str:
	if isinstance(item, dict) and set(item) == {"expr"}:
		return "unset" if item["expr"].startswith("_") else cell(item["expr"].replace("self.", ""))
	if isinstance(item, list):
		return ", ".join(value(one) for one in item) or "[]"
	return cell(repr(item) if item == "" else str(item))


def alternatives(text: str, default: Any = ...) -> str:
	"""A type of Python with a slash between what it may be; None is left out where it is the default."""
	try:
		parts = [cell(part) for part in _alternatives(ast.parse(text, mode="eval").body)]
	except SyntaxError:
		return cell(text)
	kept = [part for part in dict.fromkeys(parts) if part != "None" or default is not None]
	return "/".join(kept)


def _alternatives(node: ast.expr) -> Iterator[str]:
	if isinstance(node, ast.BinOp):
		yield from (*_alternatives(node.left), *_alternatives(node.right))
	elif isinstance(node, ast.Subscript) and (name := ast.unparse(node.value)) in ("Optional", "Union", "Literal"):
		for item in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
			yield from _alternatives(item)
		yield from ["None"] if name == "Optional" else []
	else:
		yield ast.unparse(node)


def releases(spans: Spans, first: str) -> str:
	"""When something is known: "since 1.6.0"; nothing where it always was."""
	return ", ".join(_released(start, end, first) for start, end in spans if (start, end) != (first, None))


def _released(start: str, end: str | None, first: str) -> str:
	return describe(None if start == first else start, end)


class Words(NamedTuple):
	"""What stands before a table, and the meaning of each name in it, by the name as it stands there."""

	about: str
	meanings: dict[str, str]


@cache
def words_of(page: str) -> dict[str, Words]:
	"""The words of each section, by its title; a section that is cut in parts is one."""
	found: dict[str, Words] = {}
	title, column = "", 0
	for line in spelled_out((project.PAGES / page).read_text("utf-8")).splitlines():
		if line.startswith("##"):
			title, column = PART.sub("", line.lstrip("# ")), 0
			found.setdefault(title, Words("", {}))
		elif line.startswith("|") and title:
			cells = [cell.strip() for cell in CELL.split(line)[1:-1]]
			if not column:
				column = cells.index("meaning") if "meaning" in cells else -1
			elif column > 0 and not line.startswith("|-|"):
				found[title].meanings[cells[0]] = cells[column] if column < len(cells) else ""
		elif line and title and not found[title].about:
			found[title] = found[title]._replace(about=line)
	return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
	"""The lines of a table, without columns that are empty in every row, empty cells at a row's end, and spaces."""
	kept = [column for column in range(len(head)) if column == 0 or any(row[column] for row in rows)]
	yield f"|{'|'.join(head[column] for column in kept)}|"
	yield f"|{'-|' * len(kept)}"
	for row in rows:
		cells = [row[column] for column in kept]
		while not cells[-1]:
			cells.pop()
		yield f"|{'|'.join(cells)}|"


def section(
	title: str, about: str, head: Sequence[str], rows: Sequence[Sequence[str]], level: int = 2
) -> Iterator[str]:
	"""A heading, a sentence and a table; what is too long for a section goes on in sections below it."""
	yield from (f"{'#' * level} {title}", "", about, "")
	yield from table(head, rows[:MOST_ROWS])
	yield ""
	for number, start in enumerate(range(MOST_ROWS, len(rows), MOST_ROWS), 2):
		yield from (f"{'#' * (level + 1)} {title}: part {number}", "")
		yield from table(head, rows[start : start + MOST_ROWS])
		yield ""


def main(description: str, makers: Mapping[Path, Callable[[], str]]) -> int:
	"""Run the command line of a generator: `makers` gives the text of each document."""
	parser = argparse.ArgumentParser(description=description)
	choice = parser.add_mutually_exclusive_group(required=True)
	choice.add_argument("--write", action="store_true", help="write the documents")
	choice.add_argument("--check", action="store_true", help="say which are not up to date, and exit with 1")
	arguments = parser.parse_args()
	stale = 0
	for path, maker in makers.items():
		text = maker()
		if path.is_file() and path.read_text("utf-8") == text:
			continue
		if arguments.write:
			path.write_text(text, "utf-8")
		print(f"{path.relative_to(project.ROOT)} {'written' if arguments.write else 'is not up to date'}")
		stale += 1
	return int(bool(stale) and not arguments.write)


def keep_figures(name: str, text: str) -> None:
	"""Put what a tool has measured into its block of the README, the only place where it is kept."""
	readme = project.ROOT / "README.md"
	blocks = BLOCK.sub(lambda it: f"{it[1]}{text}{it[3]}" if it[2] == name else it[0], readme.read_text("utf-8"))
	readme.write_text(blocks, "utf-8")


def page_of(name: str, lines: Callable[[], Iterable[str]]) -> dict[Path, Callable[[], str]]:
	return {project.PAGES / name: lambda: "\n".join(lines()).rstrip() + "\n"}
