"""Intervals of binned calibration errors, from the sums over bins: no resampling, no folds, valid near zero.

A bin has n rows, S = sum (p - y), Q = sum (p - y)^2 and V0 = sum p (1 - p). The estimates of variance blend what was
seen with what calibration implies, v = (n Q + 5 V0) / (n + 5). N is the number of rows, T the reported value, z the
normal quantile of 1 - alpha / 2. The lower end is 0 unless the test of calibration by the same measure rejects at
alpha / 2; the upper end is never below T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import effective_n, rate_rows
from calibrant.measures.binned.binned import (
    LEAST_ROWS,
    absolute_error,
    debiased_square,
    enough_rows,
    largest_gap,
    root_square_error,
    uniform_edges,
)
from calibrant.results import ReliabilityDiagram
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells, spread_of
from calibrant.statistics.intervals import (
    FEWEST,
    blend,
    clopper_pearson,
    consistency_band,
    score_end,
    thinned,
    unbiased_end,
)

Float64s = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BinMoments:
    """Sums over the filled bins, each (M,).

    Attributes
    ----------
    index, first
        The place of the bin among all bins, and its first cell.
    rows
        n, the effective sample size of the bin.
    counts, score_sums, gap_sums
        The weight, the sum of the scores, and S, the sum of score - outcome.
    squared_residuals, null_variances
        Q and V0, in units of squared weight.
    square_weights, squared_gaps, squared_positives
        The sums of 1, of score - outcome and of outcomes, in units of squared weight; with whole weights those of
        weight.
    total, weight, effective_n : float
        The weight of all bins, and that of all rows with their effective sample size: where bins are of several
        classes, a row is in one bin of each.
    """

    index: NDArray[np.intp]
    first: NDArray[np.intp]
    rows: Float64s
    counts: Float64s
    score_sums: Float64s
    gap_sums: Float64s
    squared_residuals: Float64s
    null_variances: Float64s
    square_weights: Float64s
    squared_gaps: Float64s
    squared_positives: Float64s
    total: float
    weight: float
    effective_n: float

    @classmethod
    def of(cls, cells: Cells, bins: NDArray[np.intp]) -> BinMoments:
        """Return the moments of the bins; ``bins`` is the bin of each cell, in increasing order."""
        first = np.flatnonzero(np.diff(bins, prepend=-1))

        def cut(values: Float64s) -> Float64s:
            return np.add.reduceat(values, first)

        counts, squares = cut(cells.counts), cut(cells.square_weights)
        positives = cells.positives if cells.table.square_weights is None else cells.table.square_weights[1]
        return cls(
            index=bins[first],
            first=first,
            rows=effective_n(counts, squares),
            counts=counts,
            score_sums=cut(cells.score_sums),
            gap_sums=cut(cells.gap_sums),
            squared_residuals=cut(cells.squared_residuals),
            null_variances=cut(cells.null_variances),
            square_weights=squares,
            squared_gaps=cut(cells.squared_gaps),
            squared_positives=cut(positives),
            total=cells.total,
            weight=cells.total,
            effective_n=cells.effective_n,
        )

    @property
    def variances(self) -> Float64s:
        """The blended estimates of the variance of S."""
        return blend(self.rows, self.squared_residuals, self.null_variances)

    @property
    def within(self) -> Float64s:
        """The sum of (r - D)^2 around the gap D of the bin, in units of squared weight."""
        gaps = self.gap_sums / self.counts
        return np.maximum(self.squared_residuals - gaps * (2 * self.squared_gaps - gaps * self.square_weights), 0.0)

    @property
    def around(self) -> Float64s:
        """The blended estimates of the variance of S around the gap of the bin."""
        return blend(self.rows, self.within, self.null_variances)

    @property
    def noise(self) -> Float64s:
        """The variance of the gap of each bin."""
        return self.around / self.counts**2

    @property
    def rates(self) -> Float64s:
        """The outcome rate of each bin."""
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
class BinStatistics:
    """The binned measures as functions of the cells' sums of residuals, for many replicates at once."""

    bins: BinMoments

    def over_bins(self, cell_sums: Float64s) -> Float64s:
        """Return the sums over each bin, (..., M), of sums over each cell, (..., K)."""
        return np.add.reduceat(cell_sums, self.bins.first, axis=-1)

    def absolute(self, gap_sums: Float64s) -> Float64s:
        """Return the l1 error from S of each bin."""
        return absolute_error(gap_sums, self.bins.total)

    def root_square(self, gap_sums: Float64s) -> Float64s:
        """Return the l2 error from S of each bin."""
        return root_square_error(gap_sums, self.bins.counts, self.bins.total)

    def debiased_square(self, gap_sums: Float64s, squared_residuals: Float64s) -> Float64s:
        """Return the unbiased squared l2 error from S and Q of each bin."""
        return debiased_square(gap_sums, squared_residuals, self.bins.counts, self.bins.rows, self.bins.total)

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """The bins with rows enough to take part in the maximum."""
        return enough_rows(self.bins.rows, LEAST_ROWS)

    def maximum(self, gap_sums: Float64s) -> Float64s:
        """Return the largest gap of the bins with 30 rows; NaN without such a bin."""
        return largest_gap(gap_sums[..., self.held], self.bins.counts[self.held])

    def standard_maximum(self, gap_sums: Float64s) -> Float64s:
        """Return the largest |S| / sqrt(max(V0, 1)) of the same bins: the gap in standard deviations.

        It has power for rare events too, where the largest gap itself is decided by the noisiest bin.
        """
        unit = (self.bins.total / self.bins.effective_n) ** 2
        deviations = np.sqrt(np.maximum(self.bins.null_variances, unit))
        return largest_gap(gap_sums[..., self.held], deviations[self.held])


