"""All files of a setup."""

from collections.abc import Iterator

from ..model_triage import File
from .emit_accelerate import DEEPSPEED_FILE, accelerate_yaml
from .emit_deepspeed import deepspeed_json
from .emit_launch import CONFIG, launch_script, slurm_script
from .emit_plugins import plugins_code
from .emit_script import script_code
from .facts import Facts
from .setup import Setup


def files(facts: Facts, setup: Setup) -> Iterator[File]:
	"""The config file first, then what it names, then code and commands."""
	yield File(CONFIG, "yaml", accelerate_yaml(facts, setup))
	if (config := deepspeed_json(facts, setup)) is not None:
		yield File(DEEPSPEED_FILE, "json", config)
	yield File("launch.sh", "sh", launch_script(facts, setup))
	if (batch := slurm_script(facts, setup)) is not None:
		yield File("slurm.sbatch", "sh", batch)
	yield File("script_lines.py", "python", script_code(facts, setup))
	if (code := plugins_code(facts, setup)) is not None:
		yield File("plugins.py", "python", code)
