"""The accuracy, and proper scores of whole predictions: Brier, log loss, ranked probability and spherical score."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.notions import mean_of_classes, read, weighted_mean
from calibrant.inputs.scores import ranked_probability_scores, spherical_scores
from calibrant.inputs.weights import tidy_weight
from calibrant.measures.context import Inference
from calibrant.measures.differences import pair
from calibrant.measures.event import Event
from calibrant.measures.isotonic import isotonic
from calibrant.measures.isotonic.corp import decomposition
from calibrant.measures.means.means import (
    OrderedMeans,
    RowShare,
    event_brier_influence,
    rps_influence,
    score_influence,
    score_means,
    surprises,
)
from calibrant.measures.measure import NOT_AN_ERROR, PROPER_SCORE, Details, Difference, Measure, Unavailable, exact
from calibrant.measures.read_arguments import class_predictions
from calibrant.runtime.arrays import ArrayLike
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.null import Interval

Value = TypeVar("Value")


def accuracy(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    """Return the share of rows whose predicted class is right, in [0, 1].

    The predicted class is the most probable one; ties go to the lowest class. A single score predicts class 1 if it is
    at least 0.5. Parameters and errors are those of `expected_calibration_error`; a table is not accepted.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.accuracy([[0.6, 0.4], [0.5, 0.5]], [0, 1])
    0.5
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    return score_means(arguments).accuracy


def _wilson(inference: Inference, share: RowShare) -> Interval:
    return Interval(*share.interval(inference.design, inference.event.predictions, inference.level), "Wilson")


ACCURACY = Measure(
    name="accuracy",
    label="accuracy",
    meaning="The share of rows whose predicted class is correct. Higher is better.",
    of_event=(
        "accuracy at 0.5",
        "The share of correct rows if the event is predicted at a score of 0.5 or more. Higher is better.",
    ),
    misleads="Correct predictions with confidence 0.51 and 0.99 count alike.",
    computed="The accuracy is the share of rows whose predicted class is correct",
    value=lambda event: event.predictions.accuracy,
    judges="predictions",
    better="higher",
    range=(0.0, 1.0),
    bound=lambda event: event.predictions.accuracy_bound,
    interval=lambda inference: _wilson(inference, RowShare.right(inference.event.predictions)),
    influence=lambda event: RowShare.right(event.predictions).influence(event.design, event.predictions),
    null=NOT_AN_ERROR,
    difference=Difference(
        value=lambda model: model.means.accuracy,
        estimate=pair.accuracy_difference,
        mean="accuracy",
    ),
    functions=(accuracy,),
)


def brier_score(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the Brier score: the mean squared distance between predicted probabilities and the outcomes.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \quad\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \quad\text{for (N, C)}

    A proper score; lower is better. It is in [0, 1] for one event and in [0, 2] for classes. For (N, 2) both columns
    add the same, so it is twice the score of class 1's column. Probabilities are never clipped. Parameters and errors
    are those of `expected_calibration_error`; a table is not accepted.

    References
    ----------
    Brier (1950), Monthly Weather Review 78.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.brier_score([0.9, 0.2], [1, 0]), 12)
    0.025
    >>> round(calibrant.brier_score([[0.1, 0.9], [0.8, 0.2]], [1, 0]), 12)
    0.05
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    return score_means(arguments).brier


def top_label_brier_score(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the Brier score of the event "the predicted class is right": mean of (max p - [right])^2.

    It is in [0, 1]; lower is better. A single binary score p becomes max(p, 1 - p), and 0.5 predicts class 1. Ties
    go to the lowest class. Parameters and errors are those of `expected_calibration_error`; a table is not accepted.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.top_label_brier_score([[0.6, 0.4], [0.3, 0.7]], [0, 0]), 12)
    0.325
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    if arguments.sketch() is not None:  # folding p to max(p, 1 - p) does not change the squared residual
        return isotonic.table_score(arguments.table(), "brier")
    predictions, _ = arguments.predictions()
    if predictions.layout == "multilabel":
        raise InputError("targets", "one label a row", "several", "use brier_score")
    events = read(predictions, "top-label", scoring=False).events
    return weighted_mean((events.scores.astype(np.float64) - events.outcomes) ** 2, events.weights)


