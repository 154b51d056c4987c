"""Proper scores, the accuracy, and what a proper score is made of."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.estimators import binned, isotonic
from calibrant.estimators.binned import Binning, Closed
from calibrant.inputs import Notion
from calibrant.metrics.arguments import judged_event, prepare
from calibrant.notions import read, resolve
from calibrant.results import ScoreDecomposition
from calibrant.scores import SCORES, Score
from calibrant.sketch import CalibrationSketch, given_table, given_totals, table_of
from calibrant.table import ReliabilityTable


def brier_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score: the mean squared distance between predicted probabilities and what happened.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \quad\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \quad\text{for (N, C)}

    A proper score, lower is better; in [0, 1] for one event and [0, 2] for classes. For (N, 2) it is therefore twice
    the score of the column of class 1. Never clipped. Parameters and errors are those of
    `expected_calibration_error`.

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
    totals = given_totals(probs, targets, weights, ignore_index, logits)
    if totals is not None:
        return totals.brier / totals.entries
    predictions, _ = prepare(probs, targets, None, weights, ignore_index, logits)
    return read(predictions, resolve(predictions, None)).brier


def top_label_brier_score(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    r"""Return the Brier score of the event "the predicted class is right": mean of (max p - [right])^2.

    In [0, 1], lower is better. A single binary score folds to max(p, 1 - p), with .5 predicting class 1; argmax ties
    take the lowest class. Parameters and errors are those of `expected_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.top_label_brier_score([[0.6, 0.4], [0.3, 0.7]], [0, 0]), 12)
    0.325
    """
    if isinstance(probs, CalibrationSketch):  # folding a score to max(p, 1 - p) does not change its square
        return isotonic.table_score(
            table_of(probs, targets, weights=weights, ignore_index=ignore_index, logits=logits), "brier"
        )
    predictions, _ = prepare(probs, targets, None, weights, ignore_index, logits)
    if predictions.layout == "multilabel":
        raise InputError("targets", "one label a row", "several", "use brier_score")
    events = read(predictions, "top-label", scoring=False).events
    return float(np.average((events.scores.astype(np.float64) - events.outcomes) ** 2, weights=events.weights))


def negative_log_likelihood(
    probs: Any,
    targets: Any = None,
    *,
    eps: float = 0.0,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the negative log likelihood (log loss, cross-entropy): the mean of :math:`-\log p_y`, in nats.

    A proper score, from 0 to infinity, lower is better. It is infinite where an outcome had probability 0 (`evaluate`
    counts such rows). From logits it is computed by log-sum-exp, which does not overflow. Parameters and errors are
    those of `expected_calibration_error`, and:

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
    if not (isinstance(eps, (int, float, np.integer, np.floating)) and 0 <= eps < 1):
        raise InputError("eps", "a number in [0, 1)", repr(eps), "leave it out, or pass something like 1e-12")
    totals = given_totals(probs, targets, weights, ignore_index, logits)
    if totals is not None:
        if eps > 0:
            remedy = "leave it out: infinite_rows of evaluate(sketch)['nll'] says how many rows it would concern"
            raise InputError("eps", "0 for a CalibrationSketch", repr(eps), remedy)
        return totals.nll_mean
    predictions, _ = prepare(probs, targets, None, weights, ignore_index, logits)
    return read(predictions, resolve(predictions, None), eps=float(eps)).nll


def accuracy(
    probs: Any, targets: Any = None, *, weights: Any = None, ignore_index: int | None = None, logits: bool = False
) -> float:
    """Return the share of rows whose predicted class is right, in [0, 1].

    The predicted class is the most probable, the lowest of equals; a single score predicts class 1 from .5 on.
    Parameters and errors are those of `expected_calibration_error`.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.accuracy([[0.6, 0.4], [0.5, 0.5]], [0, 1])
    0.5
    """
    totals = given_totals(probs, targets, weights, ignore_index, logits)
    if totals is not None:
        return totals.accuracy
    predictions, _ = prepare(probs, targets, None, weights, ignore_index, logits)
    return read(predictions, resolve(predictions, None)).correct


def score_decomposition(
    probs: Any,
    targets: Any = None,
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

    CORP: with x the isotonic fit of the outcomes to the scores and r the base rate, MCB = S(p) - S(x) is what a
    monotone recalibration gains on these rows, DSC = S(r) - S(x), UNC = S(r); it has no bins to choose and all terms
    are at least 0. Murphy: REL, RES and UNC of a histogram, and ``within_bins`` for what the bins hide.

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
    table = given_table(probs, targets, notion, weights, ignore_index, logits)
    if table is None:
        predictions, judged = prepare(probs, targets, notion, weights, ignore_index, logits)
        table = ReliabilityTable.pool(judged_event(predictions, judged, "a score decomposition"))
    if method == "corp":
        return isotonic.corp(table, score)
    bins = binned.quantile_bins(table, n_bins) if binning == "quantile" else binned.bin_table(table, n_bins, closed)
    return isotonic.murphy(table, bins, score)
