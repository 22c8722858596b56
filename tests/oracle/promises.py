"""What a comparison must show, or else the gate fails."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.oracle.comparison import Row
from tests.oracle.environment import PINS
from tests.oracle.mutations import KINDS
from tests.oracle.tables import group_name, is_main, release_name

# Shares of comparisons that may disagree: of one release, and of one way to change a config.
RELEASE, CHANGE = 0.03, 0.05
# So few tell nothing about a share; a sample of an old release has some fifty comparisons.
FEW = 3


def broken(rows: Iterable[Row]) -> list[str]:
    main = [row for row in rows if is_main(row) and row.outcome != "left out"]
    real = [row for row in main if row.case.group == "corpus"]
    changed = [row for row in main if row.case.group in KINDS]
    return [*false_errors(real), *disagreeing(main, release_name, RELEASE), *disagreeing(changed, group_name, CHANGE)]


def false_errors(rows: Sequence[Row]) -> Iterator[str]:
    """No real file that the newest release of a library accepts gets an error."""
    for row in rows:
        if row.outcome == "false error" and PINS[row.library] == row.release:
            yield f"{row.case.name}: {release_name(row)} accepts it, and it gets an error"


def disagreeing(rows: Sequence[Row], name: Callable[[Row], str], most: float) -> Iterator[str]:
    """No release and no kind of change disagrees too often."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    for label, members in groups.items():
        count = sum(row.outcome != "agree" for row in members)
        if count > max(FEW, most * len(members)):
            yield f"{label}: {count} of {len(members)} comparisons disagree, more than {most:.0%}"
