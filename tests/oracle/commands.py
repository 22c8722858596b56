"""What the validator makes of a command line, beside what `accelerate launch` makes of it."""

import shlex
from collections.abc import Iterator
from typing import Any

from tests.oracle.client import Answer, Oracle

from distributed_training_backends import api
from distributed_training_backends.flow.command import CommandLine, command_line
from distributed_training_backends.flow.launch import Launch, launch_of
from distributed_training_backends.model import Context, Extent, Severity
from distributed_training_backends.sources.command import Word, launch_document
from distributed_training_backends.sources.document import OPEN
from distributed_training_backends.sources.yaml_source import parse_yaml

# What depends on the machine and the environment, or is Python's own object
NOT_COMPARED = ("num_cpu_threads_per_process", "nondefault", "func", "config_file")
CONFIG = "config.yaml"


def asked(oracle: Oracle, config: str | None, flags: str, gpus: int = 8, **files: str) -> Answer:
	"""Ask the library about a file and a command line; the script is train.py unless the line names one."""
	files = {**files, **({CONFIG: config} if config is not None else {})}
	question = {"mode": "launch", "files": files, "config": CONFIG, "flags": [], "gpus": gpus}
	return oracle.ask({**question, "words": words_of(config, flags)})


def words_of(config: str | None, flags: str) -> list[str]:
	script = [] if ".py" in flags else ["train.py"]
	return [*(["--config_file", CONFIG] if config is not None else []), *shlex.split(flags), *script]


def parsed(words: list[str], release: str) -> CommandLine:
	found = [Word(word, Extent(0, 0)) for word in words]
	return command_line(launch_document("<launch>", "", Word("accelerate", Extent(0, 0)), found, {}), release)


def merged(config: str | None, flags: str, release: str) -> Launch | None:
	document = parse_yaml(CONFIG, config, "accelerate") if config is not None else None
	return launch_of(document, release, Context(), parsed(words_of(config, flags), release))


def differences(launch: Launch, arguments: dict[str, Any]) -> Iterator[str]:
	"""The options whose merged value is another one than in the library's namespace."""
	ours = {name: arg.value for name, arg in launch.arguments.items()}
	for name in sorted({*ours, *arguments} - {*NOT_COMPARED}):
		mine, real = ours.get(name, "missing"), arguments.get(name, "missing")
		if mine is not OPEN and plain(mine) != plain(real):
			yield f"{name}: {mine!r} here, {real!r} there"


def plain(value: Any) -> Any:
	"""Bring tuples and lists together, and keep 1 and True apart."""
	return [plain(item) for item in value] if isinstance(value, (list, tuple)) else repr(value)


def errors(line: str, release: str) -> list[str]:
	options = api.Options(api.default_targets()._replace(accelerate=release))
	report = api.validate_paths([], options, launch=f"accelerate launch {line}")
	return [finding.code for file in report.files for finding in file.findings if finding.severity is Severity.ERROR]
