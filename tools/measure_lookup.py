"""Measure look-up on written questions: how often a right section comes first, and within three.

    python tools/measure_lookup.py [--misses]

tests/cases/lookup_questions.json was written before the ranking was tuned on it; lookup_further.json afterwards, and
nothing was tuned on that. A section is named by its page and anchor; any of those listed counts as right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

from distributed_training_backends import api

QUESTIONS = ROOT / "tests" / "cases" / "lookup_questions.json"
FURTHER = ROOT / "tests" / "cases" / "lookup_further.json"
WITHIN = 3


class Outcome(NamedTuple):
    """A question, where its first right section stands (0 is first), and what was found."""

    kind: str
    query: str
    wanted: tuple[str, ...]
    found: tuple[str, ...]

    @property
    def place(self) -> int | None:
        """Where the first right section stands; None if it is not among those found."""
        return next((place for place, name in enumerate(self.found) if name in self.wanted), None)


def outcomes(questions: Path) -> list[Outcome]:
    """Ask every question of a file."""
    asked = json.loads(questions.read_text(encoding="utf-8"))
    return [Outcome(item["kind"], item["query"], tuple(item["sections"]), found(item["query"])) for item in asked]


def found(query: str) -> tuple[str, ...]:
    """The sections that are found, by page and anchor."""
    return tuple(section.reference.removeprefix("references/") for section in api.look_up(query, limit=10).sections)


def shares(results: list[Outcome]) -> tuple[float, float]:
    """How many of a hundred have a right section first, and within three."""
    places = [outcome.place for outcome in results]
    first = sum(place == 0 for place in places)
    close = sum(place is not None and place < WITHIN for place in places)
    return 100 * first / len(places), 100 * close / len(places)


def table(results: list[Outcome], further: list[Outcome]) -> str:
    """The figures by kind of question, as Markdown."""
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in results:
        by_kind[outcome.kind].append(outcome)
    lines = ["| query | questions | right section first | within three |", "|---|---:|---:|---:|"]
    for kind, group in [*sorted(by_kind.items()), ("all", results), ("written after tuning", further)]:
        first, close = shares(group)
        lines.append(f"| {kind} | {len(group)} | {first:.0f} % | {close:.0f} % |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--misses", action="store_true", help="show what is found where the first one is wrong")
    arguments = parser.parse_args()
    start = time.process_time()
    api.look_up("fsdp")
    ready = time.process_time()
    results, further = outcomes(QUESTIONS), outcomes(FURTHER)
    took = (time.process_time() - ready) / len(results + further)
    print(f"{table(results, further)}\nfirst look-up: {1000 * (ready - start):.0f} ms; then: {1000 * took:.2f} ms")
    for outcome in results + further if arguments.misses else ():
        if outcome.place != 0:
            print(f"\n{outcome.kind}: {outcome.query}\n  wanted {', '.join(outcome.wanted)}")
            print(f"  found at {outcome.place}", *(f"    {name}" for name in outcome.found[:4]), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
