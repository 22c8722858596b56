"""The packed tables: what is written is what is read, in bytes that do not depend on when and where."""

import gzip
import json
from pathlib import Path

import pytest

import packed
from distributed_training_backends import resources

PACKED = sorted(path.name.removesuffix(".gz") for path in packed.DATA.glob("*.gz"))


@pytest.mark.parametrize("name", PACKED)
def test_a_table_stands_in_one_place_in_the_form_that_write_gives_it(name: str) -> None:
	text = packed.text_of(name)
	assert json.loads(text) == resources.load_json(name)
	assert not (packed.DATA / name).exists()
	assert packed.unpacked(path := packed.DATA / f"{name}.gz") == packed.stored(path, text)


def test_what_is_saved_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(packed, "DATA", tmp_path)
	text = '{\n "a":"ä\\r\\n"\n}\n'
	plain = '{"a":"ä\\r\\n"}'.encode()
	assert (
		packed.save("a.json", text) == f"a.json: {len(plain)} bytes, packed {(tmp_path / 'a.json.gz').stat().st_size}"
	)
	assert packed.text_of("a.json") == text
	assert resources.read(str(tmp_path / "a.json")) == plain
	data = (tmp_path / "a.json.gz").read_bytes()
	assert gzip.decompress(data) == plain
	assert data[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # no name and no time


def test_a_table_by_column_has_the_same_rows(tmp_path: Path) -> None:
	more = [{"b": 0, "a": [1]}, {}, {"a": ""}]
	content = {"repaired": {"r": [1, [2]]}, "signatures": {f"s{n}": ["t", one] for n, one in enumerate(more)}, "x": 1}
	path = tmp_path / "signatures.json.gz"
	packed.pack(path, json.dumps(content))
	stored = json.loads(packed.unpacked(path))
	assert stored["signatures"][2] == {"a": [[1], None, ""], "b": [0, None, None]}
	assert resources.by_row(stored) == content


def test_a_table_that_says_the_same_is_not_packed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(packed, "DATA", tmp_path)
	text = json.dumps(["a"] * 100)
	by_another = gzip.compress(text.replace(" ", "").encode(), 1)
	(tmp_path / "a.json.gz").write_bytes(by_another)
	packed.save("a.json", text)
	assert (tmp_path / "a.json.gz").read_bytes() == by_another
	packed.save("a.json", '{"a": 1}')
	assert packed.text_of("a.json") == '{\n "a":1\n}\n'


def test_a_plain_file_is_read_before_a_packed_one(tmp_path: Path) -> None:
	(tmp_path / "a.json").write_text("plain")
	(tmp_path / "a.json.gz").write_bytes(gzip.compress(b"packed"))
	assert resources.read(str(tmp_path / "a.json")) == b"plain"
	with pytest.raises(FileNotFoundError, match=r"b\.json"):
		resources.read(str(tmp_path / "b.json"))
