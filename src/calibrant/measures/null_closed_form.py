"""What perfect calibration shows, in closed form: the normal approximation of the sums over bins.

Under calibration S of a bin is nearly normal with variance V0 = sum p (1 - p). So the l1 error is a sum of folded
normals, the squared l2 error a weighted sum of chi-squares (fitted by one of equal mean and variance), the maximum that
of independent folded normals, the largest cumulative residual that of a Brownian motion.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.binned.intervals import BinMoments, BinStatistics
from calibrant.measures.cumulative.brownian import RANGE_MEAN, brownian_range_quantile, brownian_range_sf
from calibrant.measures.cumulative.intervals import BROWNIAN_MEAN, brownian_quantile, brownian_sf
from calibrant.results import Floor
from calibrant.statistics.cells import Cells
from calibrant.statistics.null import Law

Float64s = NDArray[np.float64]

_FOLDED_SKEWNESS: Final = math.sqrt(2) * (4 - math.pi) / (math.pi - 2) ** 1.5  # of |Z|, Z standard normal


def absolute_law(bins: BinMoments, value: float, level: float) -> Law:
    """Return floor and p-value of the l1 error.

    Its mean is sqrt(2 / pi) sum sqrt(V0) / N, its variance (1 - 2 / pi) sum V0 / N^2, its skewness that of a folded
    normal times sum V0^(3/2) / (sum V0)^(3/2); the law is the gamma law with these moments.
    """
    if not bins.null_variances.any():
        return Law(Floor(0.0, 0.0), float(value <= 0))
    law = absolute_moments(bins.null_variances, bins.total)
    return Law(Floor(law.mean, law.quantile(level)), float(law.tail(np.asarray(value))))


class GammaMoments(NamedTuple):
    """The mean, the standard deviation and the skewness of a shifted gamma law (Pearson's type III)."""

    mean: float
    sd: float
    skewness: float

    def tail(self, values: Float64s) -> Float64s:
        """Return the probability of more than each value."""
        from scipy.special import gammaincc

        shape = 4 / self.skewness**2
        places = shape + math.sqrt(shape) * (values - self.mean) / self.sd
        return np.asarray(gammaincc(shape, np.maximum(places, 0.0)))

    def quantile(self, share: float) -> float:
        """Return the value that is exceeded with probability 1 - share."""
        from scipy.special import gammaincinv

        shape = 4 / self.skewness**2
        return self.mean + self.sd * (float(gammaincinv(shape, share)) - shape) / math.sqrt(shape)


def absolute_moments(null_variances: Float64s, total: float) -> GammaMoments:
    """Return the moments of the l1 error of independent bins, from the variances of their S; not all may be 0."""
    whole = float(null_variances.sum())
    return GammaMoments(
        mean=math.sqrt(2 / math.pi) * float(np.sqrt(null_variances).sum()) / total,
        sd=math.sqrt((1 - 2 / math.pi) * whole) / total,
        skewness=_FOLDED_SKEWNESS * float(np.sum((null_variances / whole) ** 1.5)),
    )


def exact_absolute_law(
    counts: Float64s,
    rates: Float64s,
    units: Float64s,
    total: float,
    value: float,
    level: float,
    *,
    dependence: float = 1.0,
) -> Law:
    """Return floor and p-value of the l1 error of many bins, each a binomial count of rows of some weight.

    E |k - n p| = 2 (m + 1) C(n, m + 1) p^(m + 1) (1 - p)^(n - m) with m = floor(n p) (de Moivre).
    """
    from scipy.special import gammaln, xlog1py, xlogy

    n, p = np.rint(counts), np.clip(rates, 0.0, 1.0)
    m = np.minimum(np.floor(n * p), np.maximum(n - 1, 0))
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m) + xlogy(m + 1, p) + xlog1py(n - m, -p)
    deviations = np.where(n > 0, 2 * np.exp(logs), 0.0)
    squares = np.maximum(n * p * (1 - p) - deviations**2, 0.0)
    sd = math.sqrt(dependence * float(np.sum(units**2 * squares))) / total
    return _normal_law(float(np.sum(units * deviations)) / total, sd, value, level)