BRIER = Measure(
    name="brier",
    label="Brier score",
    meaning="The mean squared difference between the probabilities and the outcomes. Lower is better.",
    misleads="It also rewards discrimination.",
    computed="The Brier score is the mean squared difference between the probabilities and the outcomes",
    sources=("Brier 1950",),
    profiles=frozenset({"standard", "clinical", "forecast"}),
    value=lambda event: event.predictions.brier,
    judges="predictions",
    scale="score",
    range=(0.0, 1.0),
    class_range=(0.0, 2.0),
    bound=exact,
    influence=lambda event: score_influence(event.design, "brier", event.predictions),
    caution=surprises,
    null=PROPER_SCORE,
    difference=Difference(
        value=lambda model: model.means.brier,
        estimate=partial(pair.mean_difference, mean="brier"),
        mean="brier",
    ),
    functions=(brier_score, top_label_brier_score),
)

EVENT_BRIER = Measure(
    name="brier_event",
    label="Brier score (event)",
    meaning="The Brier score of the evaluated event, or the top-label Brier score for the top label. Lower is better.",
    misleads="It also rewards discrimination.",
    computed="The Brier score of the event is the mean squared difference between its predicted probability and the "
    "outcome",
    sources=("Brier 1950",),
    profiles=frozenset({"standard", "clinical", "forecast"}),
    value=lambda event: event.of(decomposition).score,
    scale="score",
    bound=exact,
    influence=lambda event: event_brier_influence(event.design),
    caution=surprises,
    null=PROPER_SCORE,
)


