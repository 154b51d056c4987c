"""The Brier skill score and the log loss skill score: how much better than always predicting the base rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.inputs.predictions import Notion
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, certified
from calibrant.measures.isotonic.isotonic import base_score, table_score
from calibrant.measures.means.means import (
    BaseRates,
    PredictionMeans,
    implied_square,
    log_loss_of_cells,
    steadied_by_scores,
    surprises,
)
from calibrant.measures.measure import NOT_AN_ERROR, Details, Measure, Unavailable, exact
from calibrant.measures.read_arguments import event_table
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.buckets import centred, variance_of
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Influence, SamplingDesign, unbiased
from calibrant.statistics.intervals import NORMAL, Variance
from calibrant.statistics.null import Interval
from calibrant.table import GridCells, ReliabilityTable

_REMEDY: Final = "pass the predictions, or make the sketch with classwise=True"
_NO_BUCKETS: Final = "no interval for rows in clusters: the class frequencies of each cluster are unknown"
_ROUNDING: Final = 1e-12  # relative: a smaller variance of rows is rounding


def brier_skill_score(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
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
        Also for a table, and for a sketch that does not know how often each class is.

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
        return _brier_skill(means.brier, means.base_rates)
    predictions, notion = arguments.predictions()
    reading = read(predictions, notion)
    tables = [ReliabilityTable.pool(reading.events)] if notion == "positive" else []
    return _brier_skill(reading.means.brier, BaseRates.of_predictions(predictions, notion, tables))


def _brier_skill(brier: float, rates: BaseRates) -> float:
    """Return 1 - B / U; NaN if all outcomes are equal."""
    return 1 - brier / rates.score if rates.score > 0 else math.nan


def _brier_skill_of(event: Event) -> float:
    """Return the skill; NaN where `_brier_skill_details` say why. U is the mean over labels of multilabel rows."""
    means = event.predictions
    return math.nan if means.base_rates is None else _brier_skill(means.brier, means.base_rates)


def _brier_skill_details(event: Event) -> Details:
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
        variance = Variance(unbiased(_square(design, means, rates), means.effective_n))
    elif rates.buckets is None or rates.places is None:
        return Interval(math.nan, math.nan, _NO_BUCKETS)
    else:
        method, variance = NORMAL, _variance_by_cluster(design, means, rates, rates.buckets, rates.places)
    half = variance.half_width(inference.level)
    skill = _brier_skill(means.brier, rates)
    return Interval(skill - half, skill + half, method)


def _square(design: SamplingDesign, means: PredictionMeans, rates: BaseRates) -> float:
    """Return the variance of 1 - B / U for independent rows.

    The error of the base rates lowers U by sum (f - r)^2, f the rates of the rows: of second order, and all that is
    left where every row has one score. Its variance is at most 2 (U / n)^2.
    """
    ratio, n = means.brier / rates.score, means.effective_n
    variance = rates.variance(ratio, means.brier, means.brier_variance)
    return (_steadied(variance, design.fine, n, means, rates) / rates.score**2 + 2 * ratio**2 / n) / n


def _steadied(variance: float, cells: Cells, n: float, means: PredictionMeans, rates: BaseRates) -> float:
    """Return the variance of b - (B / U) u over n rows, blended with what the scores imply, as in `score_influence`.

    The scores imply the standard deviation of b. That of b - (B / U) u is at least sd(b) - (B / U) sd(u).
    """
    if means.layout == "multilabel":
        return variance
    of_brier = math.sqrt(max(implied_square(cells, "brier", means), 0.0))
    least = max(of_brier - means.brier / rates.score * math.sqrt(rates.own_variance), 0.0) ** 2
    return steadied_by_scores(cells, n, variance, least)


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

    variance = rates.variance(ratio, means.brier, means.brier_variance)
    skill, base = of_sum(brier - ratio * losses, variance, means.brier), of_sum(losses, rates.own_variance, rates.score)
    second = 2 * (ratio * base.deff / rows.effective_n) ** 2
    steadied = _steadied(variance, rows.fine, rows.effective_n, means, rates) / rows.effective_n
    value = max(skill.value / rows.total**2, unbiased(steadied, rows.effective_n) * skill.deff)
    return skill._replace(value=value / rates.score**2 + second)


BRIER_SKILL = Measure(
    name="brier_skill",
    label="Brier skill",
    meaning="1 minus the ratio of the Brier score to the Brier score of always predicting the base rates. The value 1 "
    "is perfect. The value 0 is no better than the base rates.",
    misleads="It depends on the base rates of these rows.",
    computed="The Brier skill is 1 minus the ratio of the Brier score to the Brier score of always predicting the "
    "base rates of these rows",
    sources=("Brier 1950", "Kattan and Gerds 2018"),
    value=_brier_skill_of,
    profiles=frozenset({"standard", "clinical", "forecast"}),
    judges="predictions",
    scale="ratio",
    range=(-math.inf, 1.0),
    better="higher",
    details=_brier_skill_details,
    bound=exact,
    interval=_interval,
    caution=surprises,
    null=NOT_AN_ERROR,
    functions=(brier_skill_score,),
)


_SECOND_ORDER: Final = 1e-6  # of the second-order variance: less than it is rounding


def log_loss_skill_score(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the log loss skill score: how much better the log loss is than that of always predicting the base rate.

    .. math:: 1 - \frac{L}{H}, \qquad H = -\bar y \log \bar y - (1 - \bar y) \log (1 - \bar y)

    L is the mean log loss of the evaluated event. It is 1 for perfect predictions, 0 for the base rate itself, below 0
    for what is worse, and -inf if an observed outcome had probability 0; higher is better. NaN if all outcomes are
    equal: then the base rate is right. It is McFadden's (1974) pseudo R² of a logistic regression that gave the scores.
    Ties and the order of the rows play no part. A sketch gives an upper bound. Parameters, errors and cost are those of
    `expected_calibration_error`, for one evaluated event.

    References
    ----------
    McFadden (1974), Frontiers in Econometrics. Benedetti (2010), doi 10.1175/2009MWR2945.1.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.log_loss_skill_score([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1]), 12)
    0.513034405834
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _log_loss_skill(event_table(arguments, "the log loss skill"))


def _log_loss_skill(table: ReliabilityTable) -> float:
    """Return 1 - L / H; from cells with the least log loss that their sums allow."""
    base, cells = base_score(table, "log"), GridCells.of(table)
    loss = table_score(table, "log") if cells is None else log_loss_of_cells(cells)[0]
    return 1 - loss / base if base > 0 else math.nan


def _log_loss_skill_influence(event: Event) -> Influence | None:
    """Return ((L / H) h - l) / (N H), l the log loss of a row and h that of the base rate for its outcome.

    The error of the base rate lowers H by chi^2 / (2 n), chi^2 with one degree of freedom: of second order, and all
    that is left where every row has one score. The mean square of what it moves is added, 3/4 (L / H^2 / n)^2.
    """
    cells, value = Cells(event.table), event.value(LOG_LOSS_SKILL)
    if not math.isfinite(value):
        return None
    rate, p = event.outcome_rate, cells.scores
    chances = np.stack([1 - p, p])
    losses = -np.log(np.where(chances > 0, chances, 1.0))  # no outcome has the probability 0
    base = -np.log([[1 - rate], [rate]])
    entropy = base_score(event.table, "log")
    values = ((1 - value) * base - losses) / (event.table.total * entropy)
    influence, n = Influence.of_cells(cells, values), cells.effective_n
    second = 0.75 * ((1 - value) / entropy / n) ** 2
    squares = float(cells.square_weights.sum())
    implied = float(cells.square_weights @ np.sum(chances * values**2, axis=0))
    steadied = squares * steadied_by_scores(cells, n, influence.square / squares, implied / squares)
    return replace(influence, steadied=steadied + second, rounding=_SECOND_ORDER * second)


def _log_loss_skill_details(event: Event) -> Details:
    value = event.value(LOG_LOSS_SKILL)
    if math.isinf(value):
        return {"reason": "infinite: an observed outcome had predicted probability 0"}
    return {"reason": "all outcomes are equal, so the base rate is a perfect prediction"} if math.isnan(value) else {}


def _log_loss_skill_bound(cells: GridCells, event: Event) -> float:
    base = base_score(event.table, "log")
    return log_loss_of_cells(cells)[1] / base if base > 0 else 0.0


LOG_LOSS_SKILL = Measure(
    name="log_loss_skill",
    label="log loss skill",
    meaning="1 minus the ratio of the log loss to the log loss of always predicting the base rate. The value 1 is "
    "perfect. The value 0 is no better than the base rate.",
    computed="The log loss skill is 1 minus the ratio of the log loss of the event to the log loss of always "
    "predicting the base rate of these rows",
    misleads="One observed outcome with probability 0 makes it minus infinity.",
    sources=("McFadden 1974",),
    value=lambda event: _log_loss_skill(event.table),
    scale="ratio",
    range=(-math.inf, 1.0),
    better="higher",
    profiles=frozenset(),
    details=_log_loss_skill_details,
    caution=surprises,
    bound=certified(_log_loss_skill_bound),
    influence=_log_loss_skill_influence,
    null=NOT_AN_ERROR,
    over_classes=Unavailable("a mean of ratios over classes has no meaning; evaluate one class at a time"),
    functions=(log_loss_skill_score,),
)
