"""The calibration errors of the most probable classes: of the first k together, and of the r-th alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import Events, class_rows, values_of_rows
from calibrant.inputs.predictions import Predictions
from calibrant.kernels.row_blocks import in_order
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Binning, Closed, Norm
from calibrant.measures.read_arguments import class_predictions, event_bins
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments

_ENTRIES: Final = 1 << 18  # of the rows that are read at a time


def top_k_calibration_error(
    probs: ArrayLike,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    k: int,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    """Return the calibration error of the event "the true class is among the k most probable ones".

    Its score is the sum of the k largest probabilities. With k = 1 it is the top-label error of
    `expected_calibration_error`, whose formula, range and direction hold here too. Use it for models that show the k
    most probable classes, and next to the top-k accuracy.

    It misleads as k grows: the scores move towards 1 and the error towards 0, whatever occurs among the k classes.

    Parameters
    ----------
    probs, targets, n_bins, binning, norm, closed, weights, ignore_index, logits
        As in `expected_calibration_error`. ``probs`` has shape (N, C) or (N, C, ...). A table or a sketch is not
        accepted, because the classes of each row are needed. Scores of one event, (N,), count as two classes.
    k : int
        From 1 to C.

    Returns
    -------
    float
        Among equal probabilities the lower class index is the more probable class. Sums are rounded: one above 1
        counts as 1, and one at the edge of a bin may be on either side. Ties of scores are pooled, so the order of the
        rows plays no part.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a table or a sketch, and a k outside 1 to C.

    Notes
    -----
    Cost: one read of the N x C numbers; each row is partitioned, in O(C).

    References
    ----------
    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley (2021), arXiv 2006.12800 (there within-top-r).

    Examples
    --------
    >>> import calibrant
    >>> probs = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]]
    >>> round(calibrant.top_k_calibration_error(probs, [1, 0, 0], k=2), 12)  # scores 0.8, 0.9, 0.75; outcomes 1, 0, 1
    0.45
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    return _error(arguments, ("k", k), _first_together, n_bins, binning, norm, closed)


def top_r_calibration_error(
    probs: ArrayLike,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    r: int,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    """Return the calibration error of the event "the r-th most probable class is the true one".

    Its score is the r-th largest probability. With r = 1 it is the top-label error of `expected_calibration_error`,
    whose formula, range and direction hold here too. It shows for which ranks r the probabilities are wrong.

    It misleads as r grows: r-th probabilities are at most 1 / r, so they fill few bins and all errors are small. Take
    ``binning="quantile"``.

    ``r`` is from 1 to C. The other parameters, errors and cost are those of `top_k_calibration_error`.

    References
    ----------
    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley (2021), arXiv 2006.12800.

    Examples
    --------
    >>> import calibrant
    >>> probs = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]]
    >>> round(calibrant.top_r_calibration_error(probs, [1, 0, 0], r=2), 12)  # scores 0.3, 0.2, 0.25; outcomes 1, 0, 1
    0.55
    """
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    return _error(arguments, ("r", r), _one_of_them, n_bins, binning, norm, closed)


def _first_together(probs: Float64s, ranks: NDArray[np.intp], k: int) -> tuple[Float64s, NDArray[np.bool_]]:
    """Return the sum of the k largest probabilities of each row, and whether the true class is one of them."""
    largest = np.sort(np.partition(probs, probs.shape[1] - k, axis=1)[:, probs.shape[1] - k :], axis=1)
    return np.minimum(largest.sum(axis=1), 1.0), ranks < k


def _one_of_them(probs: Float64s, ranks: NDArray[np.intp], r: int) -> tuple[Float64s, NDArray[np.bool_]]:
    """Return the r-th largest probability of each row, and whether the true class is that one."""
    place = probs.shape[1] - r
    return np.partition(probs, place, axis=1)[:, place], ranks == r - 1


def _ranks(probs: Float64s, classes: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return how many classes of each row are more probable than the true one; of equal ones, those of lower index."""
    true_probs = np.take_along_axis(probs, classes[:, None], axis=1)
    earlier = np.arange(probs.shape[1]) < classes[:, None]
    return np.asarray(((probs > true_probs) | ((probs == true_probs) & earlier)).sum(axis=1))


def _error(
    arguments: Arguments,
    number: tuple[str, Any],
    judge: Callable[[Float64s, NDArray[np.intp], int], tuple[Float64s, NDArray[np.bool_]]],
    n_bins: int,
    binning: Binning,
    norm: Norm,
    closed: Closed,
) -> float:
    binned.check_bins(n_bins, binning, norm, closed)
    predictions = class_predictions(arguments, f"the top-{number[0]} error")
    n_classes = 2 if predictions.layout == "binary" else predictions.n_classes
    name, value = number
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= n_classes:
        remedy = f"pass {name}={min(3, n_classes)}, for example"
        raise InputError(name, f"an integer from 1 to the number of classes, {n_classes}", repr(value), remedy)
    if predictions.rows.on_device:
        (scores, outcomes), masses = values_of_rows(predictions, judge.__name__.lstrip("_"), int(value))
        events = Events(scores.astype(predictions.rows.dtype), outcomes, masses)
    else:
        events = _events(predictions, lambda probs, ranks: judge(probs, ranks, int(value)))
    return binned.calibration_error(event_bins(events, n_bins, binning, closed), norm)


def _events(
    predictions: Predictions, judge: Callable[[Float64s, NDArray[np.intp]], tuple[Float64s, NDArray[np.bool_]]]
) -> Events:
    """Return the evaluated event of each row, from its probabilities and the rank of its true class."""
    n, step = predictions.n, max(1, _ENTRIES // predictions.n_classes)

    def work(block: int) -> tuple[NDArray[Any], NDArray[np.uint8], Float64s | None]:
        probs, classes, weights = class_rows(predictions, block * step, min((block + 1) * step, n))
        scores, outcomes = judge(probs, _ranks(probs, classes))
        return scores.astype(predictions.rows.dtype), outcomes.astype(np.uint8), weights

    scores, outcomes, weights = zip(*in_order(work, -(-n // step)), strict=True)
    masses = None if predictions.weights is None else np.concatenate(weights)
    return Events(np.concatenate(scores), np.concatenate(outcomes), masses)
