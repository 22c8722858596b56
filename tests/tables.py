"""Cases of a test as a table: the names of the columns in the first line, then a case a line, its cells as YAML."""

from typing import Any

import pytest
import yaml


def table(text: str, **names: Any) -> pytest.MarkDecorator:
    """Parametrize a test; a cell that is one of the names stands for what has that name."""
    columns, *lines = text.strip("\n").split("\n")
    rows = [[names.get(str(cell), cell) for cell in yaml.safe_load(f"[{line}]")] for line in lines]
    return pytest.mark.parametrize(columns, rows if ", " in columns else [cell for (cell,) in rows])
