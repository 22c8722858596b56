"""The tables that are extracted from releases, and the signatures of failures: JSON text, kept packed as NAME.json.gz.

    gzip -cd scripts/distributed_training_backends/data/deepspeed.json.gz
    python tools/packed.py signatures.json < edited.json

The first line shows one, the second packs one that was edited. What counts is the text: another zlib may pack it into
other bytes, so files are compared unpacked, and one that says the same is not written anew.
"""

from __future__ import annotations

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
    """The text of any packed file."""
    return zlib.decompress(path.read_bytes(), GZIP).decode("utf-8")


def save(name: str, text: str) -> str:
    """Write a table; say how large it is."""
    plain = text.encode("utf-8")
    if not _path(name).is_file() or text_of(name) != text:
        packer = zlib.compressobj(9, zlib.DEFLATED, GZIP)
        _path(name).write_bytes(packer.compress(plain) + packer.flush())
    return f"{name}: {len(plain)} bytes, packed {_path(name).stat().st_size}"


def _path(name: str) -> Path:
    return DATA / f"{name}.gz"


def main() -> None:
    """Pack the table of that name from standard input, with a fact on each line."""
    print(save(sys.argv[1], dump(json.load(sys.stdin))))


if __name__ == "__main__":
    main()
