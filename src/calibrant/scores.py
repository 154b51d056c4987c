"""Proper scores of one event's probability, as sums over the rows of a table."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Score = Literal["brier", "log"]

SCORES: Final = ("brier", "log")


def mean_score(
    score: Score,
    forecasts: NDArray[np.floating[Any]] | float,
    counts: NDArray[Any] | float,
    positives: NDArray[Any] | float,
    total: float,
) -> float:
    """Return the mean score of issuing each row's forecast to its count of events, of which ``positives`` happened.

    Brier: (x - y)^2. Log: -log x where the event happened, -log(1 - x) where it did not; infinite where a forecast of 0
    or 1 was wrong, and 0 log 0 = 0.
    """
    x = np.asarray(forecasts, dtype=np.float64)
    k = np.asarray(positives, dtype=np.float64)
    rest = np.asarray(counts, dtype=np.float64) - k
    if score == "brier":
        return float(np.sum(rest * x * x + k * (1 - x) ** 2) / total)
    with np.errstate(divide="ignore", invalid="ignore"):
        happened = np.where(k > 0, -k * np.log(x), 0.0)
        failed = np.where(rest > 0, -rest * np.log1p(-x), 0.0)
    return float(np.sum(happened + failed) / total)


def mean_square(
    score: Score,
    forecasts: NDArray[np.floating[Any]],
    counts: NDArray[Any],
    positives: NDArray[Any],
    total: float,
) -> float:
    """Return the mean of the squared scores of single events, infinite ones left out, as `mean_score`."""
    x = np.asarray(forecasts, dtype=np.float64)
    k = np.asarray(positives, dtype=np.float64)
    rest = np.asarray(counts, dtype=np.float64) - k
    if score == "brier":
        return float(np.sum(rest * x**4 + k * (1 - x) ** 4) / total)
    with np.errstate(divide="ignore", invalid="ignore"):
        happened = np.where((k > 0) & (x > 0), k * np.log(x) ** 2, 0.0)
        failed = np.where((rest > 0) & (x < 1), rest * np.log1p(-x) ** 2, 0.0)
    return float(np.sum(happened + failed) / total)


def shifted_log_loss(own: NDArray[np.float64], eps: float) -> float:
    """Return the mean of -log(p + eps) over the probabilities that were given to what happened."""
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(own + eps)))
