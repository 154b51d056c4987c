"""The log-odds line of rows in clusters: its slope with the sandwich of the sums over buckets."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from calibrant.measures.binned.clustered import ClusterBins
from calibrant.measures.line.intervals import CERTAIN, FALLING, Large, at_slope_one, centred_scores
from calibrant.measures.line.line import cox_fit, log_odds
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import Clustered, centred, upper_quantile, variance_of

_LEAST: Final = 1e-9  # share of the information that the other buckets have


class ClusterLine(NamedTuple):
    """The slope of the log-odds line with its standard error, NaN where it is not a number.

    Attributes
    ----------
    slope : float
        b of the log-odds a + b logit(p).
    error : float
        Its standard error.
    df : float
        The degrees of freedom of the standard error.
    """

    slope: float
    error: float
    df: float


def log_odds_line(rows: Clustered) -> ClusterLine:
    """Return the slope with the error of the sandwich I^-1 (sum_h u_h u_h') I^-1, corrected for few clusters.

    u_h are the sums of the scores of the likelihood, (1, logit p) times fitted rate - y, over the coarse cells of
    bucket h, and J_h its share of the information I, in the axes in which I is 1. Bell and McCaffrey (2002) multiply
    u_h by (1 - J_h)^(-1/2), because the fit follows a bucket of large J_h. What the slope then sums are g_h. Their
    expected squares, these as a share of the variance of the slope, and Satterthwaite's degrees of freedom follow from
    the covariance of g where the variance of u_h is (1 - rho) J_h + rho m_h m_h', m_h the sum of the roots of the
    information of rows: rows of a cluster are correlated by rho, which the squares of g_h show. Where that would steady
    the slope, rho is 0.
    """
    fit = cox_fit(rows.fine.table, CERTAIN)
    if not (math.isfinite(fit.slope) and math.isfinite(fit.intercept)):
        return ClusterLine(fit.slope, math.nan, math.nan)
    x = log_odds(np.clip(rows.cells.scores, CERTAIN, 1 - CERTAIN))
    rates = 1 / (1 + np.exp(-np.clip(fit.intercept + fit.slope * x, -700, 700)))
    design, spread = np.stack([np.ones_like(x), x]), rates * (1 - rates)
    try:
        root = np.linalg.cholesky(np.linalg.inv((design * rows.cells.counts * spread) @ design.T))
    except np.linalg.LinAlgError:
        return ClusterLine(fit.slope, math.nan, math.nan)
    turned = root.T @ design
    shares = np.einsum("hk,ik,jk->hij", rows.n * spread, turned, turned)
    scores, roots = (rows.n * rates - rows.y) @ turned.T, (rows.n * np.sqrt(spread)) @ turned.T
    values, axes = np.linalg.eigh(np.eye(2) - shares)
    slopes = np.einsum("hij,hj,hkj,k->hi", axes, np.maximum(values, _LEAST) ** -0.5, axes, root[1])
    moved = np.einsum("hij,hj->hi", shares, slopes)
    own = float(np.sum((np.sum(slopes * scores, axis=1) - moved @ scores.sum(axis=0)) ** 2))

    def covariance(variances: Float64s) -> tuple[Float64s, float]:
        """Return the covariance of g and the variance of the slope, from the variances of the buckets' u."""
        whole = variances.sum(axis=0)
        seen = np.einsum("hi,hij->hj", slopes, variances)
        across = seen @ moved.T
        of_sums = np.diag(np.sum(seen * slopes, axis=1)) - across - across.T + moved @ whole @ moved.T
        return of_sums, float(root[1] @ whole @ root[1])

    alone, own_variance = covariance(rows.unit * shares)
    together, common_variance = covariance(np.einsum("hi,hj->hij", roots, roots))
    least, most = float(np.trace(alone)), float(np.trace(together))
    rho = min(max((own - least) / (most - least), 0.0), 1.0) if most > least else 0.0
    of_sums, variance = (1 - rho) * alone + rho * together, (1 - rho) * own_variance + rho * common_variance
    mean, square = float(np.trace(of_sums)), float(np.sum(of_sums**2))
    if not (mean > 0 and square > 0):
        return ClusterLine(fit.slope, math.nan, math.nan)
    return ClusterLine(fit.slope, math.sqrt(own * variance / mean), max(mean**2 / square, 1.0))


def falls(bins: ClusterBins) -> bool:
    """Return whether the outcome rate clearly falls as the mean scores of bins rise.

    It is `line.intervals.falls`, with the variance of its sums over buckets and the quantile of Student's law
    whose tail is that of 4 standard errors.
    """
    from scipy.special import ndtr

    moments = bins.moments
    slopes, rate = centred_scores(moments)
    own = (bins.score_sums - bins.gaps - rate * bins.n) @ slopes
    square = float(np.sum(moments.square_weights * slopes**2)) * rate * (1 - rate)
    found = variance_of(centred(own, bins.weights), square, bins.sizes)
    tail = float(ndtr(-FALLING))
    return float(own.sum()) < -float(upper_quantile(tail, np.array(found.df))) * found.error


def in_the_large(rows: Clustered, level: float) -> Large:
    """Return the intercept at slope 1 with its interval: the sums over buckets of rate - y, over the information."""
    fine, intercept = at_slope_one(rows.fine.table)
    if not math.isfinite(intercept):
        return Large(intercept, math.nan, math.nan)
    squares = rows.fine.table.own_weights
    information = float(rows.fine.counts @ (fine * (1 - fine)))
    if information <= 0:
        return Large(intercept, math.nan, math.nan)
    x = log_odds(np.clip(rows.cells.scores, CERTAIN, 1 - CERTAIN))
    rates = 1 / (1 + np.exp(-np.clip(intercept + x, -700, 700)))
    square = float(squares[0] @ fine**2 + squares[1] @ (1 - fine) ** 2)
    spread = variance_of((rows.n * rates - rows.y).sum(axis=1), square, rows.sizes)
    half = spread.half_width(level) / information
    return Large(intercept, intercept - half, intercept + half)
