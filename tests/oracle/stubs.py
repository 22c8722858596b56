"""Stand-ins for packages that need a GPU or have left, written beside the oracle's interpreter.

Accelerate asks for the FP8 back-ends and Megatron-LM by name and metadata only, so that a package with nothing in
it answers for the real one. Each group is a folder of its own, because some releases must not see some of them.
"""

from pathlib import Path

TRANSFORMER_ENGINE = """
import contextlib
import torch

class Linear(torch.nn.Linear):
    def __init__(self, in_features, out_features, bias=True, params_dtype=None, **_):
        super().__init__(in_features, out_features, bias=bias, dtype=params_dtype)

class LayerNorm(torch.nn.LayerNorm):
    def __init__(self, shape, eps=1e-5, params_dtype=None, **_):
        super().__init__(shape, eps=eps, dtype=params_dtype)

def fp8_autocast(*_, **__):
    return contextlib.nullcontext()

from . import fp8
"""

RECIPES = """
import enum

class Format(enum.Enum):
    E4M3 = 1
    HYBRID = 2
    E5M2 = 3

class DelayedScaling:
    def __init__(self, **options):
        self.options = options

class MXFP8BlockScaling(DelayedScaling):
    pass
"""

PKG_RESOURCES = """
from importlib import metadata

class DistributionNotFound(Exception):
    pass

class Distribution:
    def __init__(self, name):
        self.version = metadata.version(name)

def get_distribution(name):
    try:
        return Distribution(name)
    except metadata.PackageNotFoundError as error:
        raise DistributionNotFound(name) from error

working_set = ()
"""

MPIRUN = """#!/bin/sh
echo "Intel(R) MPI Library for Linux* OS, Version 2021.16"
"""


def metadata(name: str, version: str) -> str:
	return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


GROUPS: dict[str, dict[str, str]] = {
	"backends": {
		"transformer_engine/__init__.py": "",
		"transformer_engine/common/__init__.py": "",
		"transformer_engine/common/recipe.py": RECIPES,
		"transformer_engine/pytorch/__init__.py": TRANSFORMER_ENGINE,
		"transformer_engine/pytorch/fp8.py": "def check_mxfp8_support():\n    return False, 'stub'\n",
		"transformer_engine-2.5.0.dist-info/METADATA": metadata("transformer-engine", "2.5.0"),
		"msamp/__init__.py": "",
		"ms_amp-0.4.0.dist-info/METADATA": metadata("ms-amp", "0.4.0"),
		"megatron/__init__.py": "",
		"megatron/training/__init__.py": "",
		"megatron/training/arguments.py": "def _add_logging_args(parser):\n    return parser\n",
		"megatron_core-0.12.0.dist-info/METADATA": metadata("megatron-core", "0.12.0"),
	},
	"pkg_resources": {"pkg_resources/__init__.py": PKG_RESOURCES},
	"pytest": {"pytest.py": ""},
	"deepspeed": {"intel_extension_for_pytorch.py": "", "oneccl_bindings_for_pytorch.py": ""},
	"commands": {"mpirun": MPIRUN},
}


def groups_for(accelerate: tuple[int, ...]) -> list[str]:
	groups = ["backends"]
	if accelerate < (0, 21):
		groups.append("pkg_resources")
	if accelerate == (1, 5, 0):  # this release imports pytest outside its tests
		groups.append("pytest")
	return groups


def write(folder: Path) -> Path:
	"""Write every group below a folder; files that are right already stay untouched."""
	for group, files in GROUPS.items():
		for name, text in files.items():
			file = folder / group / name
			if file.is_file() and file.read_text(encoding="utf-8") == text:
				continue
			file.parent.mkdir(parents=True, exist_ok=True)
			file.write_text(text, encoding="utf-8")
			if group == "commands":
				file.chmod(0o755)
	return folder
