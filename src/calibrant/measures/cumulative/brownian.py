"""The law of the range of a Brownian motion."""

from __future__ import annotations

import math

import numpy as np

from calibrant.results import Floor
from calibrant.statistics.cells import Cells
from calibrant.statistics.null import Law
from calibrant.statistics.roots import root

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
