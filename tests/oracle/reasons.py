"""Disagreements that stay, and why: what no judgement of a file alone can know, or what nobody has mended yet."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.oracle.cases import Kind
from tests.oracle.comparison import Outcome, Row


class Reason(NamedTuple):
    """Why disagreements of one kind stay; `sign` is found in the cause, the refusal or the codes of the findings."""

    kind: Kind
    outcome: Outcome
    sign: str
    text: str


REASONS = (
    Reason(
        "accelerate",
        "missed",
        r"torchao with FSDP2 and cpu_ram_efficient_loading|`MS-AMP` \+ `FSDP` is not supported",
        "`mixed_precision: fp8` without a backend takes the first package that is installed; the oracle has all of "
        "them and gets one that FSDP refuses, others are taken",
    ),
    Reason(
        "accelerate",
        "missed",
        r"rendezvous endpoint '\$\{?\w+",
        "a shell variable in `main_process_ip` is filled in by whatever writes the file (warning ACC009)",
    ),
)


def sign_of(row: Row) -> str:
    codes = " ".join(finding.code for finding in row.said.errors)
    return f"{row.truth.cause} {row.truth.error.get('message', '')} {codes}"


def reason_for(row: Row) -> str:
    """Why a disagreement stays, or an empty text where nobody has said so."""
    fitting = (reason for reason in REASONS if (reason.kind, reason.outcome) == (row.case.kind, row.outcome))
    return next((reason.text for reason in fitting if re.search(reason.sign, sign_of(row))), "")


def left(rows: Iterable[Row]) -> Iterator[str]:
    """One line for each kind of disagreement: how often, in which releases, and why."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.outcome in ("false error", "missed"):
            why = reason_for(row) or f"not explained yet: {row.signature[-1]}"
            groups.setdefault((row.outcome, row.case.kind, why), []).append(row)
    for (outcome, kind, why), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        releases = list(dict.fromkeys(row.release for row in members))
        where = releases[0] if len(releases) == 1 else f"{len(releases)} releases"
        yield f"- {outcome}, {kind}, {len(members)} in {where}: {why}"
