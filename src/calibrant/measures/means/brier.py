"""The Brier score."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.measures.differences import pair
from calibrant.measures.isotonic import isotonic
from calibrant.measures.isotonic.corp import decomposition
from calibrant.measures.means.means import event_brier_influence, score_influence, score_means, surprises
from calibrant.measures.measure import PROPER_SCORE, Difference, Measure, exact
from calibrant.sketch import Arguments


def brier_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score: the mean squared distance between predicted probabilities and the outcomes.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \quad\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \quad\text{for (N, C)}

    A proper score; lower is better. It is in [0, 1] for one event and in [0, 2] for classes. For (N, 2) both columns
    add the same, so it is twice the score of class 1's column. Probabilities are never clipped. Parameters and errors
    are those of `expected_calibration_error`.

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
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score of the event "the predicted class is right": mean of (max p - [right])^2.

    It is in [0, 1]; lower is better. A single binary score p becomes max(p, 1 - p), and 0.5 predicts class 1. Ties
    go to the lowest class. Parameters and errors are those of `expected_calibration_error`.

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
    return float(np.average((events.scores.astype(np.float64) - events.outcomes) ** 2, weights=events.weights))


BRIER = Measure(
    name="brier",
    label="Brier score",
    meaning="The mean squared difference between the probabilities and the outcomes. Lower is better.",
    misleads="The Brier score also rewards discrimination.",
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
    caution=lambda event: surprises(event.design.cells),
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
    misleads="The Brier score of the event also rewards discrimination.",
    computed="The Brier score of the event is the mean squared difference between its predicted probability and the "
    "outcome",
    sources=("Brier 1950",),
    profiles=frozenset({"standard", "clinical", "forecast"}),
    value=lambda event: event.of(decomposition).score,
    scale="score",
    bound=exact,
    influence=lambda event: event_brier_influence(event.design),
    caution=lambda event: surprises(event.design.cells),
    null=PROPER_SCORE,
)
