"""Workers from the outside: starting them, asking them, and keeping what they answered."""

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Timer
from typing import Any, Literal, TypeAlias

from tests.oracle.environment import PINS, ROOT, Environment

Answer: TypeAlias = dict[str, Any]
Library: TypeAlias = Literal["accelerate", "deepspeed", "snippets"]
WORKERS: dict[Library, str] = {
	"accelerate": "tests.oracle.accelerate_worker",
	"deepspeed": "tests.oracle.deepspeed_worker",
	"snippets": "tests.oracle.snippets",
}
# An answer depends on these files and on nothing else of the checkout.
COMMON_SOURCES = ("fakes.py", "stubs.py", "worker.py")
SOURCES: dict[Library, tuple[str, ...]] = {
	"accelerate": (*COMMON_SOURCES, "accelerate_worker.py", "building.py", "launching.py", "trainer.py"),
	"deepspeed": (*COMMON_SOURCES, "deepspeed_fakes.py", "deepspeed_worker.py", "tracing.py", "trainer.py"),
	"snippets": (*COMMON_SOURCES, "building.py", "deepspeed_fakes.py", "launching.py", "snippets.py"),
}


# A worker ends a case that hangs by itself after two minutes; one that says nothing for so long is stuck.
ANSWERS_WITHIN = 300
# Workers of one release that may die, each on a case of its own, before it is given up.
DEATHS = 5


class OracleError(Exception):
	"""A worker did not start, or died again and again."""


class WorkerDiedError(Exception):
	"""A worker ended without an answer."""


def source_version(library: Library) -> str:
	digest = hashlib.sha256(json.dumps(PINS).encode())
	for name in SOURCES[library]:
		digest.update(Path(__file__).with_name(name).read_bytes())
	return digest.hexdigest()[:16]


class Worker(AbstractContextManager["Worker"]):
	"""A process that has one release imported and answers cases."""

	def __init__(self, environment: Environment, library: Library, release: str) -> None:
		self.name = f"{library} {release}"
		path_of = environment.deepspeed_path if library == "deepspeed" else environment.accelerate_path
		command = [str(environment.python), "-m", WORKERS[library]]
		variables = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "FSDP_", "PYTHON"))}
		variables["PYTHONPATH"] = os.pathsep.join(str(folder) for folder in (*path_of(release), ROOT))
		variables["PATH"] = f"{environment.stub_folder / 'commands'}{os.pathsep}{variables['PATH']}"
		errors = None if os.environ.get("DTB_ORACLE_DEBUG") else subprocess.DEVNULL
		self.process = subprocess.Popen(
			command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=variables, cwd=ROOT, text=True
		)
		self.hello = self._read()
		if "failure" in self.hello:
			raise OracleError(f"{self.name} cannot be imported: {self.hello['failure']}")

	def _read(self) -> Answer:
		assert self.process.stdout is not None
		stuck = Timer(ANSWERS_WITHIN, self.process.kill)
		stuck.start()
		try:
			line = self.process.stdout.readline()
		finally:
			stuck.cancel()
		if not line.endswith("\n"):
			raise WorkerDiedError(f"{self.name}: a worker ended with status {self.process.wait()}")
		answer: Answer = json.loads(line)
		return answer

	def ask(self, case: Answer) -> Answer:
		assert self.process.stdin is not None
		with contextlib.suppress(OSError):  # it is gone already, and reading tells how
			self.process.stdin.write(json.dumps(case) + "\n")
			self.process.stdin.flush()
		return self._read()

	def __exit__(self, *_: object) -> None:
		assert self.process.stdin is not None
		with contextlib.suppress(OSError):  # what could not be written to a dead one
			self.process.stdin.close()
		self.process.kill()  # it holds nothing, and an interpreter with torch in it takes seconds to go by itself
		self.process.wait()


class Oracle(AbstractContextManager["Oracle"]):
	"""Asks one release, through answers that are kept on disk; the worker starts at the first new question."""

	def __init__(self, environment: Environment, library: Library, release: str) -> None:
		self.environment, self.library, self.release = environment, library, release
		self.worker: Worker | None = None
		self.prefix = f"{source_version(library)} {library} {release} "
		self.asked = self.deaths = 0
		self.store = sqlite3.connect(environment.cache, timeout=60, check_same_thread=False)
		self.store.execute("create table if not exists verdicts (question text primary key, answer text)")

	def ask(self, case: Answer) -> Answer:
		text = json.dumps(case, sort_keys=True)
		question = hashlib.sha256((self.prefix + text).encode("utf-8", "surrogateescape")).hexdigest()
		known = self.store.execute("select answer from verdicts where question = ?", (question,)).fetchone()
		if known:
			answer: Answer = json.loads(known[0])
			return answer
		self.asked += 1
		answer = self._from_worker(case)
		if answer["verdict"] != "failed":  # a crash or a timeout may have been the machine's
			self.store.execute("insert or replace into verdicts values (?, ?)", (question, json.dumps(answer)))
			self.store.commit()
		return answer

	def _from_worker(self, case: Answer) -> Answer:
		for _ in range(2):
			try:
				if self.worker is None:
					self.worker = Worker(self.environment, self.library, self.release)
				return self.worker.ask(case)
			except WorkerDiedError as error:
				print(error, file=sys.stderr)
				self.deaths += 1
				self._end_worker()
				if self.deaths > DEATHS:
					raise OracleError(f"{self.library} {self.release}: {self.deaths} workers died") from error
		return {"verdict": "failed", "error": {"type": "WorkerDied", "message": "two workers died of this case"}}

	def _end_worker(self) -> None:
		if self.worker is not None:
			self.worker.__exit__()
			self.worker = None

	def __exit__(self, *_: object) -> None:
		self.store.close()
		self._end_worker()


if sys.platform == "win32":
	raise OracleError("the oracle forks, which this system cannot do")
