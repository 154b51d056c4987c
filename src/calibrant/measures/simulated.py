"""Rows under calibration: data sets whose outcomes occur with their scores, by the sums of p - y.

For independent rows the outcomes of each cell have a binomial distribution. For rows in clusters the sums are

    g*_k = c_k sum_h Z_h S_hk,   c_k = sqrt(V0_b / Q_b),   Z_h independent standard normal,

S_hk the sum of p - y of bucket h in coarse cell k, which lies in bin b. The sums of buckets are independent with mean 0
under the hypothesis, so Z_h S_hk has the covariance of S_hk whatever the dependence inside clusters, and S is not
centred. The factor c replaces the squares that were seen by those that calibration implies: with one row in each
cluster the variance is exactly V0, and with rare events V0 times the design effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

import numpy as np

from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import quantile_bin_of, uniform_bin_of
from calibrant.measures.binned.cluster_bins import ClusterBins, null_scales, uniform_sums
from calibrant.measures.event import Event
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered
from calibrant.statistics.resampling import Resampling, Stream


@dataclass(frozen=True, eq=False)
class RowNull:
    """Independent rows under calibration: the outcomes of each cell have a binomial distribution."""

    cells: Cells
    uniform: BinSums

    @property
    def observed(self) -> RowSums:
        """The data in the form of one simulated data set."""
        return RowSums(self.cells, self.uniform, self.cells.positives[None])

    def drawn(self, rng: np.random.Generator, size: int) -> RowSums:
        """Return simulated data sets."""
        return RowSums(self.cells, self.uniform, self.cells.calibrated.draw(rng, size))


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
    def uniform_gaps(self) -> Float64s:
        """The sum of p - y of each equal-width bin, (B, M)."""
        return self.uniform.moments.score_sums - self.uniform.over_bins(self.positives)

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
        """Return sum f r over rows, (B,), f a slope of each cell and r = p - y."""
        return np.asarray(self.cell_gaps @ slopes)


@dataclass(frozen=True, eq=False)
class ClusterNull:
    """The law of rows in clusters under calibration, with their equal-width and their equal-mass bins."""

    rows: Clustered
    uniform: ClusterBins
    quantile: ClusterBins

    @classmethod
    def of(cls, rows: Clustered, n_bins: int) -> ClusterNull:
        """Return the distribution for so many bins."""
        uniform, quantile = (bin_of(rows.fine.table, n_bins) for bin_of in (uniform_bin_of, quantile_bin_of))
        return cls(rows, ClusterBins.of(rows, uniform), ClusterBins.of(rows, quantile))

    @property
    def cells(self) -> Cells:
        """The coarse cells."""
        return self.rows.cells

    @cached_property
    def scales(self) -> Float64s:
        """The factor c of each coarse cell by its equal-mass bin, (K,)."""
        return np.repeat(self.quantile.scales, np.diff(self.quantile.moments.first, append=len(self.cells)))

    @cached_property
    def observed(self) -> GapSums:
        """The data in the form of one simulated data set."""
        return GapSums(self, self.rows.cells.gap_sums[None])

    def drawn(self, rng: np.random.Generator, size: int) -> GapSums:
        """Return simulated data sets of rows in these clusters."""
        normals = rng.standard_normal((size, len(self.rows.sizes)))
        return GapSums(self, normals @ self.rows.gaps, normals)

    def independent(self, rng: np.random.Generator, size: int) -> GapSums:
        """Return simulated data sets as if rows were independent: each cell's S is normal with variance V0."""
        deviations = np.sqrt(self.rows.cells.null_variances)
        return GapSums(self, rng.standard_normal((size, len(deviations))) * deviations)

    def replicates(
        self, statistic: Callable[[GapSums], Float64s], resampling: Resampling, *, independent: bool = False
    ) -> Float64s:
        """Return a statistic on all simulated data sets, (B, ...): of these clusters, or of independent rows."""
        draw, stream = (self.independent, Stream.REFITTED) if independent else (self.drawn, Stream.CALIBRATED)

        def block(rng: np.random.Generator, size: int) -> Float64s:
            return statistic(draw(rng, size))

        return resampling.draws(stream, block)


@dataclass(frozen=True, eq=False)
class GapSums:
    """The sums of p - y in coarse cells, (B, K), of the data or of simulated data sets.

    ``raw`` are the sums, for clusters before they are scaled by c. ``normals`` are the draws Z of the buckets, (B, H);
    None where nothing has to be scaled.
    """

    law: ClusterNull
    raw: Float64s
    normals: Float64s | None = field(default=None, repr=False)

    @cached_property
    def uniform_gaps(self) -> Float64s:
        """The sum of p - y of each equal-width bin, (B, M)."""
        sums = self.law.uniform.over_bins(self.raw)
        return sums if self.normals is None else sums * self.law.uniform.scales

    @cached_property
    def cell_gaps(self) -> Float64s:
        """The sum of p - y of each coarse cell, (B, K), scaled by equal-mass bins."""
        return self.raw if self.normals is None else self.raw * self.law.scales

    @cached_property
    def positives(self) -> Float64s:
        """The outcomes of each coarse cell, (B, K); those of simulated data sets may lie outside the possible range."""
        return np.asarray(self.law.cells.score_sums - self.cell_gaps)

    @property
    def table_positives(self) -> Float64s:
        """The outcomes of each coarse cell, below 0 too: cut off, they would vary too little."""
        return self.positives

    def scalar(self, slopes: Float64s) -> Float64s:
        """Return sum f r over rows, (B,), f a slope of each coarse cell, with a factor c of its own.

        c^2 = (sum f^2 V0) / (sum f^2 Q).
        """
        sums = self.raw @ slopes
        if self.normals is None:
            return sums
        cells = self.law.cells
        squares, variances = (np.atleast_1d(slopes**2 @ x) for x in (cells.squared_residuals, cells.null_variances))
        return np.asarray(sums * null_scales(squares, variances)[0])

    @property
    def own_squares(self) -> Float64s:
        """The sum over buckets of S_h^2 in each equal-width bin, (B, M) or (M,)."""
        bins = self.law.uniform
        if self.normals is not None:
            return np.asarray(self.normals**2 @ bins.null_gaps**2)
        return bins.own_squares if self is self.law.observed else bins.moments.null_variances


#: Sums of p - y of B data sets; p is the score and y the outcome of a row.
Sums: TypeAlias = RowSums | GapSums


def null_of(event: Event) -> RowNull | ClusterNull:
    """Return the rows under calibration: ``event.of(null_of)``."""
    if isinstance(event.design, Clustered):
        return ClusterNull.of(event.design, event.n_bins)
    return RowNull(event.design.cells, event.of(uniform_sums))
