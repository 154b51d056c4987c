"""The Brier score."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.estimators import isotonic
from calibrant.measures.context import Inference, OwnLaw
from calibrant.measures.measure import Difference, Measure, exact
from calibrant.notions import read
from calibrant.sampling import null_closed_form, paired, unpaired
from calibrant.sampling.means import mean_interval
from calibrant.sampling.null import Interval, Law
from calibrant.sketch import Arguments


def brier_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score: the mean squared distance between predicted probabilities and what happened.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \quad\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \quad\text{for (N, C)}

    A proper score, lower is better; in [0, 1] for one event and [0, 2] for classes. For (N, 2) it is therefore twice
    the score of the column of class 1. Never clipped. Parameters and errors are those of
    `expected_calibration_error`.

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
    arguments = Arguments(probs=probs, targets=targets, weights=weights, ignore_index=ignore_index, logits=logits)
    totals = arguments.totals()
    return read(*arguments.predictions()).brier if totals is None else totals.brier / totals.entries


def top_label_brier_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score of the event "the predicted class is right": mean of (max p - [right])^2.

    In [0, 1], lower is better. A single binary score folds to max(p, 1 - p), with .5 predicting class 1; argmax ties
    take the lowest class. Parameters and errors are those of `expected_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.top_label_brier_score([[0.6, 0.4], [0.3, 0.7]], [0, 0]), 12)
    0.325
    """
    arguments = Arguments(probs=probs, targets=targets, weights=weights, ignore_index=ignore_index, logits=logits)
    if arguments.sketch() is not None:  # folding a score to max(p, 1 - p) does not change its square
        return isotonic.table_score(arguments.table(), "brier")
    predictions, _ = arguments.predictions()
    if predictions.layout == "multilabel":
        raise InputError("targets", "one label a row", "several", "use brier_score")
    events = read(predictions, "top-label", scoring=False).events
    return float(np.average((events.scores.astype(np.float64) - events.outcomes) ** 2, weights=events.weights))


def _interval(inference: Inference) -> Interval:
    means = inference.event.predictions
    return mean_interval(means.brier, means.brier_square, means.effective_n, inference.resampling.z)


def _law(inference: Inference) -> Law | None:
    """Return what calibration shows: the score of a calibrated event is known, of classes it is not."""
    means, level = inference.event.predictions, inference.resampling.level
    return null_closed_form.score_law(inference.cells, "brier", means.brier, level) if means.event else None


BRIER = Measure(
    name="brier",
    label="Brier score",
    meaning="The mean squared distance between the probabilities and what happened. Lower is better.",
    value=lambda event: event.predictions.brier,
    judges="predictions",
    scale="score",
    bound=exact,
    interval=_interval,
    null=OwnLaw(_law),
    difference=Difference(
        value=lambda model: model.means.brier,
        paired=paired.brier_difference,
        unpaired=unpaired.brier_difference,
    ),
    functions=(brier_score, top_label_brier_score),
)
