"""The cells of a table on a grid, as the certified errors of measures use them: the bounds always hold.

A table on a grid has for each cell (l, u] the number of predictions by outcome, n0 and n1, the sums of their scores,
S0 and S1, and the sum Q of all squared scores. This gives the sum of residuals r = y - p, n1 - S0 - S1, and the sum of
their absolute values, A = S0 + n1 - S1. No bound assumes where in a cell the scores lie. The cells of p = 0 and p = 1
hold one score each, so they are exact. Each family of measures has its bounds in its own modules.
"""

from __future__ import annotations

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.table import CellSums, ReliabilityTable


@dataclass(frozen=True, eq=False)
class GridCells:
    """A table on a grid, and the sums over the predictions in its cells."""

    table: ReliabilityTable
    sums: CellSums

    @classmethod
    def of(cls, table: ReliabilityTable) -> GridCells | None:
        """Return the cells of a table; None for an exact table."""
        return None if table.cell_sums is None else cls(table, table.cell_sums)

    @cached_property
    def absolute(self) -> Float64s:
        """A, the sum of the absolute residuals in each row's cell."""
        return np.maximum(self.sums.s0 + self.sums.n1 - self.sums.s1, 0.0)

    @property
    def rounding(self) -> float:
        """The most that the rounding of sums over all rows changes a mean of numbers up to 1."""
        return self.table.n * 2.0**-52
