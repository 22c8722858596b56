"""Bytes to text, the walk over a directory, and writing a file in the place of another."""

import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_training_backends import fix
from distributed_training_backends.model import Applicability, Edit, Fix
from distributed_training_backends.sources.limits import MAX_BYTES, Unreadable
from distributed_training_backends.sources.reading import Raw, decode, find_files, read_path


def refused(path: Path | str) -> Unreadable:
	answer = read_path(str(path))
	assert isinstance(answer, Unreadable), answer
	assert answer.path == str(path)
	assert answer.message
	return answer


def test_text_keeps_its_line_ends_and_loses_its_mark(tmp_path: Path) -> None:
	path = tmp_path / "a.yaml"
	path.write_bytes(b"\xef\xbb\xbfa: \xc3\xa9\r\nb: 1\n")
	assert read_path(str(path)) == Raw(str(path), "a: é\r\nb: 1\n", "\r\n", True)
	assert decode(b"a: 1\n", "-") == Raw("-", "a: 1\n", "\n", False)
	assert decode(b"a\rb\r", "x") == Raw("x", "a\rb\r", "\r", False)


def test_what_is_no_readable_file(tmp_path: Path) -> None:
	assert refused(tmp_path).reason == "directory"
	assert refused(tmp_path / "no").reason == "missing"
	assert refused(tmp_path / "no" / "no").reason == "missing"
	assert refused(str(tmp_path / "x") * 200).reason == "missing"
	assert refused("a\0b").reason == "missing"
	loop = tmp_path / "loop"
	loop.symlink_to(loop)
	assert refused(loop).reason == "missing"
	file = tmp_path / "file"
	file.write_text("x")
	assert refused(file / "below").reason == "missing"


def test_pipes_sockets_and_devices_are_not_opened(tmp_path: Path) -> None:
	os.mkfifo(tmp_path / "fifo")
	assert refused(tmp_path / "fifo").reason == "special-file"
	with socket.socket(socket.AF_UNIX) as server:
		server.bind(str(tmp_path / "s"))
		assert refused(tmp_path / "s").reason == "special-file"
	assert refused("/dev/zero").reason == "special-file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
	path = tmp_path / "a.yaml"
	path.write_text("a: 1")
	path.chmod(0)
	assert refused(path).reason == "no-permission"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
	def reason(content: bytes) -> str:
		path = tmp_path / "x"
		path.write_bytes(content)
		return refused(path).reason

	assert reason("a: 1".encode("utf-16")) == "utf-16"
	assert reason("a: 1".encode("utf-16-be")) == "binary"
	assert reason(b"\xfe\xff\0a") == "utf-16"
	assert reason(b"a: \0") == "binary"
	assert reason(b"x" * (MAX_BYTES + 1)) == "too-large"
	assert reason(b"a: \xe9\n") == "not-utf-8"
	assert "byte 0xe9 at offset 3" in refused(tmp_path / "x").message
	assert reason(b"\xef\xbb\xbfa: \xff\n") == "not-utf-8"
	assert "offset 6" in refused(tmp_path / "x").message


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	path = tmp_path / "big"
	with path.open("wb") as file:
		file.truncate(1 << 40)
	monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened"))
	assert refused(path).reason == "too-large"


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(content: bytes) -> None:
	answer = decode(content, "-")
	if isinstance(answer, Raw):
		mark = b"\xef\xbb\xbf" if answer.bom else b""
		assert mark + answer.text.encode() == content
	else:
		assert answer.reason in ("utf-16", "binary", "not-utf-8")


def test_a_directory_is_walked_in_order(tmp_path: Path) -> None:
	for name in (
		"b.yaml",
		"a/z.yml",
		"a/c.JSON",
		"a/x.txt",
		".git/c.yaml",
		"node_modules/p.json",
		"v/pyvenv.cfg",
		"v/q.json",
	):
		path = tmp_path / name
		path.parent.mkdir(exist_ok=True)
		path.write_text("")
	(tmp_path / "a" / "up").symlink_to(tmp_path)
	(tmp_path / "link.yaml").symlink_to(tmp_path / "b.yaml")
	(tmp_path / "broken.yaml").symlink_to(tmp_path / "nowhere")
	os.mkfifo(tmp_path / "pipe.yaml")
	(tmp_path / "dir.yaml").mkdir()
	found = [os.path.relpath(path, tmp_path) for path in find_files(str(tmp_path)) if isinstance(path, str)]
	assert found == ["a/c.JSON", "a/z.yml", "b.yaml", "link.yaml"]
	gone = str(tmp_path / "none")
	assert [(one.path, one.reason) for one in find_files(gone) if isinstance(one, Unreadable)] == [
		(gone, "no-permission")
	]


