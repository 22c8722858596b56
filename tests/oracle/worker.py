"""What the oracle's workers share. A worker imports the real libraries once, then answers one case a line.

It speaks JSON lines on standard input and output and forks for every case, because the libraries keep singletons,
read the environment and are patched; nothing of that may reach the next case.
"""

import contextlib
import gc
import json
import logging
import math
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

Answer: TypeAlias = dict[str, Any]
Case: TypeAlias = dict[str, Any]
DEPTH_LIMIT = 6
LIBRARIES = ("accelerate", "deepspeed", "transformers", "torch")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
KEPT_VARIABLES = ("PATH", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "DS_ACCELERATOR", "TORCH_EXTENSIONS_DIR")

# What the script hands over: a class, and the argument of another one that takes an object of it.
HANDED_OVER = {
	"TorchContextParallelConfig": "ParallelismConfig.cp_handler",
	"DeepSpeedSequenceParallelConfig": "ParallelismConfig.sp_handler",
	"DeepSpeedPlugin": "Accelerator.deepspeed_plugin",
	"FullyShardedDataParallelPlugin": "Accelerator.fsdp_plugin",
	"MegatronLMPlugin": "Accelerator.megatron_lm_plugin",
	"ParallelismConfig": "Accelerator.parallelism_config",
	"TorchDynamoPlugin": "Accelerator.dynamo_plugin",
	"GradientAccumulationPlugin": "Accelerator.gradient_accumulation_plugin",
	"AORecipeKwargs": "Accelerator.kwargs_handlers",
	"TERecipeKwargs": "Accelerator.kwargs_handlers",
	"MSAMPRecipeKwargs": "Accelerator.kwargs_handlers",
}


class InterceptedError(BaseException):
	"""The library reached the step that would have started processes or trained; no `except Exception` sees it."""


def set_variables() -> None:
	os.environ.update(
		CUDA_VISIBLE_DEVICES="",
		DS_ACCELERATOR="cpu",
		DS_IGNORE_CUDA_DETECTION="1",
		HF_HOME=str(Path(tempfile.gettempdir()) / "no-hub-cache"),
		HF_HUB_OFFLINE="1",
		OMP_NUM_THREADS="1",
		TOKENIZERS_PARALLELISM="false",
		TORCH_EXTENSIONS_DIR=str(Path(tempfile.gettempdir()) / "oracle-extensions"),
		TRANSFORMERS_OFFLINE="1",
	)


def bare_environment(folder: str) -> dict[str, str]:
	"""The environment that a case starts with, whatever the caller of the oracle had set."""
	kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
	return {**kept, "HOME": folder, "HF_HOME": f"{folder}/hub"}


def enter(folder: str, variables: Mapping[str, str]) -> None:
	os.chdir(folder)
	environment: MutableMapping[str, str] = os.environ
	environment.clear()
	environment.update(variables)


# --- describing what happened ---


def plain(value: Any, depth: int = 0) -> Any:
	"""A value as JSON can hold it, stable between runs (no addresses in representations)."""
	if isinstance(value, bool | int | str) or value is None or (isinstance(value, float) and math.isfinite(value)):
		return value
	if isinstance(value, dict) and depth < DEPTH_LIMIT:
		return {str(key): plain(item, depth + 1) for key, item in value.items()}
	if isinstance(value, list | tuple | set | frozenset) and depth < DEPTH_LIMIT:
		return [plain(item, depth + 1) for item in value]
	if callable(value) and hasattr(value, "__qualname__"):
		return f"<{getattr(value, '__module__', '')}.{value.__qualname__}>"
	return ADDRESS.sub("", repr(value))


