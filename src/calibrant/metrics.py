"""The measures as functions of arrays: ``f(probs, targets, ...)`` gives a float, or a value where a float will not do.

Every function takes arrays of any library (NumPy, PyTorch, JAX, CuPy, pandas, Polars, PyArrow, lists) and shares these
parameters, documented in full on `expected_calibration_error`: ``notion``, ``weights``, ``ignore_index``, ``logits``.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.estimators import binned, isotonic, smooth, smooth_mesh
from calibrant.estimators.binned import Binning, Bins, Closed, Norm
from calibrant.inputs import Notion, Predictions, as_predictions
from calibrant.notions import Events, Reading, class_events, read, resolve
from calibrant.results import ClasswiseCalibration, ReliabilityDiagram, ScoreDecomposition
from calibrant.scores import SCORES, Score

_PER_CLASS: tuple[Notion, ...] = ("classwise", "multilabel")


def _prepare(
    probs: Any, targets: Any, notion: str | None, weights: Any, ignore_index: int | None, logits: bool
) -> tuple[Predictions, Notion]:
    predictions = as_predictions(
        probs, targets, weights=weights, ignore_index=ignore_index, logits=logits, notion=notion
    )
    return predictions, resolve(predictions, notion)


def _bins_of(events: Events, n_bins: int, binning: Binning, closed: Closed) -> Bins:
    if binning == "quantile":
        return binned.quantile_bins(events.table(), n_bins)
    return binned.bin_events(events, n_bins, closed)


def _one_event(predictions: Predictions, notion: Notion, measure: str) -> Reading:
    if notion in _PER_CLASS:
        raise InputError(
            "notion",
            f"'positive' or 'top-label' for {measure}",
            repr(notion),
            "call it on one class's column at a time",
        )
    return read(predictions, notion, scoring=False)


def _class_bins(
    predictions: Predictions, notion: Notion, n_bins: int, binning: Binning, closed: Closed, threshold: float
) -> tuple[NDArray[np.float64], float]:
    """Return the histograms of all classes, (3, bins, classes), and the weight of all rows."""
    if binning == "uniform" and predictions.layout == "multiclass":
        uppers = binned.largest_members(binned.uniform_edges(n_bins), closed, predictions.rows.dtype)
        reading = read(predictions, "top-label", uppers=uppers, threshold=threshold)
        return reading.histograms, reading.total
    reading = read(predictions, "multilabel" if notion == "multilabel" else "top-label", scoring=False)
    histograms = np.zeros((3, n_bins, predictions.n_classes))
    for k, events in enumerate(class_events(predictions, threshold)):
        if len(events.scores):
            bins = _bins_of(events, n_bins, binning, closed)
            histograms[:, :, k] = bins.counts, bins.score_sums, bins.positives
    total = reading.total / (predictions.n_classes if notion == "multilabel" else 1)
    return histograms, total


def _error(
    probs: Any, targets: Any, n_bins: int, notion: str | None, binning: Binning, norm: Norm, closed: Closed,
    weights: Any, ignore_index: int | None, logits: bool,
) -> float:  # fmt: skip
    binned.check_bins(n_bins, binning, norm, closed)
    predictions, judged = _prepare(probs, targets, notion, weights, ignore_index, logits)
    if judged in _PER_CLASS:
        histograms, total = _class_bins(predictions, judged, n_bins, binning, closed, 0.0)
        return binned.classwise_errors(histograms, total, norm).value
    reading = read(predictions, judged, scoring=False)
    return binned.calibration_error(_bins_of(reading.events, n_bins, binning, closed), norm)


def expected_calibration_error(
    probs: Any,
    targets: Any,
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

    with :math:`o_b` the share of the rows in bin b, :math:`P_b` their mean score and :math:`Y_b` their mean outcome. It is
    in [0, 1], in units of probability; 0 is calibrated, lower is better. A finite sample of a calibrated model is above 0.

    Parameters
    ----------
    probs : array, (N,), (N, 1), (N, C) or (N, C, ...)
        Probabilities: of the event 1, or of each of C classes. Rows over classes sum to 1 (within 1e-3 and twice the
        type's resolution), unless ``notion="multilabel"``. Anything of NumPy, PyTorch, JAX, CuPy, pandas, Polars, PyArrow,
        or lists; float16, bfloat16, float32, float64, in any memory layout.
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
        The side on which a uniform bin owns its edge: ((j-1)/M, j/M] with 0 in the first bin, or [(j-1)/M, j/M) with 1 in
        the last. Edges are rounded to the scores' type, so 0.6 is on the edge 0.6 in every precision.
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
        A `ValueError` naming the argument, what was expected, what came and what to do: for empty input, NaN or infinity,
        values outside [0, 1], rows that do not sum to 1, targets out of range, unusable weights, unknown options.

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
    targets: Any,
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

    In [0, 1], lower is better; empty bins are left out. A bin of one row can decide it: `evaluate` gives the bin's count.
    Parameters, errors and cost are those of `expected_calibration_error`; for classwise and multilabel notions it is the
    maximum over all classes.

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
    targets: Any,
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

    In [0, 1], lower is better, never below the ECE of the same bins. With ``debiased`` the noise of the bins' rates is taken
    out: the square root of max(0, T),

    .. math:: T = \sum_b o_b \frac{n_b (P_b - Y_b)^2 - \mathrm{mean}_b (p - y)^2}{n_b - 1},

    where T is an unbiased estimate of the squared error of the binned scores, and bins of fewer than two rows add nothing;
    T itself, which may be negative, is in ``evaluate(...)["rmsce"].details``. Parameters, errors and cost are otherwise
    those of `expected_calibration_error`; classes are combined by the root of their mean square.

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
    predictions, judged = _prepare(probs, targets, notion, weights, ignore_index, logits)
    reading = _one_event(predictions, judged, "the debiased error")
    return math.sqrt(max(0.0, binned.debiased_square_error(_bins_of(reading.events, n_bins, binning, closed))))


def adaptive_calibration_error(
    probs: Any,
    targets: Any,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    norm: Norm = "l1",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the adaptive calibration error (ACE): the calibration error over bins of equal mass.

    A distinct score with weight w and cumulative weight C (its own included) of W belongs to bin
    :math:`\min(M - 1, \lfloor M (C - w/2) / W \rfloor)`: ties are never split, and the order of the rows plays no part.
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


def classwise_calibration(
    probs: Any,
    targets: Any,
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
    if not (isinstance(threshold, (int, float, np.floating, np.integer)) and 0 <= threshold <= 1):
        raise InputError("threshold", "a number in [0, 1]", repr(threshold), "pass 0 to keep every score")
    predictions = as_predictions(
        probs, targets, weights=weights, ignore_index=ignore_index, logits=logits, notion=notion
    )
    judged = resolve(predictions, "multilabel" if notion == "multilabel" else "classwise")
    if notion not in (None, *_PER_CLASS):
        raise InputError("notion", "'classwise' or 'multilabel'", repr(notion), "leave notion out")
    histograms, total = _class_bins(predictions, judged, n_bins, binning, closed, float(threshold))
    return binned.classwise_errors(histograms, total, norm)


def classwise_calibration_errors(
    probs: Any,
    targets: Any,
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
        probs, targets, n_bins, threshold=threshold, binning=binning, norm=norm, closed=closed, notion=notion,
        weights=weights, ignore_index=ignore_index, logits=logits,
    ).errors  # fmt: skip


def classwise_calibration_error(
    probs: Any,
    targets: Any,
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
    keeps the scores p >= threshold, renormalised by the kept count of each class, and a class that keeps nothing is left
    out. ``binning="quantile"`` gives ACE (threshold 0) and TACE of Nixon et al.

    Parameters
    ----------
    probs, targets, n_bins, binning, closed, weights, ignore_index, logits
        As in `expected_calibration_error`; probs of shape (N, C) or (N, C, ...).
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
    Cost: one read of the N x C numbers for uniform bins; a sort per class for quantile bins, and for logits the softmax.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685. Kull et al. (2019), arXiv 1910.12656. Kumar, Liang, Ma (2019), arXiv 1909.10155.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.classwise_calibration_error([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=5), 12)
    0.4
    """
    return classwise_calibration(
        probs, targets, n_bins, threshold=threshold, binning=binning, norm=norm, closed=closed, notion=notion,
        weights=weights, ignore_index=ignore_index, logits=logits,
    ).value  # fmt: skip


