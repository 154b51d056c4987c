"""What perfect calibration shows of rows in clusters, in closed form.

Under calibration the S of bins are nearly normal with covariance Sigma0 = c (sum_h S_h S_h') c, c = sqrt(V0 / Q). A sum
psi r over rows has the variance (sum psi^2 V0) A / (sum psi^2 Q), A = sum_h (sum psi r)^2: that of independent rows
times the design effect A / sum psi^2 Q. Where A is below 1e-10 of that of independent rows the scores of each cluster
add up to its outcomes: nothing can deviate, and p is 1.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.measures import null_closed_form
from calibrant.measures.binned.clustered import ClusterBins, Directions, held_bins, per_pair
from calibrant.measures.binned.intervals import BinMoments, BinStatistics
from calibrant.measures.clustered_null import scaled_sums
from calibrant.measures.line.intervals import CERTAIN
from calibrant.measures.line.line import log_odds
from calibrant.measures.null_closed_form import GammaMoments, absolute_moments
from calibrant.results import Floor
from calibrant.statistics.cluster_sums import NOTHING, Clustered
from calibrant.statistics.null import Law

Float64s = NDArray[np.float64]

_ROWS: Final = 512  # of the matrix of correlations of bins, at a time

_MOST: Final = 4_000  # bins: with more, not all pairs are computed

_LEAST: Final = 4  # buckets: with fewer, two directions are tested far too often (a fifth at 5 % with two)

_SINGULAR: Final = 1e-12  # of the largest eigenvalue: below it, scores do not differ

_MOST_SKEWNESS: Final = absolute_moments(np.ones(1), 1.0).skewness  # that of one folded normal


def null_effect(sums: Float64s, square: float) -> float:
    """Return the design effect A / sum psi^2 Q of a sum psi r, from its parts in the buckets; 0 if A is rounding."""
    own = float(np.sum(sums**2))
    return own / square if own > NOTHING * square else 0.0


# ------------------------------------------------------------ bins


def absolute_gamma(bins: ClusterBins) -> GammaMoments | None:
    """Return the gamma law of sum |S| over bins; None where nothing varies.

    With s and r the standard deviations and correlations of Sigma0: mean sqrt(2 / pi) sum s, variance s' F s with F =
    2 / pi (sqrt(1 - r^2) + r asin r - 1), the covariance of folded normals. The skewness is that of independent bins
    times the root of (variance / variance of independent bins), at most that of one folded normal.
    """
    sums = scaled_sums(bins)
    varied = _varied(bins)
    if not varied.any():
        return None
    s = np.sqrt(np.sum(sums[:, varied] ** 2, axis=0))
    plain = absolute_moments(s**2, 1.0)
    sd = math.sqrt(_folded_variance(s, sums[:, varied] / s))
    return GammaMoments(plain.mean, sd, min(plain.skewness * sd / plain.sd, _MOST_SKEWNESS))


def _varied(bins: ClusterBins) -> NDArray[np.bool_]:
    """Return the bins whose S varies under calibration."""
    own = np.sum(bins.gaps**2, axis=0)
    return np.asarray((own > NOTHING * bins.moments.squared_residuals) & (bins.moments.null_variances > 0))


def _folded_variance(s: Float64s, columns: Float64s) -> float:
    """Return s' F s, the variance of the sum of folded normals with correlations columns' columns.

    With thousands of bins F is taken as (1 - 2 / pi) r^2, which is equal for r = 0 and 1, and else larger.
    """
    if len(s) > _MOST:
        return (1 - 2 / math.pi) * Directions.of(columns).squares(s)
    whole = 0.0
    for start in range(0, len(s), _ROWS):
        part = slice(start, start + _ROWS)
        r = np.clip(columns[:, part].T @ columns, -1.0, 1.0)
        whole += float(s[part] @ (np.sqrt(1 - r**2) + r * np.arcsin(r) - 1) @ s)
    return whole * 2 / math.pi


def absolute_law(bins: ClusterBins, value: float, level: float) -> Law:
    """Return floor and p-value of the l1 error, by `absolute_gamma`."""
    law, n = absolute_gamma(bins), bins.moments.total
    if law is None:
        return Law(Floor(0.0, 0.0), float(value * n <= _rounding(bins)))
    return Law(Floor(law.mean / n, law.quantile(level) / n), float(law.tail(np.asarray(value * n))))


def _rounding(bins: ClusterBins) -> float:
    """Return the most that sum |S| is where no S varies: S^2 <= H A and A <= 1e-10 Q. Bins of certain scores add 0."""
    squares = np.where(bins.moments.null_variances > 0, bins.moments.squared_residuals, 0.0)
    return math.sqrt(NOTHING * len(bins.sizes)) * float(np.sqrt(squares).sum())


def square_laws(bins: ClusterBins, value: float, level: float) -> tuple[Law, Law]:
    """Return the laws of the l2 error, which has this value, and of its debiased square; their p-value is the same.

    N times the square is sum S^2 / n, a scaled chi-square with tr(M)^2 / sum M^2 degrees of freedom, M = Sigma0_bc /
    sqrt(n_b n_c). The debiased square is less its mean, with other weights of the bins.
    """
    from scipy.special import chdtrc, chdtri, gammaln

    n, varied = bins.moments.total, _varied(bins)
    if not varied.any():
        none = Law(Floor(0.0, 0.0), float(value * n <= _rounding(bins)))
        return none, none
    sums = scaled_sums(bins)[:, varied]
    mean, freedom = _chi_square(sums / np.sqrt(bins.moments.counts[varied]))
    scale = mean / freedom
    upper = scale * float(chdtri(freedom, 1 - level))
    root = math.sqrt(2 * scale) * math.exp(float(gammaln((freedom + 1) / 2) - gammaln(freedom / 2)))
    tail = float(chdtrc(freedom, value**2 * n / scale))
    paired = sums * np.sqrt(per_pair(bins)[varied])
    debiased = 0.0
    if paired.any():
        mean, freedom = _chi_square(paired)
        debiased = mean * (float(chdtri(freedom, 1 - level)) / freedom - 1)
    return Law(Floor(root / math.sqrt(n), math.sqrt(upper / n)), tail), Law(Floor(0.0, debiased), tail)


def _chi_square(sums: Float64s) -> tuple[float, float]:
    """Return the mean of the sum of squares of normals with covariance X' X, X (H, M), and its degrees of freedom."""
    squares = np.sum(sums**2, axis=0)
    mean = float(squares.sum())
    return mean, mean**2 / Directions.of(sums).squares(squares)


