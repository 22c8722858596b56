"""Cases of a test as a table: the names of the columns in the first line, then a case a line, its cells as YAML."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import packed

_, *PARTS = re.split(r"^=== (\S+)\n", packed.unpacked(Path(__file__).parent / "cases" / "tables.txt.gz"), flags=re.M)
LARGE = dict(zip(PARTS[::2], PARTS[1::2], strict=True))


def packed_table(name: str, **names: Any) -> pytest.MarkDecorator:
	"""One of the large tables, which are kept packed; `tools/packed.py show tests/cases/tables.txt` shows them."""
	return table(LARGE[name], **names)


def table(text: str, **names: Any) -> pytest.MarkDecorator:
	"""Parametrize a test; a text that is one of the names stands for what has that name."""

	def filled(cell: Any) -> Any:
		if isinstance(cell, dict):
			return {key: filled(value) for key, value in cell.items()}
		return [filled(part) for part in cell] if isinstance(cell, list) else names.get(str(cell), cell)

	columns, *lines = text.strip("\n").split("\n")
	rows = [filled(yaml.safe_load(f"[{line}]")) for line in lines]
	return pytest.mark.parametrize(columns, rows if ", " in columns else [cell for (cell,) in rows])
