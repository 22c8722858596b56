"""What belongs together among the documents of one call: the files that others name, and the config of a command.

A command that names no `--config_file` takes the default one; where one config and one command are given, that is it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os.path import basename, dirname, join, normpath
from typing import Any

from .model import Kind
from .sources.document import OPEN, Document, OpenValueError
from .sources.limits import Unreadable
from .sources.load import load
from .sources.reading import Raw
from .validate import Unit

NAMES_DEEPSPEED: Mapping[Kind, tuple[str, ...]] = {
	"accelerate": ("deepspeed_config", "deepspeed_config_file"),
	"trainer": ("deepspeed",),
}
Reader = Callable[[str], "Raw | Unreadable | None"]
Decode = Callable[[str, str], "Raw | Unreadable"]


class Links:
	"""Follows references. `unread` are files that are named and cannot be read."""

	def __init__(self, documents: Sequence[Document], read: Reader, decode: Decode) -> None:
		self.documents, self.read, self.decode = documents, read, decode
		self.by_path = {normpath(one.path): one for one in documents if one.kind not in ("launch", "environment")}
		self.unread: list[Unreadable] = []
		self.linked: set[int] = set()

	def units(self) -> Iterator[Unit]:
		made = [unit for document in self.documents for unit in self._units_of(document)]
		for unit in made:
			inner = unit.command is None and id(unit.document) in self.linked
			yield unit._replace(alone=not inner)

	def _units_of(self, document: Document) -> Iterator[Unit]:
		if document.kind != "launch" or document.get("launcher") != "accelerate":
			yield Unit(document, self.companion(document))
			return
		config, named = self.config(document)
		if config is None:
			yield Unit(document, self.companion(document), config_file=named)
			return
		self.linked |= {id(document), id(config)}
		yield Unit(document)
		yield Unit(config, self.companion(document) or self.companion(config), command=document, config_file=named)

	def companion(self, document: Document) -> Document | None:
		found = self._file(document, named_file(document))
		if isinstance(found, Unreadable):
			self.unread.append(found)
			return None
		if found is not None:
			self.linked.add(id(found))
		return found

	def of_scripts(self) -> list[Document]:
		"""The DeepSpeed files that scripts name."""
		found = [self._file(one, name) for one in self.documents for name in files_named(one)]
		return [one for one in found if isinstance(one, Document)]

	def _file(self, document: Document, name: str | None) -> Document | Unreadable | None:
		"""Follow a DeepSpeed file's name: among those given, then from the working directory, then from the namer."""
		for candidate in (name, join(dirname(document.path), name)) if name is not None else ():
			known = self.by_path.get(normpath(candidate))
			if known is not None and known.kind == "deepspeed":
				return known
			# whatever a file looks like, DeepSpeed's reader takes the one that is named
			raw = self.decode(known.path, known.text) if known is not None else self.read(candidate)
			if raw is not None:
				return raw if isinstance(raw, Unreadable) else load(raw, "deepspeed")
		return None

	def config(self, command: Document) -> tuple[Document | None, Any]:
		"""The config that a command reads, and how it names it: a name, OPEN, or None."""
		configs = [one for one in self.documents if one.kind == "accelerate"]
		only = configs[0] if len(configs) == 1 else None
		named = option(command, "config_file")
		if named is OPEN:
			return only, OPEN
		if named is None:
			commands = sum(one.kind == "launch" for one in self.documents)
			return (only if commands == 1 and option(command, "cpu") is None else None), None
		for candidate in (named, join(dirname(command.path), named)):
			if (known := self.by_path.get(normpath(candidate))) is not None:
				return (known if known.kind == "accelerate" else None), named
			raw = self.read(candidate)
			found = load(raw, None) if isinstance(raw, Raw) else None
			if isinstance(found, Document) and found.kind == "accelerate":
				self.by_path[normpath(candidate)] = found
				return found, named
		same = [one for one in configs if basename(one.path) == basename(named)]
		pasted = only is not None and (only.path.startswith("<") or only.path in (command.path, "-"))
		return (same[0] if len(same) == 1 else only if pasted else None), named


def named_file(document: Document) -> str | None:
	"""The DeepSpeed file that an Accelerate config names, a command, or a file of TrainingArguments."""
	if document.kind == "launch":
		name = option(document, "deepspeed_config_file") if document.get("launcher") == "accelerate" else None
	else:
		pointer = NAMES_DEEPSPEED.get(document.kind)
		try:
			name = document.get(*pointer) if pointer else None
		except OpenValueError:  # the shell fills it in
			return None
	return name if isinstance(name, str) else None


def files_named(script: Document) -> Iterator[str]:
	"""The DeepSpeed files that the calls of a script name."""
	for call in script.get("calls") or () if script.kind == "python" else ():
		named = map(call["arguments"].get, ("deepspeed", "hf_ds_config"))
		yield from (name for name in named if type(name) is str and not name.lstrip().startswith("{"))


def option(command: Document, name: str) -> Any:
	"""What a command sets an option of the launcher to, by sight; None without it."""
	tokens = command.data["tokens"]
	spellings = (f"--{name}", f"--{name.replace('_', '-')}")
	for index, token in enumerate(tokens):
		if not isinstance(token, str):
			continue
		flag, mark, value = token.partition("=")
		if flag in spellings:
			return value if mark else tokens[index + 1] if index + 1 < len(tokens) else None
		if token.endswith(".py"):
			break
	return None
