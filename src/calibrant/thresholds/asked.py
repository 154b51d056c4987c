"""What is asked of a threshold, and what is refused: bad numbers, and rows that cannot certify anything."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.errors.wording import number
from calibrant.inputs.conversion import as_array, as_numbers
from calibrant.runtime.arrays import ArrayLike
from calibrant.statistics.design import MINORITY
from calibrant.statistics.resampling import alpha_of
from calibrant.thresholds.betting import Bound
from calibrant.thresholds.ranked import Judged, Ranked
from calibrant.thresholds.result import Method
from calibrant.thresholds.rules import START, first_rows, least_rows

_ROUNDED: Final = 1e-12  # of a weight


class ThresholdOptions(NamedTuple):
    """What was asked for."""

    method: Method
    confidence: float
    costs: tuple[float, float] | None
    bound: Bound = Bound(None, None)
    counts: bool = False  # whether weights are said to be numbers of rows

    @property
    def rows(self) -> bool:
        """Whether independent rows bet one by one."""
        return self.bound.rows is not None or self.bound.weight is not None


def as_risk(name: str, risk: object) -> float:
    """Return a risk in (0, 0.5]."""
    if isinstance(risk, (int, float, np.number)) and not isinstance(risk, bool) and 0 < risk <= 0.5:
        return float(risk)
    in_percent = isinstance(risk, (int, float, np.number)) and 1 <= risk <= 50
    remedy = f"pass a share such as {risk / 100:g}, not percent" if in_percent else "pass a share such as 0.05"  # type: ignore[operator]
    raise InputError(name, "a number above 0 and up to 0.5", repr(risk), remedy)


def as_confidence(confidence: object) -> float:
    """Return a confidence in [0.5, 1)."""
    if isinstance(confidence, (float, np.floating)) and 0.5 <= confidence < 1:
        return float(confidence)
    remedy = "pass a share such as 0.95" + (", not percent" if isinstance(confidence, (int, float)) else "")
    raise InputError("confidence", "a number from 0.5 to below 1", repr(confidence), remedy)


def as_costs(error: float | None, referral: float | None) -> tuple[float, float] | None:
    """Return the costs of an error and of a referral; None without costs."""
    if error is None and referral is None:
        return None
    for name, cost in (("cost_of_error", error), ("cost_of_referral", referral)):
        if cost is None:
            raise InputError(name, "a cost, because the other cost is given", "None", "pass both costs, or neither")
        if not isinstance(cost, (int, float, np.number)) or isinstance(cost, bool) or not 0 < cost < math.inf:
            raise InputError(name, "a number above 0", repr(cost), "pass both costs in the same unit")
    assert error is not None and referral is not None  # noqa: PT018 - checked above
    if referral >= error:
        remedy = "decide every row automatically: a referral costs as much as an error"
        raise InputError(
            "cost_of_referral", f"less than the cost of an error, {number(error)}", number(referral), remedy
        )
    return float(error), float(referral)


def bound_of(judged: Judged, largest_cluster: object, max_weight: object, weights: ArrayLike | None) -> Bound:
    """Return what bounds the weight of a cluster: as declared, or the largest value in these rows.

    Raises
    ------
    InputError
        For a bound that is not a number, is below what the rows have, or has no clusters or weights to be about.
    """
    events, data = judged.events, judged.more
    if events is None or data is None:
        return Bound(None, None)
    labels, alone = judged.cluster_labels, data.alone
    each = np.ones(len(events.scores)) if events.weights is None else events.weights
    weighted = max_weight is not None or not judged.table.whole
    unit, rows, weight, observed = 1.0, None, None, []
    if labels is None and not alone:
        if largest_cluster is not None:
            remedy = "pass clusters (--cluster), or leave largest_cluster out"
            raise InputError("largest_cluster", "clusters together with largest_cluster", "independent rows", remedy)
    else:
        parts = np.unique(np.arange(len(each)) if labels is None else labels, return_inverse=True)[1]
        seen = float(np.bincount(parts, None if weighted else each).max())
        rows = _at_least("largest_cluster", largest_cluster, seen, "the largest possible number of rows of a cluster")
        observed += ["largest_cluster"] * (largest_cluster is None)
    if weighted:
        if weights is None:
            remedy = "pass weights (--weight), or leave max_weight out"
            raise InputError("max_weight", "weights together with max_weight", "rows without weights", remedy)
        given = np.asarray(as_numbers("weights", as_array("weights", weights)), np.float64).reshape(-1)
        seen = float(given[data.predictions.evaluated.reshape(-1)].max()) if data.predictions is not None else 1.0
        unit = float(each.max()) / seen
        weight = unit * _at_least("max_weight", max_weight, seen, "the largest possible weight of a row")
        observed += ["max_weight"] * (max_weight is None)
    return Bound(rows, weight, unit, tuple(observed))


def _at_least(name: str, bound: object, seen: float, example: str) -> float:
    """Return a declared bound, or what was seen where none is declared."""
    if bound is None:
        return seen
    if not isinstance(bound, (int, float, np.number)) or isinstance(bound, bool) or not 0 < bound < math.inf:
        raise InputError(name, "a number above 0", repr(bound), f"pass {example}")
    if seen > float(bound) * (1 + _ROUNDED):
        expected = f"at least {seen:,.15g}, the largest value in these rows"
        raise InputError(
            name, expected, f"{bound:,.15g}", f"pass {example} in the whole population, not only in these rows"
        )
    return float(bound)


def check_rows(ranked: Ranked, asked: ThresholdOptions, max_risk: float, name: str) -> None:
    """Reject rows that cannot certify a threshold; ``name`` is the argument of the risk.

    Raises
    ------
    InputError
        As `certify_threshold`.
    """
    _check_method(ranked, asked)
    if len(ranked) == 1:
        remedy = "pass scores that differ, because a threshold cannot separate rows with equal scores"
        raise InputError("probs", "at least two different scores", f"{ranked.scores[0]:g} in every row", remedy)
    _check_outcomes(ranked)
    needed, rows = rows_of_first(asked, max_risk, alpha_of(asked.confidence)), float(ranked.independent[-1])
    if rows < needed:
        expected = f"at least {needed:,} rows for a risk of {max_risk:g} with confidence {asked.confidence:g}"
        remedy = "pass more rows, or accept a larger risk or a lower confidence"
        raise InputError(name, expected, f"{int(rows):,}", remedy)


def _check_method(ranked: Ranked, asked: ThresholdOptions) -> None:
    if asked.method != "betting" or ranked.bettors is not None:
        return
    if ranked.cells:
        expected, got = "rows with 'betting'", "a sketch"
        remedy = "pass the rows, because a sketch pools the clusters, or leave method out"
    else:
        expected, got = "clusters with 'betting'", "independent rows"
        remedy = "pass clusters (--cluster), or leave method out, because the default is exact for independent rows"
    raise InputError("method", expected, got, remedy)


def _check_outcomes(ranked: Ranked) -> None:
    """Reject outcomes that are a function of the score."""
    score = separating(ranked)
    if score is not None:
        remedy = (
            "pass the true outcomes, not predictions; if these are the true outcomes, the scores predict them without "
            "error and need no certified threshold"
        )
        got = f"outcomes that the threshold {score:.6g} separates perfectly"
        raise InputError("targets", "true outcomes", got, remedy)


def separating(ranked: Ranked) -> float | None:
    """Return the score that separates the outcomes without an error; None without one, and for few of one outcome."""
    errors, right = ranked.upto.wrong[-1], ranked.total - ranked.upto.wrong[-1]
    if min(errors, right) < MINORITY:
        return None
    first = int(np.argmax(ranked.wrong > 0))
    last = len(ranked) - 1 - int(np.argmax((ranked.wrong < ranked.weights)[::-1]))
    return float(ranked.scores[last]) if first > last else None


def rows_of_first(asked: ThresholdOptions, max_risk: float, alpha: float) -> int:
    """Return the rows that are needed for a first test."""
    if asked.method == "fixed-sequence":
        return least_rows(max_risk, alpha, wrong=START)
    return first_rows(max_risk, alpha)