def unlike(built: Mapping[str, Any], meant: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
	"""What is not as it was meant: its name, and the two values."""
	for name in sorted(meant):
		mine, theirs = built.get(name), meant[name]
		if isinstance(mine, dict) and isinstance(theirs, dict):
			yield from (
				(f"{name}.{key}", mine.get(key), theirs[key]) for key in sorted(theirs) if mine.get(key) != theirs[key]
			)
		elif mine != theirs:
			yield name, mine, theirs


def refusal(error: BaseException, text: str = "") -> Answer:
	"""The answer for an exception: its type, text, and the innermost frame inside one of the libraries."""
	frames = [
		frame
		for frame in traceback.extract_tb(error.__traceback__)
		if any(f"/{library}/" in frame.filename for library in LIBRARIES) and "/tests/oracle/" not in frame.filename
	]
	where = ""
	if frames:
		parts = Path(frames[-1].filename).parts
		start = max(index for index, part in enumerate(parts) if part in LIBRARIES)
		where = f"{'/'.join(parts[start:])}:{frames[-1].name}:{frames[-1].lineno}"
	return {"type": type(error).__name__, "message": (text or str(error))[:2000], "where": where}


class Listener(logging.Handler):
	"""Collects warnings of the standard modules `warnings` and `logging` while a case runs."""

	def __init__(self) -> None:
		super().__init__(level=logging.WARNING)
		self.heard: list[str] = []

	def emit(self, record: logging.LogRecord) -> None:
		try:
			self.heard.append(record.getMessage())
		except (TypeError, ValueError):  # which logging reports and survives, and so does a run
			self.heard.append(str(record.msg))


@contextlib.contextmanager
def listening(*names: str) -> Iterator[list[str]]:
	"""The warnings raised or logged inside the block, in order; `names` are loggers that do not propagate."""
	listener = Listener()
	loggers = [logging.getLogger(), *(logging.getLogger(name) for name in names)]
	for logger in loggers:
		logger.addHandler(listener)
	with warnings.catch_warnings(record=True) as caught:
		warnings.simplefilter("always")
		try:
			yield listener.heard
		finally:
			for logger in loggers:
				logger.removeHandler(listener)
			listener.heard += [str(item.message) for item in caught if item.category is not DeprecationWarning]


# --- forking ---


def forked(function: Callable[[Case], Answer], case: Case, seconds: float = 60) -> Answer:
	"""Run the function in a child and give what it returns; a child that dies or hangs gets an answer, too."""
	reading, writing = os.pipe()
	child = os.fork()
	if child == 0:
		os.close(reading)
		_run_child(function, case, writing)
	os.close(writing)
	data = _read_until(reading, time.monotonic() + seconds)
	if data is None:
		os.kill(child, signal.SIGKILL)
	os.waitpid(child, 0)
	if not data:
		return {"verdict": "failed", "error": {"type": "Timeout" if data is None else "Crash", "message": ""}}
	answer: Answer = json.loads(data)
	return answer


def _run_child(function: Callable[[Case], Answer], case: Case, writing: int) -> None:
	try:
		silence = os.open(os.devnull, os.O_WRONLY)
		if not os.environ.get("DTB_ORACLE_DEBUG"):
			os.dup2(silence, 1)
			os.dup2(silence, 2)
		try:
			answer = function(case)
		except BaseException as error:
			answer = {"verdict": "failed", "error": refusal(error), "trace": traceback.format_exc()[-2000:]}
		with os.fdopen(writing, "w") as pipe:
			pipe.write(json.dumps(answer, default=repr))
	finally:
		os._exit(0)  # no clean-up of the parent's objects


def _read_until(reading: int, deadline: float) -> bytes | None:
	data = b""
	with contextlib.closing(os.fdopen(reading, "rb", buffering=0)) as pipe:
		while (left := deadline - time.monotonic()) > 0:
			if not select.select([pipe], [], [], left)[0]:
				continue
			if not (block := pipe.read(1 << 16)):
				return data
			data += block
	return None


# --- serving ---


def serve(preload: Callable[[], Answer], answer: Callable[[Case], Answer]) -> None:
	"""Import, say hello with what was imported and faked, and answer cases until the input ends."""
	output = os.fdopen(os.dup(1), "w", buffering=1)
	os.dup2(2, 1)  # what the libraries print must not mix with the answers
	set_variables()
	try:
		hello = preload()
	except Exception as error:
		output.write(json.dumps({"failure": f"{type(error).__name__}: {error}"}) + "\n")
		raise
	output.write(json.dumps(hello) + "\n")
	gc.collect()
	gc.freeze()  # a collection in a child would touch, and so copy, the memory of every imported module
	gc.disable()
	for line in sys.stdin:
		output.write(json.dumps(answer(json.loads(line)), default=repr) + "\n")


def lay_out(case: Case, folder: str) -> None:
	for name, text in case["files"].items():
		file = Path(folder, name)
		file.parent.mkdir(parents=True, exist_ok=True)
		file.write_bytes(text.encode("utf-8", "surrogateescape"))
