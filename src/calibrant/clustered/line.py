"""The log-odds line of rows in clusters: its slope with the sandwich of the sums over buckets."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calibrant.clustered.bins import ClusterBins
from calibrant.clustered.sums import Clustered, centred, correlation, freedom, spread_of, upper_quantile
from calibrant.estimators.regression import cox_fit, log_odds
from calibrant.sampling.line import CERTAIN, FALLING, Large, at_slope_one, centred_scores
from calibrant.sampling.resampling import t_quantile


class ClusterLine(NamedTuple):
    """The log-odds line with its standard errors, NaN where a coefficient is not a number.

    Attributes
    ----------
    intercept, slope : float
        a and b of the log-odds a + b logit(p).
    intercept_error, error : float
        Their standard errors.
    freedom : float
        The degrees of freedom of the slope's standard error.
    """

    intercept: float
    slope: float
    intercept_error: float
    error: float
    freedom: float


def log_odds_line(rows: Clustered) -> ClusterLine:
    """Return the line with the errors of the sandwich I^-1 (sum_h u_h u_h') I^-1 H / (H - 1).

    u_h are the sums of the scores of the likelihood, (1, logit p) times fitted rate - y, over the coarse cells of
    bucket h. The degrees of freedom are Satterthwaite's at the correlation of rows that the slope's sums show.
    """
    fit = cox_fit(rows.fine.table, CERTAIN)
    if not (math.isfinite(fit.slope) and math.isfinite(fit.intercept)):
        return ClusterLine(fit.intercept, fit.slope, math.nan, math.nan, math.nan)
    x = log_odds(np.clip(rows.cells.scores, CERTAIN, 1 - CERTAIN))
    rates = 1 / (1 + np.exp(-np.clip(fit.intercept + fit.slope * x, -700, 700)))
    design = np.stack([np.ones_like(x), x])
    squares, buckets = rows.cells.table.own_weights, len(rows.sizes)
    information = (design * rows.cells.counts * rates * (1 - rates)) @ design.T
    of_rows = (design * (squares[0] * rates**2 + squares[1] * (1 - rates) ** 2)) @ design.T
    try:
        inverse = np.linalg.inv(information)
    except np.linalg.LinAlgError:
        return ClusterLine(fit.intercept, fit.slope, math.nan, math.nan, math.nan)
    influences = (rows.n * rates - rows.y) @ design.T @ inverse
    variances = np.sum(influences**2, axis=0) * buckets / (buckets - 1)
    independent = float((inverse @ of_rows @ inverse)[1, 1])
    rho = correlation(float(variances[1]) / independent, rows.sizes) if independent > 0 else 1.0
    errors = np.sqrt(variances)
    return ClusterLine(fit.intercept, fit.slope, float(errors[0]), float(errors[1]), freedom(rows.sizes, rho)[0])


def falls(bins: ClusterBins) -> bool:
    """Return whether the outcome rate clearly falls as the mean scores of bins rise.

    It is `sampling.line.falls`, with the variance of its sums over buckets and the quantile of Student's law whose tail
    is that of 4 standard errors.
    """
    from scipy.special import ndtr

    moments = bins.moments
    slopes, rate = centred_scores(moments)
    own = (bins.score_sums - bins.gaps - rate * bins.n) @ slopes
    square = float(np.sum(moments.square_weights * slopes**2)) * rate * (1 - rate)
    found = spread_of(centred(own, bins.weights), square, bins.sizes)
    tail = float(ndtr(-FALLING))
    return float(own.sum()) < -float(upper_quantile(tail, np.array(found.freedom))) * math.sqrt(found.variance)


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
    spread = spread_of((rows.n * rates - rows.y).sum(axis=1), square, rows.sizes)
    half = t_quantile(level, spread.freedom) * math.sqrt(spread.variance) / information
    return Large(intercept, intercept - half, intercept + half)
