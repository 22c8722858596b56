"""Bad input, end to end: a finding or one clear line, the right status, bounded time and memory, never a traceback."""

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "validate_backend_config.py"
GOOD = "distributed_type: MULTI_GPU\nnum_processes: 8\n"
# What may be used at most, far above what is: the kernel ends a program that takes more, and the test fails.
SECONDS, MEMORY, OUTPUT = 60, 400 * 1024 * 1024, 100_000
MEGABYTE = 1_000_000


class Answer(NamedTuple):
	"""What a run said."""

	status: int
	said: str
	note: str


def bounded() -> None:
	resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
	resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ask(*arguments: str | Path, folder: Path, most: int = OUTPUT) -> Answer:
	command = [sys.executable, str(SCRIPT), *map(str, arguments)]
	done = subprocess.run(command, cwd=folder, capture_output=True, preexec_fn=bounded, check=False)
	said, note = done.stdout.decode(), done.stderr.decode()
	assert done.returncode in (0, 1, 2), note
	assert len(said) + len(note) <= most
	assert "Traceback" not in note
	assert "internal error" not in said + note
	return Answer(done.returncode, said, note)


def bomb(levels: int, width: int) -> str:
	lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
	lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
	return "\n".join([*lines, GOOD])


def merged(levels: int) -> str:
	lines = ["m0: &m0 {k: 1}"]
	lines += [f"m{n}: &m{n}\n  <<: [*m{n - 1}, *m{n - 1}]\n  k{n}: 1" for n in range(1, levels)]
	return "\n".join([*lines, GOOD])


