"""Calibration errors of every class by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.estimators import binned
from calibrant.estimators.binned import Binning, Closed, Norm
from calibrant.inputs import Notion, Predictions, as_predictions
from calibrant.metrics.arguments import PER_CLASS, bins_of
from calibrant.notions import class_events, read, resolve
from calibrant.results import ClasswiseCalibration
from calibrant.sketch import given_classes
from calibrant.table import ReliabilityTable


def class_histograms(
    predictions: Predictions, notion: Notion, n_bins: int, binning: Binning, closed: Closed, threshold: float
) -> tuple[NDArray[np.float64], float | NDArray[np.float64], NDArray[np.float64]]:
    """Return the histograms of all classes, (3, bins, classes), the weight of the judged rows, the ends of the bins."""
    ends = binned.uniform_edges(n_bins)
    if binning == "uniform" and predictions.layout == "multiclass":
        uppers = binned.largest_members(ends, closed, predictions.rows.dtype)
        reading = read(predictions, "top-label", scoring=False, uppers=uppers, threshold=threshold)
        return reading.histograms, reading.total, ends
    read(predictions, "multilabel" if notion == "multilabel" else "top-label", scoring=False)
    histograms, totals = np.zeros((3, n_bins, predictions.n_classes)), np.zeros(predictions.n_classes)
    edges = np.full((predictions.n_classes, n_bins + 1), ends if binning == "uniform" else np.nan)
    for k, (events, total) in enumerate(class_events(predictions, threshold)):
        totals[k] = total
        if len(events.scores):
            bins = bins_of(events, n_bins, binning, closed)
            histograms[:, :, k], edges[k] = (bins.counts, bins.score_sums, bins.positives), bins.edges
    return histograms, totals, edges


def _of_tables(
    tables: list[ReliabilityTable], n_bins: int, threshold: float, binning: Binning, norm: Norm, closed: Closed
) -> ClasswiseCalibration:
    """Return the same of the tables of a sketch's classes."""
    if threshold > 0:
        remedy = "leave it out: a sketch does not know which scores of a cell are below it"
        raise InputError("threshold", "0 for a CalibrationSketch", repr(threshold), remedy)
    histograms, edges = binned.class_histograms(tables, n_bins, lambda own, n: bins_of(own, n, binning, closed))
    totals = np.array([own.total for own in tables])
    return binned.classwise_errors(histograms, totals, norm, edges if binning == "quantile" else None)


def classwise_calibration(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.0,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> ClasswiseCalibration:
    """Return the calibration error of every class by itself, with the share the threshold kept and the support.

    Parameters are those of `classwise_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> probs = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]
    >>> result = calibrant.classwise_calibration(probs, [0, 1, 2, 1], n_bins=5, threshold=0.15)
    >>> result.kept, result.supports
    (array([0.75, 1.  , 0.5 ]), array([1., 2., 1.]))
    """
    binned.check_bins(n_bins, binning, norm, closed)
    binned.check_threshold(threshold)
    if notion not in (None, *PER_CLASS):
        raise InputError("notion", "'classwise' or 'multilabel'", repr(notion), "leave notion out")
    tables = given_classes(probs, targets, notion, weights, ignore_index, logits)
    if tables is not None:
        return _of_tables(tables, n_bins, threshold, binning, norm, closed)
    predictions = as_predictions(
        probs, targets, weights=weights, ignore_index=ignore_index, logits=logits, notion=notion
    )
    judged = resolve(predictions, "multilabel" if notion == "multilabel" else "classwise")
    histograms, total, edges = class_histograms(predictions, judged, n_bins, binning, closed, float(threshold))
    return binned.classwise_errors(histograms, total, norm, edges)


def classwise_calibration_errors(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.0,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> NDArray[np.float64]:
    """Return the calibration error of every class by itself, (C,).

    NaN for a class of which the threshold kept nothing. Parameters, errors and cost are those of
    `classwise_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.classwise_calibration_errors([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=5).round(3)
    array([0.4, 0.4])
    """
    return classwise_calibration(
        probs,
        targets,
        n_bins,
        threshold=threshold,
        binning=binning,
        norm=norm,
        closed=closed,
        notion=notion,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
    ).errors


def classwise_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.0,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the classwise (static) calibration error: the binary calibration errors of all classes, combined.

    .. math:: \mathrm{CE} = \frac1C \sum_k \mathrm{CE}_k \;(\text{l1}), \qquad
              \Bigl(\frac1C \sum_k \mathrm{CE}_k^2\Bigr)^{1/2} \;(\text{l2}), \qquad \max_k \mathrm{CE}_k \;(\text{max})

    In [0, 1], lower is better. With many classes most scores are near 0 and so is the error: a ``threshold`` about 1/C
    keeps the scores p >= threshold, renormalised by the kept count of each class, and a class that keeps nothing is
    left out. ``binning="quantile"`` gives ACE (threshold 0) and TACE of Nixon et al.

    Parameters
    ----------
    probs, targets, n_bins, binning, closed, weights, ignore_index, logits
        As in `expected_calibration_error`; probs of shape (N, C) or (N, C, ...), or a `CalibrationSketch` that keeps
        the classes (then with threshold 0).
    threshold : float, default 0
        Scores below it are left out; 0 keeps everything.
    norm : {"l1", "l2", "max"}, default "l1"
        Of the bins' gaps within a class and of the classes' errors.
    notion : {"classwise", "multilabel"}, optional
        "multilabel" for independent labels: rows need not sum to 1, targets are (N, C) of 0 and 1.

    Returns
    -------
    float
        A class absent from the targets counts like any other; NaN only where the threshold kept nothing at all.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a threshold outside [0, 1].

    Notes
    -----
    Cost: one read of the N x C numbers for uniform bins; a sort per class for quantile bins, and for logits the
    softmax.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685. Kull et al. (2019), arXiv 1910.12656. Kumar, Liang, Ma (2019), arXiv
    1909.10155.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.classwise_calibration_error([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=5), 12)
    0.4
    """
    return classwise_calibration(
        probs,
        targets,
        n_bins,
        threshold=threshold,
        binning=binning,
        norm=norm,
        closed=closed,
        notion=notion,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
    ).value
