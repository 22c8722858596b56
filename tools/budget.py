"""A measured budget, as the benchmarks print it."""

from typing import NamedTuple


class Line(NamedTuple):
    """One measured budget: what, the figure, its unit, the limit, and whether the figure may be above it."""

    what: str
    figure: float
    unit: str
    limit: float
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{'ok    ' if self.kept else 'BROKEN'} {self.what}: {self.figure:.2f} {self.unit} ({sign} {self.limit})"
