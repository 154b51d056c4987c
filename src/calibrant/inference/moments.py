"""What tests share: sums of the rows of a table, and deviations in standard deviations."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.table import ReliabilityTable

#: Relative to the number of predictions: a sum of residuals below it is 0.
ROUNDING: Final = 1e-12


def standardised(deviation: float, variance: float, total: float) -> float:
    """Return a deviation in standard deviations: 0 or infinite if the variance is 0."""
    if variance > 0:
        return float(deviation / math.sqrt(variance))
    return 0.0 if abs(deviation) <= ROUNDING * total else math.copysign(math.inf, deviation)


def units_of(table: ReliabilityTable) -> Float64s | float:
    """Return the mean weight of a prediction in each row; 1 if weights are frequencies."""
    return 1.0 if table.whole else table.own_weights.sum(axis=0) / table.counts


def score_sums_of(table: ReliabilityTable) -> Float64s:
    """Return the sum of the scores in each row."""
    sums = table.score_sums
    return np.asarray(table.counts * table.scores.astype(np.float64) if sums is None else sums)


def null_spreads(table: ReliabilityTable) -> Float64s:
    """Return the sum of p (1 - p) in each row."""
    if table.square_scores is not None:
        return np.asarray(np.maximum(score_sums_of(table) - table.square_scores, 0.0))
    return np.asarray(score_sums_of(table) * (1 - table.scores.astype(np.float64)))


def degrees(freedom: int) -> str:
    """Return a number of degrees in words."""
    return f"{freedom} degree" + "s" * (freedom != 1)
