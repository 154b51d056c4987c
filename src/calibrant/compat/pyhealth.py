"""The functions of ``pyhealth.metrics.calibration``.

Uniform bins are right-closed, ((j-1)/M, j/M], with 0 in the first. Adaptive bins hold N // M rows each, and the last
N % M of them one more. Numbers differ from PyHealth's for three reasons: the binary error evaluates class 1, as
PyHealth's documentation says, and takes one-dimensional labels; tied scores on both sides of an adaptive boundary share
their outcomes; edges are rounded to the type of the probabilities, so that 0.6 is on the edge 0.6 in float32 too.

The three errors also have names in capitals, such as ``ECE_confidence_multiclass`` of PyHealth's documented example.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.errors.wording import NO_OPTIONS, in_terms
from calibrant.inputs.conversion import as_array, as_numbers, shape_of
from calibrant.inputs.notions import Events, class_events, read
from calibrant.inputs.predictions import Notion, as_predictions
from calibrant.measures import top_label_brier_score
from calibrant.measures.binned import binned
from calibrant.measures.read_arguments import read_histograms
from calibrant.runtime.arrays import Float64s
from calibrant.table import ReliabilityTable

__all__ = ["brier_top1", "ece_classwise", "ece_confidence_binary", "ece_confidence_multiclass"]


_NAMES: Final = {"probs": "prob", "targets": "label", "n_bins": "bins"}
_TERMS: Final = replace(
    NO_OPTIONS, probs="prob", targets="label", equal="np.asarray(label) == {!r}", multilabel="use ece_classwise"
)


def ece_confidence_multiclass(prob: Any, label: Any, bins: Any = 20, adaptive: bool = False) -> float:
    r"""Return the expected calibration error of the top class.

    .. math:: \mathrm{ECE} = \sum_{m=1}^{M} \frac{|B_m|}{N}\,|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    with acc the accuracy and conf the mean top probability of the rows in bin :math:`B_m`. In [0, 1], lower is better.
    Empty bins add nothing. If classes tie, the one with the lowest index is predicted.

    Parameters
    ----------
    prob : (N, C) array
        Class probabilities; rows sum to 1.
    label : (N,) array, or one-hot (N, C)
        The true classes.
    bins : int or list of float, default 20
        The number of bins, or their edges. The first bin reaches down to 0 and the last up to 1, as in PyHealth.
    adaptive : bool, default False
        Whether bins have equal frequency, not equal width.

    Raises
    ------
    calibrant.errors.InputError
        For invalid probabilities, labels or numbers of bins.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), arXiv 1706.04599.

    Examples
    --------
    The bins are [0, 0.5] and (0.5, 1]. The first holds one row, which is wrong, with confidence 0.49. The second holds
    two, both right, with mean confidence 0.7. The error is (1/3) 0.49 + (2/3) 0.3.

    >>> from calibrant.compat.pyhealth import ece_confidence_multiclass
    >>> pred = [[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]]
    >>> ece_confidence_multiclass(pred, [2, 1, 2], bins=2)
    0.36333333333333334
    """
    with in_terms(_NAMES, _TERMS):
        edges = _edges(bins, adaptive)
        predictions = as_predictions(prob, label)
        if predictions.layout != "multiclass":
            raise InputError("probs", "shape (N, C)", "one column", "for one event, use ece_confidence_binary")
        return _error(read(predictions, "top-label", scoring=False).events, bins, edges, adaptive)


def ece_confidence_binary(prob: Any, label: Any, bins: Any = 20, adaptive: bool = False) -> float:
    r"""Return the expected calibration error of the event "the label is 1", with the probability of class 1.

    The formula of `ece_confidence_multiclass`, with conf the mean probability of class 1 and acc the share of label 1.
    PyHealth 1.1.6 evaluates column 0 of both arrays and fails on one-dimensional ones.

    Parameters
    ----------
    prob : (N,), (N, 1) or (N, 2) array
        The probability of class 1, alone or after the probability of class 0.
    label : (N,) or (N, 1) array, or one-hot (N, 2)
        0 or 1.
    bins, adaptive
        As in `ece_confidence_multiclass`.

    Examples
    --------
    >>> from calibrant.compat.pyhealth import ece_confidence_binary
    >>> round(ece_confidence_binary([0.1, 0.3, 0.8], [0, 1, 1], bins=2), 12)
    0.266666666667
    >>> round(ece_confidence_binary([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]], [0, 1, 1], bins=2), 12)
    0.266666666667
    """
    with in_terms(_NAMES, _TERMS):
        edges = _edges(bins, adaptive)
        predictions = as_predictions(prob, label)
        if predictions.layout == "multiclass" and predictions.n_classes != 2:
            got = f"{predictions.n_classes} columns"
            raise InputError("probs", "one or two columns", got, "use ece_confidence_multiclass or ece_classwise")
        return _error(read(predictions, "positive", scoring=False).events, bins, edges, adaptive)


def ece_classwise(prob: Any, label: Any, bins: Any = 20, threshold: float = 0.0, adaptive: bool = False) -> float:
    r"""Return the classwise expected calibration error: the mean of `ece_confidence_binary` over all classes.

    .. math:: \frac{1}{C'} \sum_k \mathrm{ECE}_k

    over the C' classes with at least one score that reaches the threshold. In [0, 1], lower is better. A class absent
    from the labels counts like any other. NaN only if no score reaches the threshold.

    Parameters
    ----------
    prob : (N, C) array
        Probabilities of the classes, or of independent labels. Rows may have any sum: each class is evaluated alone.
    label : (N,) array, or (N, C)
        The true classes; or a 0 or 1 for each class, with any number of ones in a row.
    bins, adaptive
        As in `ece_confidence_multiclass`.
    threshold : float, default 0
        Scores p >= threshold are kept. With many classes most scores are near 0: a threshold of about 1/C keeps the
        informative ones.

    References
    ----------
    Kull et al. (2019), arXiv 1910.12656. Nixon et al. (2019), arXiv 1904.01685. Patel et al. (2021), arXiv 2006.13092.

    Examples
    --------
    >>> from calibrant.compat.pyhealth import ece_classwise
    >>> pred = [[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]]
    >>> round(ece_classwise(pred, [2, 1, 2], bins=2), 12)
    0.22

    Independent labels:

    >>> round(ece_classwise([[0.9, 0.8], [0.3, 0.1], [0.2, 0.7]], [[1, 1], [0, 0], [1, 1]], bins=2), 12)
    0.2
    """
    with in_terms(_NAMES, _TERMS):
        edges = _edges(bins, adaptive)
        binned.check_threshold(threshold)
        several = shape_of("targets", label) == shape_of("probs", prob)
        notion: Notion = "multilabel" if several else "classwise"
        predictions = as_predictions(prob, label, notion=notion)
        if predictions.layout == "binary":
            raise InputError("probs", "shape (N, C)", "one column", "for one event, use ece_confidence_binary")
        predictions = predictions.with_tolerance(np.inf)  # every class is evaluated alone
        if edges is None and not adaptive:
            return read_histograms(predictions, notion, bins, threshold=float(threshold)).errors("l1").value
        read(predictions, "multilabel" if several else "top-label", scoring=False)
        events_by_class = [events for events, _ in class_events(predictions, float(threshold)) if len(events.scores)]
        errors = [_error(events, bins, edges, adaptive) for events in events_by_class]
        return binned.combine(np.array(errors), "l1")


def brier_top1(prob: Any, label: Any) -> float:
    """Return the Brier score of the top class: the mean of (max p - [right])^2.

    In [0, 1], lower is better. Labels may be class indices or one-hot; PyHealth 1.1.6 compares one-hot labels with
    indices, and gives 0.315 for [[0.8, 0.2], [0.3, 0.7]] with labels [[1, 0], [0, 1]], where 0.065 is right.

    References
    ----------
    Brier (1950), Monthly Weather Review 78.

    Examples
    --------
    >>> from calibrant.compat.pyhealth import brier_top1
    >>> round(brier_top1([[0.6, 0.4], [0.3, 0.7]], [0, 0]), 12)
    0.325
    """
    with in_terms(_NAMES, _TERMS):
        if as_predictions(prob, label).layout != "multiclass":
            raise InputError("probs", "shape (N, C)", "one column", "use calibrant.brier_score for one event")
        return top_label_brier_score(prob, label)


#: The names in capitals: PyHealth's documented example calls ECE_confidence_multiclass.
ECE_confidence_multiclass = ece_confidence_multiclass
ECE_confidence_binary = ece_confidence_binary
ECE_classwise = ece_classwise


def _edges(bins: Any, adaptive: object) -> Float64s | None:
    """Return the edges of a list of bins; None for a number of bins. Reject what is neither."""
    if not isinstance(adaptive, (bool, np.bool_)):
        raise InputError(
            "adaptive",
            "True or False",
            repr(adaptive),
            "pass True for bins of equal frequency, or False for bins of equal width",
        )
    if np.ndim(bins) != 1:
        binned.check_bins(bins)
        return None
    if adaptive:
        raise InputError("n_bins", "a number of bins for adaptive=True", "a list of edges", "pass the number of bins")
    edges = as_numbers("n_bins", as_array("n_bins", bins)).astype(np.float64)
    if len(edges) < 2 or not (np.diff(edges) > 0).all() or not 0 <= edges[0] < edges[-1] <= 1:
        remedy = "pass edges such as [0, 0.2, 0.5, 1], or the number of bins"
        raise InputError("n_bins", "at least two edges in [0, 1], in increasing order", repr(bins), remedy)
    return edges


def _error(events: Events, bins: Any, edges: Float64s | None, adaptive: bool) -> float:
    if edges is not None:
        return binned.calibration_error(binned.edged_bins(events, edges), "l1")
    if not adaptive:
        return binned.calibration_error(binned.bin_events(events, bins), "l1")
    table = ReliabilityTable.pool(events)
    return binned.calibration_error(binned.sized_bins(table, binned.even_sizes(table.n, bins, "last")), "l1")