def absolute_interval(
    bins: BinMoments,
    value: float,
    z: float,
    *,
    rejected: bool,
    spread: Callable[[Float64s], Float64s] | None = None,
    dependence: float = 1.0,
    noise: float | None = None,
) -> tuple[float, float]:
    """Return the interval of the l1 error.

    low = [G - z sqrt(sum v g'(X)^2 - (sum g'(X) S)^2 / N)] / N with X = S / sqrt(v) and G = sum sqrt(v) g(X). The upper
    end is the smallest of three: T + z sqrt(sum v - N T^2) / N (Jensen), G with its largest bias, .481 sum sqrt(v), and
    the same spread, for as much as four equal bins, and a bound by Cauchy and Schwarz with a chi-square inverted in its
    score.

    Parameters
    ----------
    spread
        From slopes f of the bins, (2, M), to the standard deviations of sum f r over rows, where they are known better
        than from the bins: for bins of several classes, whose rows are the same.
    dependence
        How many times the variance of a sum over bins may exceed the variance for independent bins.
    noise
        The same for the sum of squares of S under calibration; by default ``dependence``.
    """
    v, s = np.maximum(bins.variances, np.finfo(float).tiny), bins.gap_sums
    g, slope = thinned(s / np.sqrt(v))
    if spread is None:
        sds = bins.spread(slope, dependence * v), bins.spread(np.sign(s), dependence * v)
    else:
        sds = tuple(spread(np.stack([slope, np.sign(s)])).tolist())
    middle, roots = float(np.sum(np.sqrt(v) * g)), float(np.sum(np.sqrt(v)))
    low = middle - z * sds[0]
    jensen = float(np.sum(np.abs(s))) + z * sds[1]
    least_biased = unbiased_end(middle, roots, z * sds[0], several=roots**2 >= FEWEST * sds[1] ** 2)
    squares = _cauchy_schwarz(bins, v, z, dependence, dependence if noise is None else noise)
    high = min(jensen, least_biased, squares) / bins.total
    return (max(low / bins.total, 0.0) if rejected else 0.0), max(high, value)


def _cauchy_schwarz(bins: BinMoments, v: Float64s, z: float, dependence: float, noise: float) -> float:
    uncertain = bins.null_variances > 0
    w = np.sqrt(bins.null_variances[uncertain])
    rest = float(np.sum(np.abs(bins.gap_sums[~uncertain]) + z * np.sqrt(v[~uncertain])))  # scores of 0 and 1 alone
    if not uncertain.any():
        return rest
    v, square, s = v[uncertain], bins.squared_residuals[uncertain], bins.gap_sums[uncertain]
    with np.errstate(over="ignore", invalid="ignore"):  # where a bin's scores are nearly certain
        a = float(np.sum((s**2 - square) / w))
        spread = noise * 2 * float(np.sum(np.maximum(v, w**2) ** 2 / w**2))
        h = np.maximum(s**2 - square, 0.0)
        rho = float(np.sum(v) / np.sum(w))
        if h.any():
            rho = max(float(np.sum(h * v / w**2) / np.sum(h / w)), rho)
        rho *= dependence
    if not math.isfinite(a + spread + rho):
        return math.inf  # it bounds nothing
    return float(np.sqrt(np.sum(w) * max(0.0, score_end(a, rho, spread, z)))) + rest


def square_interval(
    bins: BinMoments, value: float, z: float, *, rejected: bool, dependence: float = 1.0
) -> tuple[float, float]:
    """Return the interval of the squared l2 error around its unbiased estimate.

    With o = n / N, D = S / n, u the variance of one residual around its bin's mean and D2 = max(D^2 - u / n, 0):
    low = T - z se, se^2 = sum o [4 D2 u + (D2 - sum o D2)^2] / N + 2 sum o^2 u^2 / (n (n - 1)). The upper end solves
    the same for the true value, with the largest variance that value allows.
    """
    blended, d2 = bins.around, np.maximum((bins.gap_sums / bins.counts) ** 2 - bins.noise, 0.0)
    mean_d2 = float(np.sum(bins.counts * d2)) / bins.total
    noise = _pair_noise(bins)
    se = math.sqrt(dependence * (_influence_variance(bins, d2) + noise))
    spread = dependence * (noise + float(np.sum(bins.square_weights * (d2 - mean_d2) ** 2)) / bins.total**2)
    r = float(np.sum(blended))
    if mean_d2 > 0:
        r = max(float(np.sum(d2 * blended)) / mean_d2, r)
    r *= dependence / bins.total**2
    high = score_end(max(value, 0.0), r, spread, z)
    return (max(value - z * se, 0.0) if rejected else 0.0), max(high, value)


