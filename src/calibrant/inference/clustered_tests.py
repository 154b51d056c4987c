"""Tests of rows in clusters in closed form: Spiegelhalter's and Cox's.

Under calibration the S of bins are nearly normal with covariance Sigma0 = c (sum_h S_h S_h') c, c = sqrt(V0 / Q). A sum
psi r over rows has the variance (sum psi^2 V0) A / (sum psi^2 Q), A = sum_h (sum psi r)^2: that of independent rows
times the design effect A / sum psi^2 Q. Where A is below 1e-10 of that of independent rows the scores of each cluster
add up to its outcomes: nothing can deviate, and p is 1.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.measures.line.line import CERTAIN, log_odds
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import NOTHING, null_effect
from calibrant.statistics.design import Clustered

_LEAST: Final = 4  # buckets: with fewer, two directions are tested far too often (a fifth at 5 % with two)

_SINGULAR: Final = 1e-12  # of the largest eigenvalue: below it, scores do not differ


def spiegelhalter(rows: Clustered) -> tuple[float, float]:
    """Return Spiegelhalter's Z and its two-sided p-value: the test of sum (y - p) (1 - 2 p), from its exact sums."""
    from scipy.special import ndtr

    slopes, fine = 1 - 2 * rows.fine.scores, rows.fine
    sums = rows.scalar("tilt")
    variance, square = (float(np.sum(slopes**2 * x)) for x in (fine.null_variances, fine.squared_residuals))
    total, sd = -float(sums.sum()), math.sqrt(variance * null_effect(sums, square))
    if sd == 0:
        wrong = variance == 0 and abs(total) > CERTAIN
        return (math.copysign(math.inf, total), 0.0) if wrong else (0.0, 1.0)
    return total / sd, 2 * float(ndtr(-abs(total) / sd))


def cox_test(rows: Clustered, eps: float = CERTAIN) -> tuple[float, int, float]:
    """Return the score statistic of the log-odds line, its degrees of freedom and its p-value.

    U' C^-1 U with U = sum psi r, psi = (1, logit p), and C = V^1/2 Q^-1/2 A Q^-1/2 V^1/2: with one row in each cluster
    C is V. A chi-square with 2 degrees of freedom; a direction in which A is below 1e-10 of Q, or in which scores do
    not differ, is left out with its degree; with fewer than 4 buckets the slope is. Scores are clipped to
    [eps, 1 - eps] for their log-odds. It replaces the likelihood ratio, whose law clusters change.
    """
    from scipy.special import chdtrc

    cells = rows.cells
    x = log_odds(np.clip(cells.scores, eps, 1 - eps))
    design = np.stack([np.ones_like(x), x])[: 1 if len(rows.sizes) < _LEAST else 2]
    sums = rows.gaps @ design.T
    weights, axes = np.linalg.eigh((design * cells.null_variances) @ design.T)
    axes = axes[:, weights > _SINGULAR * weights.max()]
    if axes.size == 0 or weights.max() <= 0:
        return 0.0, 0, 1.0
    root, inverse = (
        _power(axes.T @ (design * v) @ design.T @ axes, power)
        for v, power in ((cells.null_variances, -0.5), (cells.squared_residuals, -0.5))
    )
    own = inverse @ (axes.T @ (sums.T @ sums) @ axes) @ inverse
    effects, turned = np.linalg.eigh((own + own.T) / 2)
    kept = effects > NOTHING
    parts = (turned.T @ root @ axes.T @ sums.sum(axis=0))[kept]
    statistic, free = float(np.sum(parts**2 / effects[kept])), int(np.count_nonzero(kept))
    return statistic, free, float(chdtrc(free, statistic)) if free else 1.0


def _power(matrix: Float64s, power: float) -> Float64s:
    """Return a power of a symmetric positive matrix."""
    values, axes = np.linalg.eigh(matrix)
    return np.asarray((axes * np.maximum(values, _SINGULAR * values.max()) ** power) @ axes.T)
