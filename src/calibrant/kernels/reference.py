"""The readable form of every loop that reads predictions; NumPy runs it for small inputs.

Each function has a compiled version of the same name and signature in `host`; `loading` says which of the two runs, and
tests compare them. `reference_tables` has the loops over tables. Blocks are C-contiguous arrays of float32 or float64;
every sum is a pair of float64, see `compensated`. The caller makes the output arrays, so that a compiled version fills
them without allocating.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.compensated import add, add_binned
from calibrant.kernels.reference_lookup import bins_of
from calibrant.kernels.reference_tables import cell_rows
from calibrant.runtime.arrays import Float64s, Floats, Int64s, UInt8s, UInt16s

#: The reading passes return this if every row is valid; else the index of the first invalid row of the block.
CLEAN = -1

#: The outcome written for a row that is not evaluated: its target is -1 or its weight is 0.
IGNORED = 255

#: Indices into the `totals` of a reading pass, each a weighted sum over the evaluated rows.
BRIER, NLL, INFINITE, CORRECT, BRIER_SQUARES, NLL_SQUARES = range(6)
N_TOTALS = 6
_SCORES, _COUNTED, _SQUARES = slice(BRIER, NLL + 1), slice(INFINITE, CORRECT + 1), slice(BRIER_SQUARES, N_TOTALS)

#: Values outside [0, 1] are found after they have been added up, and an infinite loss is not a fault.
_quietly = np.errstate(divide="ignore", invalid="ignore", over="ignore")


_ones = cache(np.ones)


def _evaluated(targets: Int64s, weights: Float64s) -> NDArray[np.bool_]:
    return (targets >= 0) & (weights != 0) if len(weights) else targets >= 0


def _log_loss(p_outcome: Float64s, eps: float) -> Float64s:
    return -np.log(np.maximum(p_outcome, eps))


def _add_scores(
    right: NDArray[np.bool_], brier: Float64s, loss: Float64s, mass: Float64s | float, totals: Float64s
) -> None:
    """Add rows to the totals, (2, 6); ``mass`` is the weight of each, or 1 for all."""
    infinite = loss == np.inf
    scores = np.stack([brier, np.where(infinite, 0.0, loss)])
    counted = np.stack([infinite, right])
    for entries, terms in ((_COUNTED, counted), (_SCORES, scores), (_SQUARES, scores**2)):
        if entries is _COUNTED and isinstance(mass, float):
            totals[0, entries] += np.count_nonzero(counted, axis=1)
        else:
            add(totals[:, entries], terms if isinstance(mass, float) else mass * terms)


def _add_classes(
    p: Floats, y: Int64s, mass: Float64s | float, uppers: Floats, threshold: float, histograms: Float64s
) -> None:
    """Add rows of class probabilities to the histograms of all classes."""
    kept = p >= np.float64(threshold)
    cells = (bins_of(p, uppers) * p.shape[1] + np.arange(p.shape[1]))[kept]
    true = (kept & (np.arange(p.shape[1]) == y[:, None]))[kept]
    ones, some = np.ones(len(cells), np.uint8), p[kept].astype(np.float64, copy=False)
    w = 1 if isinstance(mass, float) else np.broadcast_to(mass[:, None], p.shape)[kept]
    for k, terms in enumerate((w * ones, w * some, w * true)):
        add_binned(histograms[:, k], cells, terms)


@_quietly
def read_probs(
    probs: Floats,
    targets: Int64s,
    weights: Float64s,
    tolerance: float,
    eps: float,
    scoring: bool,
    uppers: Floats,
    threshold: float,
    top: Floats,
    correct: UInt8s,
    histograms: Float64s,
    totals: Float64s,
) -> int:
    """Read a block of class probabilities once.

    Parameters
    ----------
    probs : (n, C)
        Rows of probabilities.
    targets : (n,) int64
        The true class of each row, or -1 for a row that is not evaluated.
    weights : (n,) or (0,) float64
        Weights of the rows; empty if each row weighs 1.
    tolerance : float
        How far a row's sum may be from 1.
    eps : float
        The true class's probability is raised to this before its logarithm is taken.
    scoring : bool
        Whether to compute the totals.
    uppers : (M,), of the type of probs
        The largest score of each bin, for the histograms of the classes.
    threshold : float
        Entries below it do not enter the histograms.
    top, correct : (n,) of the type of probs, (n,) uint8
        Written: the largest probability; 1 if the true class has it and no lower class has the same, else 0;
        `IGNORED` for a row that is not evaluated.
    histograms : (2, 3, M, C) or (2, 3, 0, 0)
        Pairs, added to, unless empty: for each bin and class the count, the sum of scores, the count of true outcomes.
    totals : (2, 6)
        Pairs, added to: the sums named by `BRIER`, `NLL`, `INFINITE` (weight of the rows whose loss is infinite),
        `CORRECT`, `BRIER_SQUARES` and `NLL_SQUARES` (the squares of each row's score and finite loss).

    Returns
    -------
    int
        `CLEAN`, or the first row with a value outside [0, 1] or a sum that is not 1; the outputs are then invalid.
    """
    evaluated = _evaluated(targets, weights)
    top[:], correct[:] = 0, IGNORED
    rows: Any = slice(None) if evaluated.all() else evaluated
    p, y, mass = probs[rows], targets[rows], weights[rows] if len(weights) else 1.0
    wide, each = p.astype(np.float64, copy=False), np.arange(len(y))
    good = np.abs(np.einsum("ij->i", wide) - 1) <= tolerance
    if not (p.min(initial=0) >= 0 and p.max(initial=0) <= 1):
        good &= ((p >= 0) & (p <= 1)).all(axis=1)
    if not good.all():
        return int(np.flatnonzero(evaluated)[np.argmin(good)])
    largest = p.argmax(axis=1)
    hits = largest == y
    top[rows], correct[rows] = p[each, largest], hits
    if scoring:
        p_target = wide[each, y]
        brier = np.einsum("ij,ij->i", wide, wide) - 2 * p_target + 1
        _add_scores(hits, brier, _log_loss(p_target, eps), mass, totals)
    if histograms.size:
        _add_classes(p, y, mass, uppers, threshold, histograms)
    return CLEAN


@_quietly
def read_logits(
    logits: Floats,
    targets: Int64s,
    weights: Float64s,
    eps: float,
    scoring: bool,
    uppers: Floats,
    threshold: float,
    top: Floats,
    correct: UInt8s,
    probs: Floats,
    histograms: Float64s,
    totals: Float64s,
) -> int:
    """Read a block of logits once: `read_probs` of their softmax, the logarithmic loss from log-sum-exp.

    ``probs`` is (n, C) and receives the softmax, or (0, C). A logit of -inf is a class of probability 0. A row is
    invalid if one of its values is NaN or +inf, or if all are -inf.
    """
    evaluated = _evaluated(targets, weights)
    top[:], correct[:] = 0, IGNORED
    rows: Any = slice(None) if evaluated.all() else evaluated
    z, y, mass = logits[rows], targets[rows], weights[rows] if len(weights) else 1.0
    if not np.isfinite(z).all():
        valid = (z < np.inf).all(axis=1) & (z > -np.inf).any(axis=1)  # NaN compares as false
        if not valid.all():
            return int(np.flatnonzero(evaluated)[np.argmin(valid)])
    largest, each = z.argmax(axis=1), np.arange(len(y))
    shifted = z.astype(np.float64) - z[each, largest, None]
    exps = np.exp(shifted)
    total = np.einsum("ij->i", exps)
    soft = exps / total[:, None]
    hits = largest == y
    top[rows], correct[rows] = 1 / total, hits
    if len(probs):
        probs[:] = 0
        probs[rows] = soft
    if scoring:
        target = each, y
        loss = np.minimum(np.log(total) - shifted[target], _log_loss(np.zeros(1), eps))
        _add_scores(hits, np.einsum("ij,ij->i", soft, soft) - 2 * soft[target] + 1, loss, mass, totals)
    if histograms.size:
        _add_classes(soft.astype(logits.dtype), y, mass, uppers, threshold, histograms)
    return CLEAN


@_quietly
def read_events(
    probs: Floats,
    targets: Int64s,
    weights: Float64s,
    eps: float,
    logits: bool,
    scoring: bool,
    scores: Floats,
    outcomes: UInt8s,
    totals: Float64s,
) -> int:
    """Read a block of single events once: their probabilities, or with ``logits`` their log-odds.

    Parameters are as in `read_probs`; targets are 0, 1 or -1. Written: ``scores`` (only from logits: probabilities are
    already scores), ``outcomes`` (the target, or `IGNORED`), and with ``scoring`` the totals. The Brier score is
    (p - y)^2, and a row is correct if [p >= 1/2] equals its target.
    """
    evaluated = _evaluated(targets, weights)
    outcomes[:] = np.where(evaluated, targets, IGNORED)
    rows: Any = slice(None) if evaluated.all() else evaluated
    x, y, mass = probs[rows].astype(np.float64), targets[rows], weights[rows] if len(weights) else 1.0
    good = np.isfinite(x) if logits else (x >= 0) & (x <= 1)
    if not good.all():
        return int(np.flatnonzero(evaluated)[np.argmin(good)])
    p = x
    if logits:
        e = np.exp(-np.abs(x))
        p = np.where(x >= 0, 1.0, e) / (1 + e)
        scores[:] = 0
        scores[rows] = p
    if not scoring:
        return CLEAN
    if logits:
        loss = np.log1p(e) + np.maximum(np.where(y == 1, -x, x), 0.0)
        loss = np.minimum(loss, _log_loss(np.zeros(1), eps))
    else:
        loss = _log_loss(np.where(y == 1, p, 1 - p), eps)
    right = ((scores[rows] if logits else x) >= 0.5) == (y == 1)
    _add_scores(right, (p - y) ** 2, loss, mass, totals)
    return CLEAN


def tally_classes(
    probs: Floats,
    targets: Int64s,
    tolerance: float,
    uppers: Floats,
    keys: NDArray[np.signedinteger[Any]],
    sums: Float64s,
) -> int:
    """Evaluate the top label of a block of class probabilities in one read: add it to bins, or pack it row by row.

    This does the work of `read_probs` and `bin_rows` together, for rows that all count once. It also checks targets.

    Parameters
    ----------
    probs, targets, tolerance, uppers
        As in `read_probs`.
    keys : (n,) integers of the width of probs, or (0,)
        Written: the bits of the top probability times 2, plus 1 if the prediction is right.
    sums : (2, 3, M)
        Pairs, added to if keys are empty: count, sum of top probabilities and number of right answers of each bin.

    Returns
    -------
    int
        `CLEAN`, or the first row with an invalid target or probability; -0.0 is invalid here, because of its bits. The
        keys are then invalid, and the sums are unchanged.
    """
    plain = _top_labels(probs, targets, tolerance)
    if plain is not None:
        _tally(*plain, uppers, keys, sums)
        return CLEAN
    top, correct = np.empty(len(probs), probs.dtype), np.empty(len(probs), np.uint8)
    wrong, negative = (targets < 0) | (targets >= probs.shape[1]), np.signbit(probs)
    wrong |= negative.any() and negative.any(axis=1)
    stop = int(np.argmax(wrong)) if wrong.any() else len(probs)
    bad = read_probs(
        probs[:stop],
        targets[:stop],
        np.empty(0),
        tolerance,
        0.0,
        False,
        uppers,
        0.0,
        top[:stop],
        correct[:stop],
        np.zeros((2, 3, 0, 0)),
        np.zeros((2, N_TOTALS)),
    )
    if bad != CLEAN or stop < len(probs):
        return bad if bad != CLEAN else stop
    _tally(top, correct, uppers, keys, sums)
    return CLEAN


def tally_events(
    probs: Floats,
    targets: Int64s,
    fold: bool,
    half: bool,
    uppers: Floats,
    keys: NDArray[np.signedinteger[Any]],
    sums: Float64s,
) -> int:
    """Evaluate a block of single events in one read: `tally_classes` of (n,) probabilities of the outcome 1.

    With ``fold`` the event is "the predicted outcome is right", with score max(p, 1 - p). A score of 0.5 then predicts
    1 if ``half`` is true.
    """
    wrong = (targets < 0) | (targets > 1) | ~((probs >= 0) & (probs <= 1)) | np.signbit(probs)
    if wrong.any():
        return int(np.argmax(wrong))
    scores, outcomes = probs, targets.astype(np.uint8)
    if fold:
        outcomes = ((probs >= 0.5 if half else probs > 0.5) == (targets == 1)).astype(np.uint8)
        scores = np.maximum(probs, 1 - probs)
    _tally(scores, outcomes, uppers, keys, sums)
    return CLEAN


def sum_events(
    probs: Floats,
    targets: Int64s,
    edges: Floats,
    starts: UInt16s,
    shift: int,
    first: int,
    cells: Float64s,
    totals: Float64s,
) -> int:
    """Evaluate a block of single events in one read: add them to the cells of a grid and to the totals.

    This does the work of `read_events` and `cell_rows` together, for probabilities that all count once. It also checks
    targets.

    Returns
    -------
    int
        `CLEAN`, or the first row with an invalid target or probability; the outputs are then invalid.
    """
    wrong = (targets < 0) | (targets > 1) | ~((probs >= 0) & (probs <= 1))
    if wrong.any():
        return int(np.argmax(wrong))
    outcomes, no_weights = np.empty(len(probs), np.uint8), np.empty(0)
    read_events(probs, targets, no_weights, 0.0, False, True, probs, outcomes, totals)
    cell_rows(probs, outcomes, no_weights, edges, starts, shift, first, cells)
    return CLEAN


def slope_rows(
    probs: Floats,
    targets: Int64s,
    squares: Float64s,
    masses: Float64s,
    uppers: Floats,
    slopes: Float64s,
    sums: Float64s,
) -> None:
    """Add evaluated rows, (n, C), to the pairs of sums for the variance of sum f S over classes and bins, (2, R, 5).

    A row adds psi = sum over classes of f (p - y), f the slope of the score's bin: ``slopes`` (R, C M), class by class;
    ``uppers`` (M,) are the largest scores of the bins. The sums are of q psi^2, q psi, q, w psi and w, with q from
    ``squares`` and w from ``masses``.
    """
    classes = np.arange(probs.shape[1])
    places = np.searchsorted(uppers, probs) + len(uppers) * classes
    gaps = probs.astype(np.float64) - (classes == targets[:, None])
    for r, slope in enumerate(slopes):
        psi = np.sum(slope[places] * gaps, axis=1)
        add(sums[:, r], np.stack([squares * psi**2, squares * psi, squares, masses * psi, masses]))


def log_totals(logits: Floats, largest: Floats, floor: float, shifts: Floats, means: Float64s, scratch: Floats) -> None:
    """Write shift = log sum exp(logits) of each row, (n,), and the mean of max(logits - shift, floor) by the softmax.

    ``largest``, (n,), is the largest logit of each row; ``scratch``, (C,), is written to.
    """
    del scratch
    shifted = logits.astype(np.float64) - largest[:, np.newaxis]
    e = np.exp(shifted)
    total = e.sum(axis=1)
    shifts[:] = largest + np.log(total)
    z = np.maximum(logits.astype(np.float64) - shifts[:, np.newaxis], floor)
    means[:] = np.einsum("ij,ij->i", e, z) / total


def temper_rows(values: Floats, shifts: Floats, floor: float, largest: Floats, slope: float, moments: Float64s) -> None:
    """Write the mean and the variance of z = max(values - shift, floor) by softmax(slope z), (n, 2).

    ``largest``, (n,), is the largest value of each row.
    """
    top = largest.astype(np.float64) - shifts
    z = np.maximum(values.astype(np.float64) - shifts[:, np.newaxis], floor)
    around = z - top[:, np.newaxis]
    e = np.exp(slope * around)
    q = e / e.sum(axis=1, keepdims=True)
    first = np.einsum("ij,ij->i", q, around)
    moments[:, 0] = first + top
    moments[:, 1] = np.einsum("ij,ij->i", q, around**2) - first**2


def _top_labels(probs: Floats, targets: Int64s, tolerance: float) -> tuple[Floats, NDArray[np.bool_]] | None:
    """Return the top probabilities and which of them are right; None if a row is invalid. Few calls: batches are small.

    As integers without a sign, the bits of negative numbers (-0.0 among them), of NaN and of numbers above 1 are larger
    than those of 1; negative targets are large too.
    """
    bits, largest = (np.uint32, 0x3F800000) if probs.itemsize == 4 else (np.uint64, 0x3FF0000000000000)
    n, width = probs.shape
    if not n or np.maximum.reduce(targets.view(np.uint64)) >= width:
        return None
    if np.maximum.reduce(probs.view(bits), axis=None) > largest:
        return None
    if tolerance < np.inf:
        sums = probs.astype(np.float64, copy=False) @ _ones(width)
        if max(np.maximum.reduce(sums) - 1, 1 - np.minimum.reduce(sums)) > tolerance:
            return None
    labels = probs.argmax(axis=1)
    return probs.take(labels + np.arange(0, n * width, width)), labels == targets


def _tally(
    scores: Floats, outcomes: NDArray[Any], uppers: Floats, keys: NDArray[np.signedinteger[Any]], sums: Float64s
) -> None:
    if len(keys):
        keys[:] = 2 * scores.view(keys.dtype) + outcomes
    else:
        bins = bins_of(scores, uppers)
        for k, terms in enumerate((np.ones(len(bins), np.uint8), scores, outcomes)):
            add_binned(sums[:, k], bins, terms)
