"""The Brier skill score: how much better than always predicting the base rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.means.means import BaseRates, PredictionMeans, surprises
from calibrant.measures.measure import Measure, Unavailable, exact
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.cluster_sums import centred, variance_of
from calibrant.statistics.design import Clustered, unbiased
from calibrant.statistics.intervals import NORMAL, Variance
from calibrant.statistics.null import Interval
from calibrant.table import ReliabilityTable

_REMEDY: Final = "pass the predictions, or make the sketch with classwise=True"
_NO_BUCKETS: Final = "no interval by cluster: the class frequencies of each cluster are unknown"
_ROUNDING: Final = 1e-12  # relative: a smaller variance of rows is rounding


def brier_skill_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier skill score: how much better the Brier score is than that of always predicting the base rates.

    .. math:: 1 - \frac{B}{U}, \qquad U = \sum_k \bar y_k (1 - \bar y_k) \text{ for classes},
        \quad U = \bar y (1 - \bar y) \text{ for one event}

    B is the Brier score. It is 1 for perfect predictions, 0 for the base rates themselves, and below 0 for what is
    worse; higher is better. NaN if all outcomes are equal: then the base rates are right. Medicine calls it the index
    of prediction accuracy. Parameters, errors and cost are those of `brier_score`.

    Raises
    ------
    calibrant.errors.InputError
        Also for a sketch or a table that does not know how often each class is.

    References
    ----------
    Brier (1950), Monthly Weather Review 78. Kattan, Gerds (2018), doi 10.1186/s41512-018-0029-2.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.brier_skill_score([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1]), 12)
    0.63
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    sketch = arguments.sketch()
    if sketch is not None:
        arguments.totals()  # rejects what does not belong to a sketch
        means = PredictionMeans.of_sketch(sketch)
        if means.base_rates is None:
            raise InputError("probs", "a sketch with the frequency of each class", means.no_base_rates, _REMEDY)
        return _skill(means.brier, means.base_rates)
    predictions, notion = arguments.predictions()
    reading = read(predictions, notion)
    tables = [ReliabilityTable.pool(reading.events)] if notion == "positive" else []
    return _skill(reading.means.brier, BaseRates.of_predictions(predictions, notion, tables))


def _skill(brier: float, rates: BaseRates) -> float:
    """Return 1 - B / U; NaN if all outcomes are equal."""
    return 1 - brier / rates.score if rates.score > 0 else math.nan


def _value(event: Event) -> float:
    """Return the skill, or NaN with a reason in `_details`. U is the mean over labels for multilabel predictions."""
    means = event.predictions
    return math.nan if means.base_rates is None else _skill(means.brier, means.base_rates)


def _details(event: Event) -> Mapping[str, Any]:
    means = event.predictions
    if means.base_rates is None:
        return {"reason": means.no_base_rates}
    base = means.base_rates.score
    return (
        {"brier_of_base_rates": base}
        if base > 0
        else {"reason": "all outcomes are equal, so the base rates are perfect predictions"}
    )


def _interval(inference: Inference) -> Interval:
    """Return the interval of a ratio of two means over the same rows."""
    means, design = inference.event.predictions, inference.design
    rates = means.base_rates
    if rates is None:
        return Interval(math.nan, math.nan, means.no_base_rates)
    if not isinstance(design, Clustered):
        method = f"{NORMAL}, standard errors added, conservative" if rates.brier is None else NORMAL
        variance = Variance(unbiased(_square(means, rates), means.effective_n))
    elif rates.buckets is None or rates.places is None:
        return Interval(math.nan, math.nan, _NO_BUCKETS)
    else:
        method, variance = NORMAL, _variance_by_cluster(design, means, rates, rates.buckets, rates.places)
    half = variance.half_width(inference.level)
    skill = _skill(means.brier, rates)
    return Interval(skill - half, skill + half, method)


def _square(means: PredictionMeans, rates: BaseRates) -> float:
    """Return the variance of 1 - B / U for independent rows.

    The error of the base rates lowers U by sum (f - r)^2, f the rates of the rows: of second order, and all that is
    left where every row has one score. Its variance is at most 2 (U / n)^2.
    """
    ratio, n = means.brier / rates.score, means.effective_n
    return (rates.variance(ratio, means.brier, means.brier_variance) / rates.score**2 + 2 * ratio**2 / n) / n


def _variance_by_cluster(
    rows: Clustered, means: PredictionMeans, rates: BaseRates, buckets: Float64s, places: NDArray[np.intp]
) -> Variance:
    """Return the variance of 1 - B / U, of the sums of b - (B / U) u over the buckets.

    The error of the base rates adds what it does for independent rows, with the design effect of u.
    """
    ratio, held_places = means.brier / rates.score, places[rows.held]
    pooled = [np.bincount(held_places, x, len(buckets)) for x in (rows.scalar("brier"), rows.weights)]
    brier, weights = (x.astype(np.float64, copy=False) for x in pooled)
    losses, filled = buckets @ rates.losses, weights > 0

    def of_sum(sums: Float64s, variance: float, mean: float) -> Variance:
        square = variance * rows.unit * rows.total if variance > _ROUNDING * (mean**2 + variance) else 0.0
        return variance_of(centred(sums[filled], weights[filled]), square, weights[filled] / rows.unit)

    skill = of_sum(brier - ratio * losses, rates.variance(ratio, means.brier, means.brier_variance), means.brier)
    base = of_sum(losses, rates.own_variance, rates.score)
    second = 2 * (ratio * base.deff / rows.effective_n) ** 2
    return skill._replace(value=skill.value / (rates.score * rows.total) ** 2 + second)


BRIER_SKILL = Measure(
    name="brier_skill",
    label="Brier skill",
    meaning="1 minus the ratio of the Brier score to the Brier score of always predicting the base rates. The value 1 "
    "is perfect. The value 0 is no better than the base rates.",
    misleads="The Brier skill depends on the base rates of these rows.",
    computed="The Brier skill is 1 minus the ratio of the Brier score to the Brier score of always predicting the "
    "base rates of these rows",
    sources=("Brier 1950", "Kattan and Gerds 2018"),
    value=_value,
    profiles=frozenset({"standard", "clinical", "forecast"}),
    judges="predictions",
    scale="ratio",
    range=(-math.inf, 1.0),
    better="higher",
    details=_details,
    bound=exact,
    interval=_interval,
    caution=lambda event: surprises(event.design.cells),
    null=Unavailable("no noise floor: the measure is not an error"),
    functions=(brier_skill_score,),
)
