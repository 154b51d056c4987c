"""The sums of score - outcome over bins, and how they vary.

A bin has n rows, S = sum (p - y), Q = sum (p - y)^2 and V0 = sum p (1 - p). The estimates of variance blend what was
seen with what calibration implies, v = (n Q + 5 V0) / (n + 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import effective_n, rate_rows
from calibrant.measures.binned.binned import (
    LEAST_CLUSTERS,
    LEAST_ROWS,
    debiased_square,
    enough_rows,
    largest_gap,
)
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells, spread_of
from calibrant.statistics.intervals import Variance, blend, centred_blend
from calibrant.statistics.null import GammaMoments, absolute_moments

_TINY: Final = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False, kw_only=True)
class BinMoments:
    """Sums over the filled bins, each (M,)."""

    #: index, first: the place of the bin among all bins, and its first cell.
    index: NDArray[np.intp]
    first: NDArray[np.intp]
    #: counts, score_sums, gap_sums: the weight, the sum of the scores, and S, the sum of score - outcome.
    counts: Float64s
    score_sums: Float64s
    gap_sums: Float64s
    #: squared_residuals, null_variances: Q and V0, in units of squared weight.
    squared_residuals: Float64s
    null_variances: Float64s
    #: square_weights, squared_gaps, squared_positives: the sums of 1, of score - outcome and of outcomes, in units of
    #: squared weight; with whole weights those of weight.
    square_weights: Float64s
    squared_gaps: Float64s
    squared_positives: Float64s
    #: total, weight, effective_n: the weight of all bins, and that of all rows with their effective sample size: where
    #: bins are of several classes, a row is in one bin of each.
    total: float
    weight: float
    effective_n: float

    @classmethod
    def of(cls, cells: Cells, bins: NDArray[np.intp]) -> BinMoments:
        """Return the moments of the bins; ``bins`` is the bin of each cell, in increasing order."""
        first = np.flatnonzero(np.diff(bins, prepend=-1))
        columns = {
            "counts": cells.counts,
            "score_sums": cells.score_sums,
            "gap_sums": cells.gap_sums,
            "squared_residuals": cells.squared_residuals,
            "null_variances": cells.null_variances,
            "square_weights": cells.square_weights,
            "squared_gaps": cells.squared_gaps,
            "squared_positives": cells.table.own_weights[1],
        }
        sums = {name: np.add.reduceat(column, first) for name, column in columns.items()}
        return cls(
            index=bins[first],
            first=first,
            total=cells.total,
            weight=cells.total,
            effective_n=cells.effective_n,
            **sums,
        )

    @cached_property
    def rows(self) -> Float64s:
        """n, the effective sample size of each bin."""
        return effective_n(self.counts, self.square_weights)

    @property
    def within(self) -> Float64s:
        """The sum of (r - D)^2 around the gap D of the bin, in units of squared weight."""
        gaps = self.gap_sums / self.counts
        return np.maximum(self.squared_residuals - gaps * (2 * self.squared_gaps - gaps * self.square_weights), 0.0)

    @property
    def rates(self) -> Float64s:
        """The observed frequency of each bin."""
        return np.clip((self.score_sums - self.gap_sums) / self.counts, 0.0, 1.0)

    @property
    def rate_rows(self) -> Float64s:
        """The number of equal rows in which each rate would be as uncertain."""
        squares = np.stack([self.square_weights - self.squared_positives, self.squared_positives])
        return rate_rows(self.rates, self.counts, squares)

    @property
    def mean_variances(self) -> Float64s:
        """The variance of the mean score of each bin."""
        means, sums = self.score_sums / self.counts, self.squared_gaps + self.squared_positives
        squares = sums - self.null_variances  # the sum of p^2
        around = squares - means * (2 * sums - means * self.square_weights)
        return np.maximum(around, 0.0) / self.counts**2

    def spread(self, slopes: Float64s, variances: Float64s) -> float:
        """Return the standard deviation of sum f r over rows, f a slope of each bin."""
        gaps, square_total = (self.gap_sums, self.squared_gaps), self.weight**2 / self.effective_n
        return spread_of(slopes, variances, gaps, self.weight, square_total)


@dataclass(frozen=True, eq=False)
class Correlations:
    """The correlations C of bins, as C = U' U with columns U of length 1, (H, M); ``lone`` bins vary by themselves.

    Bins of several classes have the same rows: ``dependence`` is then how many times the variance of a sum over lone
    bins may exceed the variance for independent bins, ``null_dependence`` the same under calibration.
    """

    columns: Float64s
    lone: NDArray[np.bool_]
    dependence: float = 1.0
    null_dependence: float = 1.0

    @classmethod
    def of(cls, sums: Float64s) -> Correlations:
        """Return the correlations of centred sums of buckets."""
        lengths = np.sqrt(np.sum(sums**2, axis=0))
        lone = lengths == 0
        return cls(sums / np.where(lone, 1.0, lengths), lone)

    def quadratic(self, x: Float64s) -> float:
        """Return x' C x."""
        return float(np.sum((self.columns @ x) ** 2)) + self.dependence * float(np.sum(x[self.lone] ** 2))

    def squares(self, x: Float64s) -> float:
        """Return sum x_b x_c C_bc^2 over all pairs of bins, by the H x H matrix U diag(x) U'."""
        products = (self.columns * x) @ self.columns.T
        return float(np.sum(products**2)) + self.null_dependence * float(np.sum(x[self.lone] ** 2))


