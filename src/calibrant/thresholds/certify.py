"""`certify_threshold` and `certify_two_sided`: from predictions, a table or a sketch to certified thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial
from typing import Any, Final, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.inputs.notions import PER_CLASS
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.inputs.weights import WeightsAre
from calibrant.render.words import percent
from calibrant.report import evaluated_data
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.results import Estimate
from calibrant.results.values import RiskCoverageCurve
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import PredictedGroups
from calibrant.statistics.intervals import NORMAL, Variance, clopper_pearson
from calibrant.statistics.resampling import alpha_of
from calibrant.table import ReliabilityTable
from calibrant.thresholds.areas import areas, curve_of
from calibrant.thresholds.asked import (
    ThresholdOptions,
    as_confidence,
    as_costs,
    as_risk,
    bound_of,
    check_rows,
    rows_of_first,
)
from calibrant.thresholds.betting import RATIO as BETTING_RATIO
from calibrant.thresholds.betting import betting, enough, fresh_clusters, risk_bound
from calibrant.thresholds.cautions import cautions
from calibrant.thresholds.planning import audit_rows, fresh_rows, planned_rows, upper_errors
from calibrant.thresholds.ranked import Judged, Ranked, RankedSample
from calibrant.thresholds.result import Costs, Method, Share, Side, Threshold, TwoSidedThreshold
from calibrant.thresholds.rules import RATIO, closed, cuts_of, first_rows, fixed_sequence

Key = TypeVar("Key")

_SURELY: Final = 0.9  # the probability with which the error rate of a planned cut is below the bound
_MORE: Final = 0.01  # of the rows: a larger coverage by less is not worth a sentence
_FEWEST: Final = 20  # rows of the first of them
_DIGITS: Final = 2  # decimals of a rounded threshold, at least
_ONE_SIDE: Final[tuple[Side, ...]] = ("yes",)
_HALF: Final = 0.5  # "yes" is decided at and above this score if no case is referred


def certify_threshold(
    probs: PredictedGroups,
    targets: ArrayLike | None = None,
    *,
    max_risk: float = 0.05,
    confidence: float = 0.95,
    method: Method | None = None,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    per_class: bool = False,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    largest_cluster: float | None = None,
    max_weight: float | None = None,
    cost_of_error: float | None = None,
    cost_of_referral: float | None = None,
) -> Threshold:
    r"""Return the lowest score at and above which decisions have a certified error rate.

    The risk at a threshold t is the error rate of the rows with a score of at least t. An error is a wrong predicted
    class, or for scores of one event, a row without the event. The promise: over repeated samples, the risk at the
    returned threshold is above ``max_risk`` with a probability of at most 1 - ``confidence``.

    Cuts are chosen by the number of rows, with alpha = 1 - ``confidence``. The first has so many that zero errors have
    a probability of at most alpha / 10 if the risk is ``max_risk``. Each further cut has 2 % more rows (10 % with
    "betting"), and ties stay together. Rows in clusters are divided by their design effect. With n_k rows and w_k
    errors above cut k, p_k is the probability of at most w_k errors among n_k rows with the risk ``max_risk``.

    - ``closed``: accepts cut m if :math:`p_m \le a_m` or :math:`\min_{k \ge m} p_k \le c_m`. With the critical values,
      which are exact, rows that are wrong with probability ``max_risk`` are accepted with a probability of at most
      alpha at each cut. The promise is exact if the risk does not fall as the threshold falls; for other risks it was
      only checked by simulation.
    - ``fixed-sequence``: tests every score at alpha, from the first with enough rows to pass with 2 errors, until a
      test fails. It assumes nothing about the risk.
    - ``betting``: for clusters, and for weights that are not whole numbers. If the risk does not fall as the threshold
      falls, it is exact for any dependence within clusters and any relation of weights and errors that
      ``largest_cluster`` and ``max_weight`` bound. It needs more rows.

    The threshold is the last accepted cut before the first one that is not.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits, class_names, weights_are
        As in `calibrant.evaluate`: arrays, a `ReliabilityTable` or a `CalibrationSketch` of one evaluated event.
        Weights that are not whole numbers are sampling weights: the risk is that of the rows they stand for.
    max_risk : float, default 0.05
        The largest acceptable error rate of automatic decisions, in (0, 0.5].
    confidence : float, default 0.95
        The probability that the promise is kept, in [0.5, 1).
    method : {"closed", "fixed-sequence", "betting"}, optional
        How thresholds are tested. By default "betting" for rows whose weights are not whole numbers and with
        ``largest_cluster`` or ``max_weight``, else "closed".
    groups : array, (N,), optional
        As in `calibrant.evaluate`. Each group gets a threshold of its own, with one promise for all groups together:
        each starts with alpha / G, and a group in which every decision is certified passes its part on (Holm).
    per_class : bool, default False
        Whether each predicted class gets a threshold of its own, in the same way.
    clusters : array, (N,), or False, optional
        As in `calibrant.evaluate`. Rows and errors are divided by the design effect of the errors above each cut, and
        the promise is approximate. With "betting" and ``largest_cluster`` it is exact.
    largest_cluster : float, optional
        For "betting", the largest possible number of rows of a cluster, known before the outcomes (with weights that
        are whole numbers, the largest sum of weights). Without it, the largest cluster of these rows is taken, and the
        promise is approximate, because larger clusters may exist.
    max_weight : float, optional
        For "betting", the largest possible weight of a row, known before the outcomes. Weights, also whole ones, are
        then sampling weights. Without it, the largest weight in these rows is taken, and the promise is approximate.
    cost_of_error, cost_of_referral : float, optional
        The cost of a wrong automatic decision, and of a row that is referred to a person. The result then has the mean
        cost of a row and the net benefit.

    Returns
    -------
    Threshold
        The threshold, what it automates, and what more rows would allow. ``value`` is None, with a ``reason``, if no
        threshold is certified.

    Raises
    ------
    calibrant.errors.InputError
        As `calibrant.evaluate`; for a risk outside (0, 0.5]; for fewer rows than the first cut needs; for clusters or
        weights above their bounds; for classes or labels that are evaluated one by one; for equal scores; for outcomes
        that a threshold on the score separates; for "betting" without clusters or sampling weights, or with a sketch;
        for a bound with another method; for one cost alone, or a referral that costs as much as an error; for
        ``per_class`` with groups, or without the rows of several classes.

    Notes
    -----
    From a sketch the counts above an edge of its grid are exact: the threshold is the next number above that edge, so
    that ``score >= value`` has the same rows. Scores of single precision that equal an edge are below it. A threshold
    is a rank of the scores: an increasing map of the scores of one event maps it too, so scores may be recalibrated on
    the same rows first. Maps of the probabilities of several classes may change the ranks of rows, and need other rows.
    Cost: less than 0.5 s for the critical values up to a million rows.

    References
    ----------
    Marcus, Peritz, Gabriel (1976), doi 10.1093/biomet/63.3.655. Geifman, El-Yaniv (2017), arXiv 1705.08500.
    Angelopoulos, Bates, Candes, Jordan, Lei (2021), arXiv 2110.01052. Waudby-Smith, Ramdas (2024), arXiv 2010.09686.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.beta(4, 1, 4_000)
    >>> t = calibrant.certify_threshold(confidence, rng.random(4_000) < confidence, max_risk=0.1)
    >>> round(t.value, 3), round(t.coverage, 3), round(t.risk, 3), round(t.risk_high, 3)
    (0.82, 0.564, 0.089, 0.1)
    >>> calibrant.certify_threshold(confidence[:200], rng.random(200) < confidence[:200], max_risk=0.1).reason
    'no threshold is certified to have an error rate of at most 10 % with 95 % confidence'
    """
    max_risk, confidence = as_risk("max_risk", max_risk), as_confidence(confidence)
    costs = as_costs(cost_of_error, cost_of_referral)
    given = {
        "notion": notion,
        "weights": weights,
        "ignore_index": ignore_index,
        "logits": logits,
        "class_names": class_names,
        "clusters": clusters,
        "weights_are": _weights_are(weights, weights_are, max_weight),
    }
    judged, data_of_groups = _judged(probs, targets, groups=groups, **given)
    if per_class:
        if groups is not None:
            raise InputError("per_class", "False with groups", "True", "pass only one of the two")
        _, data_of_groups = _judged(probs, targets, groups=_predicted(judged), **given)
    asked = _asked(judged, method, largest_cluster, max_weight, weights, ThresholdOptions("closed", confidence, costs))
    asked = asked._replace(counts=weights_are == "frequency")
    ranked = judged.ranked(rows=asked.rows)
    check_rows(ranked, asked, max_risk, "max_risk")
    alpha = alpha_of(confidence)
    found = _threshold(judged, ranked, _certified(ranked, asked, max_risk, alpha), asked, max_risk)
    found = replace(_with_curve(found, ranked, judged), per_class=per_class)
    if not data_of_groups:
        return found
    groups_ = {name: Judged.of(data) for name, data in data_of_groups.items()}
    by_group = jointly({name: (group, _ONE_SIDE) for name, group in groups_.items()}, asked, max_risk)
    common = {name: _share(group, found) for name, group in groups_.items()}
    shown = {name: replace(side, curve_maker=None) for name, (side,) in by_group.items()}
    return replace(found, by_group=shown, common=common)


def certify_two_sided(
    probs: PredictedGroups,
    targets: ArrayLike | None = None,
    *,
    yes_risk: float = 0.05,
    no_risk: float = 0.05,
    confidence: float = 0.95,
    method: Method | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    largest_cluster: float | None = None,
    max_weight: float | None = None,
    cost_of_error: float | None = None,
    cost_of_referral: float | None = None,
) -> TwoSidedThreshold:
    """Return two certified thresholds of one event: act at a score and above, dismiss at a score and below.

    The rows between are referred. At most ``yes_risk`` of the decisions "yes" are without the event, and at most
    ``no_risk`` of the decisions "no" have it. Both promises hold together with ``confidence``: each side is certified
    as by `certify_threshold`, with (1 + ``confidence``) / 2. If the certified ranges overlap, the pair of thresholds is
    taken that refers the fewest rows.

    For one error rate of both decisions, pass probabilities of two classes to `certify_threshold`.

    Parameters
    ----------
    probs, targets, weights, ignore_index, logits, clusters, weights_are, method, largest_cluster, max_weight
        As in `certify_threshold`, for one event.
    yes_risk, no_risk : float, default 0.05
        The largest acceptable error rates of either decision, in (0, 0.5].
    confidence : float, default 0.95
        The probability that both promises are kept, in [0.5, 1).
    cost_of_error, cost_of_referral
        As in `certify_threshold`.

    Returns
    -------
    TwoSidedThreshold
        The thresholds ``yes`` and ``no``; the ``value`` of either is None if it is not certified.

    Raises
    ------
    calibrant.errors.InputError
        As `certify_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.random(4_000)
    >>> two = calibrant.certify_two_sided(risk, rng.random(4_000) < risk, yes_risk=0.1, no_risk=0.1)
    >>> round(two.no.value, 2), round(two.yes.value, 2), round(two.coverage, 2)
    (0.13, 0.86, 0.27)
    """
    risks = {"yes": as_risk("yes_risk", yes_risk), "no": as_risk("no_risk", no_risk)}
    confidence = as_confidence(confidence)
    costs = as_costs(cost_of_error, cost_of_referral)
    judged, _ = _judged(
        probs,
        targets,
        notion=None,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
        clusters=clusters,
        weights_are=_weights_are(weights, weights_are, max_weight),
    )
    if judged.notion != "positive":
        got = "a sketch of predicted classes" if judged.more is None or judged.more.predictions is None else "classes"
        remedy = "pass one column, such as probs[:, 1] (--score); for predicted classes, use certify_threshold"
        raise InputError("probs", "the probability of one event, to decide yes or no about this event", got, remedy)
    each = ThresholdOptions("closed", 1 - alpha_of(confidence) / 2, costs, counts=weights_are == "frequency")
    asked = _asked(judged, method, largest_cluster, max_weight, weights, each)
    ranked = {"yes": judged.ranked(rows=asked.rows), "no": judged.ranked(downward=True, rows=asked.rows)}
    places = {}
    for side, rows in ranked.items():
        check_rows(rows, asked, risks[side], f"{side}_risk")
        places[side] = _certified(rows, asked, risks[side], alpha_of(asked.confidence))
    places["yes"], places["no"] = _apart(places["yes"], places["no"], ranked["yes"], ranked["no"])
    found = {}
    for side, rows in ranked.items():
        one = _threshold(judged, rows, places[side], asked._replace(costs=None), risks[side])
        found[side] = _with_curve(one, rows, judged)
    cost = None if asked.costs is None else _two_sided_costs(ranked["yes"], found, asked, confidence)
    return TwoSidedThreshold(yes=found["yes"], no=found["no"], confidence=confidence, costs=cost)


# ---------------------------------------------------------------- arguments


def _judged(
    probs: PredictedGroups, targets: ArrayLike | None, **how: Any
) -> tuple[Judged, Mapping[str, EvaluatedData]]:
    """Return the evaluated event, and what is evaluated of groups."""
    if isinstance(probs, ReliabilityTable) and targets is None and all(not value for value in how.values()):
        return Judged(*evaluated_data.check_table(probs, None)), {}
    data = evaluated_data.of_arguments(probs, targets, **how)
    if data.notion in PER_CLASS:
        remedy = "leave notion out to evaluate the predicted class, or pass the probability of one class or label"
        raise InputError("notion", "'positive' or 'top-label'", repr(data.notion), remedy)
    return Judged.of(data), data.groups


def _weights_are(weights: ArrayLike | None, weights_are: WeightsAre | None, max_weight: object) -> WeightsAre | None:
    """Return what weights are: those of a sample if a bound on them is declared, and nothing else is said."""
    return "sampling" if weights is not None and weights_are is None and max_weight is not None else weights_are


def _asked(
    judged: Judged,
    method: Method | None,
    largest_cluster: object,
    max_weight: object,
    weights: ArrayLike | None,
    asked: ThresholdOptions,
) -> ThresholdOptions:
    """Return what is asked with the method and its bound."""
    bounds = {"largest_cluster": largest_cluster, "max_weight": max_weight}
    declared = [name for name, value in bounds.items() if value is not None]
    if method is None:
        weighted = not judged.table.whole and judged.events is not None
        method = "betting" if declared or weighted else "closed"
    check_choice("method", method, get_args(Method))
    if method == "betting":
        return asked._replace(method=method, bound=bound_of(judged, largest_cluster, max_weight, weights))
    if declared:
        remedy = "leave method out, or leave the bound out"
        raise InputError(declared[0], f"method 'betting' together with {declared[0]}", repr(method), remedy)
    return asked._replace(method=method)


def _predicted(judged: Judged) -> NDArray[Any]:
    """Return the predicted class of each row, by name."""
    predictions: Predictions | None = None if judged.more is None else judged.more.predictions
    if predictions is None or predictions.layout != "multiclass":
        got = "a table or a sketch" if predictions is None else "one event"
        raise InputError("per_class", "rows with probabilities of several classes", got, "leave per_class out")
    if predictions.device_rows is not None:
        classes = predictions.device_rows.predicted()
    else:
        classes = np.concatenate([block.argmax(axis=1) for _, block in predictions.rows.blocks(0, predictions.n)])
    names = predictions.class_names
    return classes if names is None else np.array(names)[classes]


# ---------------------------------------------------------------- thresholds


def _certified(ranked: Ranked, asked: ThresholdOptions, max_risk: float, alpha: float) -> NDArray[np.intp]:
    """Return the certified places, from the top down."""
    if asked.method == "fixed-sequence":
        return np.arange(*fixed_sequence(ranked.sample(max_risk), max_risk, alpha))
    first = first_rows(max_risk, alpha)
    if asked.method == "betting" and ranked.bettors is not None:
        cuts = cuts_of(ranked.upto.rows, float(ranked.upto.rows[0]), BETTING_RATIO)
        return cuts[betting(ranked.bettors, cuts, max_risk, alpha, asked.bound.largest)]
    rows, wrong = ranked.sample(max_risk)
    cuts = cuts_of(rows, first)
    return cuts[: closed(RankedSample(rows[cuts], wrong[cuts]), max_risk, alpha)]


def _apart(
    yes: NDArray[np.intp], no: NDArray[np.intp], down: Ranked, up: Ranked
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return certified places of both sides that do not overlap, with the fewest rows between.

    The rows are ranked from the top ``down`` for "yes", and from the bottom ``up`` for "no".
    """
    if not len(yes) or not len(no) or yes[-1] + no[-1] + 2 <= len(down):
        return yes, no
    first = np.append(0, yes + 1)  # so many places from the top, or none
    fits = np.searchsorted(no, len(down) - 1 - first, side="right")
    last = np.append(0, no + 1)[fits]
    decided = np.append(0.0, down.upto.rows)[first] + np.append(0.0, up.upto.rows)[last]
    best = len(yes) - int(np.argmax(decided[::-1]))
    return yes[:best], no[: fits[best]]


def _threshold(
    judged: Judged, ranked: Ranked, places: NDArray[np.intp], asked: ThresholdOptions, max_risk: float, reason: str = ""
) -> Threshold:
    """Return the threshold at the last of the certified places, and what it does to the rows."""
    alpha = alpha_of(asked.confidence)
    bets = asked.method == "betting"
    exact = bets and not asked.bound.observed
    doubtful = ranked.parts is not None or ranked.squares is not None or bets
    audited = audit_rows(max_risk, alpha)
    place = value = rounded = None
    if len(places):
        place = int(places[-1])
        value, rounded = float(ranked.thresholds[place]), _rounded(ranked, place)
    base = Threshold(
        value=value,
        rounded=rounded,
        side="no" if ranked.downward else "yes",
        max_risk=max_risk,
        confidence=asked.confidence,
        method=asked.method,
        notion=judged.notion,
        n_classes=None if judged.more is None else judged.more.n_classes,
        n=judged.table.n,
        audit_rows=audited,
        approximate=doubtful and not exact,
        flag=cautions(judged, ranked, bets=bets, exact=exact, counts=asked.counts),
        largest_cluster=asked.bound.rows,
        max_weight=None if asked.bound.weight is None else asked.bound.weight / asked.bound.unit,
        observed_bounds=asked.bound.observed,
        clusters=ranked.cluster_details(judged.clusters),
        costs=None if asked.costs is None else _one_sided_costs(ranked, place, asked),
        reason=reason,
    )
    if reason:
        return base
    sample = ranked.sample(max_risk)
    base = replace(base, plan_maker=partial(_plan, ranked, sample, place, asked, max_risk))
    if place is None:
        return replace(base, reason=_why_none(ranked, asked, max_risk, float(sample.rows[-1])))
    weight, errors = float(ranked.upto.rows[place]), float(ranked.upto.wrong[place])
    coverage, low, high = _coverage(ranked, place, alpha)
    risk = errors / weight
    if bets and ranked.bettors is not None:
        risk_high = risk_bound(ranked.bettors, place, max_risk, alpha, asked.bound.largest)
    else:
        rows, wrong = (float(x[place]) for x in ranked.sample(risk))
        risk_high = float(clopper_pearson(wrong, rows, alpha)[1])
    held, held_wrong = ranked.clusters_down_to(place)
    return replace(
        base,
        n_clusters=held,
        n_clusters_wrong=held_wrong,
        n_automatic=weight,
        n_errors=errors,
        coverage=coverage,
        coverage_low=low,
        coverage_high=high,
        risk=risk,
        risk_high=risk_high,
        audit_fraction=min(1.0, audited / (coverage * (judged.table.n + judged.referred))),
    )


def _why_none(ranked: Ranked, asked: ThresholdOptions, max_risk: float, worth: float) -> str:
    """Return why no threshold is certified; the rows are worth so many independent ones."""
    alpha, bets = alpha_of(asked.confidence), asked.method == "betting"
    promise = f"at most {percent(max_risk)} with {percent(asked.confidence)} confidence"
    why, needed = f"no threshold is certified to have an error rate of {promise}", rows_of_first(asked, max_risk, alpha)
    if not bets and worth < needed:
        return f"{why}: the rows in clusters are worth {int(worth):,} independent rows, and {needed:,} are needed"
    if bets and ranked.bettors is not None:
        sizes = ranked.bettors.sums(ranked.bettors.weights) / asked.bound.largest
        if not enough(sizes, max_risk, alpha):
            rows, weight, limits = asked.bound.rows, asked.bound.weight, []
            if rows is not None:
                limits.append(f"clusters of up to {rows:,.6g} rows")
            if weight is not None:
                limits.append(f"weights of up to {weight / asked.bound.unit:,.6g}")
            return f"{why}: with {' and '.join(limits)}, these rows are too few, even if no decision is wrong"
    return why


def _rounded(ranked: Ranked, place: int) -> float:
    """Return the shortest decimal number that divides the rows as the threshold does."""
    value = float(ranked.thresholds[place])
    if place == len(ranked) - 1 or ranked.cells:
        return value
    beyond = float(ranked.thresholds[place + 1])
    rounding = ROUND_CEILING if ranked.downward else ROUND_FLOOR
    for digits in range(_DIGITS, 17):
        short = float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding))
        if beyond < short <= value or value <= short < beyond:
            return short
    return value


def _coverage(ranked: Ranked, place: int, alpha: float) -> tuple[float, float, float]:
    """Return the share of rows down to a place with its interval (Clopper and Pearson)."""
    every = place == len(ranked) - 1 and not ranked.referred
    share = 1.0 if every else float(ranked.upto.rows[place]) / ranked.cases
    n = float(ranked.independent[-1]) + ranked.referred
    if ranked.parts is not None:
        acted = (np.arange(len(ranked)) <= place).astype(np.float64)
        _, variance = ranked.mean(acted, acted)
        n /= max(variance.deff, 1.0)
    low, high = clopper_pearson(share * n, n, alpha / 2)
    return share, float(low), float(high)


def _plan(
    ranked: Ranked, sample: RankedSample, place: int | None, asked: ThresholdOptions, max_risk: float
) -> dict[str, Any]:
    """Return the rows that would certify a threshold, or a lower one, with its coverage and its observed risk.

    The cut is the last one whose error rate is below the bound with 90 % probability, or without a threshold that which
    needs the fewest rows: so the choice of the cut depends little on luck.
    """
    alpha = alpha_of(asked.confidence)
    cuts = cuts_of(sample.rows, _FEWEST if place is None else first_rows(max_risk, alpha))
    at = RankedSample(sample.rows[cuts], sample.wrong[cuts])
    coverages = ranked.upto.rows[cuts] / ranked.cases
    rates = upper_errors(at.wrong, _SURELY) / at.rows
    least = 0.0 if place is None else float(ranked.upto.rows[place]) / ranked.cases + _MORE
    able = np.flatnonzero((rates < max_risk) & (coverages > least))
    if not len(able):
        return {}
    cut = int(able[-1])
    if place is None:
        needed = [planned_rows(max_risk, alpha, float(rates[k])) or math.inf for k in able]
        cut = int(able[np.argmin(np.array(needed) / at.rows[able])])
    # A cut of new rows may be up to 2 % beyond the wanted place, and 10 % with betting.
    if asked.method == "betting" and ranked.bettors is not None:
        times = fresh_clusters(ranked.bettors, int(cuts[cut]), max_risk, alpha, asked.bound.largest)
        total = None if times is None else times * BETTING_RATIO * ranked.cases
    else:
        rows = fresh_rows(at, cut, max_risk, alpha, sequence=asked.method == "fixed-sequence")
        total = None if rows is None else rows * RATIO * ranked.cases / float(at.rows[cut])
    if total is None or total <= ranked.cases:
        return {}
    errors = float(ranked.upto.wrong[cuts[cut]] / ranked.upto.rows[cuts[cut]])
    return {"rows_needed": math.ceil(total), "coverage_needed": float(coverages[cut]), "risk_needed": errors}


def _curves(ranked: Ranked, found: Threshold, n: int) -> tuple[RiskCoverageCurve, Mapping[str, Estimate]]:
    marked = None
    if found.value is not None:
        marked = int(np.flatnonzero(ranked.thresholds == found.value)[0])
    return curve_of(ranked, found.confidence, marked), areas(ranked, found.confidence, n)


# ---------------------------------------------------------------- groups


def jointly(
    groups: Mapping[Key, tuple[Judged, tuple[Side, ...]]],
    asked: ThresholdOptions,
    max_risk: float,
) -> dict[Key, tuple[Threshold, ...]]:
    """Return the thresholds of the sides of groups, with one promise for all of them together.

    Each of G groups starts with alpha / G, which its sides share equally. A group whose every place is certified keeps
    its promise with that, and the others go on with its part (Holm 1979; Bretz et al. 2009, doi 10.1002/sim.3495).
    """
    ranked = {
        name: [judged.ranked(downward=side == "no", alone=True, rows=asked.rows) for side in sides]
        for name, (judged, sides) in groups.items()
    }
    alpha = alpha_of(asked.confidence) / len(groups)
    reasons = {name: _too_few(rows[0], asked, max_risk, alpha / len(rows)) for name, rows in ranked.items()}
    places = _places({name: rows for name, rows in ranked.items() if not reasons[name]}, asked, max_risk)
    found = {}
    for name, (judged, _) in groups.items():
        certified = places.get(name, [np.empty(0, np.intp)] * len(ranked[name]))
        if len(certified) > 1:
            certified = list(_apart(certified[0], certified[1], *ranked[name]))
        found[name] = tuple(
            _with_curve(_threshold(judged, rows, at, asked._replace(costs=None), max_risk, reasons[name]), rows, judged)
            for rows, at in zip(ranked[name], certified, strict=True)
        )
    return found


def _places(
    groups: Mapping[Key, list[Ranked]], asked: ThresholdOptions, max_risk: float
) -> dict[Key, list[NDArray[np.intp]]]:
    """Return the certified places of the sides of groups, all certified together."""
    places: dict[Key, list[NDArray[np.intp]]] = {}
    open_ = list(groups)
    while open_:
        alpha = alpha_of(asked.confidence) / len(open_)
        for name in open_:
            places[name] = [_certified(rows, asked, max_risk, alpha / len(groups[name])) for rows in groups[name]]
        whole = {name for name in open_ if all(map(_is_whole, places[name], groups[name]))}
        if not whole:
            break
        open_ = [name for name in open_ if name not in whole]
    return places


def _is_whole(places: NDArray[np.intp], ranked: Ranked) -> bool:
    """Whether every place is certified."""
    return len(places) > 0 and int(places[-1]) == len(ranked) - 1


def _with_curve(found: Threshold, ranked: Ranked, judged: Judged) -> Threshold:
    return replace(found, curve_maker=partial(_curves, ranked, found, judged.table.n))


def _too_few(ranked: Ranked, asked: ThresholdOptions, max_risk: float, alpha: float) -> str:
    """Return why a group cannot be tested, or nothing."""
    needed = rows_of_first(asked, max_risk, alpha)
    rows = float(ranked.independent[-1])
    if ranked.parts is not None and ranked.parts.number == 1:
        return "fewer than 2 clusters"
    if asked.method == "betting" and ranked.bettors is None:
        return "no clusters"
    return f"fewer than {needed:,} rows" if rows < needed else ""


def _share(judged: Judged, found: Threshold) -> Share:
    """Return what a threshold does to other rows."""
    ranked = judged.ranked(alone=True)
    place = -1
    if found.value is not None:
        place += int(np.searchsorted(-ranked.thresholds, -found.value, side="right"))
    if place < 0:
        return Share(coverage=0.0, risk=math.nan, risk_low=math.nan, risk_high=math.nan)
    weight, errors = float(ranked.upto.rows[place]), float(ranked.upto.wrong[place])
    rows, wrong = (float(x[place]) for x in ranked.sample(errors / weight))
    low, high = clopper_pearson(wrong, rows, alpha_of(found.confidence) / 2)
    return Share(coverage=weight / ranked.total, risk=errors / weight, risk_low=float(low), risk_high=float(high))


# ---------------------------------------------------------------- costs


def _one_sided_costs(ranked: Ranked, place: int | None, asked: ThresholdOptions) -> Costs:
    acted = np.arange(len(ranked)) <= (-1 if place is None else place)
    error, referral = asked.costs or (0.0, 0.0)
    right, wrong = np.where(acted, 0.0, referral), np.where(acted, error, referral)
    all_automatic = error * float(ranked.wrong.sum()) / ranked.total
    return _costs_of(ranked, right, wrong, asked, asked.confidence, all_automatic)


def _two_sided_costs(
    ranked: Ranked, found: Mapping[str, Threshold], asked: ThresholdOptions, confidence: float
) -> Costs:
    """Return the costs of both decisions; ranked are the rows from the top down."""
    error, referral = asked.costs or (0.0, 0.0)
    yes, no = (found[side].accepts(ranked.scores) for side in ("yes", "no"))
    right = np.where(yes, 0.0, np.where(no, error, referral))
    wrong = np.where(no, 0.0, np.where(yes, error, referral))
    at_half = np.where(ranked.scores >= _HALF, ranked.wrong, ranked.weights - ranked.wrong)
    return _costs_of(ranked, right, wrong, asked, confidence, error * float(at_half.sum()) / ranked.total)


def _costs_of(
    ranked: Ranked, right: Float64s, wrong: Float64s, asked: ThresholdOptions, confidence: float, all_automatic: float
) -> Costs:
    error, referral = asked.costs or (0.0, 0.0)
    mean, variance = ranked.mean(right, wrong)
    n = round(ranked.total)
    return Costs(
        error=error,
        referral=referral,
        cost=_estimate(mean, variance, confidence, n),
        net_benefit=_estimate(
            1 - mean / referral, variance._replace(value=variance.value / referral**2), confidence, n
        ),
        all_automatic=all_automatic,
        planned=1 - referral / error,
    )


def _estimate(value: float, variance: Variance, level: float, n: int) -> Estimate:
    half = variance.half_width(level)
    return Estimate(value, value - half, value + half, level=level, method=NORMAL, n=n)
