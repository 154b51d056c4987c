"""What weights mean: an integer weight repeats a row, any other makes it count more or less."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", float, NDArray[np.float64])


def integer_weights(weights: NDArray[Any] | None) -> bool:
    """Return whether all weights are integers: then a row of weight 2 is two rows. True without weights."""
    return weights is None or bool(np.array_equal(weights, np.rint(weights)))


def effective_n(weight: Number, square_weight: Number) -> Number:
    """Return the effective sample size (Kish): (sum w)^2 / sum w^2, the number of equal rows with this variance."""
    return weight**2 / square_weight


def effective_rows(weights: NDArray[np.float64] | None, n: int) -> float:
    """Return the effective sample size of ``n`` rows; with integer weights each unit of weight is a row."""
    if weights is None:
        return float(n)
    total = float(weights.sum())
    return total if integer_weights(weights) else effective_n(total, float(np.sum(weights**2)))


def tidy_weight(weight: float) -> int | float:
    """Return a weight as an integer if it differs from one only by rounding."""
    return round(weight) if abs(weight - round(weight)) <= 1e-9 * abs(weight) else weight
