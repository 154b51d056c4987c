"""Tests of the hypothesis that scores are calibrated: each outcome occurs with the probability that its score says.

For rows in clusters Spiegelhalter's test and Cox's have a closed form. Under calibration the S of bins are nearly
normal with covariance Sigma0 = c (sum_h S_h S_h') c, c = sqrt(V0 / Q). A sum psi r over rows has the variance
(sum psi^2 V0) A / (sum psi^2 Q), A = sum_h (sum psi r)^2: that of independent rows times the design effect
A / sum psi^2 Q. Where A is below 1e-10 of that of independent rows the scores of each cluster add up to its outcomes:
nothing can deviate, and p is 1.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.errors import InputError
from calibrant.inference.event_rows import (
    UNUSED_LEVEL,
    EventRows,
    cumulative_p_value,
    degrees,
    null_spreads,
    null_variance,
    standardised,
    units_of,
)
from calibrant.inputs.predictions import Notion
from calibrant.measures.cumulative.cumulative import LARGEST, RANGE, CumulativeStatistic
from calibrant.measures.line.line import CERTAIN, cox_fit, in_the_large, log_odds
from calibrant.results import TestResult
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.buckets import NOTHING, null_effect
from calibrant.statistics.design import Clustered
from calibrant.statistics.resampling import Resampling, Rng, check_draws
from calibrant.table import ReliabilityTable

_LEAST_EPS: Final = 1e-15  # below about 1e-16, 1 - eps rounds to 1


def spiegelhalter_test(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
) -> TestResult:
    r"""Test calibration by Spiegelhalter's z: whether the Brier score is as large as the scores themselves imply.

    .. math:: Z = \frac{\sum_i (y_i - p_i)(1 - 2 p_i)}{\sqrt{\sum_i (1 - 2 p_i)^2\, p_i (1 - p_i)}}

    Under calibration Z is standard normal, and the p-value is two-sided. Z > 0 means that the Brier score is larger
    than expected: the scores are too extreme. The test has much power against scores that are too extreme or not
    extreme enough. It has none against errors that leave the Brier score as expected, such as a constant shift of
    scores that lie symmetrically about 1/2.

    Parameters
    ----------
    probs : array, (N,), (N, 1), (N, C) or (N, C, ...), ReliabilityTable or CalibrationSketch
        Probabilities, as in `expected_calibration_error`; or a table or sketch of one event, alone.
    targets : array, (N,) or (N, ...), or one-hot like probs
        0 or 1, or class indices 0 to C - 1. Needed unless ``probs`` is a table or a sketch.
    notion : {"positive", "top-label"}, optional
        The evaluated event; by default the one that follows from the shape.
    weights : array, (N,) or (N, ...), optional
        Weights. Whole numbers are frequency weights: weight 2 counts the row twice. Otherwise each row is one
        prediction with its own weight w, and variances are sums with w^2.
    ignore_index : int, optional
        Rows with this target are left out.
    logits : bool, default False
        Whether ``probs`` are logits.
    clusters : array, (N,), optional
        The label of each row's cluster, whole numbers or text, as in `evaluate`. The variance is then that of sums over
        clusters, which are independent, with any dependence inside them. For probs (N, C, ...) one label for each index
        of the first axis may be passed instead. Without clusters rows are independent. A `CalibrationSketch` with
        clusters is evaluated by them.

    Returns
    -------
    TestResult
        ``statistic`` is Z. With clusters ``method`` ends in "; by cluster", and ``details`` hold ``clusters`` (their
        number), ``largest_cluster`` (its share of the rows) and a ``flag`` if few clusters decide. If each cluster has
        one row, the numbers are those without clusters.

        An event with score 0, or a non-event with score 1 that is not from logits, refutes calibration whatever Z is:
        the p-value is then 0. Nearly impossible outcomes count too. If the probability that any row has an outcome as
        unlikely as the least likely one in the data is at most 1e-6, it is the p-value, unless that of Z is smaller.
        ``details`` hold ``impossible_outcomes``, their number, and ``p_value_of_statistic``, that of Z alone.

        Scores of 0, 1/2 and 1 add nothing to the variance. If all scores are such, the variance is 0. Then Z is 0 with
        p-value 1; or inf with p-value 0, if an outcome occurred that its score excluded. If the numerator of Z is 0 in
        every single cluster, its variance is 0 too: Z is 0 with p-value 1.

    Raises
    ------
    calibrant.errors.InputError
        A `ValueError` that names the argument, what was expected, what came and what to do. As for
        `expected_calibration_error`; also for the notions "classwise" and "multilabel", any other argument passed with
        a table, and rows of one cluster.

    Notes
    -----
    Ties are pooled, so the order of the rows plays no part. Cost: a sort of the scores and O(N). On a table of a grid
    the numerator is exact; the variance takes the factor 1 - 2 p at the cells' mean scores.

    References
    ----------
    Spiegelhalter (1986), doi 10.1002/sim.4780050506.

    Examples
    --------
    >>> from calibrant.inference import spiegelhalter_test
    >>> p, y = [0.02, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 0.98], [0, 0, 1, 0, 1, 0, 1, 1, 1, 0]
    >>> test = spiegelhalter_test(p, y)
    >>> round(test.statistic, 5), round(test.p_value, 5)
    (2.69843, 0.00697)

    The same rows twice, each with its copy:

    >>> twice = spiegelhalter_test(p * 2, y * 2, clusters=[*range(10)] * 2)
    >>> round(twice.p_value, 5), twice.details["clusters"]
    (0.00697, 10)
    """
    rows = EventRows.of_arguments(Arguments(probs, targets, notion, weights, ignore_index, logits), clusters)
    if rows.clusters is None:
        z = _spiegelhalter(rows.table)
        p_value = math.erfc(abs(z) / math.sqrt(2))
    else:
        z, p_value = spiegelhalter_by_cluster(rows.clusters)
    return rows.result(z, p_value, "Spiegelhalter's z, two-sided normal p-value")


def ks_test(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> TestResult:
    r"""Test calibration by the largest cumulative residual, without bins: Kolmogorov and Smirnov's way.

    .. math:: T = \frac{\max_k \left|\sum_{p_i \le s_k} (y_i - p_i)\right|}{\sqrt{\sum_i p_i (1 - p_i)}}

    over the distinct scores :math:`s_k`. T is N times the Kolmogorov-Smirnov calibration error, in standard deviations
    of the sum of all residuals. Under calibration the cumulative residuals approach a Brownian motion W on [0, 1], and
    the p-value is ``P(sup |W| > T)``. Larger is worse. With few distinct scores the maximum is over few points and the
    p-value is too large: the test is conservative.

    Parameters
    ----------
    n_resamples : int, default 1000
        Only for rows in clusters: the number of simulated data sets B. The p-value is (1 + #{T* >= T}) / (B + 1).
    rng : int or numpy.random.Generator or numpy.random.SeedSequence, default 0
        Only for rows in clusters: the seed of the simulated data sets.
    probs, targets, notion, weights, ignore_index, logits, clusters
        As in `spiegelhalter_test`. With clusters T is the same, and its distribution comes from simulated data sets:
        the residuals of each cluster are multiplied by one random normal number, scaled to the variance that
        calibration implies. T and T* are compared on 428 cells of the score, and more than 256 clusters are pooled into
        256 buckets.

    Returns
    -------
    TestResult
        ``details`` hold the ``error``, which is ``max |sum| / N``. If all scores are 0 or 1, the variance is 0. Then T
        is 0 with p-value 1; or inf with p-value 0, if an outcome occurred that its score excluded.

    Raises
    ------
    calibrant.errors.InputError
        As `spiegelhalter_test`; also for ``n_resamples`` below 1.

    References
    ----------
    Gupta et al. (2021), arXiv 2006.12800. Arrieta-Ibarra et al. (2022), arXiv 2205.09680.

    Examples
    --------
    >>> from calibrant.inference import ks_test
    >>> test = ks_test([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1, 1, 1])
    >>> round(test.details["error"], 6), round(test.statistic, 4), round(test.p_value, 4)
    (0.25, 1.6903, 0.1819)
    """
    check_draws(n_resamples)
    rows = EventRows.of_arguments(Arguments(probs, targets, notion, weights, ignore_index, logits), clusters)
    return cumulative_test(LARGEST, rows, _resampling(rows, n_resamples, rng))


def kuiper_test(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> TestResult:
    r"""Test calibration by the range of the cumulative residuals, without bins: Kuiper's way.

    .. math:: T = \frac{\max_k C_k - \min_k C_k}{\sqrt{\sum_i p_i (1 - p_i)}},\quad C_k = \sum_{p_i \le s_k}(y_i - p_i)

    with :math:`C_0 = 0`. The numerator is N times the Kuiper calibration error (ECCE-R): the largest sum of residuals
    over any interval of scores. Under calibration T has the distribution of the range of a Brownian motion on [0, 1].
    Larger is worse. Parameters, result and errors are those of `ks_test`.

    References
    ----------
    Arrieta-Ibarra et al. (2022), arXiv 2205.09680. Feller (1951), doi 10.1214/aoms/1177729589.

    Examples
    --------
    >>> from calibrant.inference import kuiper_test
    >>> test = kuiper_test([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1, 1, 1])
    >>> round(test.details["error"], 6), round(test.statistic, 4), round(test.p_value, 4)
    (0.2625, 1.7748, 0.3006)
    """
    check_draws(n_resamples)
    rows = EventRows.of_arguments(Arguments(probs, targets, notion, weights, ignore_index, logits), clusters)
    return cumulative_test(RANGE, rows, _resampling(rows, n_resamples, rng))


def _resampling(rows: EventRows, n_resamples: int, rng: Rng) -> Resampling | None:
    return None if rows.clusters is None else Resampling.of(UNUSED_LEVEL, n_resamples, rng, least=1)


def cumulative_test(of: CumulativeStatistic, rows: EventRows, resampling: Resampling | None) -> TestResult:
    """Return the test by a statistic of cumulative residuals; only rows in clusters need the resampling."""
    table, error = rows.table, of.error(rows.table)
    statistic = standardised(error * table.total, null_variance(table), table.total)
    if rows.clusters is None or resampling is None:
        p_value, law = of.sf(statistic), f"distribution of the {of.limit}"
    else:
        p_value = cumulative_p_value(rows.clusters, of.size, resampling)
        law = f"{resampling.n_resamples:,} resamples"
    return rows.result(statistic, p_value, f"{of.name}, {law}", error=error)


def cox_test(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    eps: float | None = None,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
) -> TestResult:
    r"""Test calibration by logistic recalibration: whether intercept 0 and slope 1 fit as well as any others.

    .. math:: \operatorname{logit} P(y = 1) = a + b \operatorname{logit} p, \qquad
        T = 2\,[\ell(\hat a, \hat b) - \ell(0, 1)]

    with the log likelihood :math:`\ell`. Under calibration the likelihood ratio T has a chi-square law with 2 degrees
    of freedom. b < 1 means that the scores are too extreme, b > 1 that they are not extreme enough. The intercept at
    slope 1, calibration in the large, is positive if events occur more often than the scores say.

    Parameters
    ----------
    eps : float, optional
        Clip the scores to [eps, 1 - eps]. Without it, scores of exactly 0 or 1 are rejected: their log-odds are
        infinite.
    probs, targets, notion, weights, ignore_index, logits, clusters
        As in `spiegelhalter_test`. With weights that are not whole numbers the weighted likelihood is maximised, and T
        is scaled to N = (sum w)^2 / sum w^2 predictions. With clusters T is the score statistic of a = 0 and b = 1, by
        the covariance of sums over clusters; with fewer than 4 clusters, of a = 0 alone.

    Returns
    -------
    TestResult
        ``details`` hold ``intercept``, ``slope``, ``in_the_large``, ``degrees_of_freedom``, ``clipped`` (how many
        predictions eps moved) and ``separated``: whether a threshold on the score separates the outcomes. If all scores
        are equal, there is 1 degree of freedom and the slope is NaN. With clusters, outcomes and scores may agree
        exactly in every cluster for one combination of a and b. T then leaves this combination out and loses 1 degree
        of freedom. If the outcomes are separated, the likelihood has no maximum: T is its limit, the slope is -inf or
        inf and the intercept NaN. If all outcomes are equal, both are NaN.

    Raises
    ------
    calibrant.errors.InputError
        Also for scores of 0 or 1 without ``eps``, and for an ``eps`` that is not a number from 1e-15 to below 0.5.

    Notes
    -----
    Cost: a sort of the scores and about ten passes over the distinct ones (Newton's method). A table on a grid is
    fitted at its cells' mean scores.

    References
    ----------
    Cox (1958), doi 10.1093/biomet/45.3-4.562. Albert, Anderson (1984), doi 10.1093/biomet/71.1.1.

    Examples
    --------
    >>> from calibrant.inference import cox_test
    >>> test = cox_test([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 0, 1, 1])
    >>> round(test.details["slope"], 4), round(test.details["in_the_large"], 4), round(test.p_value, 4)
    (0.7002, 0.7245, 0.6329)
    """
    if not (eps is None or (isinstance(eps, (float, np.floating)) and _LEAST_EPS <= eps < 0.5)):
        remedy = "pass a small share such as 1e-6, or None"
        raise InputError("eps", f"a number from {_LEAST_EPS} to below 0.5", repr(eps), remedy)
    rows = EventRows.of_arguments(Arguments(probs, targets, notion, weights, ignore_index, logits), clusters)
    table = rows.table
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    scores = table.scores.astype(np.float64)
    certain = float(np.sum(table.counts[(scores == 0) | (scores == 1)]))
    if eps is None and certain:
        remedy = "pass for example eps=1e-6 to clip the scores, or leave these rows out"
        raise InputError("probs", "scores strictly between 0 and 1", f"0 or 1 in {certain:g} rows", remedy)
    fit = cox_fit(table, eps)
    if rows.clusters is None:
        scale, free, name = table.total / float(np.sum(units_of(table) * table.counts)), fit.free, "likelihood ratio"
        statistic = max(0.0, 2 * scale * (fit.log_likelihood - fit.calibrated_log_likelihood))
        # The chi-square law's upper tail, in closed form for 1 and 2 degrees of freedom.
        p_value = math.exp(-statistic / 2) if free == 2 else math.erfc(math.sqrt(statistic / 2))
    else:
        name = "score test"
        statistic, free, p_value = cox_by_cluster(rows.clusters, CERTAIN if eps is None else eps)
    details = {
        "intercept": fit.intercept,
        "slope": fit.slope,
        "in_the_large": in_the_large(table, eps),
        "degrees_of_freedom": free,
        "separated": fit.separated,
        "clipped": float(np.sum(table.counts[(scores < low) | (scores > high)])),
    }
    method = f"{name} of Cox's recalibration, chi-square with {degrees(free)} of freedom"
    return rows.result(statistic, p_value, method, exact=eps is None, **details)


def _spiegelhalter(table: ReliabilityTable) -> float:
    """Return Spiegelhalter's Z of independent rows."""
    null_variances, tilts = null_spreads(table), 1 - 2 * table.scores.astype(np.float64)
    # (y - p)(1 - 2 p) = (y - p)^2 - p (1 - p): tables on a grid hold the exact sums of both
    excess = float(np.sum(table.square_residuals - null_variances))
    return standardised(excess, float(np.sum(units_of(table) * null_variances * tilts**2)), table.total)


_LEAST: Final = 4  # buckets: with fewer, two directions are tested far too often (a fifth at 5 % with two)

_SINGULAR: Final = 1e-12  # of the largest eigenvalue: below it, scores do not differ


def spiegelhalter_by_cluster(rows: Clustered) -> tuple[float, float]:
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


def cox_by_cluster(rows: Clustered, eps: float = CERTAIN) -> tuple[float, int, float]:
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
    scaled = inverse @ (axes.T @ (sums.T @ sums) @ axes) @ inverse
    effects, turned = np.linalg.eigh((scaled + scaled.T) / 2)
    kept = effects > NOTHING
    parts = (turned.T @ root @ axes.T @ sums.sum(axis=0))[kept]
    statistic, free = float(np.sum(parts**2 / effects[kept])), int(np.count_nonzero(kept))
    return statistic, free, float(chdtrc(free, statistic)) if free else 1.0


def _power(matrix: Float64s, power: float) -> Float64s:
    """Return a power of a symmetric positive matrix."""
    values, axes = np.linalg.eigh(matrix)
    return np.asarray((axes * np.maximum(values, _SINGULAR * values.max()) ** power) @ axes.T)