def negative_log_likelihood(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    eps: float = 0.0,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the negative log likelihood (log loss, cross-entropy): the mean of :math:`-\log p_y`, in nats.

    A proper score, from 0 to infinity; lower is better. It is infinite if an observed outcome had probability 0;
    `evaluate` counts such rows. From logits it is computed by log-sum-exp, which does not overflow. The other
    parameters and errors are those of `expected_calibration_error`; a table is not accepted.

    Parameters
    ----------
    eps : float, default 0
        The least probability of an observed outcome: smaller ones are raised to it. Use it only if the result must
        be finite, because the score is then no longer proper.

    Raises
    ------
    calibrant.errors.InputError
        Also for eps outside [0, 1), and for eps above 0 with a sketch.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.negative_log_likelihood([0.5, 0.25], [1, 0]), 6)
    0.490415
    >>> calibrant.negative_log_likelihood([1.0], [0])
    inf
    """
    if not (isinstance(eps, (int, float, np.integer, np.floating)) and 0 <= eps < 1):
        raise InputError("eps", "a number in [0, 1)", repr(eps), "leave it out, or pass something like 1e-12")
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    totals = arguments.totals()
    if totals is not None:
        if eps > 0:
            remedy = "leave eps out; infinite_rows in evaluate(sketch)['nll'].details counts the rows of infinite loss"
            raise InputError("eps", "0 for a CalibrationSketch", repr(eps), remedy)
        return totals.means.nll
    return read(*arguments.predictions(), eps=float(eps)).means.nll


def _log_loss_details(event: Event) -> Details:
    if math.isfinite(event.predictions.nll):
        return {}
    reason = "infinite: an observed outcome had predicted probability 0"
    return {"infinite_rows": tidy_weight(event.predictions.infinite), "reason": reason}


NLL = Measure(
    name="nll",
    label="log loss",
    meaning="The mean negative logarithm of the probability of the observed outcome. Lower is better.",
    misleads="One observed outcome with probability 0 makes it infinite.",
    computed="The log loss is the mean negative natural logarithm of the probability of the observed outcome",
    sources=("Good 1952",),
    value=lambda event: event.predictions.nll,
    judges="predictions",
    scale="score",
    range=(0.0, math.inf),
    details=_log_loss_details,
    bound=lambda event: event.predictions.nll_bound,
    influence=lambda event: score_influence(event.design, "log", event.predictions),
    caution=surprises,
    null=PROPER_SCORE,
    difference=Difference(
        value=lambda model: model.means.nll,
        estimate=pair.loss_difference,
        mean="nll",
    ),
    functions=(negative_log_likelihood,),
)


def ranked_probability_score(
    probs: ArrayLike,
    targets: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the ranked probability score (RPS) of ordered classes: the mean squared distance of the distributions.

    .. math:: \mathrm{RPS} = \frac1N \sum_i \sum_{j=0}^{C-2} (F_{ij} - [y_i \le j])^2

    with :math:`F_{ij}` the probability of the classes up to j. A proper score that knows the order of the classes:
    probability far from the class that occurred costs more than probability next to it. It is in [0, C - 1], because
    it is not divided by C - 1; lower is better. For two classes, and for (N,), it is the Brier score of one event.
    `evaluate` with ``ordered=True`` gives it with its confidence interval.

    Parameters
    ----------
    probs, targets, weights, ignore_index, logits
        As in `expected_calibration_error`. Classes are in increasing order. A table or a sketch is not accepted,
        because the score needs the rows.

    Returns
    -------
    float
        The mean over rows, each as often as its weight. The order of the rows plays no part, and nothing is clipped.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a table or a sketch.

    Notes
    -----
    Cost: one read of the N x C numbers, in blocks.

    References
    ----------
    Epstein (1969), doi 10.1175/1520-0450(1969)008<0985:ASSFPF>2.0.CO;2.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.ranked_probability_score([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], [2, 2]), 12)
    0.73
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    predictions = class_predictions(arguments, "the ranked probability score")
    return mean_of_classes(predictions, ranked_probability_scores)


def _of_levels(event: Event, of: Callable[[OrderedMeans], Value], missing: Value) -> Value:
    """Return what the means over predictions of ordered levels give; without declared levels what is ``missing``."""
    ordered = event.predictions.ordered
    return missing if ordered is None else of(ordered)


def _level_details(event: Event) -> Details:
    undeclared = {"reason": "the classes were not declared as ordered levels (ordered=True, --ordered)"}
    return _of_levels(event, lambda _: {}, undeclared)


WITHIN_ONE = Measure(
    name="within_one",
    label="within one level",
    meaning="The share of rows whose most probable level is at most one level from the observed level. Higher is "
    "better.",
    misleads="With two levels it is always 1. With three, rows in which the middle level is predicted or "
    "observed always count.",
    computed="The accuracy within one level is the share of rows whose most probable level is at most one level from "
    "the observed level",
    value=lambda event: _of_levels(event, lambda ordered: ordered.within_one, math.nan),
    judges="predictions",
    better="higher",
    range=(0.0, 1.0),
    profiles=frozenset(),
    details=_level_details,
    bound=exact,
    interval=lambda inference: _of_levels(
        inference.event,
        lambda ordered: _wilson(inference, RowShare.within_one(ordered)),
        Interval(math.nan, math.nan, ""),
    ),
    influence=lambda event: _of_levels(
        event, lambda ordered: RowShare.within_one(ordered).influence(event.design, event.predictions), None
    ),
    null=NOT_AN_ERROR,
    difference=Unavailable("models are not compared by measures of ordered levels"),
)

RPS = Measure(
    name="rps",
    label="RPS",
    meaning="The ranked probability score: the mean squared distance between the cumulative probabilities of ordered "
    "levels and the cumulative outcome, summed over levels. Lower is better.",
    misleads="It grows with the number of levels, and also rewards discrimination.",
    computed="The ranked probability score is the mean over rows of the sum over all levels but the last of the "
    "squared difference between cumulative probability and cumulative outcome",
    sources=("Epstein 1969",),
    value=lambda event: _of_levels(event, lambda ordered: ordered.rps, math.nan),
    judges="predictions",
    scale="score",
    range=(0.0, math.inf),
    profiles=frozenset(),
    details=_level_details,
    bound=exact,
    influence=lambda event: _of_levels(
        event, lambda ordered: rps_influence(event.design, event.predictions, ordered), None
    ),
    caution=surprises,
    null=PROPER_SCORE,
    difference=Unavailable("models are not compared by measures of ordered levels"),
    functions=(ranked_probability_score,),
)


def spherical_score(
    probs: ArrayLike,
    targets: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the spherical score: the mean of the true class's probability divided by the Euclidean norm of its row.

    .. math:: \frac1N \sum_i \frac{p_{i y_i}}{\sqrt{\sum_k p_{ik}^2}}

    A proper score in [0, 1]; higher is better. It is 0 for a true class of probability 0, so it is never infinite, as
    the log loss can be. Equal probabilities of C classes score :math:`1 / \sqrt C`. Scores of one event, (N,), count as
    two classes.

    Parameters, errors and cost are those of `ranked_probability_score`; the order of the classes plays no part.

    References
    ----------
    Gneiting, Raftery (2007), section 3.1, doi 10.1198/016214506000001437.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.spherical_score([[0.6, 0.4], [0.5, 0.5]], [0, 1]), 6)
    0.769579
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    predictions = class_predictions(arguments, "the spherical score")
    return mean_of_classes(predictions, spherical_scores)