def maximum_law(bins: ClusterBins, level: float) -> Law:
    """Return the floor of the largest gap of `held_bins`, and the p-value of the largest in standard deviations.

    The product over independent bins bounds the probability from above whatever their dependence (Sidak 1967).
    """
    held = held_bins(bins)
    variances = np.sum(scaled_sums(bins) ** 2, axis=0)
    whole = replace(bins.moments, null_variances=np.where(_varied(bins), variances, 0.0))
    arrays = [name.name for name in fields(BinMoments) if np.ndim(getattr(whole, name.name))]
    kept = replace(whole, **{name: getattr(whole, name)[held] for name in arrays})
    steady = (kept.null_variances == 0) & (bins.moments.null_variances[held] > 0)
    kept = replace(kept, gap_sums=np.where(steady, 0.0, kept.gap_sums))  # there only rounding is left
    return null_closed_form.maximum_law(BinStatistics(kept), level)


# ------------------------------------------------------------ sums of residuals


def mean_gap_law(rows: Clustered, value: float, level: float) -> Law:
    """Return the floor of the size of the mean gap, and the two-sided p-value of the mean gap."""
    from scipy.special import ndtr, ndtri

    cells = rows.cells
    effect = null_effect(rows.gaps.sum(axis=1), float(cells.squared_residuals.sum()))
    sd = math.sqrt(float(cells.null_variances.sum()) * effect) / rows.total
    if sd == 0:
        certain = not cells.null_variances.any()
        return Law(Floor(0.0, 0.0), float(abs(value) < 1e-15 or not certain))
    upper = float(ndtri(0.5 + level / 2)) * sd
    return Law(Floor(math.sqrt(2 / math.pi) * sd, upper), 2 * float(ndtr(-abs(value) / sd)))


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