def square_laws(bins: BinMoments, value: float, level: float) -> tuple[Law, Law]:
    """Return the laws of the l2 error, which has this value, and of its debiased square; their p-value is the same.

    N times the square is sum S^2 / n with mean sum V0 / n and variance 2 sum (V0 / n)^2: as a chi-square with
    mean^2 / (variance / 2) degrees of freedom, scaled.
    """
    from scipy.special import chdtrc, chdtri, gammaln

    parts = bins.null_variances / bins.counts
    mean = float(parts.sum())
    if mean == 0:
        none = Law(Floor(0.0, 0.0), float(value <= 0))
        return none, none
    freedom = 1 / float(np.sum((parts / mean) ** 2))
    scale = mean / freedom
    upper = scale * float(chdtri(freedom, 1 - level))
    root = math.sqrt(2 * scale) * math.exp(float(gammaln((freedom + 1) / 2) - gammaln(freedom / 2)))
    tail = float(chdtrc(freedom, value**2 * bins.total / scale))
    n = bins.total
    return Law(Floor(root / math.sqrt(n), math.sqrt(upper / n)), tail), Law(Floor(0.0, (upper - mean) / n), tail)


def maximum_law(statistics: BinStatistics, level: float) -> Law:
    """Return the floor of the largest gap, and the p-value of the largest gap in standard deviations."""
    from scipy.special import ndtr

    bins, held = statistics.bins, statistics.held
    scales = (np.sqrt(bins.null_variances) / bins.counts)[held]
    if not scales.any():
        return Law(Floor(0.0, 0.0), float(not statistics.bins.gap_sums.any()))
    grid = np.linspace(0.0, 8 * scales.max(), 4001)
    spread = np.maximum(scales, 1e-300)
    chances = np.prod(2 * ndtr(grid[:, None] / spread) - 1, axis=1)
    mean = float(np.trapezoid(1 - chances, grid))
    upper = float(np.interp(level, chances, grid))
    unit = (bins.total / bins.effective_n) ** 2
    ratio = np.sqrt(np.maximum(bins.null_variances, unit) / np.maximum(bins.null_variances, 1e-300))[held]
    standard = float(statistics.standard_maximum(bins.gap_sums))
    with np.errstate(divide="ignore"):  # where nothing deviates the product is 0 and p is 1
        inside = np.log1p(-2 * ndtr(-standard * ratio))
    return Law(Floor(mean, upper), float(abs(np.expm1(np.sum(inside)))))


def cumulative_law(cells: Cells, value: float, level: float) -> Law:
    """Return the floor and the p-value of the largest cumulative residual: sup |W| of a Brownian motion."""
    sd = math.sqrt(float(cells.null_variances.sum())) / cells.total
    if sd == 0:
        return Law(Floor(0.0, 0.0), float(value <= 0))
    return Law(Floor(BROWNIAN_MEAN * sd, brownian_quantile(level) * sd), brownian_sf(value / sd))


def range_law(cells: Cells, value: float, level: float) -> Law:
    """Return the floor and the p-value of the range of the cumulative residuals: that of a Brownian motion."""
    sd = math.sqrt(float(cells.null_variances.sum())) / cells.total
    if sd == 0:
        return Law(Floor(0.0, 0.0), float(value <= 0))
    return Law(Floor(RANGE_MEAN * sd, brownian_range_quantile(level) * sd), brownian_range_sf(value / sd))


def mean_gap_law(cells: Cells, value: float, level: float) -> Law:
    """Return the floor of the size of the mean gap, and the two-sided p-value of the mean gap."""
    from scipy.special import ndtr, ndtri

    sd = math.sqrt(float(cells.null_variances.sum())) / cells.total
    if sd == 0:
        return Law(Floor(0.0, 0.0), float(abs(value) < 1e-15))
    upper = float(ndtri(0.5 + level / 2)) * sd
    return Law(Floor(math.sqrt(2 / math.pi) * sd, upper), 2 * float(ndtr(-abs(value) / sd)))


def _normal_law(mean: float, sd: float, value: float, level: float) -> Law:
    from scipy.special import ndtr, ndtri

    if sd == 0:
        return Law(Floor(mean, mean), float(value <= mean))
    return Law(Floor(mean, mean + float(ndtri(level)) * sd), float(ndtr((mean - value) / sd)))
