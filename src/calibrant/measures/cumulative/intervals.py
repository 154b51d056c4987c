"""The interval and the null law of the largest cumulative residual."""

from __future__ import annotations

import math

import numpy as np

from calibrant.results import Floor
from calibrant.statistics.cells import Cells
from calibrant.statistics.null import Law
from calibrant.statistics.roots import root


def brownian_sf(x: float) -> float:
    """Return P(sup |W| > x) for a Brownian motion W on [0, 1].

    The distribution function is 4 / pi sum_k (-1)^k / (2 k + 1) exp(-(2 k + 1)^2 pi^2 / (8 x^2)); for large x the
    complement 2 sum_k (-1)^k 2 (1 - Phi((2 k + 1) x)), by reflections, keeps its digits.
    """
    from scipy.special import ndtr

    if x < 0.1:  # where the first term is 4 / pi exp(-123)
        return 1.0
    if x > 1:
        odd = 2 * np.arange(20) + 1
        return float(min(1.0, 4 * np.sum((-1.0) ** np.arange(20) * ndtr(-odd * x))))
    odd = 2 * np.arange(50) + 1
    terms = (-1.0) ** np.arange(50) / odd * np.exp(-((odd * math.pi / x) ** 2) / 8)
    return float(1 - 4 / math.pi * np.sum(terms))


def brownian_quantile(p: float) -> float:
    """Return the x with P(sup |W| <= x) = p."""
    return root(lambda x: 1 - brownian_sf(x) - p, 1e-2, 12.0, xtol=1e-10)


#: E sup |W| of a Brownian motion on [0, 1].
BROWNIAN_MEAN = math.sqrt(math.pi / 2)


def cumulative_law(cells: Cells, value: float, level: float) -> Law:
    """Return the floor and the p-value of the largest cumulative residual: sup |W| of a Brownian motion."""
    sd = math.sqrt(float(cells.null_variances.sum())) / cells.total
    if sd == 0:
        return Law(Floor(0.0, 0.0), float(value <= 0))
    return Law(Floor(BROWNIAN_MEAN * sd, brownian_quantile(level) * sd), brownian_sf(value / sd))


def interval(cells: Cells, value: float, level: float) -> tuple[float, float]:
    """Return the interval of max |C_k|, C_k the cumulative sums of residuals over N.

    high = max_k (|C_k| + z s_k), s_k^2 = (sum_{<= k} r^2 / N - C_k^2) / N. Where T is within the quantile q of max |W|,
    W Brownian partial sums with the residuals' variances, low = 0; else low = T - q', q' the quantile of the largest
    sign(C_k) W_k over the scores at which |C_k| >= T - q: by the reflection principle where all have one sign.
    """
    from scipy.special import ndtri

    tail = (1 - level) / 2
    z = float(ndtri(1 - tail))
    sums = -np.cumsum(cells.gap_sums) / cells.total
    squares = np.cumsum(cells.squared_residuals) / cells.total**2
    around = sums * (2 * np.cumsum(cells.squared_gaps) + sums * cells.square_weights.sum()) / cells.total**2
    spread = np.sqrt(np.maximum(squares + around, 0.0))
    high = float(np.max(np.abs(sums) + z * spread))
    quantile = math.sqrt(squares[-1]) * brownian_quantile(1 - tail)
    if value <= quantile:
        return 0.0, max(high, value)
    near = np.flatnonzero(np.abs(sums) >= value - quantile)
    if len({float(sign) for sign in np.sign(sums[near])}) == 1:
        quantile = math.sqrt(squares[near[-1]]) * float(ndtri(1 - tail / 2))
    return max(value - quantile, 0.0), max(high, value)


#: E(max W - min W) of a Brownian motion W on [0, 1].
RANGE_MEAN = 2 * math.sqrt(2 / math.pi)


def brownian_range_sf(x: float) -> float:
    """Return P(max W - min W > x) for a Brownian motion W on [0, 1].

    Feller (1951): the density is 8 sum_k (-1)^(k + 1) k^2 phi(k x), so the tail is 8 sum_k (-1)^(k + 1) k Phi(-k x).
    This keeps its digits for large x. For small x, Poisson's summation gives the distribution function:
    8 sum_k (1 / x^2 + 1 / a_k^2) exp(-a_k^2 / (2 x^2)) with a_k = (2 k + 1) pi.
    """
    from scipy.special import ndtr

    if x < 0.1:  # the distribution function is below 1e-200
        return 1.0
    if x > 1.5:
        k = np.arange(1, 20)
        return float(8 * np.sum((-1.0) ** (k + 1) * k * ndtr(-k * x)))
    squares = (math.pi * (2 * np.arange(10) + 1)) ** 2
    return float(1 - 8 * np.sum((1 / x**2 + 1 / squares) * np.exp(-squares / (2 * x**2))))


def brownian_range_quantile(p: float) -> float:
    """Return the x with P(max W - min W <= x) = p."""
    return root(lambda x: 1 - brownian_range_sf(x) - p, 0.1, 16.0, xtol=1e-10)


def range_law(cells: Cells, value: float, level: float) -> Law:
    """Return the floor and the p-value of the range of the cumulative residuals: that of a Brownian motion."""
    sd = math.sqrt(float(cells.null_variances.sum())) / cells.total
    if sd == 0:
        return Law(Floor(0.0, 0.0), float(value <= 0))
    return Law(Floor(RANGE_MEAN * sd, brownian_range_quantile(level) * sd), brownian_range_sf(value / sd))
