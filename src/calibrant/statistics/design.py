"""How sums over rows vary: the sampling design, in the sense of survey statistics.

Independent rows are clusters of one row. What needs to know how its sums vary asks a `SamplingDesign`, and is written
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.variance import Variance

#: From sums over cells, (..., K), to sums over places, (..., M), linearly: a kernel, or local lines.
Transform = Callable[[Float64s], Float64s]


class SamplingDesign(Protocol):
    """How sums over the rows of some cells vary; r = p - y is the residual of a row.

    `Independent` and `calibrant.statistics.cluster_sums.Clustered` are the designs.
    """

    @property
    def cells(self) -> Cells:
        """The cells of the rows, (K,); coarse ones for clusters."""

    @property
    def units(self) -> float:
        """The effective number of what is independent of each other: rows, or clusters."""

    def linear(self, slopes: Float64s, variances: Float64s) -> Variance:
        """Return the variance of sum f r, f slopes of the cells, of these sums over cells of w^2 r^2, maybe blended."""

    def null_variance(self, slopes: Float64s) -> float:
        """Return the variance of sum f r under calibration, f slopes of the cells."""

    def common(self, places: Float64s) -> Sequence[Float64s]:
        """Return the signs at these scores of gaps that something moves together; none for independent rows."""

    def units_near(self, transform: Transform) -> Float64s | float:
        """Return how many clusters are behind each place, (M,); infinite for independent rows."""

    def effects(self, transform: Transform, of_squares: Transform, units: Float64s | float) -> Float64s | float:
        """Return the design effect of the transformed sums of residuals at each place, (M,); 1 for independent rows.

        ``of_squares`` maps sums of r^2 to their variances for independent rows, ``units`` are the clusters behind each.
        """


@dataclass(frozen=True, eq=False)
class Independent:
    """Rows that are independent of each other."""

    cells: Cells

    @property
    def units(self) -> float:
        """The effective sample size."""
        return self.cells.effective_n

    def linear(self, slopes: Float64s, variances: Float64s) -> Variance:
        """Return sum w^2 (f r - m)^2, m the mean of f r."""
        return Variance(self.cells.spread(slopes, variances) ** 2)

    def null_variance(self, slopes: Float64s) -> float:
        """Return sum f^2 V0."""
        return float(np.sum(slopes**2 * self.cells.null_variances))

    def common(self, places: Float64s) -> Sequence[Float64s]:
        """Return nothing: each row moves its own place."""
        del places
        return ()

    def units_near(self, transform: Transform) -> float:
        """Return infinity: the rows alone decide."""
        del transform
        return math.inf

    def effects(self, transform: Transform, of_squares: Transform, units: Float64s | float) -> float:
        """Return 1."""
        del transform, of_squares, units
        return 1.0
