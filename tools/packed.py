"""Tables extracted from releases, signatures of failures and large cases of tests: text, kept packed as NAME.gz.

    python tools/packed.py show signatures.json > edited.json
    python tools/packed.py signatures.json < edited.json
    python tools/packed.py tests/cases/liveness.yaml < edited.yaml

The first line shows a table, one fact on each line, the second packs what was edited, the third any other file.
A table is packed without white space, and some by column, so that like stands by like. What counts is the content:
another zlib may pack it into other bytes, so files are compared unpacked, and one that says the same is not written.
"""

import contextlib
import importlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import project
from distributed_training_backends.resources import BY_COLUMN, by_row
from extraction import compact, dump

DATA = project.ROOT / "scripts/distributed_training_backends/data"
GZIP = 31  # for zlib: a header of gzip, which then holds neither a name nor a time
PARTS_BY_COLUMN = {"signatures.json.gz": ("signatures", "repaired")}


def text_of(name: str) -> str:
	"""The text of a table, "deepspeed.json", or of another file as one edits it."""
	plain = unpacked(_path(name))
	return dump(by_row(json.loads(plain))) if name.endswith(".json") and plain.startswith("{") else plain


def unpacked(path: Path) -> str:
	return zlib.decompress(path.read_bytes(), GZIP).decode("utf-8")


def save(name: str, text: str) -> str:
	return pack(_path(name), text)


def pack(path: Path, text: str) -> str:
	plain = stored(path, text)
	if not path.is_file() or unpacked(path) != plain:
		path.write_bytes(squeezed(plain.encode("utf-8")))
	return f"{path.name.removesuffix('.gz')}: {len(plain.encode())} bytes, packed {path.stat().st_size}"


def stored(path: Path, text: str) -> str:
	"""What is packed: of a table its content without white space, of another file its text."""
	if path.suffixes[-2:] != [".json", ".gz"]:
		return text
	content = json.loads(text)
	parts = PARTS_BY_COLUMN.get(path.name, ())
	columns: dict[str, Any] = {part: _columns(content[part]) for part in parts}
	return compact({**content, **columns, BY_COLUMN: parts} if parts else content)


def _columns(rows: dict[str, list[Any]]) -> list[Any]:
	"""The names of rows and their columns; what only some rows have is a column as well, null where it is missing."""
	columns: list[Any] = [list(rows), *(list(column) for column in zip(*rows.values(), strict=True))]
	if isinstance(columns[-1][0], dict):
		names = sorted({name for some in columns[-1] for name in some})
		columns[-1] = {name: [some.get(name) for some in columns[-1]] for name in names}
	return columns


def squeezed(plain: bytes) -> bytes:
	"""Packed bytes: a twentieth less with `pip install zopfli`, and else by zlib."""
	with contextlib.suppress(ImportError):
		return bytes(importlib.import_module("zopfli.gzip").compress(plain))
	packer = zlib.compressobj(9, zlib.DEFLATED, GZIP)
	return packer.compress(plain) + packer.flush()


def _path(name: str) -> Path:
	return Path(f"{name}.gz") if "/" in name else DATA / f"{name}.gz"


def main() -> None:
	"""Show a table, or pack standard input as the table of that name or the file of that path."""
	if sys.argv[1] == "show":
		print(text_of(sys.argv[2].removesuffix(".gz")), end="")
	else:
		print(save(sys.argv[1], sys.stdin.read()))


if __name__ == "__main__":
	main()
