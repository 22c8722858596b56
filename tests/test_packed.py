"""The packed tables: what is written is what is read, in bytes that do not depend on when and where."""

import gzip
import json
from pathlib import Path

import pytest

import packed
from distributed_training_backends import resources
from extraction import dump

PACKED = sorted(path.name.removesuffix(".gz") for path in packed.DATA.glob("*.gz"))


@pytest.mark.parametrize("name", PACKED)
def test_a_table_stands_in_one_place_in_the_form_that_write_gives_it(name: str) -> None:
	text = packed.text_of(name)
	assert json.loads(text) == resources.load_json(name)
	assert text == dump(json.loads(text))
	assert not (packed.DATA / name).exists()


def test_what_is_saved_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(packed, "DATA", tmp_path)
	text = '{"a":"ä\\r\\n"}\n'
	assert packed.save("a.json", text).startswith("a.json: 15 bytes, packed ")
	assert packed.text_of("a.json") == text
	assert resources.read(str(tmp_path / "a.json")) == text.encode()
	data = (tmp_path / "a.json.gz").read_bytes()
	assert gzip.decompress(data) == text.encode()
	assert data[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # no name and no time


def test_a_table_that_says_the_same_is_not_packed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(packed, "DATA", tmp_path)
	by_another = gzip.compress(b"{}\n" * 100, 1)
	(tmp_path / "a.json.gz").write_bytes(by_another)
	packed.save("a.json", "{}\n" * 100)
	assert (tmp_path / "a.json.gz").read_bytes() == by_another
	packed.save("a.json", "{}\n")
	assert packed.text_of("a.json") == "{}\n"


def test_a_plain_file_is_read_before_a_packed_one(tmp_path: Path) -> None:
	(tmp_path / "a.json").write_text("plain")
	(tmp_path / "a.json.gz").write_bytes(gzip.compress(b"packed"))
	assert resources.read(str(tmp_path / "a.json")) == b"plain"
	with pytest.raises(FileNotFoundError, match=r"b\.json"):
		resources.read(str(tmp_path / "b.json"))
