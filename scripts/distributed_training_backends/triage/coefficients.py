"""The few numbers that were fitted to published measurements."""

from typing import Any

from ..resources import load_json


def coefficient(name: str) -> float:
	known: dict[str, Any] = load_json("memory.json")["coefficients"]
	return float(known[name]["value"])
