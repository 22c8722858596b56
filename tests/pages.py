"""The pages written by hand, SKILL.md and references/*.md, as data for the tests that keep them true.

Fences. A word with a suffix names a file (```` ```yaml fsdp2.yaml ````); the page's other files stand beside it. The
validator finds nothing in such a file, and the real library takes it. Further words:

- `wrong`: it is refused or warned about, exactly as the `text` fence right below quotes it: lines such as
  `error[FSD001] …` are all the findings of the validator, any other line is the library's error, `Type: message`.
- `reader=trainer`: who reads a DeepSpeed file (`deepspeed`, `accelerate` or `trainer`).
- `launch=fsdp2.yaml` on Python: it runs in a process started with that file; `processes=4`: in a job of that size.
- `needs=megatron` on Python: it cannot run here, so only its names and the arguments of its calls are checked.

In quoted messages `…` stands for any text. The rest of the conventions is about claims, see claims.py.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HAND_WRITTEN = (
	"SKILL.md",
	"references/choosing.md",
	"references/converting.md",
	"references/deepspeed-fsdp.md",
	"references/parallelism-and-precision.md",
	"references/launch-and-config.md",
	"references/loop-and-checkpoints.md",
	"references/troubleshooting.md",
	"references/memory.md",
)
_FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^ *\2 *$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_HEADING = re.compile(r"^(#{1,6}) +(.*)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FINDING = re.compile(r"(error|warning)\[([A-Z]{3}\d{3})\] (.*)")
_SEPARATOR = re.compile(r"^\|[\s:|-]+\|$")


@dataclass(frozen=True)
class Fence:
	"""A block of code. `quoted` is the text fence right below a wrong one."""

	page: str
	line: int
	language: str
	words: tuple[str, ...]
	text: str
	quoted: tuple[str, ...] = ()

	@property
	def name(self) -> str:
		return next((word for word in self.words if "." in word and "=" not in word), "")

	@property
	def wrong(self) -> bool:
		return "wrong" in self.words

	def option(self, name: str) -> str:
		return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), "")

	@property
	def place(self) -> str:
		return f"{self.page}:{self.line}"

	@property
	def findings(self) -> dict[tuple[str, str], str]:
		"""What the validator is quoted with: messages by severity and code."""
		return {(match[1], match[2]): match[3] for line in self.quoted if (match := _FINDING.fullmatch(line))}

	@property
	def refusals(self) -> list[str]:
		return [line for line in self.quoted if line.strip() and not _FINDING.fullmatch(line)]


@dataclass(frozen=True)
class Row:
	"""A row of a table, its cells by the heading of their column."""

	line: int
	cells: Mapping[str, str] = field(hash=False)

	@property
	def subjects(self) -> list[str]:
		"""The code spans of the first cell, which the row is about."""
		return [text for _, text in _SPAN.findall(next(iter(self.cells.values()), ""))]


@dataclass(frozen=True)
class Page:
	name: str
	text: str

	@property
	def prose(self) -> str:
		text = re.sub(r"\A---\n.*?^---$", _emptied, self.text, flags=re.MULTILINE | re.DOTALL)
		return _FENCE.sub(_emptied, text)

	@property
	def fences(self) -> list[Fence]:
		return list(self._fences())

	def _fences(self) -> Iterator[Fence]:
		found = list(_FENCE.finditer(self.text))
		for match, following in zip(found, [*found[1:], None], strict=False):
			language, *words = match[3].split() or [""]
			close = following and following[3] == "text" and not self.text[match.end() : following.start()].strip()
			quoted = tuple(following[4].splitlines()) if following and close else ()
			yield Fence(self.name, line_of(self.text, match.start()), language, tuple(words), match[4], quoted)

	@property
	def files(self) -> dict[str, str]:
		return {fence.name: fence.text for fence in self.fences if fence.name}

	@property
	def spans(self) -> list[tuple[int, str, str]]:
		"""Every code span of the prose: its line, its text, and what follows it up to the end of the line."""
		prose = self.prose
		return [
			(line_of(prose, match.start()), match[2].strip(), prose[match.end() :].partition("\n")[0])
			for match in _SPAN.finditer(prose)
		]

	@property
	def rows(self) -> Iterator[Row]:
		heading: list[str] = []
		lines = self.prose.splitlines()
		for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
			if not line.startswith("|"):
				heading = []
			elif _SEPARATOR.match(following):
				heading = cells(line)
			elif heading and not _SEPARATOR.match(line):
				yield Row(number, dict(zip(heading, cells(line), strict=True)))

	@property
	def links(self) -> list[str]:
		return _LINK.findall(self.prose)

	@property
	def anchors(self) -> set[str]:
		return {anchor(title) for _, title in _HEADING.findall(self.prose)}


def line_of(text: str, offset: int) -> int:
	return text.count("\n", 0, offset) + 1


def _emptied(match: re.Match[str]) -> str:
	return "\n" * match[0].count("\n")


def cells(line: str) -> list[str]:
	"""The cells of a line of a table; a bar inside a code span is written with a backslash."""
	return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def anchor(title: str) -> str:
	kept = re.sub(r"[^\w\- ]", "", re.sub(r"`", "", title).lower())
	return kept.strip().replace(" ", "-")


@cache
def read(name: str) -> Page:
	return Page(name, (ROOT / name).read_text(encoding="utf-8"))


def pages() -> list[Page]:
	return [read(name) for name in HAND_WRITTEN if (ROOT / name).is_file()]


def matches(quoted: str, text: str) -> bool:
	"""Whether a quoted message is a text, or a part of it; `…` stands for anything."""
	pattern = ".*?".join(re.escape(" ".join(part.split())) for part in quoted.split("…"))
	return re.search(pattern, " ".join(text.split()), re.DOTALL) is not None