def square_variance(bins: BinMoments) -> float:
    """Return the variance of the debiased squared l2 error of independent rows.

    The larger of two: the variance of the influences 2 D r - D^2, which is right if gaps are large; and their variance
    without the noise of D plus the variance of the estimate's own noise, which is right near zero.
    """
    d2 = (bins.gap_sums / bins.counts) ** 2
    steady = _influence_variance(bins, np.maximum(d2 - bins.noise, 0.0)) + _pair_noise(bins)
    return max(_influence_variance(bins, d2), steady)


def _influence_variance(bins: BinMoments, d2: Float64s) -> float:
    """Return the variance of the mean of the influences 2 D r - D^2, for these squared gaps of the bins."""
    mean = float(np.sum(bins.counts * d2)) / bins.total
    between = float(np.sum(bins.square_weights * (d2 - mean) ** 2))
    return (4 * float(np.sum(d2 * bins.around)) + between) / bins.total**2


def _pair_noise(bins: BinMoments) -> float:
    """Return 2 sum o^2 u^2 / (n (n - 1)): the variance of the unbiased squared error where all gaps are 0."""
    n, several = bins.rows, bins.rows > 1
    return 2 * float(np.sum((n * bins.around / (bins.counts * bins.total))[several] ** 2 / (n * (n - 1))[several]))


def bin_diagram(
    n_bins: int,
    *,
    places: NDArray[np.intp],
    counts: Float64s,
    rows: Float64s,
    rate_rows: Float64s,
    score_sums: Float64s,
    gap_sums: Float64s,
    level: float,
    integer_weights: bool,
) -> ReliabilityDiagram:
    """Return filled bins as a diagram, with Clopper-Pearson intervals of their rates and the band of calibration."""
    rates = np.clip((score_sums - gap_sums) / counts, 0.0, 1.0)
    everywhere = np.full((5, n_bins), math.nan)
    everywhere[:, places] = counts, score_sums / counts, rates, rows, rate_rows
    held, mean_scores, event_rates, sizes, rate_sizes = everywhere
    held = np.nan_to_num(held)
    diagram = ReliabilityDiagram(
        edges=uniform_edges(n_bins),
        counts=np.rint(held).astype(np.int64) if integer_weights else held,
        confidences=mean_scores,
        accuracies=event_rates,
        proportions=held / held.sum(),
    )
    return with_intervals(diagram, sizes, rate_sizes, level)


def with_intervals(
    diagram: ReliabilityDiagram, rows: Float64s, rate_rows: Float64s, level: float
) -> ReliabilityDiagram:
    """Return a diagram with Clopper-Pearson intervals of the bins' rates and the band of calibration, in closed form.

    ``rows`` and ``rate_rows``, (M,), are the effective sample sizes of the mean score and of the rate of each bin.
    """
    filled, tail = diagram.counts > 0, (1 - level) / 2
    rates, sizes = diagram.accuracies[filled], rate_rows[filled]
    low, high, least, most = columns = np.full((4, len(filled)), math.nan)
    columns[:2, filled] = clopper_pearson(rates * sizes, sizes, tail)
    columns[2:, filled] = consistency_band(diagram.confidences[filled], rows[filled], tail)
    return replace(diagram, lows=low, highs=high, band_lows=least, band_highs=most, level=level)


def maximum_interval(bins: BinMoments, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the largest gap among the bins with at least 30 rows.

    The upper end is the largest of the bins' one-sided bounds of their own gap, each at alpha / 2; the lower end is the
    largest one-sided bound at alpha / (2 m) among the m bins that may hold the maximum. A bound is Clopper's and
    Pearson's of the rate, widened in quadrature by the spread of the mean score.
    """
    from scipy.special import ndtri

    held = enough_rows(bins.rows, LEAST_ROWS)
    n, rates, gaps = bins.rate_rows[held], bins.rates[held], (bins.gap_sums / bins.counts)[held]
    variances = bins.mean_variances[held]

    def bounds(alpha: float) -> tuple[Float64s, Float64s]:
        least, most = clopper_pearson(rates * n, n, alpha)
        scores = float(ndtri(alpha)) ** 2 * variances
        below, above = gaps - np.sqrt((most - rates) ** 2 + scores), gaps + np.sqrt((rates - least) ** 2 + scores)
        return np.maximum(np.maximum(below, -above), 0.0), np.maximum(above, -below)

    lower, upper = bounds(0.005)
    contact = upper >= lower.max()
    tail = (1 - level) / 2
    low = float(bounds(tail / np.count_nonzero(contact))[0][contact].max())
    high = float(bounds(tail)[1].max())
    return (low if rejected else 0.0), max(high, value)
