"""What perfect calibration shows, in closed form: the normal approximation of the sums over bins.

Under calibration S of a bin is nearly normal with variance V0 = sum p (1 - p). So the l1 error is a sum of folded
normals, the squared l2 error a weighted sum of chi-squares (fitted by one of equal mean and variance), the maximum that
of independent folded normals, the largest cumulative residual that of a Brownian motion.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.measures.cumulative.brownian import RANGE_MEAN, brownian_range_quantile, brownian_range_sf
from calibrant.measures.cumulative.intervals import BROWNIAN_MEAN, brownian_quantile, brownian_sf
from calibrant.results import Floor
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.null import Law


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
