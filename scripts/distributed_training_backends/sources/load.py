"""From a decoded text to a document: choose the kind, and the reader that the kind's own consumer uses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..model import Extent, Kind
from .detect import detect, imports_ours, named_like_python
from .document import Defect, Document, Syntax
from .limits import LimitError, Unreadable
from .reading import Raw

if TYPE_CHECKING:
	from .fragment import Block

# A launcher as a word of its own, in a text that is no config itself. A start compiles no pattern that it does not need
LAUNCHES = (
	r"(?:^|[\s;&|(\"'/!])(?:accelerate[ \t]+launch|accelerate-launch|torchrun|deepspeed)[ \t\\]"
	r"|-m[ \t]+(?:accelerate\.commands|torch\.distributed|deepspeed\.launcher)\."
)
SCRIPTS = (".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".pbs", ".lsf", ".job", ".env")
PAGES = (".md", ".mdx", ".rst", ".txt")
# Accelerate, the Trainer and DeepSpeed read these with a JSON reader, whatever the file is called
JSON_ONLY: tuple[Kind, ...] = ("deepspeed", "fsdp")
# kinds of a block that cannot be parsed: others have keys that code has, too
TOLD_BY_SIGHT: tuple[Kind, ...] = ("accelerate", "deepspeed")
# entries of other programs' files, a model's config.json among them, that are a config of ours
WRAPPED: Mapping[str, Kind] = {"quantization_config": "quantization", "fsdp_config": "fsdp"}


def load(raw: Raw, kind: Kind | None) -> Document | Unreadable:
	"""Read a text as a kind, or as the kind that it looks like; of a page with several blocks the first one."""
	return load_all(raw, kind)[0]


def load_all(raw: Raw, kind: Kind | None) -> Sequence[Document | Unreadable]:
	"""Read a text as a kind, or as the kind that it looks like: one document, or one for each block of a page."""
	if kind in ("launch", "environment") or (kind is None and is_script(raw)):
		scripted = _shell(raw, kind)
		if scripted or kind:
			return scripted or [Unreadable(raw.path, "unknown-kind", "it holds no launch command and no variable")]
	try:
		whole = _read_as(raw, kind)
		documents = [whole] if whole and isinstance(whole.data, dict) else _blocks(raw, kind, whole)
	except LimitError as limit:
		return [limit.of(raw.path)]
	if kind is None and not (whole and isinstance(whole.data, dict)):
		documents += _beside(raw)
	if not documents:
		what = "does not look like any kind of config that is known here" if raw.text.strip() else "is empty"
		return [Unreadable(raw.path, "unknown-kind", f"it {what}; --format says which kind it is")]
	return [*(_finish(document, raw) for document in documents), *_left_out(raw, documents[-1])]


def is_script(raw: Raw) -> bool:
	"""Tell a shell script, or a file of variables, by its name or its first line."""
	name = raw.path.replace("\\", "/").rsplit("/", 1)[-1]
	if name.endswith(SCRIPTS) or name == ".env" or name.startswith(".env."):
		return True
	return raw.text.startswith("#!") and re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", raw.text) is not None


def _shell(raw: Raw, kind: Kind | None) -> list[Document | Unreadable]:
	from .command import launch_documents, looks_like_environment, parse_environment

	commands = launch_documents(raw.path, raw.text)
	if kind == "environment" or (not kind and not commands and looks_like_environment(raw.text)):
		return [parse_environment(raw.path, raw.text)]
	if kind == "launch":
		return [*commands]
	try:
		return [*_here_documents(raw), *commands]
	except LimitError as limit:
		return [*commands, limit.of(raw.path)]


def _here_documents(raw: Raw) -> Iterator[Document]:
	from .fragment import blocks

	for block in blocks(raw.text):
		if (document := _block(raw, None, block)) is not None:
			yield document


def _beside(raw: Raw) -> list[Document]:
	"""The launch commands of a page or a pasted text, or the variables, or the config that `accelerate env` prints."""
	if raw.path.endswith((".py", ".ipynb", ".json")):
		return []
	if re.search(LAUNCHES, raw.text):
		from .command import launch_documents

		return launch_documents(raw.path, raw.text)
	if not re.search(r"^[ \t]*(?:export[ \t]+)?[A-Z][A-Z0-9_]*=|^- `Accelerate`", raw.text, re.MULTILINE):
		return []
	from .command import looks_like_environment, parse_environment, printed_config

	if looks_like_environment(raw.text):
		return [parse_environment(raw.path, raw.text)]
	printed = printed_config(raw.text)
	return [read(raw.path, printed[0], "accelerate", "yaml").within(raw.text, printed[1])] if printed else []


def _left_out(raw: Raw, last: Document) -> Iterator[Unreadable]:
	if last.begin:
		from .fragment import MAX_BLOCKS, has_more

		if has_more(raw.text):
			said = f"it has more than {MAX_BLOCKS} blocks; the others are not judged"
			yield Unreadable(raw.path, "too-many-blocks", said)


def _read_as(raw: Raw, kind: Kind | None) -> Document | None:
	return read(raw.path, raw.text, kind, syntax_of(raw, kind)) if kind else _read_unknown(raw)


def _blocks(raw: Raw, kind: Kind | None, whole: Document | None) -> list[Document]:
	"""Read the blocks of a larger text that are configs, or else the whole; a file is refused as a whole, too."""
	from .fragment import blocks

	parts = [*blocks(raw.text)]
	found = [document for block in parts if (document := _block(raw, kind, block))]
	if not found:
		return [whole] if whole and not any(block.fenced or block.live for block in parts) else []
	if raw.path.endswith(PAGES):
		return found
	first = found[0]
	if not is_a_file(raw.path) or first.kind == "python":
		return found
	if whole is None or whole.kind != first.kind:
		whole = read(raw.path, raw.text, first.kind, first.syntax)
	refusals = [one for one in whole.defects if one.name == "syntax-error"]
	return [first.with_defects(*refusals), *found[1:]]


def _block(raw: Raw, kind: Kind | None, block: "Block") -> Document | None:
	from .fragment import is_excerpt

	start, end = block.extent
	text = raw.text[start:end]
	if block.live or block.tabs:
		from .filled import as_written

		document = as_written(text, block, lambda plain: _read_as(raw._replace(text=plain), kind))
	else:
		document = _read_as(raw._replace(text=text), kind)
	if document is None or (document.parsed and not isinstance(document.data, dict)):
		return None
	if kind is not None and not document.parsed:
		return None  # the kind is said of one of the blocks only
	begin = start + len(text) - len(text.lstrip())
	fragment = Defect("fragment", Extent(begin, begin), "a block inside a larger text")
	if document.kind != "python" and block.fenced:
		if is_excerpt(text, document.kind in JSON_ONLY) or not (document.parsed or document.kind in TOLD_BY_SIGHT):
			return None
		if raw.path.endswith(PAGES):
			fragment = fragment._replace(name="page")
	return document.within(raw.text, start).with_defects(fragment)


def is_a_file(path: str) -> bool:
	return path != "-" and not path.startswith("<")


def read(path: str, text: str, kind: Kind, syntax: Syntax) -> Document:
	"""Read a text with one of the readers. Raises `LimitError`."""
	# imported here, because most runs need one of them, and a JSON file can be judged where PyYAML is missing
	if kind == "python":
		from .python_source import parse_python

		return parse_python(path, text)
	if syntax == "json":
		from .json_source import parse_json

		return parse_json(path, text, kind)
	from .yaml_source import parse_yaml

	return parse_yaml(path, text, kind)


def _read_unknown(raw: Raw) -> Document | None:
	if imports_ours(raw.text) and (script := _script(raw)):
		return script
	syntax: Syntax = "json" if raw.text.lstrip().startswith("{") else syntax_of(raw, "accelerate")
	document = read(raw.path, raw.text, "deepspeed" if syntax == "json" else "accelerate", syntax)
	kind = detect(document.data if document.parsed else None, raw.text, raw.path)
	if kind is None:
		return _wrapped(document.with_defects(newline=raw.newline, bom=raw.bom))
	if kind == document.kind and syntax == syntax_of(raw, kind):
		return document
	return read(raw.path, raw.text, kind, syntax_of(raw, kind))


def _wrapped(document: Document) -> Document | None:
	for name, kind in WRAPPED.items():
		inner = document.get(name)
		readable = document.syntax == "json" or kind not in JSON_ONLY
		if readable and isinstance(inner, dict) and detect(inner, "", document.path) == kind:
			return document.part(name, kind=kind)
	return None


def _script(raw: Raw) -> Document | None:
	try:
		return read(raw.path, raw.text, "python", "python")
	except LimitError:
		if is_a_file(raw.path) and named_like_python(raw.path):
			raise
		return None


def syntax_of(raw: Raw, kind: Kind) -> Syntax:
	if kind == "python":
		return "python"
	if kind in JSON_ONLY or raw.path.endswith(".json"):
		return "json"
	return "json" if not is_a_file(raw.path) and raw.text.lstrip().startswith(("{", "[")) else "yaml"


def _finish(document: Document, raw: Raw) -> Document:
	"""Add what the decoding has seen. A mark at the start is nothing to YAML and Hjson, and too much for `json`."""
	other = [Defect("other-encoding", Extent(0, 0))] if raw.other else []
	document = document.with_defects(*other, newline=raw.newline, bom=raw.bom)
	if not raw.bom:
		return document
	mark = Defect("byte-order-mark", Extent(0, 0))
	if document.syntax in ("yaml", "python") or not document.parsed:
		return document.with_defects(mark)
	refusal = Defect("not-strict-json", Extent(0, 0), "Unexpected UTF-8 BOM (decode using utf-8-sig)")
	if document.kind == "deepspeed":
		return document.with_defects(mark, refusal)
	return document.with_defects(refusal._replace(name="syntax-error"), mark, data=None, nodes={}, parsed=False)
