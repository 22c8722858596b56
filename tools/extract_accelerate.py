"""What every Accelerate release knows and does, extracted from the releases' own source into the data files.

Releases are those pinned in ``tools/releases.json.gz``. Nothing of a release is imported or run.
"""

import sys
from pathlib import Path

from extract_classes import class_facts
from extract_config import config_facts
from extract_environment import environment_facts
from extract_field_sources import source_facts
from extract_launcher import launcher_facts
from extraction import Facts
from extraction_files import DataFile, main


def core_facts(package: Path) -> Facts:
	return {fact: value for fact, value in _core(package).items() if fact[0] != "help"}


def reference_facts(package: Path) -> Facts:
	helps = {fact: value for fact, value in _core(package).items() if fact[0] == "help"}
	return {**helps, **environment_facts(package)}


def _core(package: Path) -> Facts:
	return {**config_facts(package), **launcher_facts(package)}


def api_facts(package: Path) -> Facts:
	return {**class_facts(package), **source_facts(package)}


FILES = (
	DataFile("accelerate.json", "accelerate", core_facts),
	DataFile("accelerate_reference.json", "accelerate", reference_facts),
	DataFile("accelerate_api.json", "accelerate", api_facts),
)

if __name__ == "__main__":
	sys.exit(main(__doc__.splitlines()[0], FILES))