def test_a_very_deep_directory(tmp_path: Path) -> None:
	here = os.open(tmp_path, os.O_RDONLY)
	for _ in range(1200):
		os.mkdir("d", dir_fd=here)
		below = os.open("d", os.O_RDONLY, dir_fd=here)
		os.close(here)
		here = below
	os.close(here)
	try:
		assert list(find_files(str(tmp_path))) == []
	finally:
		os.system(f"rm -rf {tmp_path}/d")


def make_fix(*edits: Edit, title: str = "t") -> Fix:
	return Fix(Applicability.SAFE, title, edits)


def test_fixes_are_carried_out_together_unless_they_touch() -> None:
	first, second = make_fix(Edit(0, 1, "A"), Edit(4, 5, "")), make_fix(Edit(2, 3, "C"))
	overlapping = make_fix(Edit(4, 6, "x"), Edit(8, 8, "y"))
	assert fix.apply("abcdefgh", [overlapping, second, first, first]) == ("AbCdfgh", (first, second))
	assert fix.apply("abc", []) == ("abc", ())
	one, two = make_fix(Edit(1, 1, "x"), title="a"), make_fix(Edit(1, 1, "y"), title="b")
	assert fix.apply("abc", [two, one]) == ("axbc", (one,))
	beside = make_fix(Edit(1, 2, ""))
	assert fix.apply("abc", [make_fix(Edit(0, 1, "")), beside]).text == "c"


@given(
	st.text(max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.text(max_size=2)), max_size=6)
)
def test_order_does_not_matter(text: str, drawn: list[tuple[int, int, str]]) -> None:
	fixes = []
	for start, length, words in drawn:
		begin = min(start, len(text))
		fixes.append(make_fix(Edit(begin, min(begin + length, len(text)), words), title=words))
	result = fix.apply(text, fixes)
	assert result == fix.apply(text, fixes[::-1])
	assert len(result.text) == len(text) + sum(len(e.text) - (e.end - e.start) for f in result.fixes for e in f.edits)


def test_writing_keeps_mode_mark_and_link(tmp_path: Path) -> None:
	path = tmp_path / "a.yaml"
	path.write_bytes(b"\xef\xbb\xbfa: 1\r\n")
	path.chmod(0o640)
	link = tmp_path / "link.yaml"
	link.symlink_to("a.yaml")
	assert fix.write_atomically(str(link), "a: é\r\n") is None
	assert link.is_symlink()
	assert path.read_bytes() == b"\xef\xbb\xbfa: \xc3\xa9\r\n"
	assert stat.S_IMODE(path.stat().st_mode) == 0o640
	assert sorted(os.listdir(tmp_path)) == ["a.yaml", "link.yaml"]


def test_writing_a_new_file(tmp_path: Path) -> None:
	path = tmp_path / "new.json"
	mask = os.umask(0o027)
	try:
		assert fix.write_atomically(str(path), "{}\n") is None
	finally:
		os.umask(mask)
	assert path.read_bytes() == b"{}\n"
	assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everything")
def test_a_read_only_file_stays_as_it_is(tmp_path: Path) -> None:
	path = tmp_path / "a.yaml"
	path.write_text("a: 1\n")
	path.chmod(0o444)
	assert fix.write_atomically(str(path), "b: 1\n") is not None
	assert path.read_text() == "a: 1\n"


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	path = tmp_path / "a.yaml"
	path.write_text("a: 1\n")

	def fails(*_: object) -> None:
		raise PermissionError(13, "Permission denied")

	monkeypatch.setattr(os, "replace", fails)
	failure = fix.write_atomically(str(path), "b: 1\n")
	assert failure == fix.WriteFailure(str(path), "it cannot be written: Permission denied")
	assert path.read_text() == "a: 1\n"
	assert os.listdir(tmp_path) == ["a.yaml"]
	assert fix.write_atomically(str(path), "\ud800") is not None
	assert fix.write_atomically(str(tmp_path / "no" / "x"), "") is not None
