"""The data files that come with the package."""

from __future__ import annotations

import json
from functools import cache
from os.path import dirname, join
from typing import Any

DATA = join(dirname(__file__), "data")


@cache
def load_json(name: str) -> Any:
    """The content of a data file, read once. Callers share it and must not change it."""
    with open(join(DATA, name), "rb") as file:
        return json.load(file)
