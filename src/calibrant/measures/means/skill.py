"""The Brier skill score: how much better than always predicting the base rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, Unavailable
from calibrant.measures.means.base_rates import BaseRates
from calibrant.measures.means.means import PredictionMeans
from calibrant.measures.measure import Measure, exact
from calibrant.sketch import Arguments
from calibrant.statistics.null import Interval
from calibrant.table import ReliabilityTable

_REMEDY: Final = "pass the predictions, or make the sketch with classwise=True"


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
    arguments = Arguments(probs=probs, targets=targets, weights=weights, ignore_index=ignore_index, logits=logits)
    sketch = arguments.sketch()
    if sketch is not None:
        arguments.totals()  # rejects what does not belong to a sketch
        means = PredictionMeans.of_sketch(sketch)
        if means.base_rates is None:
            raise InputError("probs", "a sketch that knows how often each class is", means.no_base_rates, _REMEDY)
        brier, rates = means.brier, means.base_rates
    else:
        predictions, notion = arguments.predictions()
        reading = read(predictions, notion)
        tables = [ReliabilityTable.pool(reading.events)] if notion == "positive" else []
        brier, rates = reading.means.brier, BaseRates.of_predictions(predictions, notion, tables)
    return 1 - brier / rates.score if rates.score > 0 else math.nan


def _value(event: Event) -> float:
    r"""Return 1 - B / U, or NaN with a reason in `_details`.

    B is the mean Brier score, and U that of always predicting the base rates: :math:`\bar y (1 - \bar y)` for one
    event, :math:`\sum_k \bar y_k (1 - \bar y_k)` for classes, the mean over labels for multilabel predictions. It is at
    most 1, 0 for the base rates themselves, and below 0 for what is worse. Source: Brier (1950), Monthly Weather
    Review 78; called the index of prediction accuracy by Kattan and Gerds (2018), doi 10.1186/s41512-018-0029-2.
    """
    means = event.predictions
    if means.base_rates is None or means.base_rates.score == 0:
        return math.nan
    return 1 - means.brier / means.base_rates.score


def _details(event: Event) -> Mapping[str, Any]:
    means = event.predictions
    if means.base_rates is None:
        return {"reason": means.no_base_rates}
    base = means.base_rates.score
    return {"brier_of_base_rates": base} if base > 0 else {"reason": "all outcomes are equal: the base rates are right"}


def _interval(inference: Inference) -> Interval:
    means = inference.event.predictions
    if means.base_rates is None:
        return Interval(math.nan, math.nan, means.no_base_rates)
    return inference.rows.skill_interval(means, means.base_rates, inference.resampling)


BRIER_SKILL = Measure(
    name="brier_skill",
    label="Brier skill",
    meaning="1 - Brier score / Brier score of always predicting the base rates. 1 is perfect, 0 no better than these.",
    computed="The Brier skill is 1 minus the Brier score over the one of always predicting the base rates of these "
    "rows",
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
    null=Unavailable("no noise floor: it is not an error"),
    functions=(brier_skill_score,),
)
