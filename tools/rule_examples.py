"""The examples of the rules, read from references/rules/*.md, which is the only place where they stand.

    ## FSD003
    …
    ### bad: what it shows
    ```yaml config.yaml --accelerate-version 1.15.0
    …
    ```
    ### good
    …

The first fence of an example is the file that is judged, with its name (one of NAMES where none stands) and the
options of the command line; further ones are companions; ␍ stands for a carriage return. `bad` raises the code,
`good` nothing above info, and both may have a title. That is what one writes; `tools/generate_rule_pages.py --write`
puts what is printed below a bad example. A good example that is the first one of a rule above it becomes "As in
FSD003.", which one may write as well.
"""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import project
from distributed_training_backends.rules.registry import FAMILIES

PAGES = project.PAGES / "rules"
OUTPUT = "text"
NAMES = {"yaml": "config.yaml", "json": "ds.json", "python": "train.py", "sh": "launch.sh"}  # where none stands
_PIECE = re.compile(r"^(?:```(?P<info>.*)\n(?P<text>(?s:.*?))^```|(?P<marks>#{2,3}) (?P<heading>.*))$", re.MULTILINE)
_AS_IN = re.compile(r"\s*As in \[?(\w+)(?:\]\(#\w+\))?\.\s*")
_VERDICT = re.compile(r"(bad|good)(?:: (.*))?")


class CaseError(ValueError):
	"""An example that is not written as described above."""


@dataclass(frozen=True)
class Example:
	"""One example: its files by name, the one to judge first, and the options of the command line.

	`same_as` is the rule whose first good example has them, until they are read from there.
	"""

	code: str
	verdict: Literal["bad", "good"]
	title: str
	options: tuple[str, ...]
	files: tuple[tuple[str, str], ...]
	same_as: str = ""

	@property
	def command(self) -> list[str]:
		return [self.files[0][0], *self.options]


def language(name: str) -> str:
	names = {"json": "json", "py": "python", "ipynb": "json", "sh": "sh", "env": "sh"}
	return names.get(name.rpartition(".")[2], "yaml")


def page_of(code: str) -> Path:
	return PAGES / f"{FAMILIES[code[:3]][0]}.md"


def all_cases() -> dict[str, list[Example]]:
	pages = [parse(page_of(family).read_text(encoding="utf-8")) for family in FAMILIES]
	return {code: examples for page in pages for code, examples in sorted(page.items())}


def parse(text: str) -> dict[str, list[Example]]:
	found: dict[str, list[Example]] = {}
	code = ""
	headings = [piece for piece in _PIECE.finditer(text) if piece["marks"]]
	ends = [*(heading.start() for heading in headings[1:]), len(text)]
	for heading, end in zip(headings, ends, strict=False):
		if heading["marks"] == "###" and not code:
			raise CaseError(f'"{heading["heading"]}" stands in no section of a rule')
		if heading["marks"] == "##":
			code = heading["heading"]
			if code in found:
				raise CaseError(f"{code} has two sections")
			found[code] = []
		else:
			found[code].append(_example(code, heading["heading"], text[heading.end() : end]))
	return {code: [_complete(example, found) for example in examples] for code, examples in found.items()}


def _complete(example: Example, found: dict[str, list[Example]]) -> Example:
	if not example.same_as:
		return example
	for other in found.get(example.same_as, ()):
		if other.verdict == "good" and not other.same_as:
			return replace(example, options=other.options, files=other.files, same_as="")
	raise CaseError(f"{example.same_as}, which {example.code} refers to, has no good example of its own on this page")


def _example(code: str, heading: str, body: str) -> Example:
	if shared := _AS_IN.fullmatch(body):
		return Example(code, *_verdict(code, heading), (), (), shared[1])
	fences = [(shlex.split(piece["info"]), piece["text"]) for piece in _PIECE.finditer(body)]
	files = [(words, content) for words, content in fences if words != [OUTPUT]]
	where = f'the example "{heading}" of {code}'
	if not files or any(not words or words[0] not in NAMES for words, _ in files):
		raise CaseError(f"{where} has no file: ```yaml config.yaml")
	for words, _ in files:
		if len(words) < 2 or words[1].startswith("--"):
			words.insert(1, NAMES[words[0]])
	if _PIECE.sub("", body).strip():
		raise CaseError(f"{where} holds more than a heading and fences")
	verdict, title = _verdict(code, heading)
	return Example(code, verdict, title, tuple(files[0][0][2:]), tuple((words[1], text) for words, text in files))


def _verdict(code: str, heading: str) -> tuple[Literal["bad", "good"], str]:
	written = _VERDICT.fullmatch(heading)
	if not written:
		raise CaseError(f'an example of {code} is called "{heading}"; write "### bad: …" or "### good: …"')
	return "bad" if written[1] == "bad" else "good", written[2] or ""
