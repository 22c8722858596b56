#!/usr/bin/env python3
"""Fit the coefficients of triage's memory model to published measurements, and say how far off it is.

Prints two tables: in sample, and leaving one source out (coefficients, widths of the intervals and all else fitted
to the other sources only). `--write` puts the coefficients into data/memory.json.gz, `--check` fails unless they are
those of a fresh fit, `--committed` judges the rows with the committed coefficients instead of fitting.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tools")]

from memory_fit import Coefficients, committed, fitted, use, written
from memory_rows import Measured, measured, read_rows
from memory_score import Outcome, judged, summary

MEASUREMENTS = ROOT.parent / "shared" / "measurements.jsonl"
OWN = ROOT / "tests" / "cases" / "memory_measurements.json.gz"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=Path, action="append", help="files of measurements (default: the shared and our own)"
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--committed", action="store_true", help="judge with the committed coefficients, do not fit")
    parser.add_argument("--verbose", action="store_true", help="a line for each row")
    args = parser.parse_args(argv)
    rows = [one for path in args.rows or [MEASUREMENTS, OWN] for one in measured(read_rows(path))]
    if args.committed:
        print(summary(judged(rows), "with the committed coefficients", args.verbose))
        return 0
    found = fitted(rows)
    if args.check:
        return checked(found)
    with use(found):
        print(summary(judged(rows), "in sample", args.verbose))
    print(summary(left_out(rows, fitted), "leaving one source out", args.verbose))
    if args.write:
        written(found)
    return 0


def left_out(rows: Sequence[Measured], fit: Callable[[Sequence[Measured]], Coefficients]) -> list[Outcome]:
    """Judge the rows of each source with what was fitted to all others."""
    outcomes = []
    for source in sorted({one.row["source"] for one in rows}):
        with use(fit([one for one in rows if one.row["source"] != source])):
            outcomes += judged([one for one in rows if one.row["source"] == source])
    return outcomes


def checked(found: Coefficients) -> int:
    """Tell whether the committed coefficients are those of a fresh fit."""
    differing = {name: (value, found[name]) for name, value in committed().items() if abs(value - found[name]) > 1e-3}
    for name, (ours, fresh) in differing.items():
        print(f"{name}: committed {ours}, a fresh fit gives {fresh}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
