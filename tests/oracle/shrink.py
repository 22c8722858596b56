"""The smallest config that still shows a disagreement: keys are left out as long as it stays."""

import copy
from collections.abc import Callable
from dataclasses import replace

from tests.oracle.cases import Case
from tests.oracle.mutations import Path, dump, keys, mapping_at


def smallest(case: Case, shows: Callable[[Case], bool], budget: int = 60) -> Case:
    """Leave out key after key, whole blocks first; `budget` bounds how often `shows` is asked."""
    if not isinstance(case.data, dict):
        return case
    best, asked, progress = case, 0, True
    while progress:
        progress = False
        for path in sorted(keys(best.data), key=len):
            smaller = without(best, path)
            if smaller is None:
                continue
            if asked == budget:
                return best
            asked += 1
            if shows(smaller):
                best, progress = smaller, True
    return best


def without(case: Case, path: Path) -> Case | None:
    """The case without one key; None when the key is gone already."""
    data = copy.deepcopy(case.data)
    try:
        del mapping_at(data, path[:-1])[path[-1]]
    except (KeyError, TypeError):
        return None
    return replace(case, text=dump(data, case.suffix))
