"""The functions of ``bensemble.metrics``: tensors or arrays in, floats and lists out.

Bins of the top label's probability are right-closed, ((j-1)/M, j/M]. Numbers differ from bensemble's for three reasons:
edges are j / M rounded to the type of the probabilities, not a float32 ``linspace``; sums are double precision, so half
precision works; rows that are not probabilities raise errors.
"""

from __future__ import annotations

import numpy as np

from calibrant.errors import InputError
from calibrant.errors.wording import NO_OPTIONS, in_terms
from calibrant.inputs.notions import own_probabilities, read
from calibrant.inputs.predictions import Predictions, as_predictions
from calibrant.inputs.scores import shifted_log_loss
from calibrant.measures.binned import binned
from calibrant.runtime.arrays import ArrayLike

__all__ = ["brier_score", "expected_calibration_error", "negative_log_likelihood", "reliability_diagram"]


@in_terms({}, NO_OPTIONS)
def negative_log_likelihood(probs: ArrayLike, targets: ArrayLike, eps: float = 1e-8) -> float:
    r"""Return the negative log likelihood: the mean of :math:`-\log(p_y + \varepsilon)`, in nats.

    A proper score except for the shift; at most :math:`-\log\varepsilon`, lower is better.
    `calibrant.negative_log_likelihood` has no shift and is infinite where an outcome had probability 0.

    Parameters
    ----------
    probs : (N, C) tensor or array
        Class probabilities; rows sum to 1.
    targets : (N,) tensor or array
        Class indices.
    eps : float, default 1e-8
        The shift added to each probability.

    Raises
    ------
    calibrant.errors.InputError
        For invalid probabilities or class indices, and for an eps below 0.

    Examples
    --------
    >>> from calibrant.compat.bensemble import negative_log_likelihood
    >>> round(negative_log_likelihood([[0.8, 0.2], [1.0, 0.0]], [0, 1]), 6)
    9.321912
    """
    predictions = _classes(probs, targets)
    read(predictions, "top-label", scoring=False)
    return shifted_log_loss(own_probabilities(predictions), eps)


@in_terms({}, NO_OPTIONS)
def brier_score(probs: ArrayLike, targets: ArrayLike) -> float:
    r"""Return the Brier score: the mean over rows of :math:`\sum_k (p_k - [y = k])^2`.

    A proper score in [0, 2], lower is better. Parameters and errors: see `negative_log_likelihood`.

    References
    ----------
    Brier (1950), Monthly Weather Review 78.

    Examples
    --------
    >>> from calibrant.compat.bensemble import brier_score
    >>> round(brier_score([[0.8, 0.2], [0.4, 0.6]], [0, 0]), 6)
    0.4
    """
    return read(_classes(probs, targets), "top-label").means.brier


@in_terms({}, NO_OPTIONS)
def expected_calibration_error(probs: ArrayLike, targets: ArrayLike, n_bins: int = 15) -> float:
    r"""Return the expected calibration error of the top label: :math:`\sum_b o_b |P_b - Y_b|`.

    With :math:`o_b` the share of the rows in bin b, :math:`P_b` their mean confidence and :math:`Y_b` their accuracy.
    In [0, 1], lower is better. Empty bins add nothing. If classes tie, the one with the lowest index is predicted.
    ``n_bins`` is the number of bins; other parameters and errors: see `negative_log_likelihood`.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), arXiv 1706.04599.

    Examples
    --------
    >>> from calibrant.compat.bensemble import expected_calibration_error
    >>> round(expected_calibration_error([[0.8, 0.2], [0.4, 0.6]], [0, 0], n_bins=5), 6)
    0.4
    """
    return binned.calibration_error(_bins(probs, targets, n_bins), "l1")


@in_terms({}, NO_OPTIONS)
def reliability_diagram(probs: ArrayLike, targets: ArrayLike, n_bins: int = 15) -> dict[str, list[float]]:
    """Return the bins of a reliability diagram as lists, to draw it.

    Parameters and errors: see `expected_calibration_error`.

    Returns
    -------
    dict
        ``"confidences"``, the mean confidence of each bin; ``"accuracies"``; ``"proportions"``, its share of the rows.
        An empty bin has its midpoint as confidence, and 0.0 as accuracy and proportion.

    Examples
    --------
    >>> from calibrant.compat.bensemble import reliability_diagram
    >>> diagram = reliability_diagram([[0.75, 0.25], [0.5, 0.5]], [0, 1], n_bins=2)
    >>> diagram["confidences"], diagram["accuracies"], diagram["proportions"]
    ([0.5, 0.75], [0.0, 1.0], [0.5, 0.5])
    """
    diagram = binned.diagram(_bins(probs, targets, n_bins), weighted=False)
    empty = diagram.counts == 0
    middles = (diagram.edges[:-1] + diagram.edges[1:]) / 2
    return {
        "confidences": np.where(empty, middles, diagram.confidences).tolist(),
        "accuracies": np.where(empty, 0.0, diagram.accuracies).tolist(),
        "proportions": diagram.proportions.tolist(),
    }


def _classes(probs: ArrayLike, targets: ArrayLike) -> Predictions:
    predictions = as_predictions(probs, targets)
    if predictions.layout != "multiclass":
        remedy = "pass a column for each class; for one event, use the functions of calibrant itself"
        raise InputError("probs", "shape (N, C)", "the probabilities of one event", remedy)
    return predictions


def _bins(probs: ArrayLike, targets: ArrayLike, n_bins: int) -> binned.Bins:
    binned.check_bins(n_bins)
    return binned.bin_events(read(_classes(probs, targets), "top-label", scoring=False).events, n_bins)
