"""Intervals and null distributions of binned calibration errors, from the sums over bins, without resampling.

In the formulas a bin has n rows, S = sum (p - y) with the variance v, Q = sum (p - y)^2 and V0 = sum p (1 - p); N is
the number of rows, T the reported value, t the quantile of 1 - alpha / 2, of the normal distribution or of Student's.
The lower end is 0 unless the test of calibration by the same measure rejects at alpha / 2; the upper end is never below
T. The intervals are valid near zero.

Under calibration the S of bins are nearly normal with the covariance that `BinSums` tells. So the l1 error is a sum of
folded normals, the squared l2 error a weighted sum of chi-squares (fitted by one of equal mean and variance), the
maximum that of folded normals.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import largest_gap, root_square_error
from calibrant.results import Floor
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.intervals import (
    Variance,
    clopper_pearson,
    consistency_band,
    score_end,
    thinned_ends,
)
from calibrant.statistics.null import Law
from calibrant.statistics.resampling import alpha_of, t_quantile


def absolute_interval(sums: BinSums, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the l1 error.

    Its ends are `thinned_ends` of the sum of |S|, by N; the upper end is not above a bound by Cauchy and Schwarz with a
    chi-square inverted in its score.
    """
    low, high, df = thinned_ends(
        sums.moments.gap_sums,
        np.sqrt(sums.variances),
        total=lambda values: float(np.sum(values)),
        variances=sums.linear,
        common=sums.common,
        level=level,
    )
    low = max(low / sums.moments.total, 0.0) if rejected else 0.0
    high = min(high, _cauchy_schwarz(sums, t_quantile(level, df))) / sums.moments.total
    return min(low, value), max(high, value)


def _cauchy_schwarz(sums: BinSums, t: float) -> float:
    """Return the bound sqrt(sum W m), W = sqrt V0 and m the upper end of sum S^2 / W, whose variance grows with it.

    A = sum (S^2 - Q deff) / W estimates m. Its variance is 4 rho m + B, B = 2 sum_bc Sigma_bc^2 / (W_b W_c) the one
    without gaps, rho the largest of those for gaps that are large in the direction of the signs, of what was seen, of a
    common effect of the clusters, or in each bin alone.
    """
    moments, v = sums.moments, sums.variances
    uncertain = moments.null_variances > 0
    rest = float(np.sum((np.abs(moments.gap_sums) + t * np.sqrt(v))[~uncertain]))  # scores of 0 and 1 alone
    if not uncertain.any():
        return rest
    w = np.where(uncertain, np.sqrt(moments.null_variances), 1.0)
    expected, s = moments.squared_residuals * sums.deff, moments.gap_sums

    def over(values: Float64s) -> float:
        return float(np.sum(values[uncertain]))

    def quadratic(direction: Float64s) -> float:
        return sums.correlations.quadratic(np.where(uncertain, direction * np.sqrt(v), 0.0))

    with np.errstate(over="ignore", invalid="ignore"):  # where a bin's scores are nearly certain
        largest = np.maximum(v, w**2 * sums.deff)
        noise = 2 * sums.correlations.squares(np.where(uncertain, largest / w, 0.0))
        signs, h = np.where(s >= 0, 1.0, -1.0), np.where(uncertain, np.maximum(s**2 - expected, 0.0), 0.0)
        rho = max(over(v), *map(quadratic, (signs, *sums.common))) / over(w)
        if h.any():
            rho = max(rho, max(quadratic(signs * np.sqrt(h) / w), over(h * v / w**2)) / over(h / w))
        excess = over((s**2 - expected) / w)
    if not math.isfinite(excess + noise + rho):
        return math.inf  # it bounds nothing
    return math.sqrt(over(w) * max(0.0, score_end(excess, rho, noise, t))) + rest


