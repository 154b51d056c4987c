"""Tests of the hypothesis that scores are calibrated: each outcome happens with the probability that its score says."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.estimators import cumulative
from calibrant.estimators.binned import quantile_bin_of
from calibrant.estimators.regression import cox_fit
from calibrant.inputs import Notion
from calibrant.results import TestResult
from calibrant.sampling.cumulative import brownian_sf
from calibrant.sketch import table_of
from calibrant.table import ReliabilityTable

Float64s = NDArray[np.float64]
Sample = Literal["external", "in-sample"]

SAMPLES: Final = ("external", "in-sample")

_ROUNDING: Final = 1e-12  # relative to the number of predictions: a sum of residuals below it is 0
_LEAST_EPS: Final = 1e-15  # below about 1e-16, 1 - eps rounds to 1
_MOST_GROUPS: Final = 1_000_000


def spiegelhalter_test(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> TestResult:
    r"""Test calibration by Spiegelhalter's z: whether the Brier score is as large as the scores themselves imply.

    .. math:: Z = \frac{\sum_i (y_i - p_i)(1 - 2 p_i)}{\sqrt{\sum_i (1 - 2 p_i)^2\, p_i (1 - p_i)}}

    Under calibration Z is standard normal, and the p-value is two-sided. Z > 0 means that the Brier score is larger
    than expected: the scores are too extreme. The test has much power against scores that are too extreme or not
    extreme enough. It has none against errors that leave the Brier score as expected, such as a constant shift of
    scores that lie symmetrically about 1/2.

    Parameters
    ----------
    probs : array, (N,), (N, 1), (N, C) or (N, C, ...), or ReliabilityTable
        Probabilities, as in `expected_calibration_error`; or a table of one event, without any other argument.
    targets : array, (N,) or (N, ...), or one-hot like probs
        0 or 1, or class indices 0 to C - 1. Needed unless ``probs`` is a table.
    notion : {"positive", "top-label"}, optional
        The judged event; by default the one that follows from the shape.
    weights : array, (N,), optional
        Weights. Whole numbers are frequency weights: weight 2 counts the row twice. Otherwise each row is one
        prediction with its own weight w, and variances are sums with w^2.
    ignore_index : int, optional
        Rows with this target are left out.
    logits : bool, default False
        Whether ``probs`` are logits.

    Returns
    -------
    TestResult
        ``statistic`` is Z. Scores of 0, 1/2 and 1 add nothing to the variance. If there are no others, the variance is
        0. Then Z is 0 with p-value 1; or inf with p-value 0, if an outcome happened that its score excluded.

    Raises
    ------
    calibrant.errors.InputError
        A `ValueError` that names the argument, what was expected, what came and what to do. As for
        `expected_calibration_error`; also for a notion of several events, and for another argument next to a table.

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
    >>> test = spiegelhalter_test([0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1], [0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
    >>> round(test.statistic, 5), round(test.p_value, 5)
    (2.97491, 0.00293)
    """
    table = table_of(probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits)
    null_variances, tilts = _spreads(table), 1 - 2 * table.scores.astype(np.float64)
    # (y - p)(1 - 2 p) = (y - p)^2 - p (1 - p): tables on a grid hold the exact sums of both
    excess = float(np.sum(table.square_residuals - null_variances))
    z = _standardised(excess, float(np.sum(_units(table) * null_variances * tilts**2)), table.total)
    p_value = math.erfc(abs(z) / math.sqrt(2))
    return TestResult(z, p_value, "Spiegelhalter's z, two-sided p-value of the normal law", table.n, table.provenance)


def hosmer_lemeshow_test(
    probs: Any,
    targets: Any = None,
    *,
    sample: Sample,
    n_groups: int = 10,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> TestResult:
    r"""Test calibration by Hosmer and Lemeshow's chi-square: observed against expected outcomes in groups of the score.

    .. math:: H = \sum_g \frac{(O_g - E_g)^2}{E_g (1 - E_g / n_g)}

    over groups of equal mass: those of `adaptive_calibration_error`, which never split tied scores. Group g has
    :math:`n_g` predictions; :math:`O_g` is the sum of their outcomes and :math:`E_g` the sum of their scores. Larger is
    worse. The p-value is that of a chi-square law. With G filled groups it has G degrees of freedom for held-out data,
    and G - 2 for the data that the scores were fitted to. The data do not show which it is, so the caller must say. If
    the scores of a group leave no doubt (E = 0 or E = n), the group adds 0 if O = E; otherwise H is infinite and the
    p-value 0.

    Parameters
    ----------
    sample : {"external", "in-sample"}
        Whether the scores come from a model that never saw these outcomes, or from a logistic regression fitted to
        them. Required.
    n_groups : int, default 10
        The number of groups; fewer may be filled if scores are tied.
    probs, targets, notion, weights, ignore_index, logits
        As in `spiegelhalter_test`. With weights that are not whole numbers each group counts as
        (sum w)^2 / sum w^2 predictions.

    Returns
    -------
    TestResult
        ``details`` hold the ``degrees_of_freedom`` and, for each filled group, its ``counts``, ``observed`` and
        ``expected`` outcomes.

    Raises
    ------
    calibrant.errors.InputError
        Also for fewer than 3 filled groups with ``sample="in-sample"``, which leave no degree of freedom.

    Notes
    -----
    The chi-square law needs about five expected outcomes of either kind in each group. Cost: as `spiegelhalter_test`.

    References
    ----------
    Hosmer, Lemeshow (1980), doi 10.1080/03610928008827941. Hosmer, Lemeshow, Sturdivant (2013), Applied Logistic
    Regression, doi 10.1002/9781118548387.

    Examples
    --------
    >>> from calibrant.inference import hosmer_lemeshow_test
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 0, 1, 1, 1]
    >>> test = hosmer_lemeshow_test(p, y, sample="external", n_groups=2)
    >>> test.details["observed"], test.details["degrees_of_freedom"], round(test.statistic, 6)
    ((2.0, 3.0), 2, 1.333333)
    """
    from scipy.special import chdtrc

    check_choice("sample", sample, SAMPLES)
    _check_groups(n_groups)
    table = table_of(probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits)
    groups = quantile_bin_of(table, n_groups)
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    counts, observed, expected, squares = (
        np.add.reduceat(column.astype(np.float64), first)
        for column in (table.counts, table.positives, _score_sums(table), _units(table) * table.counts)
    )
    variances = np.maximum(expected * (1 - expected / counts), 0.0) * squares / counts
    deviates = np.array([_standardised(*group) for group in zip(observed - expected, variances, counts, strict=True)])
    freedom = len(first) - (0 if sample == "external" else 2)
    if freedom < 1:
        remedy = "use sample='external' if the scores were not fitted to these outcomes, or another test"
        raise InputError("n_groups", "at least 3 filled groups with sample='in-sample'", str(len(first)), remedy)
    with np.errstate(over="ignore"):  # a score of 1e-320 whose event happened
        statistic = float(np.sum(deviates**2))
    groups_seen = {"counts": counts, "observed": observed, "expected": expected}
    details = {"degrees_of_freedom": freedom, **{name: tuple(map(float, sums)) for name, sums in groups_seen.items()}}
    method = f"Hosmer and Lemeshow's chi-square, {sample}, {_degrees(freedom)} of freedom"
    return TestResult(statistic, float(chdtrc(freedom, statistic)), method, table.n, {**details, **table.provenance})


def ks_test(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> TestResult:
    r"""Test calibration by the largest cumulative residual, without bins: Kolmogorov and Smirnov's way.

    .. math:: T = \frac{\max_k \left|\sum_{p_i \le s_k} (y_i - p_i)\right|}{\sqrt{\sum_i p_i (1 - p_i)}}

    over the distinct scores :math:`s_k`. T is N times the Kolmogorov-Smirnov calibration error, in standard deviations
    of the sum of all residuals. Under calibration the cumulative residuals approach a Brownian motion W on [0, 1], and
    the p-value is ``P(sup |W| > T)``. Larger is worse. With few distinct scores the maximum is over few points and the
    p-value is too large: the test is conservative.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `spiegelhalter_test`.

    Returns
    -------
    TestResult
        ``details`` hold the ``error``, which is ``max |sum| / N``. If all scores are 0 or 1, the variance is 0. Then T
        is 0 with p-value 1; or inf with p-value 0, if an outcome happened that its score excluded.

    Raises
    ------
    calibrant.errors.InputError
        As `spiegelhalter_test`.

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
    table = table_of(probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits)
    error = cumulative.ks_error(table)
    statistic = _cumulative_statistic(table, error)
    method = "largest cumulative residual, law of the supremum of |Brownian motion|"
    return TestResult(statistic, brownian_sf(statistic), method, table.n, {"error": error, **table.provenance})


def kuiper_test(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> TestResult:
    r"""Test calibration by the range of the cumulative residuals, without bins: Kuiper's way.

    .. math:: T = \frac{\max_k C_k - \min_k C_k}{\sqrt{\sum_i p_i (1 - p_i)}},\quad C_k = \sum_{p_i \le s_k}(y_i - p_i)

    with :math:`C_0 = 0`. The numerator is N times the Kuiper calibration error (ECCE-R): the largest sum of residuals
    over any interval of scores. Under calibration T has the law of the range of a Brownian motion on [0, 1]. Larger is
    worse. Parameters, result and errors are those of `ks_test`.

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
    table = table_of(probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits)
    error = cumulative.kuiper_error(table)
    statistic = _cumulative_statistic(table, error)
    method = "range of the cumulative residuals, law of the range of Brownian motion"
    return TestResult(statistic, brownian_range_sf(statistic), method, table.n, {"error": error, **table.provenance})


def cox_test(
    probs: Any,
    targets: Any = None,
    *,
    eps: float | None = None,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> TestResult:
    r"""Test calibration by logistic recalibration: whether intercept 0 and slope 1 fit as well as any others.

    .. math:: \operatorname{logit} P(y = 1) = a + b \operatorname{logit} p, \qquad
        T = 2\,[\ell(\hat a, \hat b) - \ell(0, 1)]

    with the log likelihood :math:`\ell`. Under calibration the likelihood ratio T has a chi-square law with 2 degrees
    of freedom. b < 1 means that the scores are too extreme, b > 1 that they are not extreme enough. The intercept at
    slope 1, calibration in the large, is positive if events happen more often than the scores say.

    Parameters
    ----------
    eps : float, optional
        Clip the scores to [eps, 1 - eps]. Without it, scores of exactly 0 or 1 are rejected: their log-odds are
        infinite.
    probs, targets, notion, weights, ignore_index, logits
        As in `spiegelhalter_test`. With weights that are not whole numbers the weighted likelihood is maximised, and T
        is scaled to N = (sum w)^2 / sum w^2 predictions.

    Returns
    -------
    TestResult
        ``details`` hold ``intercept``, ``slope``, ``in_the_large``, ``degrees_of_freedom``, ``clipped`` (how many
        predictions eps moved) and ``separated``: whether a threshold on the score separates the outcomes. If all scores
        are equal, there is 1 degree of freedom and the slope is NaN. If the outcomes are separated, the likelihood has
        no maximum: T is its limit, the slope is -inf or inf and the intercept NaN. If all outcomes are equal, both are
        NaN.

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
    _check_eps(eps)
    table = table_of(probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits)
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    scores = table.scores.astype(np.float64)
    certain = float(np.sum(table.counts[(scores == 0) | (scores == 1)]))
    if eps is None and certain:
        remedy = "pass eps=1e-6, say, to clip them, or leave these rows out"
        raise InputError("probs", "scores strictly between 0 and 1", f"0 or 1 in {certain:g} rows", remedy)
    fit = cox_fit(table, eps)
    scale = table.total / float(np.sum(_units(table) * table.counts))
    statistic = max(0.0, 2 * scale * (fit.log_likelihood - fit.calibrated_log_likelihood))
    # The chi-square law's upper tail, in closed form for 1 and 2 degrees of freedom.
    tail = math.exp(-statistic / 2) if fit.free == 2 else math.erfc(math.sqrt(statistic / 2))
    moved = float(np.sum(table.counts[(scores < low) | (scores > high)]))
    details = {
        "intercept": fit.intercept,
        "slope": fit.slope,
        "in_the_large": fit.in_the_large,
        "degrees_of_freedom": fit.free,
        "separated": fit.separated,
        "clipped": moved,
    }
    method = f"likelihood ratio of Cox's recalibration, chi-square with {_degrees(fit.free)} of freedom"
    return TestResult(statistic, tail, method, table.n, {**details, **table.provenance})


def brownian_range_sf(x: float) -> float:
    """Return P(max W - min W > x) for a Brownian motion W on [0, 1].

    Feller (1951): the density is 8 sum_k (-1)^(k + 1) k^2 phi(k x), so the tail is 8 sum_k (-1)^(k + 1) k Phi(-k x).
    This keeps its digits for large x. For small x, Poisson's summation gives the distribution function:
    8 sum_k (1 / x^2 + 1 / a_k^2) exp(-a_k^2 / (2 x^2)) with a_k = (2 k + 1) pi.
    """
    from scipy.special import ndtr

    if x < 0.1:  # the distribution function is below 1e-200
        return 1.0
    if x > 1.5:
        k = np.arange(1, 20)
        return float(8 * np.sum((-1.0) ** (k + 1) * k * ndtr(-k * x)))
    squares = (math.pi * (2 * np.arange(10) + 1)) ** 2
    return float(1 - 8 * np.sum((1 / x**2 + 1 / squares) * np.exp(-squares / (2 * x**2))))


def _cumulative_statistic(table: ReliabilityTable, error: float) -> float:
    """Return a cumulative error in standard deviations of the sum of all residuals."""
    return _standardised(error * table.total, float(np.sum(_units(table) * _spreads(table))), table.total)


def _standardised(deviation: float, variance: float, total: float) -> float:
    """Return a deviation in standard deviations: 0 or infinite if the variance is 0."""
    if variance > 0:
        return float(deviation / math.sqrt(variance))
    return 0.0 if abs(deviation) <= _ROUNDING * total else math.copysign(math.inf, deviation)


def _units(table: ReliabilityTable) -> Float64s | float:
    """Return the mean weight of a prediction in each row; 1 if weights are frequencies."""
    return 1.0 if table.square_weights is None else table.square_weights.sum(axis=0) / table.counts


def _score_sums(table: ReliabilityTable) -> Float64s:
    """Return the sum of the scores in each row."""
    sums = table.score_sums
    return np.asarray(table.counts * table.scores.astype(np.float64) if sums is None else sums)


def _spreads(table: ReliabilityTable) -> Float64s:
    """Return the sum of p (1 - p) in each row."""
    if table.square_scores is not None:
        return np.asarray(np.maximum(_score_sums(table) - table.square_scores, 0.0))
    return np.asarray(_score_sums(table) * (1 - table.scores.astype(np.float64)))


def _degrees(freedom: int) -> str:
    return f"{freedom} degree" + "s" * (freedom > 1)


def _check_groups(n_groups: object) -> None:
    integer = isinstance(n_groups, (int, np.integer)) and not isinstance(n_groups, bool)
    if not integer or not 1 <= n_groups <= _MOST_GROUPS:  # type: ignore[operator]
        remedy = "pass the number of groups, such as 10"
        raise InputError("n_groups", f"an integer from 1 to {_MOST_GROUPS:,}", repr(n_groups), remedy)


def _check_eps(eps: object) -> None:
    number = isinstance(eps, (float, np.floating)) and _LEAST_EPS <= eps < 0.5
    if not (eps is None or number):
        remedy = "pass a small share such as 1e-6, or None"
        raise InputError("eps", f"a number from {_LEAST_EPS} to below 0.5", repr(eps), remedy)
