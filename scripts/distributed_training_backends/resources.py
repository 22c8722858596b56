"""The data files that come with the package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@cache
def load_json(name: str) -> Any:
    """The content of a data file, read once. Callers share it and must not change it."""
    return json.loads((DATA / name).read_bytes())
