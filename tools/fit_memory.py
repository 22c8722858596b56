#!/usr/bin/env python3
"""Fit the coefficients of triage's memory model to published measurements, and say how far off it is.

Prints two tables: in sample, and leaving one source out (coefficients, widths of the intervals and all else fitted
to the other sources only). `--write` puts the coefficients into data/memory.json.gz.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import log
from typing import Any

import packed
import project
from distributed_training_backends.resources import load_json
from memory_rows import Measured, measured, read_rows
from memory_score import Outcome, judged, predicted, relative_errors, summary

MEASUREMENTS = project.ROOT.parent / "shared" / "measurements.jsonl"
OWN = project.CASES / "memory_measurements.json.gz"
Coefficients = dict[str, float]
# An error beyond this counts in proportion instead of squared, so that a mislabelled row does not decide.
KNEE = 0.1
# How much of a source's weight a row of it has in addition to its share.
SHARE = 0.5
# How much it costs to leave a prior by its spread.
PULL = 0.02
SWEEPS = 3
STEPS = (1.0, 0.3, 0.1, 0.03)
COVERED = 0.93
# Intervals wider than this say little: the median would be more than 40 % of the point.
WIDEST = 2.4


def records() -> dict[str, dict[str, Any]]:
	"""The coefficients as the data file has them. This tool is the one place that changes them."""
	known: dict[str, dict[str, Any]] = load_json("memory.json")["coefficients"]
	return known


def committed() -> Coefficients:
	values = {name: float(record["value"]) for name, record in records().items() if record.get("fitted")}
	return {**values, "scale": float(load_json("memory.json")["spread"]["scale"])}


@contextmanager
def use(values: Coefficients) -> Iterator[None]:
	before = committed()
	put(values)
	try:
		yield
	finally:
		put(before)


def put(values: Coefficients) -> None:
	for name, value in values.items():
		if name == "scale":
			load_json("memory.json")["spread"]["scale"] = value
		else:
			records()[name]["value"] = value


def fitted(rows: Sequence[Measured]) -> Coefficients:
	usable = [one for one in rows if one.size and one.fits]
	priors = {name: float(record["prior"]) for name, record in records().items() if record.get("fitted")}
	with use({**priors, "scale": 1.0}):
		search = Search(usable, priors)
		for _ in range(SWEEPS):
			for name in priors:
				search.descend(name)
		put(search.values)
		scale = scale_of(usable)
	return {name: round(value, 3) for name, value in {**search.values, "scale": scale}.items()}


def weights_of(rows: Sequence[Measured]) -> list[float]:
	counts = Counter(one.row["source"] for one in rows)
	return [float(counts[one.row["source"]] ** (SHARE - 1)) for one in rows]


class Search:
	"""Moves one coefficient at a time downhill, and judges only the rows that it touches anew."""

	def __init__(self, rows: Sequence[Measured], values: Coefficients) -> None:
		self.rows = list(zip(rows, weights_of(rows), strict=True))
		self.values = dict(values)
		self.losses = [self.loss(place) for place in range(len(self.rows))]
		self.touched = {name: self.rows_with(name) for name in values}

	def loss(self, place: int) -> float:
		one, weight = self.rows[place]
		return weight * sum(huber(log(point / size)) for point, size in predicted(one))

	def rows_with(self, name: str) -> list[int]:
		spread = float(records()[name]["spread"])
		found = set()
		for sign in (2, -2):
			put({name: max(self.values[name] + sign * spread, 0.0)})
			found |= {place for place, loss in enumerate(self.losses) if abs(self.loss(place) - loss) > 1e-12}
		put(self.values)
		return sorted(found)

	def descend(self, name: str) -> None:
		spread = float(records()[name]["spread"])
		for step in (sign * size * spread for size in STEPS for sign in (1, -1)):
			while self.improves(name, max(self.values[name] + step, 0.0)):
				pass

	def improves(self, name: str, value: float) -> bool:
		record = records()[name]

		def far(one: float) -> float:
			return float(PULL * ((one - record["prior"]) / record["spread"]) ** 2)

		put({name: value})
		losses = {place: self.loss(place) for place in self.touched[name]}
		gained = (
			sum(self.losses[place] for place in losses) - sum(losses.values()) + far(self.values[name]) - far(value)
		)
		if gained <= 1e-9:
			put({name: self.values[name]})
			return False
		self.values[name] = value
		for place, loss in losses.items():
			self.losses[place] = loss
		return True


def huber(error: float) -> float:
	size = abs(error)
	return size * size if size <= KNEE else KNEE * (2 * size - KNEE)


def scale_of(rows: Sequence[Measured]) -> float:
	ratios = sorted(error / width for one in rows for error, width in relative_errors(one))
	return min(max(ratios[int(COVERED * len(ratios))], 1.0), WIDEST) if ratios else 1.0


def written(values: Coefficients) -> None:
	"""Put the coefficients into the data file; the rest of its text stays."""
	text = packed.text_of("memory.json")
	for name, value in values.items():
		pattern = rf'("{name}":)[0-9.]+' if name == "scale" else rf'("{name}":{{"value":)[0-9.]+'
		text = re.sub(pattern, lambda found, value=value: f"{found.group(1)}{value}", text)  # type: ignore[misc]
	packed.save("memory.json", text)


# --- the command line ---


def main() -> None:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--write", action="store_true")
	args = parser.parse_args()
	rows = [one for path in (MEASUREMENTS, OWN) for one in measured(read_rows(path))]
	found = fitted(rows)
	with use(found):
		print(summary(judged(rows), "in sample"))
	print(summary(left_out(rows), "leaving one source out"))
	if args.write:
		written(found)


def left_out(rows: Sequence[Measured]) -> list[Outcome]:
	outcomes = []
	for source in sorted({one.row["source"] for one in rows}):
		with use(fitted([one for one in rows if one.row["source"] != source])):
			outcomes += judged([one for one in rows if one.row["source"] == source])
	return outcomes


if __name__ == "__main__":
	main()
