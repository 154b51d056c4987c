"""Compute proper scores: of one event from the rows of a table, and of single rows."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError

Score = Literal["brier", "log"]

SCORES: Final = ("brier", "log")

#: The Brier score of each row, its log loss, and whether its predicted class is right.
RowScores = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]

#: The ranked probability score of each row, its mean and its mean square over the levels with their probabilities, and
#: whether the likeliest level is at most one level from the true one.
OrderedScores = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]


def mean_score(
    score: Score,
    forecasts: NDArray[np.floating[Any]] | float,
    counts: NDArray[Any] | float,
    positives: NDArray[Any] | float,
    total: float,
) -> float:
    """Return the mean score of forecasts; the event was observed in ``positives`` of the ``counts`` of each row.

    Brier: (x - y)^2. Log: -log x if the event was observed, -log(1 - x) if not; infinite if a forecast of 0 or 1 was
    wrong, and 0 log 0 = 0.
    """
    x = np.asarray(forecasts, dtype=np.float64)
    k = np.asarray(positives, dtype=np.float64)
    negatives = np.asarray(counts, dtype=np.float64) - k
    if score == "brier":
        return float(np.sum(negatives * x * x + k * (1 - x) ** 2) / total)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss_positive = np.where(k > 0, -k * np.log(x), 0.0)
        loss_negative = np.where(negatives > 0, -negatives * np.log1p(-x), 0.0)
    return float(np.sum(loss_positive + loss_negative) / total)


def mean_square(
    score: Score,
    forecasts: NDArray[np.floating[Any]],
    counts: NDArray[Any],
    positives: NDArray[Any],
    total: float,
) -> float:
    """Return the mean of the squared scores of single events, without infinite ones; arguments as in `mean_score`."""
    x = np.asarray(forecasts, dtype=np.float64)
    k = np.asarray(positives, dtype=np.float64)
    negatives = np.asarray(counts, dtype=np.float64) - k
    if score == "brier":
        return float(np.sum(negatives * x**4 + k * (1 - x) ** 4) / total)
    with np.errstate(divide="ignore", invalid="ignore"):
        square_positive = np.where((k > 0) & (x > 0), k * np.log(x) ** 2, 0.0)
        square_negative = np.where((negatives > 0) & (x < 1), negatives * np.log1p(-x) ** 2, 0.0)
    return float(np.sum(square_positive + square_negative) / total)


def shifted_log_loss(p_outcome: NDArray[np.float64], eps: object) -> float:
    """Return the mean of -log(p + eps) over the probabilities of the true outcomes."""
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.integer, np.floating)) or not 0 <= eps < np.inf:
        raise InputError("eps", "a finite number, 0 or larger", repr(eps), "leave eps out for the default")
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(p_outcome + eps)))


def event_row_scores(block: NDArray[Any], y: NDArray[np.int64], logits: bool) -> RowScores:
    """Return the scores of the rows: probabilities or logits of one event, (n, 1), with outcomes y."""
    x = block[:, 0].astype(np.float64)
    p = np.exp(np.minimum(x, 0.0)) / (1 + np.exp(-np.abs(x))) if logits else x
    nll = np.logaddexp(0.0, np.where(y == 1, -x, x)) if logits else -np.log(np.where(y == 1, p, 1 - p))
    return (p - y) ** 2, nll, (p.astype(block.dtype) >= 0.5) == (y == 1)


def class_row_scores(block: NDArray[Any], y: NDArray[np.int64], logits: bool) -> RowScores:
    """Return the scores of the rows: probabilities or logits of classes, (n, C), with true classes y."""
    p, each = block.astype(np.float64), np.arange(len(block))
    right = block.argmax(axis=1) == y
    if logits:  # by log-sum-exp, which does not overflow
        p -= p.max(axis=1, keepdims=True)
        target_logit = p[each, y]
        np.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        nll = np.log(total[:, 0]) - target_logit
    else:
        nll = -np.log(p[each, y])
    return np.einsum("ij,ij->i", p, p) - 2 * p[each, y] + 1, nll, right


def ordered_row_scores(block: NDArray[Any], y: NDArray[np.int64], logits: bool) -> OrderedScores:
    """Return the scores of the rows: probabilities or logits of ordered levels, (n, C), with true levels y."""
    p = block.astype(np.float64)
    near = np.abs(block.argmax(axis=1) - y) <= 1
    if logits:
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=1, keepdims=True)
    upto = np.cumsum(p, axis=1)[:, :-1]
    none = np.zeros((len(p), 1))
    below = np.concatenate([none, np.cumsum(upto**2, axis=1)], axis=1)
    above = np.concatenate([none, np.cumsum((1 - upto[:, ::-1]) ** 2, axis=1)], axis=1)[:, ::-1]
    possible = below + above
    implied = np.einsum("ij,ij->i", p, possible), np.einsum("ij,ij->i", p, possible**2)
    return ranked_probability_scores(p, y), *implied, near


def ranked_probability_scores(p: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the ranked probability score of each row: probabilities of ordered classes, (n, C), with true classes y.

    The sum over j < C - 1 of (F_j - [y <= j])^2, F_j the probability of the classes up to j.
    """
    distances = np.cumsum(p, axis=1)[:, :-1]
    distances -= y[:, None] <= np.arange(p.shape[1] - 1)
    return np.asarray(np.einsum("ij,ij->i", distances, distances))


def spherical_scores(p: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the spherical score of each row, p_y / |p|: probabilities of classes, (n, C), with true classes y."""
    return np.asarray(p[np.arange(len(y)), y] / np.sqrt(np.einsum("ij,ij->i", p, p)))
