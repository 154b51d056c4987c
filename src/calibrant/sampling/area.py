"""How the area under the ROC curve varies: DeLong's variance, and the interval on log-odds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibrant.estimators.roc import Placements
from calibrant.sampling.cells import Cells
from calibrant.weights import effective_n

Float64s = NDArray[np.float64]


def influences(cells: Cells) -> Float64s:
    """Return by how much a unit of weight moves the area, (2, K): rows without the event, rows with it.

    (V01 - A) / N0 and (V10 - A) / N1 with the placements V, A the area, N0 and N1 the weights of the rows without and
    with the event. Over all rows they add up to 0.
    """
    placed, (negatives, positives) = Placements.of(cells.table), _kinds(cells)
    return np.stack([(placed.of_negatives - placed.area) / negatives, (placed.of_positives - placed.area) / positives])


def area_square(cells: Cells) -> float:
    """Return the variance of the area for independent rows; NaN with one row of an outcome.

    It is the sum of squared influences, times n / (n - 1) for the n rows of each outcome; with weights n is the
    effective sample size.
    """
    squares, moved = cells.table.own_weights, influences(cells)
    n = effective_n(_kinds(cells), squares.sum(axis=1))
    if np.any(n <= 1):
        return math.nan
    return float(np.sum(np.sum(squares * moved**2, axis=1) * n / (n - 1)))


def _kinds(cells: Cells) -> Float64s:
    """Return the weights of the rows without and with the event, (2,)."""
    return np.asarray(np.stack([cells.counts - cells.positives, cells.positives]).sum(axis=1))


def area_interval(area: float, error: float, quantile: float) -> tuple[float, float]:
    """Return the interval of an area with this standard error: symmetric on log-odds."""
    middle, half = math.log(area / (1 - area)), quantile * error / (area * (1 - area))
    low, high = (1 / (1 + math.exp(-min(max(end, -700.0), 700.0))) for end in (middle - half, middle + half))
    return low, high
