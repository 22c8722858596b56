"""The data files that come with the package."""

from __future__ import annotations

import json
from functools import cache
from os.path import dirname, isdir, join
from typing import Any

DATA = join(dirname(__file__), "data")


@cache
def load_json(name: str) -> Any:
    """The content of a data file, read once. Callers share it and must not change it."""
    with open(join(DATA, name), "rb") as file:
        return json.load(file)


@cache
def references() -> str:
    """The folder of the reference pages: inside the package where a wheel put it, else beside scripts/."""
    inside = join(dirname(__file__), "references")
    return inside if isdir(inside) else join(dirname(dirname(dirname(__file__))), "references")
