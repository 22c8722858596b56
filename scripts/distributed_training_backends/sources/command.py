"""Launch commands in a text, and environment variables, as documents made of words that stand somewhere in it.

Which commands of a shell script, or of the blocks of a page, start a training; variables are lines `NAME=value` or
`export NAME=value`, or the config that `accelerate env` prints.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..model import Extent, Pointer
from ..resources import load_json
from .document import OPEN, Defect, Document, Node
from .fragment import MAX_BLOCKS, fences
from .shell import HOLE, ITEM, Text, Token
from .shell_script import Command, Script, Variable

LINE = re.compile(r"[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*=[^\r\n]*|[ \t]*(?:#[^\r\n]*)?")
PRINTED = re.compile(
	r"^- `Accelerate` (?:default config|config passed):[ \t]*\r?\n((?:[ \t]+- [^\r\n]*(?:\r?\n|\Z))+)", re.MULTILINE
)
MAX_SEEN = 500  # lines that are looked at to tell the kind


class Word(NamedTuple):
	"""A word of a command: its text, or OPEN where the shell has yet to fill it in; and where it stands."""

	text: Any
	extent: Extent


def launch_document(
	path: str,
	text: str,
	launcher: Word,
	words: Sequence[Word],
	environment: Mapping[str, tuple[Word, Word]],
	prefix: Sequence[str] = (),
	scheduler: Mapping[str, tuple[Word, Word]] | None = None,
) -> Document:
	"""Give a command as a document; `environment` maps each variable to the words of its name and its value.

	`prefix` are the words before the launcher, `scheduler` the options of the job that the script is.
	"""
	tables = {"environment": environment, "scheduler": scheduler or {}}
	data = {
		"launcher": launcher.text,
		"tokens": [word.text for word in words],
		"prefix": list(prefix),
		**{key: {name: value.text for name, (_, value) in table.items()} for key, table in tables.items()},
	}
	end = max((word.extent.end for word in words), default=launcher.extent.end)
	nodes: dict[Pointer, Node] = {
		(): Node(None, Extent(launcher.extent.start, end)),
		("launcher",): Node(None, launcher.extent),
	}
	nodes |= {("tokens", index): Node(None, word.extent) for index, word in enumerate(words)}
	for index, word in enumerate(words):
		raw = text[word.extent.start : word.extent.end]
		if raw == word.text and raw.startswith("--") and "=" in raw:
			middle = word.extent.start + raw.index("=")
			nodes["tokens", index] = Node(Extent(word.extent.start, middle), word.extent)
			nodes["tokens", index, "value"] = Node(None, Extent(middle + 1, word.extent.end))
	for title, table in tables.items():
		nodes |= {(title, name): Node(key.extent, value.extent) for name, (key, value) in table.items()}
	document = Document(path, "launch", "shell", text, data, nodes)
	document.begin = launcher.extent.start
	return document


def looks_like_environment(text: str) -> bool:
	"""Tell whether a text holds nothing but assignments and comments, at least one of a variable in capitals."""
	lines = text.split("\n", MAX_SEEN)[:MAX_SEEN]
	assigns = re.search(r"^[ \t]*(?:export[ \t]+)?[A-Z][A-Z0-9_]*=", text[:100_000], re.MULTILINE)
	return assigns is not None and all(LINE.fullmatch(line.rstrip("\r")) for line in lines)


def parse_environment(path: str, text: str) -> Document:
	"""Read the variables; the last assignment of one counts."""
	script = Script(Text(text, range(len(text))))
	for _ in script.commands():
		pass
	found = {name: value for name, value in script.scopes[0].names.items() if value is not None}
	return environment_document(path, text, found)


def environment_document(path: str, text: str, found: dict[str, Variable]) -> Document:
	words = {
		name: Word(OPEN if HOLE in value.value.chars else value.value.chars, value.place)
		for name, value in found.items()
	}
	nodes: dict[Pointer, Node] = {(): Node(None, Extent(0, len(text)))}
	nodes |= {(name,): Node(found[name].name, word.extent) for name, word in words.items()}
	return Document(path, "environment", "shell", text, {name: word.text for name, word in words.items()}, nodes)


def printed_config(text: str) -> tuple[str, int] | None:
	"""The config in what `accelerate env` prints, as YAML of the same length, and where it begins."""
	found = PRINTED.search(text)
	if found is None:
		return None
	lines = [
		re.sub(r"^[ \t]+- ", lambda mark: " " * len(mark.group()), line) for line in found.group(1).splitlines(True)
	]
	return re.sub(r"\bNone\b", "null", "".join(lines)), found.start(1)


NAMES = re.compile(r"accelerate|torchrun|deepspeed|torch\.distributed")
LAUNCHERS = load_json("launchers.json")
WRAPPERS = re.compile("|".join(LAUNCHERS["wrappers"]))
SHELLS = ("-c", "-lc", "-ic", "-ec", "-xc", "-exc", "-euxc", "-cx", "-ce")
SBATCH = re.compile(r"^#SBATCH[ \t]+(?:--([\w-]+)|-([NncG]))(?:[ \t]*=?[ \t]*)([^\s#]*)", re.MULTILINE)
SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus"}
FLAWS = {"cut": "cut-by-comment", "unclosed": "unclosed-quote", "blank": "blank-after-continuation"}
PER_TASK = re.compile(r"(?:\$([{(])?|`)(SLURM_(?:PROC|NODE|LOCAL)ID|SLURMD_NODENAME|hostname)\b(?(1)[})]?|`?)")
OF_A_TASK = re.compile(r"--[\w-]*rank|--local[_-]addr")
Spots = frozenset[int]
Job = dict[str, tuple[Word, Word]]
INNER = 2000  # what a command line costs of the characters that variables may put into commands
MAX_OUTER = 50  # words around a command line that is handed to another shell
NO_WORD = Token("word", Text("-c", ()), Extent(0, 0))


class Found(NamedTuple):
	"""A launcher among the words of a command: its name, its own words, and where its arguments begin."""

	launcher: str
	first: int
	rest: int


def launch_documents(path: str, text: str) -> list[Document]:
	"""The launch commands of a script, or of the fenced blocks of a page, at most MAX_BLOCKS."""
	if not NAMES.search(text):
		return []
	scripted = is_script(path, text)
	stretches = [Extent(0, len(text))] if scripted else list(fences(text)) or [Extent(0, len(text))]
	found = list(islice(_documents(path, text, stretches), MAX_BLOCKS))
	for index, one in enumerate(found if scripted and not path.endswith(".cmd") else ()):
		if (end := carriage_return(text, one)) >= 0:
			found[index] = one.with_defects(Defect("crlf", Extent(text.rfind("\n", 0, end) + 1, end)))
			break
	return found


def carriage_return(text: str, one: Document) -> int:
	"""Where a CR ends a line of a command, or any line of a file all of whose lines end so; -1 without one."""
	behind = text.find("\n", one.nodes[()].value.end) + 1 or len(text)
	end = text.find("\r\n", one.begin, behind)
	return text.find("\r\n") if end < 0 and text.count("\r\n") == text.count("\n") else end


def is_script(path: str, text: str) -> bool:
	"""Tell a shell script by its suffix or its first line."""
	return bool(re.search(r"\.(?:sh|bash|zsh|slurm|sbatch|pbs|lsf|qsub|job|cmd)$", path) or text.startswith("#!"))


def _documents(path: str, text: str, stretches: Sequence[Extent]) -> Iterator[Document]:
	job = scheduler(text)
	for start, end in stretches:
		script = Script(Text(text[start:end], range(start, end)))
		for command in script.commands():
			for found, inside, outer, task in launches(command, script, ()):
				made = document_of(path, text, found, inside, outer, job)
				yield made.with_defects(*filled_once(text, inside.words, found, task, script))


def launches(
	command: Command, script: Script, outer: tuple[Token, ...], task: Spots | None = None
) -> Iterator[tuple[Found, Command, tuple[Token, ...], Spots | None]]:
	"""The launcher of a command, or those in a command line that it hands to another shell; with the words outside.

	`task` is where that stands which srun hands to a shell of each task.
	"""
	found = find(command.words)
	if found is not None:
		yield found, command, outer, task
	elif len(outer) <= MAX_OUTER:
		for index, text in command_lines(command.words):
			around = (*outer, *command.words[:index][:MAX_OUTER], NO_WORD)
			inner = script.inside(text)
			inner.expanded[0] += INNER
			if task is None and by_srun(command.words[:index]):
				task = frozenset(spot for char, spot in zip(*text, strict=False) if char != HOLE)
			for inside in inner.commands():
				own = {**command.own, **inside.own}
				yield from launches(inside._replace(own=own), inner, around, task)


def command_lines(words: Sequence[Token]) -> Iterator[tuple[int, Text]]:
	names = [word.text.chars for word in words]
	if names[0] == "eval":
		chars = " ".join(names[1:])
		spots = [spot for word in words[1:] for spot in (*word.text.spots, word.extent.end)]
		yield 1, Text(chars, spots[: len(chars)])
	for index, word in enumerate(words):
		shell = index > 0 and names[index - 1] in SHELLS
		if (shell or (names[0] in ("ssh", "pdsh", "clush", "tmux", "screen") and index > 1)) and NAMES.search(
			names[index]
		):
			yield index, word.text


def find(words: Sequence[Token]) -> Found | None:
	"""Find the launcher: the first word, or behind words that start another program."""
	names = [word.text.chars.lstrip("!") for word in words]
	for index, name in enumerate(names):
		if index and name in LAUNCHERS["speaking"]:
			return None
		if (found := launcher_at(names, index)) is not None:
			return found if index == 0 or leads(names[0]) else None
	return None


def leads(name: str) -> bool:
	return HOLE in name or WRAPPERS.fullmatch(_base(name)) is not None


def launcher_at(names: Sequence[str], index: int) -> Found | None:
	base, following = _base(names[index]), names[index + 1] if index + 1 < len(names) else ""
	if base == "accelerate" and following == "launch":
		return Found("accelerate", index, index + 2)
	modules = LAUNCHERS["modules"]
	if names[index] == "-m" and index and following in modules:
		return Found(modules[following], index, index + 2)
	if (
		names[index] == "-m"
		and following == "accelerate.commands.accelerate_cli"
		and names[index + 2 :][:1] == ["launch"]
	):
		return Found("accelerate", index, index + 3)
	named = LAUNCHERS["programs"].get(base)
	return Found(named, index, index + 1) if named and (base != "ds" or following.startswith("-")) else None


def _base(name: str) -> str:
	return name.rsplit("/", 1)[-1]


def document_of(path: str, text: str, found: Found, command: Command, outer: Sequence[Token], job: Job) -> Document:
	words, tokens = command.words, command.words[found.rest :]
	launcher = Extent(words[found.first].extent.start, words[found.rest - 1].extent.end)
	if launcher.end < launcher.start:
		launcher = words[found.first].extent
	environment = {**command.exported, **env_words(words[: found.first]), **command.own}
	document = launch_document(
		path,
		text,
		Word(found.launcher, launcher),
		[part for token in tokens for part in parts(token)],
		{name: words_of(variable) for name, variable in environment.items()},
		[text[word.extent.start : word.extent.end] for word in (*outer, *words[: found.first]) if word.text.spots],
		job,
	)
	flaws = [token for token in tokens if token.kind == "blank"] + ([command.flaw] if command.flaw else [])
	return document.with_defects(*(Defect(FLAWS[flaw.kind], flaw.extent) for flaw in flaws))


def by_srun(words: Sequence[Token]) -> bool:
	return any(_base(word.text.chars) == "srun" for word in words)


def filled_once(
	text: str, words: Sequence[Token], found: Found, task: Spots | None, script: Script
) -> Iterator[Defect]:
	"""Ranks that the shell fills in before srun starts the tasks, so that they are the same in each."""
	if task is None and not by_srun(words[: found.first]):
		return
	before = ""
	for word in words[found.rest :]:
		flag, mark, _ = word.text.chars.partition("=")
		for char, spot in zip(*word.text, strict=False) if OF_A_TASK.fullmatch(flag if mark else before) else ():
			named = PER_TASK.match(text, spot) if char == HOLE and spot not in (task or ()) else None
			if named and not script.sets[named[2]] and not any(named[2] in scope.names for scope in script.scopes):
				yield Defect("filled-once", Extent(*named.span()), named[0])
		before = flag


def parts(token: Token) -> Iterator[Word]:
	"""A word of the command; of `--name=$VALUE` the name is known, and comes apart from the value."""
	chars, extent = token.text.chars, token.extent
	if HOLE not in chars:
		yield Word(chars, extent)
		return
	name, mark, _ = chars.partition("=")
	if mark and name.startswith("--") and HOLE not in name:
		middle = min(extent.start + len(name), extent.end)
		yield Word(name, Extent(extent.start, middle))
		yield Word(OPEN, Extent(min(middle + 1, extent.end), extent.end))
	else:
		yield Word(OPEN, extent)


def words_of(variable: Variable) -> tuple[Word, Word]:
	value = variable.value.chars
	return Word("", variable.name), Word(OPEN if HOLE in value or ITEM in value else value, variable.place)


def env_words(words: Sequence[Token]) -> dict[str, Variable]:
	made: dict[str, Variable] = {}
	for word in words:
		name, mark, value = word.text.chars.partition("=")
		if mark and re.fullmatch(r"[A-Za-z_]\w*", name):
			start = word.extent.start
			spots = word.text.spots[len(name) + 1 :]
			place = Extent(min(start + len(name) + 1, word.extent.end), word.extent.end)
			made[name] = Variable(Text(value, spots), Extent(start, start + len(name)), place)
	return made


def scheduler(text: str) -> Job:
	made: Job = {}
	for found in islice(SBATCH.finditer(text), MAX_BLOCKS):
		name = found.group(1) or SHORT[found.group(2)]
		made[name] = (
			Word(name, Extent(*found.span(1 if found.group(1) else 2))),
			Word(found.group(3), Extent(*found.span(3))),
		)
	return made
