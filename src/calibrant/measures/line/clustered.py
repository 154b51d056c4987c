"""The log-odds line of rows in clusters: its slope with the sandwich of the sums over buckets."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.measures.line.intervals import CERTAIN, rates_at
from calibrant.measures.line.line import cox_fit, log_odds
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.design import Clustered
from calibrant.statistics.variance import Variance

_LEAST: Final = 1e-9  # share of the information that the other buckets have


def log_odds_line(rows: Clustered) -> tuple[float, Variance | None]:
    """Return the slope with the variance of the sandwich I^-1 (sum_h u_h u_h') I^-1, corrected for few clusters.

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
        return fit.slope, None
    x = log_odds(np.clip(rows.cells.scores, CERTAIN, 1 - CERTAIN))
    rates = rates_at(fit.intercept, fit.slope * x)
    design, spread = np.stack([np.ones_like(x), x]), rates * (1 - rates)
    try:
        root = np.linalg.cholesky(np.linalg.inv((design * rows.cells.counts * spread) @ design.T))
    except np.linalg.LinAlgError:
        return fit.slope, None
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
        return fit.slope, None
    return fit.slope, Variance(own * variance / mean, df=max(mean**2 / square, 1.0))
