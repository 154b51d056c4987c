"""Mean products of residuals over pairs of rows, weighed by how near their scores are, in one pass over a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.table import ReliabilityTable

Kernel = Literal["laplace", "gaussian"]

#: Gaussians this many standard deviations from their centre are below 1e-16.
_REACH: Final = 8.6

_ENTRIES: Final = 1 << 20  # of the cosines and sines that are computed together


def truthful_square(table: ReliabilityTable) -> float:
    """Return the integral over q of (sum of r below q)^2 + (sum of r from q)^2, over N^2, with r = outcome - score."""
    scores, residuals = table.scores.astype(np.float64), table.residuals
    below = np.concatenate([[0.0], np.cumsum(residuals)])
    squares = below**2 + (below[-1] - below) ** 2
    return float(np.diff(scores, prepend=0.0, append=1.0) @ squares) / table.total**2


def kernel_square(table: ReliabilityTable, kernel: Kernel, width: float, *, unbiased: bool) -> float:
    """Return the mean of r_i r_j k(p_i, p_j) over pairs of rows: over all, or over those of two different rows.

    Different rows are the U-statistic. If weights are not integers, the products of a row with itself have squared
    weights.
    """
    scores, residuals = table.scores.astype(np.float64), table.residuals
    pairs = _SUMS[kernel](scores, residuals, width)
    if not unbiased:
        return pairs / table.total**2
    own, own_weights = float(table.own_products.sum()), float(table.own_weights.sum())
    return (pairs - own) / (table.total**2 - own_weights)


def _laplace_sum(scores: Float64s, residuals: Float64s, width: float) -> float:
    """Return the sum over pairs i, j of R_i R_j exp(-|p_i - p_j| / width), for increasing scores.

    Scores are cut into segments of one width, so that exponentials stay between 1 / e and e. Within a segment the
    pairs are prefix sums. Between segments one number is carried on: the sum of R exp(-distance) at its start.
    """
    places = scores / width
    segments = np.floor(places)
    grown = residuals * np.exp(places - segments)
    fallen = residuals * np.exp(segments - places)
    first = np.flatnonzero(np.diff(segments, prepend=-1.0))
    before = np.cumsum(grown) - grown  # of all earlier scores; those of earlier segments are taken off again
    within = np.add.reduceat(fallen * before, first) - before[first] * np.add.reduceat(fallen, first)
    carried = total = 0.0
    steps = zip(
        np.exp(-np.diff(segments[first], append=np.inf)).tolist(),
        np.add.reduceat(grown, first).tolist(),
        np.add.reduceat(fallen, first).tolist(),
        strict=True,
    )
    for decay, rise, fall in steps:
        total += carried * fall
        carried = decay * (carried + rise)
    return float(residuals @ residuals) + 2 * (total + float(within.sum()))


def _gaussian_sum(scores: Float64s, residuals: Float64s, width: float) -> float:
    """Return the sum over pairs i, j of R_i R_j exp(-(p_i - p_j)^2 / (2 width^2)).

    A Gaussian repeated with period 2 L is a sum of cosines, and the sum over pairs of R_i R_j cos(w (p_i - p_j)) is
    |sum R exp(i w p)|^2. L is so large that no repetition is seen at distances up to 1, to 1e-16.
    """
    half = (1 + _REACH * width) / 2
    frequencies = np.arange(math.ceil(_REACH * half / (math.pi * width)) + 1) * (math.pi / half)
    heights = width * math.sqrt(2 * math.pi) / half * np.exp(-((frequencies * width) ** 2) / 2)
    heights[0] /= 2
    sums = np.zeros(len(frequencies), np.complex128)
    step = max(1, _ENTRIES // len(frequencies))
    for start in range(0, len(scores), step):
        angles = np.multiply.outer(frequencies, scores[start : start + step])
        part = residuals[start : start + step]
        sums += np.cos(angles) @ part + 1j * (np.sin(angles) @ part)
    return float(heights @ (sums.real**2 + sums.imag**2))


_SUMS: Final[dict[Kernel, Callable[[Float64s, Float64s, float], float]]] = {
    "laplace": _laplace_sum,
    "gaussian": _gaussian_sum,
}

KERNELS: Final = tuple(_SUMS)