@dataclass(frozen=True, eq=False, kw_only=True)
class SteadyGaps:
    """The gaps of the bins without their noise, the root of max(D^2 - v' / n^2, 0) with the sign of D, (M,).

    ``mean`` is the mean over rows of their squares.
    """

    values: Float64s
    mean: float

    @classmethod
    def of(cls, sums: BinSums) -> SteadyGaps:
        moments = sums.moments
        gaps = moments.gap_sums / moments.counts
        values = np.sign(gaps) * np.sqrt(np.maximum(gaps**2 - sums.gap_variances / moments.counts**2, 0.0))
        return cls(values=values, mean=float(np.sum(moments.counts * values**2)) / moments.total)


def square_interval(sums: BinSums, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the squared l2 error around its unbiased estimate T.

    low = T - t se, se^2 = var(sum of 2 D r - D^2 over rows) / N^2 + nu, D the gaps without their noise and nu the noise
    of the estimate where all gaps are 0. The upper end solves the same for the true value, with the largest variance
    that value allows.
    """
    gaps, total, noise = SteadyGaps.of(sums), sums.moments.total, sums.pair_noise
    variance = sums.influence(gaps.values)
    t = t_quantile(level, variance.df)
    low = value - t * math.sqrt(variance.value / total**2 + noise)
    rest = noise + sums.between(gaps.values**2) / total**2
    high = score_end(max(value, 0.0), _growth(sums, gaps), rest, t)
    return (max(low, 0.0) if rejected else 0.0), max(high, value)


def larger(plain: Variance, steady: Variance, noise: float) -> Variance:
    """Return the larger of two variances of a squared error, or of a difference of two.

    That of the influences 2 D r - D^2, which is right if gaps are large; and that without the noise of D plus the
    variance of the estimate's own noise, which is right near zero, where the estimate is far from normal.
    """
    return plain._replace(value=max(plain.value, steady.value + max(noise, 0.0)))


def _growth(sums: BinSums, gaps: SteadyGaps) -> float:
    """Return a quarter of the growth of the square's variance with its true value: in the worst direction."""
    roots = np.sqrt(sums.gap_variances) / sums.moments.total
    signs = np.where(sums.moments.gap_sums >= 0, 1.0, -1.0)
    directions = [sums.gap_correlations.quadratic(x * roots) for x in (signs, *sums.common)]
    growth = max(float(np.sum(roots**2)), *directions)
    if gaps.mean > 0:
        growth = max(growth, sums.gap_correlations.quadratic(gaps.values * roots) / gaps.mean)
    return growth


def maximum_interval(sums: BinSums, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the largest gap among the bins that are `BinSums.held`; there must be one or more.

    The upper end is the largest of the bins' one-sided bounds of their own gap, each at alpha / 2; the lower end is the
    largest one-sided bound at alpha / (2 m) among the m bins that may hold the maximum. A bound is Clopper's and
    Pearson's of the rate, widened in quadrature by the uncertainty of the mean score.
    """
    held, moments = sums.held, sums.moments
    gaps, rates = (moments.gap_sums / moments.counts)[held], moments.rates[held]

    def bounds(alpha: float) -> tuple[Float64s, Float64s]:
        n, scores = sums.rate_rows(alpha)[held], sums.mean_score_margins(alpha)[held]
        least, most = clopper_pearson(rates * n, n, alpha)
        below, above = gaps - np.sqrt((most - rates) ** 2 + scores), gaps + np.sqrt((rates - least) ** 2 + scores)
        return np.maximum(np.maximum(below, -above), 0.0), np.maximum(above, -below)

    lower, upper = bounds(0.005)
    contact = upper >= lower.max()
    tail = alpha_of(level) / 2
    low = float(bounds(tail / np.count_nonzero(contact))[0][contact].max())
    high = float(bounds(tail)[1].max())
    return (min(low, value) if rejected else 0.0), max(high, value)


def rate_band(sums: BinSums, level: float) -> tuple[Float64s, Float64s]:
    """Return what the bins' observed frequencies are within if the scores are right: binomial quantiles.

    They are of as many rows as n divided by the design effect under calibration.
    """
    moments = sums.moments
    means, variances, independent = moments.score_sums / moments.counts, sums.null_variances, moments.null_variances
    varied = (variances > 0) & (independent > 0)
    rows = moments.rows * np.where(varied, independent / np.where(varied, variances, 1.0), 1.0)
    low, high = consistency_band(np.where(varied, means, 0.5), rows, alpha_of(level) / 2)
    return np.where(varied, low, means), np.where(varied, high, means)


def rate_intervals(sums: BinSums, level: float) -> tuple[Float64s, Float64s]:
    """Return Clopper and Pearson's interval of each bin's observed frequency, in as many independent rows."""
    tail = alpha_of(level) / 2
    rows = sums.rate_rows(tail)
    return clopper_pearson(sums.moments.rates * rows, rows, tail)


def absolute_law(sums: BinSums, level: float, value: float | None = None) -> Law:
    """Return floor and p-value of the l1 error, by default that of these sums: the gamma distribution of sum |S|."""
    total, gamma = sums.moments.total, sums.null_absolute
    absolute = float(np.abs(sums.moments.gap_sums).sum()) if value is None else value * total
    if gamma is None:
        return Law(Floor(0.0, 0.0), float(absolute <= sums.null_rounding))
    return Law(Floor(gamma.mean / total, gamma.quantile(level) / total), float(gamma.tail(np.asarray(absolute))))


def square_laws(sums: BinSums, level: float) -> tuple[Law, Law]:
    """Return the distributions of the l2 error and of its debiased square; their p-value is the same.

    N times the square is sum S^2 / n, fitted by a scaled chi-square of the same mean and variance. The debiased square
    is less its mean, with other weights of the bins.
    """
    from scipy.special import chdtrc, chdtri, gammaln

    total, moments = sums.moments.total, sums.moments
    value = float(root_square_error(moments.gap_sums, moments.counts, total))
    mean, df = sums.null_square(1 / moments.counts)
    if mean == 0:
        none = Law(Floor(0.0, 0.0), float(value * total <= sums.null_rounding))
        return none, none
    scale = mean / df
    upper = scale * float(chdtri(df, 1 - level))
    root = math.sqrt(2 * scale) * math.exp(float(gammaln((df + 1) / 2) - gammaln(df / 2)))
    tail = float(chdtrc(df, value**2 * total / scale))
    of_pairs, df = sums.null_square(sums.pair_weights)
    debiased = of_pairs * (float(chdtri(df, 1 - level)) / df - 1) if of_pairs else 0.0
    return Law(Floor(root / math.sqrt(total), math.sqrt(upper / total)), tail), Law(Floor(0.0, debiased), tail)


def maximum_law(sums: BinSums, level: float) -> Law:
    """Return the floor of the largest gap of `BinSums.held`, and the p-value of the largest in standard deviations.

    The product over bins as if they were independent bounds the probability from above whatever their dependence
    (Sidak 1967).
    """
    from scipy.special import ndtr

    moments, held = sums.moments, sums.held
    variances = np.where(sums.varied, sums.null_variances, 0.0)[held]
    # Where nothing varies although the scores are uncertain, only rounding is left of S.
    steady = (variances == 0) & (moments.null_variances[held] > 0)
    gap_sums = np.where(steady, 0.0, moments.gap_sums[held])
    scales = np.sqrt(variances) / moments.counts[held]
    if not scales.any():
        return Law(Floor(0.0, 0.0), float(not gap_sums.any()))
    grid = np.linspace(0.0, 8 * scales.max(), 4001)
    chances = np.prod(2 * ndtr(grid[:, None] / np.maximum(scales, 1e-300)) - 1, axis=1)
    mean = float(np.trapezoid(1 - chances, grid))
    upper = float(np.interp(level, chances, grid))
    deviations = np.sqrt(np.maximum(variances, (moments.total / moments.effective_n) ** 2))
    ratio = deviations / np.sqrt(np.maximum(variances, 1e-300))
    standard = float(largest_gap(gap_sums, deviations))
    with np.errstate(divide="ignore"):  # where nothing deviates the product is 0 and p is 1
        inside = np.log1p(-2 * ndtr(-standard * ratio))
    return Law(Floor(mean, upper), float(abs(np.expm1(np.sum(inside)))))
