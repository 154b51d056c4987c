"""The accuracy: the share of right answers."""

from __future__ import annotations

from typing import Any

from calibrant.measures.context import Inference
from calibrant.measures.differences import pair
from calibrant.measures.means.means import accuracy_influence, accuracy_interval, score_means
from calibrant.measures.measure import Difference, Measure, Unavailable
from calibrant.sketch import Arguments
from calibrant.statistics.null import Interval


def accuracy(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    """Return the share of rows whose predicted class is right, in [0, 1].

    The predicted class is the most probable one; ties go to the lowest class. A single score predicts class 1 if it is
    at least 0.5. Parameters and errors are those of `expected_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.accuracy([[0.6, 0.4], [0.5, 0.5]], [0, 1])
    0.5
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    return score_means(arguments).accuracy


def _interval(inference: Inference) -> Interval:
    return Interval(*accuracy_interval(inference.design, inference.event.predictions, inference.level), "Wilson")


ACCURACY = Measure(
    name="accuracy",
    label="accuracy",
    meaning="The share of rows whose predicted class is correct. Higher is better.",
    misleads="Correct predictions with confidence 0.51 and 0.99 count alike.",
    computed="The accuracy is the share of rows whose predicted class is correct",
    value=lambda event: event.predictions.accuracy,
    judges="predictions",
    better="higher",
    range=(0.0, 1.0),
    bound=lambda event: event.predictions.accuracy_bound,
    interval=_interval,
    influence=lambda event: accuracy_influence(event.design, event.predictions),
    null=Unavailable("no noise floor: the measure is not an error"),
    difference=Difference(
        value=lambda model: model.means.accuracy,
        estimate=pair.accuracy_difference,
        mean="accuracy",
    ),
    functions=(accuracy,),
)
