"""Two proper scores of class probabilities: the ranked probability score and the spherical score."""

from __future__ import annotations

from typing import Any

from calibrant.inputs.notions import mean_of_classes
from calibrant.inputs.scores import ranked_probability_scores, spherical_scores
from calibrant.measures.arguments import class_predictions
from calibrant.sketch import Arguments


def ranked_probability_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the ranked probability score (RPS) of ordered classes: the mean squared distance of the distributions.

    .. math:: \mathrm{RPS} = \frac1N \sum_i \sum_{j=0}^{C-2} (F_{ij} - [y_i \le j])^2

    with :math:`F_{ij}` the probability of the classes up to j. A proper score that knows the order of the classes:
    probability far from the class that occurred costs more than probability next to it. It is in [0, C - 1], because
    it is not divided by C - 1; lower is better. For two classes, and for (N,), it is the Brier score of one event.

    Parameters
    ----------
    probs, targets, weights, ignore_index, logits
        As in `expected_calibration_error`. Classes are in increasing order. A table or a sketch does not do: the score
        needs the rows.

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


def spherical_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the spherical score: the mean probability of the true class, divided by the length of its row.

    .. math:: \frac1N \sum_i \frac{p_{i y_i}}{\sqrt{\sum_k p_{ik}^2}}

    A proper score in [0, 1]; higher is better. It is 0 for a true class of probability 0, so it is never infinite, as
    the log loss can be. Equal probabilities of C classes score :math:`1 / \sqrt C`. One event (N,) is two classes.

    Parameters
    ----------
    probs, targets, weights, ignore_index, logits
        As in `expected_calibration_error`. A table or a sketch does not do: the score needs the rows.

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
