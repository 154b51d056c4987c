"""Compute each measure by its naive formula, in float64: the timed answers are checked against these.

This file uses nothing of calibrant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.optimize import brentq, isotonic_regression

Scores = NDArray[Any]
Outcomes = NDArray[Any]


def uniform_bins(scores: Scores, n_bins: int) -> NDArray[np.int64]:
    """Return the right-closed bin of each score; the edges are rounded to the scores' type."""
    edges = (np.arange(1, n_bins) / n_bins).astype(scores.dtype)
    return np.searchsorted(edges, scores, side="left")


def quantile_bins(scores: Scores, n_bins: int) -> NDArray[np.int64]:
    """Return the tie-safe bin of equal mass of each score."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    return np.minimum(n_bins - 1, np.floor(n_bins * middle / len(scores)).astype(np.int64))[inverse]


@dataclass(frozen=True)
class Gaps:
    """Share of the rows and mean score minus outcome rate, for each bin that holds rows."""

    shares: NDArray[np.float64]
    gaps: NDArray[np.float64]

    @property
    def ece(self) -> float:
        return float(self.shares @ np.abs(self.gaps))

    @property
    def rmsce(self) -> float:
        return float(np.sqrt(self.shares @ self.gaps**2))

    @property
    def mce(self) -> float:
        return float(np.abs(self.gaps).max())


def gaps(scores: Scores, outcomes: Outcomes, bins: NDArray[np.int64]) -> Gaps:
    counts = np.bincount(bins)
    sums = np.bincount(bins, scores.astype(np.float64) - outcomes)
    held = counts > 0
    return Gaps(counts[held] / len(scores), sums[held] / counts[held])


def top_label(probs: Scores, targets: Outcomes, n_bins: int) -> Gaps:
    predicted = probs.argmax(axis=1)
    scores = probs[np.arange(len(probs)), predicted]
    return gaps(scores, predicted == targets, uniform_bins(scores, n_bins))


def classwise_errors(probs: Scores, targets: Outcomes, n_bins: int) -> NDArray[np.float64]:
    columns = np.ascontiguousarray(probs.T)
    return np.array([gaps(p, targets == k, uniform_bins(p, n_bins)).ece for k, p in enumerate(columns)])


def brier(probs: Scores, targets: Outcomes) -> float:
    total = 0.0
    for start in range(0, len(probs), 1_000):
        block, labels = probs[start : start + 1_000].astype(np.float64), targets[start : start + 1_000]
        block[np.arange(len(labels)), labels] -= 1
        total += float((block**2).sum())
    return total / len(probs)


def nll(probs: Scores, targets: Outcomes) -> float:
    return float(-np.log(probs[np.arange(len(probs)), targets].astype(np.float64)).mean())


def smooth_error(scores: Scores, outcomes: Outcomes) -> float:
    """Return the s at which the smoothed residuals' integral S(s) equals s.

    The residuals lie on 2^17 nodes; sharing them linearly between two changes S(s) by a relative (h / s)^2 / 12 or so,
    4e-8 at s = 0.01. The integral is a trapezoid rule on 2^13 intervals.
    """
    fine, coarse = 1 << 17, 1 << 13
    place = scores.astype(np.float64) * fine
    node = np.minimum(place.astype(np.int64), fine - 1)
    upper = place - node
    residual = (outcomes - scores.astype(np.float64)) / len(scores)
    mass = np.bincount(node, residual * (1 - upper), fine + 1) + np.bincount(node + 1, residual * upper, fine + 1)
    mass[[0, -1]] *= 2
    cosines = dct(mass, type=1)[: coarse + 1] / 2
    frequencies = np.pi * np.arange(coarse + 1)

    def excess(width: float) -> float:
        curve = np.abs(dct(cosines * np.exp(-((frequencies * width) ** 2) / 2), type=1))
        return float(curve.sum() - (curve[0] + curve[-1]) / 2) / coarse - width

    return float(brentq(excess, 2e-3, 1.0, xtol=1e-12))


def corp(scores: Scores, outcomes: Outcomes) -> dict[str, float]:
    """Return the parts of the Brier score, from the isotonic fit to the outcome rates of the distinct scores."""
    distinct, inverse, counts = np.unique(scores.astype(np.float64), return_inverse=True, return_counts=True)
    rates, rate = np.bincount(inverse, outcomes) / counts, outcomes.mean()
    shares = counts / len(scores)

    def score(forecast: NDArray[np.float64] | float) -> float:
        return float(shares @ (rates * (1 - forecast) ** 2 + (1 - rates) * forecast**2))

    total, fitted, constant = score(distinct), score(isotonic_regression(rates, weights=counts).x), score(rate)
    return {
        "score": total,
        "miscalibration": total - fitted,
        "discrimination": constant - fitted,
        "uncertainty": constant,
    }