NO_KIND = "it does not look like any kind of config"
DEEP = "it is nested more than 100 levels deep"
ALIASES = "its aliases expand to more than 50,000"
NODES = "it has more than 50,000 keys and values"
DIGITS = "it has a number of more than 100 digits"
ACCELERATE, DEEPSPEED = ("--format", "accelerate"), ("--format", "deepspeed")
CASES: list[tuple[str, str | bytes, tuple[str, ...], int, str]] = [
	("empty.yaml", "", (), 2, "it is empty"),
	("empty.yaml", "", ACCELERATE, 1, "ACC002"),
	("empty.json", "", DEEPSPEED, 1, "DSP021"),
	("comments.yaml", "# to do\n", (), 2, NO_KIND),
	("list.yaml", "- 1\n- 2\n", (), 2, NO_KIND),
	("list.yaml", "- 1\n- 2\n", ACCELERATE, 1, "the file holds a list"),
	("list.json", "[1, 2]", DEEPSPEED, 1, "DSP003"),
	("scalar.yaml", "hello\n", (), 2, NO_KIND),
	("scalar.yaml", "hello\n", ACCELERATE, 1, "the file holds a str"),
	("scalar.json", "7", DEEPSPEED, 1, "DSP003"),
	("binary.yaml", bytes(range(256)), (), 2, "it is not text: there is a NUL byte at offset 0"),
	("image.json", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", (), 2, "it is not text: there is a NUL byte at offset 8"),
	("large.yaml", "a: 1\n" * 700_000, (), 2, "it is larger than 2 MiB"),
	("deep.yaml", "distributed_type: " + "[" * 200 + "]" * 200, (), 2, DEEP),
	("deep-block.yaml", "".join(f"{' ' * n}a:\n" for n in range(200)), ACCELERATE, 2, DEEP),
	("deep.json", '{"zero_optimization": ' * 200 + "1" + "}" * 200, (), 2, DEEP),
	("bomb.yaml", bomb(9, 9), (), 2, ALIASES),
	("loop.yaml", "distributed_type: &a [*a]\n", (), 2, ALIASES),
	("merge.yaml", merged(40), (), 2, ALIASES),
	("latin.yaml", f"{GOOD}# größer\n".encode("latin-1"), (), 2, "it is not UTF-8"),
	("utf-16.yaml", GOOD.encode("utf-16"), (), 2, "it is UTF-16"),
	("half.json", '{"zero_optimization": {"stage": ', (), 1, "half.json:1:32: error[DSP001]"),
	("half.yaml", f"{GOOD}fsdp_config: {{fsdp_version: 2,\n", (), 1, "half.yaml:3:31: error[ACC001]"),
	("wide.yaml", GOOD + "".join(f"k{n}: 1\n" for n in range(60_000)), (), 2, NODES),
	("wide.json", json.dumps({"zero_optimization": {f"k{n}": 1 for n in range(60_000)}}), (), 2, NODES),
	("sexagesimal.yaml", "num_processes: 1" + ":59" * 300_000, ACCELERATE, 2, DIGITS),
	("hexadecimal.yaml", "num_processes: 0x" + "f" * MEGABYTE, ACCELERATE, 2, DIGITS),
	("digits.json", f'{{"train_batch_size": {"9" * 5000}}}', (), 2, DIGITS),
	("surrogate.json", '{"zero_optimization": {"stage": "\\ud800"}}', (), 1, "DSP"),
	("control.yaml", f"{GOOD}mixed_precision: \x1b[31mfp16\x1b[0m\n", (), 1, "#x001b"),
]
# One mark a million times: what a parser or a pattern may stumble over.
FLOODS: tuple[str, ...] = ("[", "{", '"', "'", "- ", ": ", "? ", "*a ", "&a ", "!", "#", "\t", " ", "\n", "\r", "\\")
FLOODS += ("{{", "${", "<a", "/*", "```yaml\n", "cat <<EOF\n", "a: ", "|\n", "0x", "1:", "1e", "- - ", "<<: *a\n")


@pytest.mark.parametrize(
	("name", "content", "arguments", "status", "words"), CASES, ids=[" ".join((case[0], *case[2])) for case in CASES]
)
def test_bad_content(
	name: str, content: str | bytes, arguments: tuple[str, ...], status: int, words: str, tmp_path: Path
) -> None:
	path = tmp_path / name
	path.write_bytes(content if isinstance(content, bytes) else content.encode())
	answer = ask(name, *arguments, folder=tmp_path)
	assert (answer.status, answer.note) == (status, "")
	assert answer.said.startswith(f"{name}:1:1: unreadable[XCF900]" if status == 2 else f"{name}:")
	assert words in answer.said
	assert "\x1b" not in answer.said
	report = json.loads(ask(name, *arguments, "--output-format", "json", folder=tmp_path).said)
	assert report["files"][0]["verdict"] == ("unreadable" if status == 2 else "rejected")


@pytest.mark.parametrize("kind", ["accelerate", "deepspeed", "auto"])
@pytest.mark.parametrize("mark", FLOODS, ids=ascii)
def test_a_flood_of_one_mark(mark: str, kind: str, tmp_path: Path) -> None:
	name = "flood.json" if kind == "deepspeed" else "flood.yaml"
	(tmp_path / name).write_text(mark * (MEGABYTE // len(mark.encode())), encoding="utf-8", newline="")
	assert ask(name, "--format", kind, folder=tmp_path).status in (1, 2)


def test_what_is_no_file(tmp_path: Path) -> None:
	os.mkfifo(tmp_path / "fifo.yaml")
	(tmp_path / "loop.yaml").symlink_to("loop.yaml")
	(tmp_path / "dangling.yaml").symlink_to("nowhere.yaml")
	with socket.socket(socket.AF_UNIX) as server:
		server.bind(str(tmp_path / "s"))
		expected = {
			"missing.yaml": "there is no such file",
			"dangling.yaml": "there is no such file",
			"loop.yaml": "its symbolic links lead in a circle",
			"fifo.yaml": "it is not a regular file",
			"s": "it is not a regular file",
			"/dev/null": "it is not a regular file",
			"x" * 5000: "the name is too long for a file",
		}
		answer = ask(*expected, folder=tmp_path)
	assert answer.status == 2
	lines = [line for line in answer.said.splitlines() if "unreadable[XCF900]" in line]
	assert [line.split(":")[0] for line in lines] == list(expected)
	assert all(words in line for line, words in zip(lines, expected.values(), strict=True))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_and_an_unreadable_folder(tmp_path: Path) -> None:
	(tmp_path / "secret.yaml").write_text(GOOD)
	(tmp_path / "secret.yaml").chmod(0)
	(tmp_path / "folder").mkdir()
	(tmp_path / "folder").chmod(0)
	answer = ask("secret.yaml", folder=tmp_path)
	assert (answer.status, answer.note) == (2, "")
	assert "the permission to read it is missing" in answer.said
	assert "no config found" in ask("folder", folder=tmp_path).note


def test_folders(tmp_path: Path) -> None:
	(tmp_path / "empty").mkdir()
	(tmp_path / "mixed" / "deep").mkdir(parents=True)
	(tmp_path / "mixed" / "deep" / "accelerate.yaml").write_text(GOOD)
	(tmp_path / "mixed" / "other.yaml").write_text("services: {web: {image: nginx}}\n")
	(tmp_path / "mixed" / "noise.json").write_bytes(bytes(range(256)))
	answer = ask("empty", folder=tmp_path)
	assert (answer.status, answer.note.strip()) == (0, "no config found in empty")
	assert answer.said.startswith("No errors or warnings in 0 files")
	report = json.loads(ask("mixed", "--output-format", "json", folder=tmp_path).said)
	assert [file["path"] for file in report["files"]] == ["mixed/deep/accelerate.yaml"]


def test_one_bad_file_does_not_take_the_others_with_it(tmp_path: Path) -> None:
	(tmp_path / "bad.yaml").write_bytes(b"\0")
	(tmp_path / "good.yaml").write_text(GOOD)
	(tmp_path / "wrong.yaml").write_text(GOOD.replace("MULTI_GPU", "MULTI_GPUS"))
	answer = ask("bad.yaml", "good.yaml", "wrong.yaml", "--output-format", "json", folder=tmp_path)
	verdicts = {file["path"]: file["verdict"] for file in json.loads(answer.said)["files"]}
	assert verdicts == {"bad.yaml": "unreadable", "good.yaml": "accepted", "wrong.yaml": "rejected"}
	assert answer.status == 2


@pytest.mark.parametrize("name", sorted({name for name, _, _, status, _ in CASES if status == 2}))
def test_fixing_leaves_alone_what_cannot_be_read(name: str, tmp_path: Path) -> None:
	content = next(content for other, content, _, status, _ in CASES if (other, status) == (name, 2))
	data = content if isinstance(content, bytes) else content.encode()
	(tmp_path / name).write_bytes(data)
	before = (tmp_path / name).stat()
	assert ask("--fix", "--unsafe-fixes", name, folder=tmp_path).status == 2
	assert (tmp_path / name).read_bytes() == data
	assert (tmp_path / name).stat().st_mtime_ns == before.st_mtime_ns
	assert [path.name for path in tmp_path.iterdir()] == [name]


def test_standard_input_is_bounded_too(tmp_path: Path) -> None:
	command = f'yes | head -c 300000000 | "{sys.executable}" "{SCRIPT}" -'
	done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, preexec_fn=bounded, check=False)
	assert b"it is larger than 2 MiB" in done.stdout
	assert done.returncode == 2


def test_ten_thousand_files(tmp_path: Path) -> None:
	for number in range(5_000):
		(tmp_path / f"a{number}.yaml").write_text(GOOD + "num_machnes: 1\n" * (number % 2))
		(tmp_path / f"d{number}.json").write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 2}}')
	answer = ask(tmp_path, "--quiet", folder=tmp_path, most=10_000_000)
	assert answer.status == 1
	assert answer.said.count("error[ACC003]") == 2_500
	assert "2500 errors in 10000 files" in answer.said


THOUSANDS = {
	"block.yaml": GOOD + "fsdp_config:\n" + "".join(f"  fsdp_offload_param_{n}: {n}\n" for n in range(2_000)),
	"block.json": json.dumps({"zero_optimization": {f"overlap_com_{n}": n for n in range(2_000)}}),
	"twice.yaml": "num_processes: 8\n" * 2_000 + GOOD,
	"lists.json": json.dumps({"zero_optimization": {"stage": 2}, "train_batch_size": [[]] * 20_000}),
}


@pytest.mark.parametrize("name", THOUSANDS)
def test_thousands_of_findings(name: str, tmp_path: Path) -> None:
	(tmp_path / name).write_text(THOUSANDS[name])
	for arguments in ((), ("--output-format", "sarif"), ("--diff",)):
		ask(name, *arguments, folder=tmp_path, most=100 * MEGABYTE)
