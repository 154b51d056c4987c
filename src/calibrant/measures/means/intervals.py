"""Intervals of means over rows, from the variance of the sum."""

from __future__ import annotations

import math

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.intervals import blend, clopper_pearson
from calibrant.statistics.resampling import alpha_of
from calibrant.statistics.variance import Variance


def mean_interval(value: float, variance: Variance, total: float, level: float) -> tuple[float, float]:
    """Return value -+ t sd / N, of a mean over rows of this total weight."""
    half = variance.half_width(level) / total
    return value - half, value + half


def gap_variance(design: SamplingDesign) -> Variance:
    """Return the variance of the sum of score - outcome, blended with what calibration implies.

    The blend is (K Q + 5 V0) / (K + 5), K the effective number of rows, or of clusters.
    """
    cells = design.cells
    v = blend(np.full(len(cells), design.units), cells.squared_residuals, cells.null_variances)
    found = design.linear(np.ones(len(cells)), v)
    return found._replace(value=unbiased(found.value, cells.effective_n))


def unbiased(square: float, n: float) -> float:
    """Return a sum of squares around a mean of n rows times n / (n - 1); infinite for one row, which tells nothing."""
    return square * n / (n - 1) if n > 1 else math.inf


def rate_interval(rate: float, rows: float, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a base rate that was seen in so many independent rows."""
    ends: tuple[Float64s, Float64s] = clopper_pearson(rate * rows, rows, alpha_of(level) / 2)
    return float(ends[0]), float(ends[1])


def uncertainty_interval(rate: float, rows: float, level: float) -> tuple[float, float]:
    """Return the range of r (1 - r) over the base rates r in `rate_interval`."""
    low, high = rate_interval(rate, rows, level)
    most = 0.25 if low <= 0.5 <= high else max(low * (1 - low), high * (1 - high))
    return min(low * (1 - low), high * (1 - high)), most
