"""Calibration errors of one event over bins of its score, and the bins themselves."""

from __future__ import annotations

import math
from typing import Any

from calibrant.estimators import binned
from calibrant.estimators.binned import Binning, Closed, Norm
from calibrant.inputs import Notion
from calibrant.metrics.arguments import PER_CLASS, bins_of, event_bins, judged_event, prepare
from calibrant.metrics.classwise import class_histograms, classwise_calibration
from calibrant.notions import Events
from calibrant.results import ReliabilityDiagram
from calibrant.sketch import CalibrationSketch, given_table
from calibrant.table import ReliabilityTable


def _error(
    probs: Any,
    targets: Any,
    n_bins: int,
    notion: Notion | None,
    binning: Binning,
    norm: Norm,
    closed: Closed,
    weights: Any,
    ignore_index: int | None,
    logits: bool,
) -> float:
    binned.check_bins(n_bins, binning, norm, closed)
    if isinstance(probs, CalibrationSketch) and (notion or probs.notion) in PER_CLASS:
        return classwise_calibration(
            probs,
            targets,
            n_bins,
            binning=binning,
            norm=norm,
            closed=closed,
            notion=notion,
            weights=weights,
            ignore_index=ignore_index,
            logits=logits,
        ).value
    table = given_table(probs, targets, notion, weights, ignore_index, logits)
    if table is not None:
        return binned.calibration_error(bins_of(table, n_bins, binning, closed), norm)
    predictions, judged = prepare(probs, targets, notion, weights, ignore_index, logits)
    if judged in PER_CLASS:
        histograms, total, _ = class_histograms(predictions, judged, n_bins, binning, closed, 0.0)
        return binned.classwise_errors(histograms, total, norm).value
    return binned.calibration_error(event_bins(predictions, judged, n_bins, binning, closed), norm)


