"""The interpreter that holds the real libraries, and the folders of older releases that it is shown.

    python -m tests.oracle.environment          # build it (about 2 GB, a few minutes), or say that it is complete

It lives in `.oracle/` of the checkout or in the folder that DTB_ORACLE_HOME names. torch is pinned by its public
version, so that an index with CPU builds (PIP_EXTRA_INDEX_URL) may serve `2.13.0+cpu`, a tenth of the download.
"""

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.oracle import stubs

ROOT = Path(__file__).resolve().parents[2]
# Run with `python -m`, nobody else has put the checkout's own code on the path.
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "scripts")]

import releases  # noqa: E402
from extraction import release_order  # noqa: E402

PINS = {"torch": "2.13.0", "accelerate": "1.15.0", "transformers": "5.24.0", "deepspeed": "0.19.8"}
EXTRAS = ("pyyaml", "torchao", "tensorboard")
# DeepSpeed before this release was written against pydantic 1, which cannot live beside pydantic 2.
FIRST_DEEPSPEED_ON_PYDANTIC_2 = (0, 11, 2)
# Its CPU accelerator before this release imports Intel's extensions.
FIRST_DEEPSPEED_ON_PLAIN_CPU = (0, 14, 1)
LIST_VERSIONS = (
	"import json; from importlib.metadata import distributions;"
	"print(json.dumps({(d.metadata['Name'] or '').lower(): d.version for d in distributions()}))"
)


class EnvironmentIncompleteError(Exception):
	"""The oracle cannot be asked: its interpreter or a package is missing."""


@dataclass(frozen=True)
class Environment:
	"""A virtual environment with the newest pinned releases; caches and unpacked older releases stand beside it."""

	home: Path

	@property
	def python(self) -> Path:
		return self.home / "bin" / "python"

	@property
	def cache(self) -> Path:
		return self.home / "verdicts.sqlite"

	@cached_property
	def stub_folder(self) -> Path:
		return stubs.write(self.home / "stubs")

	def missing(self) -> list[str]:
		if not self.python.exists():
			return ["the interpreter"]
		listed = subprocess.run([self.python, "-c", LIST_VERSIONS], capture_output=True, text=True, check=False)
		found: dict[str, str] = json.loads(listed.stdout) if listed.returncode == 0 else {}
		wrong = [f"{name} {pin}" for name, pin in PINS.items() if found.get(name, "").split("+")[0] != pin]
		return wrong + [name for name in EXTRAS if name not in found]

	def accelerate_path(self, release: str) -> list[Path]:
		"""What goes on PYTHONPATH for a release of Accelerate, or one and one of Transformers: "1.12.0/4.57.6"."""
		release, _, transformers = release.partition("/")
		folders = [self.stub_folder / name for name in stubs.groups_for(release_order(release))]
		if transformers not in ("", PINS["transformers"]):
			hub = self.older("hub0", "tokenizers", "huggingface_hub<1", "tokenizers<0.23")
			folders += [releases.source_tree("transformers", transformers, self.home), hub]
		if release == PINS["accelerate"]:
			return folders
		return [releases.source_tree("accelerate", release, self.home), *folders]

	def deepspeed_path(self, release: str) -> list[Path]:
		"""What goes on PYTHONPATH so that `import deepspeed` finds this release."""
		if release == PINS["deepspeed"]:
			return []
		folders = [releases.source_tree("deepspeed", release, self.home)]
		if release_order(release) < FIRST_DEEPSPEED_ON_PYDANTIC_2:
			folders.append(self.older("pydantic1", "pydantic", "--no-deps", "pydantic>=1.10,<2"))
		if release_order(release) < FIRST_DEEPSPEED_ON_PLAIN_CPU:
			folders.append(self.stub_folder / "deepspeed")
		return folders

	def older(self, name: str, package: str, *arguments: str) -> Path:
		folder = self.home / name
		if not (folder / package).is_dir():
			self.install("--target", str(folder), *arguments)
		return folder

	def install(self, *arguments: str) -> None:
		command = [str(self.python), "-m", "pip", "install", "--quiet", *arguments]
		# DeepSpeed would compile its kernels otherwise, and needs no GPU to have its config read.
		answer = subprocess.run(command, env={**os.environ, "DS_BUILD_OPS": "0"}, check=False)
		if answer.returncode:
			raise EnvironmentIncompleteError("pip could not install " + " ".join(arguments))

	def build(self) -> None:
		"""Create the virtual environment and install what is missing; quick when it is complete."""
		if not self.python.exists():
			venv.create(self.home, with_pip=True)
		if not self.missing():
			return
		pins = [f"{name}=={pin}" for name, pin in PINS.items() if name != "deepspeed"]
		self.install(*pins, *EXTRAS, "setuptools", "wheel", "packaging")
		# Its setup script imports torch, which an isolated build would not see.
		self.install("--no-build-isolation", f"deepspeed=={PINS['deepspeed']}")
		if self.missing():
			raise EnvironmentIncompleteError("still missing: " + ", ".join(self.missing()))


def default() -> Environment:
	return Environment(Path(os.environ.get("DTB_ORACLE_HOME") or ROOT / ".oracle").resolve())


def main() -> int:
	environment = default()
	try:
		environment.build()
	except (EnvironmentIncompleteError, releases.ReleaseError) as error:
		print(error, file=sys.stderr)
		return 2
	print(environment.home)
	return 0


if __name__ == "__main__":
	sys.exit(main())
