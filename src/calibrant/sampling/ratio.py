"""How the ratio of observed to expected outcomes varies."""

from __future__ import annotations

import math
from typing import Final

from calibrant.sampling.cells import Cells

_LARGEST: Final = 700.0  # exp of more is no float


def ratio_square(cells: Cells, ratio: float) -> float:
    """Return the sum of (y - t p)^2 over rows, in units of squared weight, for the ratio t = O / E.

    It is sum y - 2 t sum p y + t^2 sum p^2, and sum p y = (sum p^2 + sum y - sum (p - y)^2) / 2: exact on a grid.
    """
    outcomes = float(cells.table.own_weights[1].sum())
    squares = float((cells.units * cells.score_sums - cells.null_variances).sum())
    residuals = float(cells.squared_residuals.sum())
    return max(outcomes - ratio * (squares + outcomes - residuals) + ratio**2 * squares, 0.0)


def ratio_interval(ratio: float, error: float, quantile: float) -> tuple[float, float]:
    """Return t exp(-+ z se), se the standard error of log t."""
    half = quantile * error
    return ratio * math.exp(-half), ratio * math.exp(half) if half < _LARGEST else math.inf
