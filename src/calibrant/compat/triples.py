"""Functions of confidences, predictions and labels that many projects have copied.

Uniform bins are right-closed, ((j-1)/M, j/M]; a confidence of 0, which the copied code drops, is in the first. Adaptive
bins hold N // M rows each, and the last takes the rest, even if there are fewer rows than bins. Tied confidences on
both sides of a boundary share their outcomes, so that the order of rows has no effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError, renaming
from calibrant.errors.faults import Facts, Fault, Place
from calibrant.errors.wording import NO_OPTIONS, in_terms
from calibrant.inputs.conversion import as_array
from calibrant.inputs.notions import Events, own_probabilities, read
from calibrant.inputs.predictions import as_predictions
from calibrant.inputs.scores import shifted_log_loss
from calibrant.measures import brier_score
from calibrant.measures.binned import binned
from calibrant.runtime.arrays import ArrayLike
from calibrant.table import ReliabilityTable

__all__ = [
    "compute_adaptive_ece",
    "compute_brier_score",
    "compute_calibration",
    "compute_ece",
    "compute_mce",
    "compute_nll",
]

_LABELS: Final = replace(NO_OPTIONS, targets="labels", equal="np.asarray(labels) == {!r}")


def compute_ece(
    confidences: Any, predictions: Any, labels: Any, n_bins: int = 15
) -> tuple[float, list[dict[str, float]]]:
    r"""Return the expected calibration error, and the numbers of each bin.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N} |\mathrm{acc}_b - \mathrm{conf}_b|

    In [0, 1], lower is better; empty bins add nothing.

    Parameters
    ----------
    confidences : (N,) array
        The probability of each predicted class, in [0, 1].
    predictions, labels : (N,) arrays
        Predicted and true classes, numbers or strings; a row is right if they are equal.
    n_bins : int, default 15
        The number of bins.

    Returns
    -------
    ece : float
    bin_data : list of dict
        ``"acc"``, ``"conf"`` and ``"count"`` of each bin that is not empty, in order.

    Raises
    ------
    calibrant.errors.InputError
        For confidences outside [0, 1], NaN, different lengths, and an invalid n_bins.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015), AAAI. Guo, Pleiss, Sun, Weinberger (2017), arXiv 1706.04599.

    Examples
    --------
    >>> from calibrant.compat.triples import compute_ece
    >>> ece, bin_data = compute_ece([0.75, 0.75, 0.25], [1, 0, 2], [1, 1, 2], n_bins=2)
    >>> round(ece, 12)
    0.416666666667
    >>> bin_data
    [{'acc': 1.0, 'conf': 0.25, 'count': 1}, {'acc': 0.5, 'conf': 0.75, 'count': 2}]
    """
    bins = _bins(confidences, predictions, labels, n_bins)
    diagram = binned.diagram(bins, weighted=False)
    rows = zip(diagram.accuracies.tolist(), diagram.confidences.tolist(), diagram.counts.tolist(), strict=True)
    data = [{"acc": acc, "conf": conf, "count": count} for acc, conf, count in rows if count]
    return binned.calibration_error(bins, "l1"), data


def compute_mce(confidences: Any, predictions: Any, labels: Any, n_bins: int = 15) -> float:
    r"""Return the maximum calibration error: the largest :math:`|\mathrm{acc}_b - \mathrm{conf}_b|` of any bin.

    In [0, 1], lower is better; a bin of one row can decide it. Parameters and errors: see `compute_ece`.

    Examples
    --------
    >>> from calibrant.compat.triples import compute_mce
    >>> compute_mce([0.75, 0.75, 0.25], [1, 0, 2], [1, 1, 2], n_bins=2)
    0.75
    """
    return binned.calibration_error(_bins(confidences, predictions, labels, n_bins), "max")


def compute_calibration(true_labels: Any, pred_labels: Any, confidences: Any, num_bins: int = 10) -> dict[str, Any]:
    """Return the numbers of a reliability diagram as NumPy arrays, which the copied code names ``bin_data``.

    Functions that draw from this ``bin_data``, such as those of hollance/reliability-diagrams, need no change.

    Parameters
    ----------
    true_labels, pred_labels : (N,) arrays
        True and predicted classes, numbers or strings.
    confidences : (N,) array
        The probability of each predicted class, in [0, 1].
    num_bins : int, default 10
        The number of bins.

    Returns
    -------
    dict
        ``"accuracies"``, ``"confidences"`` and ``"counts"``, (num_bins,), of each bin, all 0 in an empty bin; the edges
        ``"bins"``, (num_bins + 1,); ``"avg_accuracy"`` and ``"avg_confidence"`` of all rows;
        ``"expected_calibration_error"``, as of `compute_ece`, and ``"max_calibration_error"``, as of `compute_mce`.

    Raises
    ------
    calibrant.errors.InputError
        As in `compute_ece`.

    Examples
    --------
    >>> from calibrant.compat.triples import compute_calibration
    >>> bin_data = compute_calibration([1, 0, 2], [1, 1, 2], [0.75, 0.75, 0.25], num_bins=2)
    >>> bin_data["accuracies"], bin_data["counts"]
    (array([1. , 0.5]), array([1, 2]))
    >>> round(float(bin_data["expected_calibration_error"]), 12)
    0.416666666667
    """
    with renaming(n_bins="num_bins", predictions="pred_labels", labels="true_labels"):
        bins = _bins(confidences, pred_labels, true_labels, num_bins)
    diagram = binned.diagram(bins, weighted=False)
    filled = diagram.counts > 0
    return {
        "accuracies": np.where(filled, diagram.accuracies, 0.0),
        "confidences": np.where(filled, diagram.confidences, 0.0),
        "counts": diagram.counts,
        "bins": diagram.edges,
        "avg_accuracy": bins.positives.sum() / bins.total,
        "avg_confidence": bins.score_sums.sum() / bins.total,
        "expected_calibration_error": np.float64(binned.calibration_error(bins, "l1")),
        "max_calibration_error": np.float64(binned.calibration_error(bins, "max")),
    }


def compute_nll(probs: ArrayLike, labels: Any, eps: float = 1e-12) -> float:
    r"""Return the negative log-likelihood: the mean of :math:`-\log(p_y + \varepsilon)`, in nats.

    With :math:`p_y` the probability of the true label. Lower is better. `calibrant.negative_log_likelihood` has no
    shift and is infinite where an outcome had probability 0.

    Parameters
    ----------
    probs, labels
        As in `compute_brier_score`.
    eps : float, default 1e-12
        The shift added to each probability. Copies of this function in other projects use values from 1e-15 to 1e-5, or
        clip probabilities at eps.

    Raises
    ------
    calibrant.errors.InputError
        For invalid probabilities or labels, and for an eps below 0.

    Examples
    --------
    >>> from calibrant.compat.triples import compute_nll
    >>> round(compute_nll([[0.8, 0.2], [0.4, 0.6]], [0, 0]), 6), round(compute_nll([0.2, 0.6], [0, 0]), 6)
    (0.569717, 0.569717)
    """
    with in_terms({"targets": "labels"}, _LABELS):
        predictions = as_predictions(probs, labels)
        if predictions.layout == "multiclass":
            read(predictions, "top-label", scoring=False)
            return shifted_log_loss(own_probabilities(predictions), eps)
        events = read(predictions, "positive", scoring=False).events
        scores = events.scores.astype(np.float64)
        return shifted_log_loss(np.where(events.outcomes == 1, scores, 1 - scores), eps)


def compute_brier_score(probs: ArrayLike, labels: Any) -> float:
    r"""Return the Brier score: the mean of :math:`\sum_k (p_k - [y = k])^2`, or of :math:`(p - y)^2` for one event.

    A proper score in [0, 2] ([0, 1] for one event), lower is better.

    Parameters
    ----------
    probs : (N, C) or (N,) array
        Class probabilities, or the probability of the label 1.
    labels : (N,) array, or one-hot (N, C)
        Class indices, or 0 and 1.

    References
    ----------
    Brier (1950), Monthly Weather Review 78.

    Examples
    --------
    >>> from calibrant.compat.triples import compute_brier_score
    >>> round(compute_brier_score([[0.8, 0.2], [0.4, 0.6]], [0, 0]), 12)
    0.4
    """
    with in_terms({"targets": "labels"}, _LABELS):
        return brier_score(probs, labels)


def compute_adaptive_ece(confidences: Any, predictions: Any, labels: Any, n_bins: int = 15) -> float:
    """Return the expected calibration error over bins of N // n_bins sorted rows; the last takes the rest.

    In [0, 1], lower is better. If there are fewer rows than bins, all are in the last. Parameters and errors: see
    `compute_ece`.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685.

    Examples
    --------
    >>> from calibrant.compat.triples import compute_adaptive_ece
    >>> round(compute_adaptive_ece([0.6, 0.7, 0.8, 0.9, 1.0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1], n_bins=2), 12)
    0.12
    """
    binned.check_bins(n_bins)
    table = ReliabilityTable.pool(_events(confidences, predictions, labels))
    return binned.calibration_error(binned.sized_bins(table, binned.even_sizes(table.n, n_bins, "tail")), "l1")


def _bins(confidences: Any, predictions: Any, labels: Any, n_bins: int) -> binned.Bins:
    binned.check_bins(n_bins)
    return binned.bin_events(_events(confidences, predictions, labels), n_bins)


def _events(confidences: Any, predictions: Any, labels: Any) -> Events:
    """Return the events "the prediction is right"."""
    predicted, true = as_array("predictions", predictions), as_array("labels", labels)
    for name, values in (("predictions", predicted), ("labels", true)):
        if values.ndim != 1:
            raise InputError(name, "shape (N,)", f"shape {values.shape}", "pass one class for each row")
        if values.dtype.kind == "f" and np.isnan(values).any():
            row = int(np.argmax(np.isnan(values)))
            facts = Facts(place=Place(row))
            got, remedy = f"nan at row {row}", "remove the row first"
            raise InputError(name, "a class in every row", got, remedy, fault=Fault.MISSING, facts=facts)
    if len(predicted) != len(true):
        raise InputError(
            "labels",
            f"{len(predicted)} labels, one for each prediction",
            f"{len(true)}",
            "pass labels and predictions of the same rows",
        )
    if (predicted.dtype.kind in "UST") != (true.dtype.kind in "UST"):
        got = "numbers in one of them and strings in the other"
        raise InputError("labels", "labels of the same type as predictions", got, "use the same class names in both")
    terms = replace(NO_OPTIONS, probs="confidences", targets="predictions")
    with in_terms({"probs": "confidences", "targets": "predictions"}, terms):
        checked = as_predictions(confidences, predicted == true)
        if checked.layout != "binary" or np.ndim(confidences) > 1:
            raise InputError("probs", "shape (N,)", "several columns", "pass the probability of the predicted class")
        return read(checked, "positive", scoring=False).events
