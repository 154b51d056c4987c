"""Independent rows if their scores are calibrated: replicates of the sums of p - y.

`calibrant.measures.clustered_null` has the same for rows in clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from calibrant.measures.binned.sums import BinSums
from calibrant.measures.smooth.intervals import NullSmooth
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.resampling import Resampling


class Sums(Protocol):
    """Sums of p - y of B data sets: what the verdict tests. p is the score and y the outcome of a row."""

    @property
    def cell_gaps(self) -> Float64s:
        """The sum of p - y of each cell, (B, K)."""

    @property
    def uniform_gaps(self) -> Float64s:
        """The sum of p - y of each equal-width bin, (B, M)."""

    def scalar(self, slopes: Float64s) -> Float64s:
        """Return sum f r over rows, (B,), f a slope of each cell and r = p - y."""


@dataclass(frozen=True, eq=False)
class RowNull:
    """Independent rows under calibration: the outcomes of each cell have a binomial distribution."""

    cells: Cells
    uniform: BinSums

    @property
    def observed(self) -> RowSums:
        """The data in the form of one replicate."""
        return RowSums(self.cells, self.uniform, self.cells.positives[None])

    def drawn(self, rng: np.random.Generator, size: int) -> RowSums:
        """Return replicates."""
        return RowSums(self.cells, self.uniform, self.cells.calibrated.draw(rng, size))

    def independent(self, rng: np.random.Generator, size: int) -> RowSums:
        """Return replicates of independent rows: the same."""
        return self.drawn(rng, size)

    def null_smooth(self, value: float) -> NullSmooth:
        """Return what gives the smooth errors of replicates, to be compared at the bandwidth ``value``."""
        return NullSmooth.of(self.cells, value)

    def refinement(self, resampling: Resampling) -> float:
        """Return 1: replicates have all the cells that the fit follows."""
        del resampling
        return 1.0

    def observed_refinement(self, miscalibration: float) -> float:
        """Return 1."""
        del miscalibration
        return 1.0


@dataclass(frozen=True, eq=False)
class RowSums:
    """The sums of independent rows, from the outcomes of each cell, (B, K)."""

    cells: Cells
    uniform: BinSums
    positives: Float64s

    @cached_property
    def cell_gaps(self) -> Float64s:
        """The sum of p - y of each cell, (B, K)."""
        return self.cells.score_sums - self.positives

    @cached_property
    def uniform_positives(self) -> Float64s:
        """The sum of y of each equal-width bin, (B, M)."""
        return self.uniform.over_bins(self.positives)

    @cached_property
    def uniform_gaps(self) -> Float64s:
        """The sum of p - y of each equal-width bin, (B, M)."""
        return self.uniform.moments.score_sums - self.uniform_positives

    @cached_property
    def own_squares(self) -> Float64s:
        """The sum over rows of (p - y)^2 in each equal-width bin, (B, M), in units of squared weight."""
        cells, over_bins = self.cells, self.uniform.over_bins
        exact = cells.table.square_scores
        squares = cells.counts * cells.scores**2 if exact is None else exact
        return over_bins(cells.units * squares) + over_bins(self.positives * (cells.units * (1 - 2 * cells.scores)))

    @property
    def table_positives(self) -> Float64s:
        """The sum of y of each cell: whole numbers with whole weights."""
        table = self.cells.table
        return self.positives.astype(table.positives.dtype) if table.whole else self.positives

    def scalar(self, slopes: Float64s) -> Float64s:
        """Return sum f r over rows, (B,)."""
        return np.asarray(self.cell_gaps @ slopes)