@dataclass(frozen=True, eq=False, kw_only=True)
class BinSums:
    """The sums S of the filled bins, (M,), and how they vary: what the binned family asks of a sampling design.

    The variance of S is the one for independent rows, steadied by five units of what calibration implies, times a
    design effect. Here rows are independent: they are the units, and the design effects are 1. Those of rows in
    clusters are `cluster_bins.ClusterBins`. ``dependence`` and ``null_dependence`` are as in `Correlations`.
    """

    moments: BinMoments
    dependence: float = 1.0
    null_dependence: float = 1.0

    @classmethod
    def of_cells(cls, cells: Cells, bins: NDArray[np.intp]) -> BinSums:
        """Return the bins of independent rows; ``bins`` is the bin of each cell, in increasing order."""
        return cls(moments=BinMoments.of(cells, bins))

    # ------------------------------------------------------------ measures, of many simulated data sets at once

    def over_bins(self, cell_sums: Float64s) -> Float64s:
        """Return the sums over each bin, (..., M), of sums over each cell, (..., K)."""
        return np.add.reduceat(cell_sums, self.moments.first, axis=-1)

    def debiased_square(self, gap_sums: Float64s, own_squares: Float64s) -> Float64s:
        """Return the unbiased squared l2 error from S of each bin, and the sum of squares of its independent parts."""
        bins = self.moments
        return debiased_square(gap_sums, own_squares, bins.counts, bins.rows, bins.total)

    @property
    def own_squares(self) -> Float64s:
        """The sum of the squares of the independent parts of each S: Q."""
        return self.moments.squared_residuals

    @property
    def square(self) -> float:
        """The unbiased squared l2 error of the data."""
        return float(self.debiased_square(self.moments.gap_sums, self.own_squares))

    def maximum(self, gap_sums: Float64s) -> Float64s:
        """Return the largest gap of the bins with rows enough; NaN without such a bin."""
        return largest_gap(gap_sums[..., self.held], self.moments.counts[self.held])

    def standard_maximum(self, gap_sums: Float64s) -> Float64s:
        """Return the largest |S| of the same bins in standard deviations under calibration, of one row or more.

        It has power for rare events too, where the largest gap itself is decided by the noisiest bin.
        """
        unit = (self.moments.total / self.moments.effective_n) ** 2
        deviations = np.sqrt(np.maximum(self.null_variances, unit))
        return largest_gap(gap_sums[..., self.held], deviations[self.held])

    @property
    def units(self) -> Float64s:
        """The effective number of units in each bin: of rows, or of clusters."""
        return self.moments.rows

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """The bins with 30 rows and 10 units, which take part in the maximum."""
        return enough_rows(self.moments.rows, LEAST_ROWS) & enough_rows(self.units, LEAST_CLUSTERS)

    # ------------------------------------------------------------ under calibration

    @property
    def null_variances(self) -> Float64s:
        """The variance of each S under calibration: V0."""
        return self.moments.null_variances

    @property
    def varied(self) -> NDArray[np.bool_]:
        """The bins whose S varies under calibration."""
        return np.asarray(self.moments.null_variances > 0)

    @property
    def null_absolute(self) -> GammaMoments | None:
        """The distribution of sum |S| under calibration; None where nothing varies."""
        variances = self.null_variances[self.varied]
        return absolute_moments(variances) if len(variances) else None

    @property
    def null_rounding(self) -> float:
        """The most that sum |S| is by rounding where nothing varies."""
        return 0.0

    def null_square(self, weights: Float64s) -> tuple[float, float]:
        """Return the mean under calibration of sum a S^2, a these weights, and the degrees of freedom of its fit.

        They are sum a V0, and (sum a V0)^2 / sum (a V0)^2.
        """
        parts = weights * self.moments.null_variances
        mean = float(parts.sum())
        return mean, 1 / float(np.sum((parts / mean) ** 2)) if mean else 0.0

    @property
    def pair_weights(self) -> Float64s:
        """What S^2 of each bin adds to the unbiased squared error: 1 / (n N)."""
        return 1 / (self.moments.counts * self.moments.total)

    # ------------------------------------------------------------ unchanged

    @property
    def deff(self) -> Float64s | float:
        """The design effect of each S."""
        return 1.0

    @cached_property
    def variances(self) -> Float64s:
        """v, the variance of each S; above 0."""
        blended = blend(self.units, self.moments.squared_residuals, self.moments.null_variances)
        return np.maximum(blended * self.deff, _TINY)

    @property
    def common(self) -> Sequence[Float64s]:
        """The signs of the bins' gaps where something moves several bins together, (M,) each; none in general."""
        return ()

    def linear(self, slopes: Sequence[Float64s]) -> list[Variance]:
        """Return the variance of sum f S for each f, slopes of the bins, (M,)."""
        bins, times = self.moments, self.dependence

        def variance(f: Float64s) -> float:
            blended, seen = (bins.spread(f, times * v) ** 2 for v in (self.variances, bins.squared_residuals))
            return centred_blend(bins.effective_n, seen, times * float(np.sum(f**2 * bins.null_variances)), blended)

        return [Variance(variance(f)) for f in slopes]

    @cached_property
    def correlations(self) -> Correlations:
        """The correlations of the bins' S; `Correlations.squares` takes those under calibration."""
        n = len(self.moments.counts)
        return Correlations(np.empty((0, n)), np.ones(n, dtype=bool), self.dependence, self.null_dependence)

    # ------------------------------------------------------------ around the gaps of the bins

    @property
    def gap_deff(self) -> Float64s | float:
        """The design effect of each S around the gap of its bin."""
        return 1.0

    @cached_property
    def gap_variances(self) -> Float64s:
        """The variance of each S around the gap of its bin."""
        return blend(self.units, self.moments.within, self.moments.null_variances) * self.gap_deff

    @property
    def gap_correlations(self) -> Correlations:
        """The correlations of the bins' S around the gaps of the bins."""
        return self.correlations

    @property
    def pair_noise(self) -> float:
        """The variance of the unbiased squared error where all gaps are 0.

        It is 2 sum o^2 u^2 / (n (n - 1)), o = n / N and u the variance of one residual around its bin's gap.
        """
        bins = self.moments
        n, several = bins.rows, bins.rows > 1
        of_bins = n * self.gap_variances / (bins.counts * bins.total)
        return 2 * float(np.sum(of_bins[several] ** 2 / (n * (n - 1))[several]))

    def influence(self, gaps: Float64s) -> Variance:
        """Return the variance of the sum over rows of 2 D r - D^2, D these gaps of the bins and r = p - y.

        It is 4 sum D^2 u + sum n (D^2 - m)^2, m the mean of D^2.
        """
        return Variance(4 * float(np.sum(gaps**2 * self.gap_variances)) + self.between(gaps**2))

    def between(self, squares: Float64s) -> float:
        """Return the variance of the sum over rows of the squared gap of their bin, from the squared gaps D^2, (M,).

        Of independent rows it is sum n (D^2 - m)^2, m the mean of D^2.
        """
        mean = float(np.sum(self.moments.counts * squares)) / self.moments.total
        return float(np.sum(self.moments.square_weights * (squares - mean) ** 2))

    # ------------------------------------------------------------ rates

    def outcomes(self, slopes: Float64s, rate: float) -> Variance:
        """Return the variance of sum f (y - r) over rows, r a rate, if scores tell nothing of the outcomes."""
        return Variance(float(np.sum(self.moments.square_weights * slopes**2)) * rate * (1 - rate))

    def rate_rows(self, tail: float) -> Float64s:
        """Return in how many independent rows each rate would be as uncertain, for a bound at ``tail``."""
        del tail
        return self.moments.rate_rows

    def mean_score_margins(self, tail: float) -> Float64s:
        """Return the squared half width of the bound of each mean score at ``tail``."""
        from scipy.special import ndtri

        return np.asarray(float(ndtri(tail)) ** 2 * self.moments.mean_variances)