def expected_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the expected calibration error (ECE): the mean gap between score and outcome rate over bins of the score.

    .. math:: \mathrm{ECE} = \sum_b o_b\,|P_b - Y_b|

    with :math:`o_b` the share of the rows in bin b, :math:`P_b` their mean score and :math:`Y_b` their mean outcome.
    It is in [0, 1], in units of probability; 0 is calibrated, lower is better. A finite sample of a calibrated model
    is above 0.

    Parameters
    ----------
    probs : array, (N,), (N, 1), (N, C) or (N, C, ...)
        Probabilities: of the event 1, or of each of C classes. Rows over classes sum to 1 (within 1e-3 and twice the
        type's resolution), unless ``notion="multilabel"``. Anything of NumPy, PyTorch, JAX, CuPy, pandas, Polars,
        PyArrow, or lists; float16, bfloat16, float32, float64, in any memory layout. Or a `ReliabilityTable` of one
        event, with nothing beside it.
    targets : array, (N,) or (N, ...), or one-hot like probs
        0 or 1, or class indices 0 to C - 1; booleans and integral floats are fine.
    n_bins : int, default 15
        The number of bins.
    notion : {"positive", "top-label", "classwise", "multilabel"}, optional
        The judged event. "positive": the label is 1, with score P(y = 1), the default for (N,) and (N, 1). "top-label":
        the predicted class is right, with score max p, the default for (N, C); a binary score folds to max(p, 1 - p).
        "classwise": each class by itself, combined as in `classwise_calibration_error`. "multilabel": the same for
        independent labels, targets (N, C) of 0 and 1.
    binning : {"uniform", "quantile"}, default "uniform"
        Bins of equal width j / M, or of equal mass that never split tied scores.
    norm : {"l1", "l2", "max"}, default "l1"
        How the bins' gaps are combined: mean, root mean square, maximum.
    closed : {"right", "left"}, default "right"
        The side on which a uniform bin owns its edge: ((j-1)/M, j/M] with 0 in the first bin, or [(j-1)/M, j/M) with
        1 in the last. Edges are rounded to the scores' type, so 0.6 is on the edge 0.6 in every precision.
    weights : array, (N,), optional
        Frequency weights: 2 equals the row twice, 0 leaves it out.
    ignore_index : int, optional
        Rows with this target are left out, whatever their probabilities.
    logits : bool, default False
        Whether ``probs`` are logits (softmax, or for one event log-odds). Never guessed.

    Returns
    -------
    float
        Empty bins add nothing; fewer rows than bins are fine; ties are pooled, so the order of the rows plays no part.

    Raises
    ------
    calibrant.errors.InputError
        A `ValueError` naming the argument, what was expected, what came and what to do: for empty input, NaN or
        infinity, values outside [0, 1], rows that do not sum to 1, targets out of range, unusable weights, unknown
        options.

    Notes
    -----
    Cost: one read of the N x C numbers and O(N); a sort of N integers for quantile bins.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015), AAAI. Guo, Pleiss, Sun, Weinberger (2017), arXiv 1706.04599.

    Examples
    --------
    >>> import calibrant
    >>> ece = calibrant.expected_calibration_error([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2)
    >>> round(ece, 12)
    0.29
    >>> probs = [[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]]
    >>> round(calibrant.expected_calibration_error(probs, [2, 1, 2], n_bins=2), 12)
    0.363333333333
    """
    return _error(probs, targets, n_bins, notion, binning, norm, closed, weights, ignore_index, logits)


def maximum_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the maximum calibration error (MCE): the largest gap between score and outcome rate in any bin.

    .. math:: \mathrm{MCE} = \max_b |P_b - Y_b|

    In [0, 1], lower is better; empty bins are left out. A bin of one row can decide it: `evaluate` gives the bin's
    count. Parameters, errors and cost are those of `expected_calibration_error`; for classwise and multilabel notions
    it is the maximum over all classes.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015), AAAI.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.maximum_calibration_error([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2), 4)
    0.3167
    """
    return _error(probs, targets, n_bins, notion, binning, "max", closed, weights, ignore_index, logits)


def root_mean_square_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    debiased: bool = False,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the root mean square calibration error (RMSCE), the l2 norm of the bins' gaps.

    .. math:: \mathrm{RMSCE} = \Bigl(\sum_b o_b (P_b - Y_b)^2\Bigr)^{1/2}

    In [0, 1], lower is better, never below the ECE of the same bins. With ``debiased`` the noise of the bins' rates
    is taken out: the square root of max(0, T),

    .. math:: T = \sum_b o_b \frac{n_b (P_b - Y_b)^2 - \mathrm{mean}_b (p - y)^2}{n_b - 1},

    where T is an unbiased estimate of the squared error of the binned scores, and bins of fewer than two rows add
    nothing; T itself, which may be negative, is in ``evaluate(...)["rmsce"].details``. Parameters, errors and cost
    are otherwise those of `expected_calibration_error`; classes are combined by the root of their mean square.

    Raises
    ------
    calibrant.errors.InputError
        Also for ``debiased`` with a classwise or multilabel notion.

    References
    ----------
    Kumar, Liang, Ma (2019), arXiv 1909.10155. Bröcker (2012), doi 10.1007/s00382-011-1191-1.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1]
    >>> round(calibrant.root_mean_square_calibration_error(p, y, n_bins=2), 4)
    0.2918
    """
    if not debiased:
        return _error(probs, targets, n_bins, notion, binning, "l2", closed, weights, ignore_index, logits)
    binned.check_bins(n_bins, binning, "l2", closed)
    events: Events | ReliabilityTable | None = given_table(probs, targets, notion, weights, ignore_index, logits)
    if events is None:
        predictions, judged = prepare(probs, targets, notion, weights, ignore_index, logits)
        events = judged_event(predictions, judged, "the debiased error")
        if events.weights is not None:  # a table knows the squares of the weights
            events = ReliabilityTable.pool(events)
    return math.sqrt(max(0.0, binned.debiased_square_error(bins_of(events, n_bins, binning, closed))))


def adaptive_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    norm: Norm = "l1",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the adaptive calibration error (ACE): the calibration error over bins of equal mass.

    A distinct score with weight w and cumulative weight A (its own included) of W belongs to bin
    :math:`\min(M - 1, \lfloor M (A - w/2) / W \rfloor)`: ties are never split, and the order of the rows plays no part.
    It equals ``expected_calibration_error(..., binning="quantile")``, with the same parameters, errors and range. The
    judged event is the positive class or the top label by default; ``notion="classwise"`` gives Nixon's ACE.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685. Nguyen, O'Connor (2015), arXiv 1508.05154.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.adaptive_calibration_error([0.5] * 4, [1, 1, 0, 0]), 12)
    0.0
    """
    return _error(probs, targets, n_bins, notion, "quantile", norm, "right", weights, ignore_index, logits)


def reliability_diagram(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> ReliabilityDiagram:
    """Return the bins of a reliability diagram: edges, counts, mean scores, outcome rates and shares.

    Parameters, errors and cost are those of `expected_calibration_error`, for one judged event. An empty bin has
    count 0 and NaN for its mean score and outcome rate.

    References
    ----------
    Murphy, Winkler (1977), doi 10.2307/2346866. DeGroot, Fienberg (1983), doi 10.2307/2987588.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.65, 0.7, 0.8, 0.9, 1], [0] * 4 + [1] * 5
    >>> diagram = calibrant.reliability_diagram(p, y, n_bins=3)
    >>> diagram.accuracies, diagram.confidences.round(3), diagram.counts
    (array([0. , 0.5, 1. ]), array([0.2  , 0.525, 0.85 ]), array([3, 2, 4]))
    """
    binned.check_bins(n_bins, binning, "l1", closed)
    table = given_table(probs, targets, notion, weights, ignore_index, logits)
    if table is not None:
        return binned.diagram(bins_of(table, n_bins, binning, closed), weighted=table.counts.dtype.kind == "f")
    predictions, judged = prepare(probs, targets, notion, weights, ignore_index, logits)
    events = judged_event(predictions, judged, "a reliability diagram")
    return binned.diagram(bins_of(events, n_bins, binning, closed), weighted=events.weights is not None)
