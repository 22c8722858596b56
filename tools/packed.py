"""Tables extracted from releases, signatures of failures and large cases of tests: text, kept packed as NAME.gz.

    gzip -cd scripts/distributed_training_backends/data/deepspeed.json.gz
    python tools/packed.py signatures.json < edited.json
    python tools/packed.py tests/cases/liveness.yaml < edited.yaml

The first line shows one, the second packs a table that was edited, the third any other file. What counts is the text:
another zlib may pack it into other bytes, so files are compared unpacked, and one that says the same is not written.
"""

import contextlib
import importlib
import json
import sys
import zlib
from pathlib import Path

from extraction import dump

DATA = Path(__file__).parent.parent / "scripts/distributed_training_backends/data"
GZIP = 31  # for zlib: a header of gzip, which then holds neither a name nor a time


def text_of(name: str) -> str:
	"""The text of a table: "deepspeed.json"."""
	return unpacked(_path(name))


def unpacked(path: Path) -> str:
	return zlib.decompress(path.read_bytes(), GZIP).decode("utf-8")


def save(name: str, text: str) -> str:
	"""Write a table; say how large it is."""
	return pack(_path(name), text)


def pack(path: Path, text: str) -> str:
	"""Write any packed file; say how large it is."""
	plain = text.encode("utf-8")
	if not path.is_file() or unpacked(path) != text:
		path.write_bytes(squeezed(plain))
	return f"{path.name.removesuffix('.gz')}: {len(plain)} bytes, packed {path.stat().st_size}"


def squeezed(plain: bytes) -> bytes:
	"""Packed bytes: a twentieth less with `pip install zopfli`, and else by zlib."""
	with contextlib.suppress(ImportError):
		return bytes(importlib.import_module("zopfli.gzip").compress(plain))
	packer = zlib.compressobj(9, zlib.DEFLATED, GZIP)
	return packer.compress(plain) + packer.flush()


def _path(name: str) -> Path:
	return DATA / f"{name}.gz"


def main() -> None:
	"""Pack standard input as the table of that name or the file of that path; a table has a fact on each line."""
	name = sys.argv[1]
	if "/" in name:
		print(pack(Path(f"{name}.gz"), sys.stdin.read()))
	else:
		print(save(name, dump(json.load(sys.stdin))))


if __name__ == "__main__":
	main()
