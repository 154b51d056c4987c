"""What binned errors are under calibration, in closed form.

Under calibration the S of bins are nearly normal with the covariance that `BinSums` tells. So the l1 error is a sum of
folded normals, the squared l2 error a weighted sum of chi-squares (fitted by one of equal mean and variance), the
maximum that of folded normals.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.measures.binned.binned import largest_gap
from calibrant.measures.binned.sums import BinSums
from calibrant.results import Floor
from calibrant.statistics.null import Law


def absolute_law(sums: BinSums, level: float, value: float | None = None) -> Law:
    """Return floor and p-value of the l1 error, by default that of these sums: the gamma distribution of sum |S|."""
    total, gamma = sums.moments.total, sums.null_absolute
    absolute = float(np.abs(sums.moments.gap_sums).sum()) if value is None else value * total
    if gamma is None:
        return Law(Floor(0.0, 0.0), float(absolute <= sums.null_rounding))
    return Law(Floor(gamma.mean / total, gamma.quantile(level) / total), float(gamma.tail(np.asarray(absolute))))


def square_laws(sums: BinSums, level: float) -> tuple[Law, Law]:
    """Return the laws of the l2 error and of its debiased square; their p-value is the same.

    N times the square is sum S^2 / n, fitted by a scaled chi-square of the same mean and variance. The debiased square
    is less its mean, with other weights of the bins.
    """
    from scipy.special import chdtrc, chdtri, gammaln

    total, moments = sums.moments.total, sums.moments
    value = float(sums.root_square(moments.gap_sums))
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
