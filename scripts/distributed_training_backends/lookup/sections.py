"""Reference pages as sections: each heading starts one, and its text falls into units that can stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from markdown_it import MarkdownIt

if TYPE_CHECKING:
	from markdown_it.token import Token

# Inline text is read with the two patterns below: parsing it as well doubles the time and gives nothing more.
BLOCKS = MarkdownIt("commonmark").enable("table")
BLOCKS.core.ruler.enableOnly(["normalize", "block"])
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
HTML = re.compile(r"</?[a-z]+>|&[a-z]+;")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_LEADING_CODE = re.compile(r"(?:[-*+]|\d+\.)?\s*((?:`[^`\n]+`(?:,| and| or|/|\s)*)+)(?=[:(]|$)")
_ONLY_CODE = re.compile(r"\s*(?:`[^`\n]+`(?: \([^)|]*\))?[\s,]*)+")
_LEADING_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")


class Unit(NamedTuple):
	"""A paragraph, a block of code, an item of a list or a row of a table.

	`head` is the head of the table, or the paragraph above the code that ends with a colon.
	"""

	kind: str
	text: str
	head: str = ""


class PageSection(NamedTuple):
	"""What stands under a heading, the names that it defines, and those that fill the other cells of its tables.

	`above` is the heading that it stands under itself. A section defines its heading and the names that start a unit.
	"""

	page: str
	page_title: str
	above: str
	title: str
	anchor: str
	level: int
	units: tuple[Unit, ...]
	defines: tuple[str, ...]
	spells: tuple[str, ...]

	@property
	def reference(self) -> str:
		return f"{self.page}#{self.anchor}"

	@property
	def subtitle(self) -> str:
		"""The name in bold with which the text begins: that of a rule, whose heading is its code."""
		bold = _LEADING_BOLD.match(self.units[0].text) if self.units else None
		return bold[1] if bold else ""


class Part(NamedTuple):
	level: int
	title: str
	anchor: str
	units: list[Unit]


def parse_page(page: str, text: str) -> list[PageSection]:
	"""Take a page apart. A heading that repeats its parent's and a colon ("FSD001: …") belongs to the parent."""
	anchors: dict[str, int] = {}
	found: list[Part] = []
	for lines in pieces(text):
		add_parts(found, lines, anchors)
	return list(sections_of(page, found))


def pieces(text: str) -> Iterator[list[str]]:
	"""The lines of a page from one heading of the second level to the next: parsed whole it takes much memory."""
	piece: list[str] = []
	fenced = False
	for line in text.split("\n"):
		fenced ^= line.startswith("```")
		if line.startswith("## ") and not fenced:
			yield piece
			piece = []
		piece.append(line)
	yield piece


def add_parts(found: list[Part], lines: list[str], anchors: dict[str, int]) -> None:
	tokens = BLOCKS.parse("\n".join(lines))
	for place, token in enumerate(tokens):
		if token.level or token.map is None:
			continue
		if token.type == "heading_open":
			title = plain(tokens[place + 1].content)
			anchor = unique(slug(title), anchors)
			if found and title.startswith(found[-1].title + ":"):
				found[-1].units.append(Unit("text", title.removeprefix(found[-1].title + ":").strip() + ":"))
			else:
				found.append(Part(int(token.tag[1:]), title, anchor, []))
		elif found:
			found[-1].units.extend(units_of(token, lines))


def sections_of(page: str, parts: Sequence[Part]) -> Iterator[PageSection]:
	above: dict[int, str] = {}
	for part in parts:
		above[part.level] = part.title
		yield PageSection(
			page,
			parts[0].title,
			above.get(part.level - 1, "") if part.level > 2 else "",  # the title of the page says little
			part.title,
			part.anchor,
			part.level,
			tuple(with_captions(part.units)),
			tuple(definitions(part.title, part.units)),
			tuple(spellings(part.units)),
		)


def with_captions(units: Sequence[Unit]) -> Iterator[Unit]:
	caption = ""
	for unit, following in zip_longest(units, units[1:]):
		if unit.kind == "text" and unit.text.endswith(":") and following is not None and following.kind == "code":
			caption = unit.text
		else:
			yield unit._replace(head=caption or unit.head)
			caption = ""


def units_of(token: Token, lines: Sequence[str]) -> Iterator[Unit]:
	start, end = token.map or (0, 0)
	text = "\n".join(lines[start:end]).rstrip()
	if token.type == "table_open":
		head = "\n".join(lines[start : start + 2])
		yield from (Unit("row", line, head) for line in lines[start + 2 : end] if line.strip())
	elif token.type in ("bullet_list_open", "ordered_list_open"):
		yield from (Unit("item", item) for item in items(text))
	elif token.type == "fence":
		yield Unit("code", text)
	elif token.type != "html_block" and text:
		yield Unit("text", text)


def items(text: str) -> Iterator[str]:
	item: list[str] = []
	for line in text.split("\n"):
		if item and re.match(r"(?:[-*+]|\d+\.)\s", line):
			yield "\n".join(item).rstrip()
			item = []
		item.append(line)
	yield "\n".join(item).rstrip()


def definitions(title: str, units: Sequence[Unit]) -> Iterator[str]:
	"""The names that a section is about: its heading, lists of code, the code or bold text that begins a unit."""
	yield title
	for unit in units:
		if unit.kind == "row":
			first = unit.text.strip().lstrip("|").split("|")[0]
			yield from CODE.findall(first) if _ONLY_CODE.fullmatch(first) else ()
		elif unit.kind == "item":
			leading = _LEADING_CODE.match(unit.text)
			yield from CODE.findall(leading.group(1)) if leading else ()
		elif bold := _LEADING_BOLD.match(unit.text):
			yield bold.group(1)
		elif unit.kind == "text" and _ONLY_CODE.fullmatch(unit.text):
			yield from CODE.findall(unit.text)


def spellings(units: Sequence[Unit]) -> Iterator[str]:
	"""The code that fills a cell of a table behind the first: the flag or variable of a field."""
	for unit in units:
		if unit.kind == "row":
			for cell in unit.text.strip().strip("|").split("|")[1:]:
				if filled := _ONLY_CODE.fullmatch(cell):
					yield from CODE.findall(filled[0])


def plain(text: str) -> str:
	return HTML.sub(" ", LINK.sub(r"\1", text)).replace("`", "").replace("\\|", "|").strip()


def slug(title: str) -> str:
	return _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")


def unique(anchor: str, taken: dict[str, int]) -> str:
	count = taken.get(anchor, 0)
	taken[anchor] = count + 1
	return f"{anchor}-{count}" if count else anchor