def smooth_calibration_error(
    probs: Any,
    targets: Any,
    *,
    kernel: Literal["reflected", "logit"] = "reflected",
    bandwidth: float | Literal["auto"] = "auto",
    method: Literal["exact", "mesh"] | None = None,
    mesh_points: int = 200,
    tolerance: float = 1e-3,
    refine_steps: int = 10,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the smooth calibration error (smECE): kernel-smoothed residuals at the bandwidth that equals the error.

    .. math:: \hat r_\sigma(t) = \frac1W \sum_i w_i (y_i - p_i) K_\sigma(t, p_i), \qquad
              S(\sigma) = \int_0^1 |\hat r_\sigma(t)|\,dt, \qquad \mathrm{smECE} = \sigma^* \text{ with } S(\sigma^*) = \sigma^*

    K is the Gaussian kernel reflected at 0 and 1. In [0, 1], lower is better; it has no bins, changes continuously with the
    predictions, and is within constant factors of the distance to the nearest calibrated predictor.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`.
    kernel : {"reflected", "logit"}, default "reflected"
        "reflected" is the paper's kernel. "logit" smooths in log-odds: relplot's definition, without theory, only by mesh.
    bandwidth : float or "auto", default "auto"
        A bandwidth of one's own gives S at that bandwidth.
    method : {"exact", "mesh"}, optional
        "exact", the default for the reflected kernel: an error certified below 1e-7 at any N. "mesh", the default for the
        logit kernel: the algorithm and the numbers of relplot 1.0, which differ from the exact ones most where scores
        crowd at 0 or 1.
    mesh_points, tolerance, refine_steps
        Only for the mesh: the least number of points, the bandwidth below which the search stops, its halvings.

    Returns
    -------
    float
        Ties and the order of the rows play no part.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for ``method="exact"`` with the logit kernel, a bandwidth that is no positive
        number, and a classwise or multilabel notion.

    Notes
    -----
    Cost: one read, one pass over the scores, then transforms of about 32 / smECE points.

    References
    ----------
    Błasiok, Nakkiran (2024), arXiv 2309.12236.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.smooth_calibration_error([0.5, 0.5, 0.5], [1, 1, 1]), 6)
    0.5
    """
    check_choice("kernel", kernel, ("reflected", "logit"))
    if method is None:
        method = "exact" if kernel == "reflected" else "mesh"
    check_choice("method", method, ("exact", "mesh"))
    if method == "exact":
        if kernel == "logit":
            raise InputError("method", "'mesh' for the logit kernel", "'exact'", "leave method out, or use 'reflected'")
        if bandwidth != "auto" and not (isinstance(bandwidth, (int, float)) and 0 < bandwidth < math.inf):
            raise InputError("bandwidth", "'auto' or a positive number", repr(bandwidth), "pass a number such as 0.05")
    predictions, judged = _prepare(probs, targets, notion, weights, ignore_index, logits)
    events = _one_event(predictions, judged, "the smooth error").events
    if method == "mesh":
        return smooth_mesh.mesh_smooth_error(
            events.scores, events.residuals, events.weights, kernel=kernel, bandwidth=bandwidth,
            mesh_points=mesh_points, tolerance=tolerance, refine_steps=refine_steps,
        ).value  # fmt: skip
    if bandwidth == "auto":
        return smooth.smooth_error(events.scores, events.residuals, events.total).value
    return smooth.smooth_error_at(events.scores, events.residuals, events.total, float(bandwidth)).value


def brier_score(
    probs: Any, targets: Any, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score: the mean squared distance between predicted probabilities and what happened.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \quad\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \quad\text{for (N, C)}

    A proper score, lower is better; in [0, 1] for one event and [0, 2] for classes. For (N, 2) it is therefore twice the
    score of the column of class 1. Never clipped. Parameters and errors are those of `expected_calibration_error`.

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
    predictions, _ = _prepare(probs, targets, None, weights, ignore_index, logits)
    return read(predictions, resolve(predictions, None)).brier


def top_label_brier_score(
    probs: Any, targets: Any, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score of the event "the predicted class is right": mean of (max p - [right])^2.

    In [0, 1], lower is better. A single binary score folds to max(p, 1 - p), with .5 predicting class 1; argmax ties take
    the lowest class. Parameters and errors are those of `expected_calibration_error`.

    References
    ----------
    Gruber, Buettner (2022), arXiv 2203.07835.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.top_label_brier_score([[0.6, 0.4], [0.3, 0.7]], [0, 0]), 12)
    0.325
    """
    predictions, _ = _prepare(probs, targets, None, weights, ignore_index, logits)
    if predictions.layout == "multilabel":
        raise InputError("targets", "one label a row", "several", "use brier_score")
    events = read(predictions, "top-label", scoring=False).events
    return float(np.average((events.scores.astype(np.float64) - events.outcomes) ** 2, weights=events.weights))


def negative_log_likelihood(
    probs: Any,
    targets: Any,
    *,
    eps: float = 0.0,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the negative log likelihood (log loss, cross-entropy): the mean of :math:`-\log p_y`, in nats.

    A proper score, from 0 to infinity, lower is better. It is infinite where an outcome had probability 0 (`evaluate`
    counts such rows). From logits it is computed by log-sum-exp, which does not overflow. Parameters and errors are those
    of `expected_calibration_error`, and:

    Parameters
    ----------
    eps : float, default 0
        Probabilities of what happened are raised to at least this. Only for those who must have a finite number: the
        score is then no longer proper.

    Raises
    ------
    calibrant.errors.InputError
        Also for eps outside [0, 1).

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.negative_log_likelihood([0.5, 0.25], [1, 0]), 6)
    0.490415
    >>> calibrant.negative_log_likelihood([1.0], [0])
    inf
    """
    if not (isinstance(eps, (int, float)) and 0 <= eps < 1):
        raise InputError("eps", "a number in [0, 1)", repr(eps), "leave it out, or pass something like 1e-12")
    predictions, _ = _prepare(probs, targets, None, weights, ignore_index, logits)
    return read(predictions, resolve(predictions, None), eps=float(eps)).nll


def accuracy(
    probs: Any, targets: Any, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    """Return the share of rows whose predicted class is right, in [0, 1].

    The predicted class is the most probable, the lowest of equals; a single score predicts class 1 from .5 on. Parameters
    and errors are those of `expected_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.accuracy([[0.6, 0.4], [0.5, 0.5]], [0, 1])
    0.5
    """
    predictions, _ = _prepare(probs, targets, None, weights, ignore_index, logits)
    return read(predictions, resolve(predictions, None)).correct


def reliability_diagram(
    probs: Any,
    targets: Any,
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

    Parameters, errors and cost are those of `expected_calibration_error`, for one judged event. An empty bin has count 0
    and NaN for its mean score and outcome rate.

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
    predictions, judged = _prepare(probs, targets, notion, weights, ignore_index, logits)
    events = _one_event(predictions, judged, "a reliability diagram").events
    return binned.diagram(_bins_of(events, n_bins, binning, closed), weighted=events.weights is not None)


def score_decomposition(
    probs: Any,
    targets: Any,
    *,
    score: Score = "brier",
    method: Literal["corp", "murphy"] = "corp",
    n_bins: int = 15,
    binning: Binning = "uniform",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> ScoreDecomposition:
    r"""Decompose a mean proper score of the judged event into miscalibration, discrimination and uncertainty.

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}

    CORP: with x the isotonic fit of the outcomes to the scores and r the base rate, MCB = S(p) - S(x) is what a monotone
    recalibration gains on these rows, DSC = S(r) - S(x), UNC = S(r); it has no bins to choose and all terms are at least 0.
    Murphy: REL, RES and UNC of a histogram, and ``within_bins`` for what the bins hide.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one judged event.
    score : {"brier", "log"}, default "brier"
        The proper score: (p - y)^2, or -log of what the event's outcome was given.
    method : {"corp", "murphy"}, default "corp"
        Isotonic or binned.
    n_bins, binning, closed
        Only for ``method="murphy"``, as in `expected_calibration_error`.

    Returns
    -------
    ScoreDecomposition
        Infinite log scores give an infinite miscalibration; the other terms stay finite.

    Notes
    -----
    Cost: one read, one sort of N integers, O(N).

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), doi 10.1073/pnas.2016191118. Murphy (1973), doi
    10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2. Stephenson, Coelho, Jolliffe (2008), doi 10.1175/2007WAF2006116.1.

    Examples
    --------
    >>> import calibrant
    >>> p = [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1]
    >>> parts = calibrant.score_decomposition(p, [0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
    >>> [round(x, 5) for x in (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty)]
    [0.29375, 0.11875, 0.075, 0.25]
    """
    check_choice("score", score, SCORES)
    check_choice("method", method, ("corp", "murphy"))
    binned.check_bins(n_bins, binning, "l1", closed)
    predictions, judged = _prepare(probs, targets, notion, weights, ignore_index, logits)
    events = _one_event(predictions, judged, "a score decomposition").events
    table = events.table()
    if method == "corp":
        return isotonic.corp(table, score)
    bins = binned.quantile_bins(table, n_bins) if binning == "quantile" else binned.bin_table(table, n_bins, closed)
    return isotonic.murphy(table, bins, score)
