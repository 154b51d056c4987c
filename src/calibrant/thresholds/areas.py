"""The risk-coverage curve and the areas under it.

The rows are ranked by their scores, n of them. At rank k the coverage is k / n and the risk is E_k / k, with E_k errors
among the k rows with the highest scores. Tied rows have the mean over all orders: of a tie with w errors in m rows
behind n_0 rows with E_0 errors, row j has E = E_0 + j w / m.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final, Literal, get_args

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.inputs.conversion import as_array, as_numbers
from calibrant.report import evaluated_data
from calibrant.results import Estimate
from calibrant.results.values import RiskCoverageCurve
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import CalibrationSketch, Predicted
from calibrant.statistics.design import MINORITY
from calibrant.statistics.intervals import Variance, clopper_pearson, linked_interval
from calibrant.statistics.resampling import alpha_of, check_level
from calibrant.table import ReliabilityTable
from calibrant.thresholds.ranked import Judged, Ranked

#: The areas: under the risk, under the joint risk of being wrong and acted on, and above the best order of the rows.
Area = Literal["aurc", "augrc", "excess"]

#: The most points of a curve.
MOST_POINTS: Final = 401

_ROUNDING: Final = 1e-13  # of an area
_NEAR: Final = 64  # the first sums of 1 / k are listed
_FIRST: Final = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _NEAR + 1))])


def area_under_risk_coverage(
    scores: Predicted,
    correct: Any = None,
    *,
    kind: Area = "aurc",
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    r"""Return the area under the risk-coverage curve, AURC, or one of its relatives, with its confidence interval.

    .. math:: \mathrm{AURC} = \frac1n \sum_{k=1}^{n} \frac{E_k}{k}, \qquad
              \mathrm{AUGRC} = \frac1{n^2} \sum_{k=1}^{n} E_k

    E_k is the number of errors among the k rows with the highest scores. AURC is the mean risk over all coverages.
    AUGRC is the mean share of rows that are acted on and wrong; it gives the errors at the highest scores less weight.
    The excess AURC is AURC less that of the best order, in which every wrong prediction has a lower score than every
    correct one.
    All are in [0, 1], and lower is better.

    Parameters
    ----------
    scores : (N,) array of any library, ReliabilityTable or CalibrationSketch
        Confidences, in any unit: only their order matters. A sketch or a table has its outcomes with it; the scores in
        one cell of a grid count as tied.
    correct : (N,) array of any library
        Whether each row is right: 0 or 1.
    kind : {"aurc", "augrc", "excess"}, default "aurc"
        The area.
    weights : (N,) array, optional
        Frequency weights: a row of weight 2 is two rows. For weights that are not whole numbers, the interval uses the
        effective sample size.
    clusters : (N,) array, optional
        The cluster of each row. The interval then allows for dependence within clusters.
    level : float, default 0.95
        The level of the confidence interval.

    Returns
    -------
    Estimate
        The area with its interval, normal on the scale of logarithms, from the influence of each row. With fewer than
        15 errors or fewer than 15 correct predictions, ``details["flag"]`` warns that intervals may be too short. The
        interval is missing if all predictions are correct or all are wrong, and for an excess of 0.

    Raises
    ------
    calibrant.errors.InputError
        For scores that are not finite numbers, outcomes that are not 0 or 1, and arrays of different lengths.

    Notes
    -----
    Tied scores have the mean over all orders of their rows, so that the order of the rows plays no part. Cost: a sort.

    References
    ----------
    Geifman, El-Yaniv (2017), arXiv 1705.08500. Geifman, Uziel, El-Yaniv (2019), arXiv 1805.08206 (excess). Traub et al.
    (2024), arXiv 2407.01032 (AUGRC).

    Examples
    --------
    >>> import calibrant
    >>> area = calibrant.area_under_risk_coverage([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1])
    >>> round(area.value, 4)  # (0/1 + 0/2 + 1/3 + 1/4) / 4
    0.1458
    """
    check_choice("kind", kind, get_args(Area))
    check_level(level)
    ranked, n = _ranked(scores, correct, weights, clusters)
    return areas(ranked, level, n)[kind]


def risk_coverage_curve(
    scores: Predicted,
    correct: Any = None,
    *,
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
) -> RiskCoverageCurve:
    """Return the risk-coverage curve: the error rate of the rows at or above each score, with its pointwise band.

    Parameters
    ----------
    scores, correct, weights, clusters, level
        As in `area_under_risk_coverage`.

    Returns
    -------
    RiskCoverageCurve
        Thresholds from the highest score down, the share of rows at or above each (coverage), their error rate (risk),
        and the ends of its confidence interval (Clopper and Pearson), which holds for one threshold that was chosen
        before. At most 401 points, at equal steps of coverage; each is exact.

    Raises
    ------
    calibrant.errors.InputError
        As `area_under_risk_coverage`.

    Examples
    --------
    >>> import calibrant
    >>> curve = calibrant.risk_coverage_curve([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1])
    >>> curve.thresholds.tolist(), curve.coverages.tolist(), curve.risks.round(3).tolist()
    ([0.9, 0.8, 0.7, 0.6], [0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.333, 0.25])
    """
    check_level(level)
    ranked, _ = _ranked(scores, correct, weights, clusters)
    return curve_of(ranked, level)


def _ranked(
    scores: Predicted, correct: Any, weights: ArrayLike | None, clusters: ArrayLike | None
) -> tuple[Ranked, int]:
    """Return rows by their scores, whatever their unit, and the number of rows."""
    values = None
    if not isinstance(scores, (ReliabilityTable, CalibrationSketch)):
        numbers = as_numbers("scores", as_array("scores", scores))
        if numbers.ndim != 1 or not len(numbers):
            raise InputError("scores", "shape (N,)", f"shape {numbers.shape}", "pass one score for each row")
        if not np.isfinite(numbers).all():
            row = int(np.argmin(np.isfinite(numbers)))
            got = f"{numbers[row]} in row {row}"
            raise InputError("scores", "finite numbers", got, "leave out the rows without a score")
        values, ranks = np.unique(numbers, return_inverse=True)
        scores = ranks / max(len(values) - 1, 1)
    if isinstance(scores, ReliabilityTable):
        judged = Judged(*evaluated_data.check_table(scores, None))
        return judged.ranked(), judged.table.n
    try:
        data = evaluated_data.of_arguments(scores, correct, notion=None, weights=weights, clusters=clusters)
    except InputError as error:
        raise error.renamed({"probs": "scores", "targets": "correct"}) from None
    judged = Judged.of(data)
    ranked = judged.ranked()
    if values is not None:
        places = np.rint(ranked.scores * max(len(values) - 1, 1)).astype(np.intp)
        scores = values[places].astype(np.float64)
        ranked = replace(ranked, thresholds=scores, scores=scores)
    return ranked, judged.table.n


def areas(ranked: Ranked, level: float, n: int) -> dict[str, Estimate]:
    """Return the areas with their intervals."""
    weights, wrong = ranked.weights, ranked.wrong
    total, errors = ranked.total, float(wrong.sum())
    behind, before = ranked.upto.rows - weights, ranked.upto.wrong - wrong
    share = wrong / weights
    harmonic, squares = reciprocals(behind, weights)
    rest = before - behind * share
    risk = (wrong + rest * harmonic) / weights  # the mean over the rows of a tie
    joint = before + wrong * (weights + 1) / (2 * weights)
    best = _best(total, errors)
    aurc = float(np.sum(weights * risk)) / total
    augrc = float(np.sum(weights * joint)) / total**2
    rate = errors / total
    if not 0 < rate < 1:
        method = f"no interval: all predictions are {'wrong' if rate else 'correct'}"
        values = {"aurc": aurc, "augrc": augrc, "excess": aurc - best}
        return {kind: Estimate(value, method=method, n=n) for kind, value in values.items()}
    # A row moves the risk at its own place and at every later one.
    below, moved = (_after(x) for x in (harmonic, share * harmonic + rest * squares))
    of_right = [risk - moved, joint / total]
    of_wrong = [risk - moved + below, joint / total + 1 - (ranked.upto.rows - weights / 2) / total]
    slope = -math.log1p(-rate)  # of the best area, by the error rate
    of_right.append(of_right[0] + slope * rate)
    of_wrong.append(of_wrong[0] - slope * (1 - rate))
    rarer = min(errors, total - errors)
    what = "errors" if rate < 0.5 else "correct predictions"
    flag = "" if rarer >= MINORITY else f"{rarer:.4g} {what}, fewer than {MINORITY}"
    found = {}
    excess = aurc - best if aurc - best > _ROUNDING * aurc else 0.0
    for kind, value, right, wrong_ in zip(get_args(Area), (aurc, augrc, excess), of_right, of_wrong, strict=True):
        _, variance = ranked.mean(right, wrong_)
        found[kind] = _estimate(value, variance, level, n, flag)
    return found


def _estimate(value: float, variance: Variance, level: float, n: int, flag: str) -> Estimate:
    details = {"flag": flag} if flag else {}
    if value <= 0:
        return Estimate(0.0, method="no interval: every wrong prediction has a lower score than every correct one", n=n)
    relative = variance._replace(value=variance.value / value**2)
    low, high, method = linked_interval(value, relative, level, "log")
    return Estimate(value, low, min(high, 1.0), level=level, method=method, n=n, details=details)


def _after(values: Float64s) -> Float64s:
    """Return the sum over all later places, and half of the own one."""
    return np.cumsum(values[::-1])[::-1] - values / 2


def reciprocals(behind: Float64s, rows: Float64s) -> tuple[Float64s, Float64s]:
    """Return the sums of 1 / k and of 1 / k^2 over the ranks k of each place, for ``rows`` ranks behind others.

    H(x) = log(x + 1/2) + 1 / 24 (x + 1/2)^2 - 7 / 960 (x + 1/2)^4 + 31 / 8064 (x + 1/2)^6 + a constant, to 1e-17 from
    64 ranks on. The second sum is to 1 / k^4: only variances depend on it.
    """
    from scipy.special import digamma

    ends = behind + rows
    x, y = (np.maximum(each, _NEAR) + 0.5 for each in (behind, ends))
    sums = np.log1p((y - x) / x) + _series(y) - _series(x)
    near = behind < _NEAR
    first, last = behind[near], np.minimum(ends[near], _NEAR)
    if np.array_equal(first, np.floor(first)) and np.array_equal(last, np.floor(last)):
        sums[near] += _FIRST[last.astype(np.intp)] - _FIRST[first.astype(np.intp)]
    else:  # weights that are not whole numbers
        sums[near] += digamma(last + 1) - digamma(first + 1)
    return sums, 1 / (behind + 0.5) - 1 / (ends + 0.5)


def _series(x: Float64s) -> Float64s:
    u = 1 / x**2
    return np.asarray(u * (1 / 24 - u * (7 / 960 - u * 31 / 8064)))


def _best(total: float, errors: float) -> float:
    """Return the area under the curve if every wrong prediction had a lower score than every correct one."""
    if errors == 0:
        return 0.0
    right = total - errors
    harmonic, _ = reciprocals(np.array([right]), np.array([errors]))
    return (errors - right * float(harmonic[0])) / total


def curve_of(ranked: Ranked, level: float, marked: int | None = None) -> RiskCoverageCurve:
    """Return the curve at equal steps of coverage, and at one marked place."""
    weights, wrong = ranked.upto
    places = np.arange(len(ranked))
    if len(places) > MOST_POINTS:
        steps = np.linspace(0, float(weights[-1]), MOST_POINTS)[1:]
        places = np.unique(np.minimum(np.searchsorted(weights, steps * (1 - 1e-12)), len(ranked) - 1))
    if marked is not None:
        places = np.union1d(places, [marked])
    risks = np.clip(wrong / weights, 0.0, 1.0)
    rows, errors = (x[places] for x in ranked.sample(risks))
    lows, highs = clopper_pearson(errors, rows, alpha_of(level) / 2)
    return RiskCoverageCurve(
        thresholds=ranked.thresholds[places],
        coverages=weights[places] / weights[-1],
        risks=risks[places],
        lows=lows,
        highs=highs,
    )
