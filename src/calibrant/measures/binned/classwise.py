"""The classwise calibration error, every class evaluated alone, and its thresholded adaptive form (TACE)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import PER_CLASS
from calibrant.inputs.predictions import Notion
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Binning, Closed, Norm
from calibrant.measures.context import Inference
from calibrant.measures.event import Classes, Event
from calibrant.measures.measure import Details, Measure, OwnLaw
from calibrant.measures.read_arguments import histograms_of
from calibrant.results import ClasswiseCalibration
from calibrant.runtime.arrays import ArrayLike
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.null import Interval, Law


def classwise_calibration(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.0,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> ClasswiseCalibration:
    """Return each class's calibration error, the share of its scores that the threshold kept, and its support.

    Parameters are those of `classwise_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> probs = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]
    >>> result = calibrant.classwise_calibration(probs, [0, 1, 2, 1], n_bins=5, threshold=0.15)
    >>> result.kept, result.supports
    (array([0.75, 1.  , 0.5 ]), array([1., 2., 1.]))
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _calibration(arguments, n_bins, threshold, binning, norm, closed)


def _calibration(
    arguments: Arguments, n_bins: int, threshold: float, binning: Binning, norm: Norm, closed: Closed = "right"
) -> ClasswiseCalibration:
    binned.check_bins(n_bins, binning, norm, closed)
    binned.check_threshold(threshold)
    notion = arguments.notion
    if notion not in (None, *PER_CLASS):
        raise InputError("notion", "'classwise' or 'multilabel'", repr(notion), "leave notion out")
    default: Notion = "multilabel" if notion == "multilabel" else "classwise"
    return histograms_of(
        arguments, n_bins, binning=binning, closed=closed, threshold=float(threshold), default=default
    ).errors(norm)


def classwise_calibration_errors(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.0,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> NDArray[np.float64]:
    """Return the calibration error of every class alone, (C,).

    NaN for a class if the threshold kept none of its scores. Parameters, errors and cost are those of
    `classwise_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.classwise_calibration_errors([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=5).round(3)
    array([0.4, 0.4])
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _calibration(arguments, n_bins, threshold, binning, norm, closed).errors


def classwise_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.0,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the classwise (static) calibration error: the binary calibration errors of all classes, combined.

    .. math:: \mathrm{CE} = \frac1C \sum_k \mathrm{CE}_k \;(\text{l1}), \qquad
              \Bigl(\frac1C \sum_k \mathrm{CE}_k^2\Bigr)^{1/2} \;(\text{l2}), \qquad \max_k \mathrm{CE}_k \;(\text{max})

    It is in [0, 1]; lower is better. With many classes most scores are near 0, and so is the error. A ``threshold`` of
    about 1/C helps: only scores p >= threshold count, the error of a class is a mean over its kept scores, and a class
    without kept scores is left out. ``binning="quantile"`` gives the ACE of Nixon et al., and with a threshold their
    TACE.

    Parameters
    ----------
    probs, targets, n_bins, binning, closed, weights, ignore_index, logits
        As in `expected_calibration_error`. ``probs`` has shape (N, C) or (N, C, ...), or is a `CalibrationSketch` that
        keeps the classes; a sketch needs threshold 0.
    threshold : float, default 0
        Scores below it are left out; 0 keeps everything.
    norm : {"l1", "l2", "max"}, default "l1"
        How the gaps of a class's bins are combined, and how the errors of the classes are.
    notion : {"classwise", "multilabel"}, optional
        "multilabel" for independent labels: rows need not sum to 1, targets are (N, C) of 0 and 1.

    Returns
    -------
    float
        A class without targets counts like any other. NaN if the threshold kept no score of any class.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a threshold outside [0, 1].

    Notes
    -----
    Cost: one read of the N x C numbers for uniform bins. Quantile bins also need a sort for each class, logits the
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
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _calibration(arguments, n_bins, threshold, binning, norm, closed).value


def worst_class(classes: Classes) -> dict[str, Any]:
    """Return the number of classes, the number of those without targets, and the worst class with its error."""
    errors = classes.errors
    worst = int(np.nanargmax(errors.errors))
    return {
        "classes": len(errors.errors),
        "without_targets": int(np.count_nonzero(errors.supports == 0)),
        "worst_class": classes.names[worst] if classes.names else str(worst),
        "worst": float(errors.errors[worst]),
    }


def _details(event: Event) -> Details:
    if event.classes is not None:
        return worst_class(event.classes)
    if not event.asked_classes:
        return {"reason": event.no_classes}
    why = f"to save memory, the sketch does not contain the {event.asked_classes:,} single classes"
    how = "evaluate all rows at once (--exact), or make the sketch with classwise=True (--classwise)"
    return {"reason": f"{why}: {how}", "unkept_classes": event.asked_classes}


def _interval(inference: Inference) -> Interval:
    value, bins = inference.event.value(CLASSWISE_ECE), inference.event.evaluated_classes.bins
    return bins.interval(value, inference.resampling, rejected=inference.rejects(CLASSWISE_ECE))


def _law(inference: Inference) -> Law:
    bins = inference.event.evaluated_classes.bins
    return bins.law(inference.event.value(CLASSWISE_ECE), inference.resampling)


CLASSWISE_ECE = Measure(
    name="classwise_ece",
    label="classwise ECE",
    meaning="The mean over classes of the expected calibration error of the probability of each class.",
    misleads="Many classes with probabilities near 0 lower the mean.",
    computed="The classwise ECE is the mean over classes of the ECE of the probability of each class, over {bins}",
    sources=("Kull et al. 2019", "Nixon et al. 2019"),
    value=lambda event: math.nan if event.classes is None else event.classes.errors.value,
    judges="classes",
    details=_details,
    bound=lambda event: 0.0 if event.classes is None else event.classes.bound,
    interval=_interval,
    null=OwnLaw(_law),
    functions=(classwise_calibration_error,),
)


def thresholded_adaptive_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.01,
    norm: Norm = "l1",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    """Return the thresholded adaptive calibration error (TACE): the classwise error of scores at or above a threshold.

    For each class, only the scores p >= threshold count. They are put into bins of equal frequency, and the errors of
    the classes are combined. It equals ``classwise_calibration_error(..., threshold=threshold, binning="quantile")``,
    with the same parameters, errors, range and cost. With threshold 0 it is the classwise ACE. A sketch is accepted
    only if the threshold is 0.

    It misleads in comparisons. Scores below the threshold are dropped, so the error does not show that a model predicts
    less than the threshold for classes that occur. Values are comparable only for the same threshold, and for models
    with the same share of scores below it. `classwise_calibration` has the share of scores that was kept.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685.

    Examples
    --------
    >>> import calibrant
    >>> probs = [[0.995, 0.005], [0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]
    >>> round(calibrant.thresholded_adaptive_calibration_error(probs, [0, 0, 1, 1], n_bins=1), 6)
    0.232708
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _calibration(arguments, n_bins, threshold, "quantile", norm).value
