"""What every compiled loop computes, in readable code.

Each function has a fast twin of the same name and signature in `host` or `host_tables`; tests compare the two. Blocks
are C-contiguous arrays of float32 or float64; every sum is float64. The caller makes the output arrays, so that a twin
fills them without allocating.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]

#: The reading passes return this if every row is valid; else the index of the first invalid row of the block.
CLEAN = -1

#: The outcome written for a row that is not judged: its target is -1 or its weight is 0.
IGNORED = 255

#: Moments of the residuals that `residual_moments` keeps for each cell: powers 0 to 5 of the offset from the middle.
N_MOMENTS = 6

#: Indices into the `totals` of a reading pass, each a weighted sum over the judged rows.
BRIER, NLL, INFINITE, CORRECT, BRIER_SQUARES, NLL_SQUARES = range(6)
N_TOTALS = 6


def bin_of(p: float, uppers: Floats) -> int:
    """Return the index of the first bin whose largest member is not below p."""
    return min(int(np.searchsorted(uppers, p, side="left")), len(uppers) - 1)


def _add_scores(brier: float, loss: float, w: float, totals: Float64s) -> None:
    totals[BRIER] += w * brier
    totals[BRIER_SQUARES] += w * brier**2
    if np.isfinite(loss):
        totals[NLL] += w * loss
        totals[NLL_SQUARES] += w * loss**2
    else:
        totals[INFINITE] += w


def _log_loss(p_outcome: float, eps: float) -> float:
    clipped = max(p_outcome, eps)
    return -float(np.log(clipped)) if clipped > 0 else np.inf


def _bin_row(row: Floats, y: int, w: float, uppers: Floats, threshold: float, histograms: Float64s) -> None:
    counts, sums, positives = histograms
    for j, p in enumerate(row):
        if p >= threshold:
            b = bin_of(p, uppers)
            counts[b, j] += w
            sums[b, j] += w * float(p)
            positives[b, j] += w * (j == y)


def read_probs(
    probs: Floats,
    targets: Int64s,
    weights: Float64s,
    weighted: bool,
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
        The true class of each row, or -1 for a row that is not judged.
    weights, weighted : (n,) float64, bool
        Weights of the rows; if ``weighted`` is false, the array is ignored.
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
        `IGNORED` for a row that is not judged.
    histograms : (3, M, C) or (3, 0, 0)
        Added to, unless empty: for each bin and class the count, the sum of scores, the count of true outcomes.
    totals : (6,)
        Added to: the sums named by `BRIER`, `NLL`, `INFINITE` (weight of the rows whose loss is infinite), `CORRECT`,
        `BRIER_SQUARES` and `NLL_SQUARES` (the squares of each row's score and finite loss).

    Returns
    -------
    int
        `CLEAN`, or the first row with a value outside [0, 1] or a sum that is not 1; the outputs are then invalid.
    """
    for i, row in enumerate(probs):
        y, w = targets[i], weights[i] if weighted else 1.0
        top[i], correct[i] = 0, IGNORED
        if y < 0 or w == 0:
            continue
        if not (np.all(row >= 0) and np.all(row <= 1)):
            return i
        wide = row.astype(np.float64)
        if abs(wide.sum() - 1) > tolerance:
            return i
        top[i] = row.max()
        correct[i] = int(np.argmax(row)) == y
        if scoring:
            totals[CORRECT] += w * correct[i]
            _add_scores(float(wide @ wide) - 2 * wide[y] + 1, _log_loss(wide[y], eps), w, totals)
        if histograms.size:
            _bin_row(row, y, w, uppers, threshold, histograms)
    return CLEAN


def read_logits(
    logits: Floats,
    targets: Int64s,
    weights: Float64s,
    weighted: bool,
    eps: float,
    scoring: bool,
    uppers: Floats,
    threshold: float,
    top: Floats,
    correct: UInt8s,
    histograms: Float64s,
    totals: Float64s,
    probs: Floats,
    keep: bool,
) -> int:
    """Read a block of logits once: `read_probs` of their softmax, the logarithmic loss from log-sum-exp.

    ``probs`` is scratch space of shape (1, C); with ``keep`` it is (n, C) and receives the softmax. A row is invalid if
    one of its values is not finite.
    """
    for i, row in enumerate(logits):
        y, w = targets[i], weights[i] if weighted else 1.0
        top[i], correct[i] = 0, IGNORED
        if y < 0 or w == 0:
            if keep:
                probs[i] = 0
            continue
        if not np.all(np.isfinite(row)):
            return i
        shifted = row.astype(np.float64) - float(row.max())
        exps = np.exp(shifted)
        total = exps.sum()
        soft = exps / total
        probs[i if keep else 0] = soft
        top[i] = 1 / total
        correct[i] = int(np.argmax(row)) == y
        if scoring:
            totals[CORRECT] += w * correct[i]
            loss = np.log(total) - shifted[y]
            loss = min(loss, -np.log(eps)) if eps > 0 else loss
            _add_scores(float(soft @ soft) - 2 * soft[y] + 1, loss, w, totals)
        if histograms.size:
            _bin_row(probs[i if keep else 0], y, w, uppers, threshold, histograms)
    return CLEAN


def read_events(
    probs: Floats,
    targets: Int64s,
    weights: Float64s,
    weighted: bool,
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
    for i, value in enumerate(probs):
        y, w = targets[i], weights[i] if weighted else 1.0
        outcomes[i] = IGNORED
        if logits:
            scores[i] = 0
        if y < 0 or w == 0:
            continue
        if not (np.isfinite(value) if logits else 0 <= value <= 1):
            return i
        x = float(value)
        p = float(np.exp(min(x, 0.0)) / (1 + np.exp(-abs(x)))) if logits else x
        if logits:
            scores[i] = p
        outcomes[i] = y
        if scoring:
            totals[CORRECT] += w * ((scores[i] >= 0.5 if logits else x >= 0.5) == (y == 1))
            if logits:
                loss = float(np.logaddexp(0, -x if y else x))
                loss = min(loss, -np.log(eps)) if eps > 0 else loss
            else:
                loss = _log_loss(p if y else 1 - p, eps)
            _add_scores((p - y) ** 2, loss, w, totals)
    return CLEAN


def tally_classes(
    probs: Floats,
    targets: Int64s,
    tolerance: float,
    uppers: Floats,
    sums: Float64s,
    keys: NDArray[np.signedinteger[Any]],
) -> int:
    """Judge the top label of a block of class probabilities in one read: add it to bins, or pack it row by row.

    This does the work of `read_probs` and `bin_rows` together, for rows that all count once. It also checks targets.

    Parameters
    ----------
    probs, targets, tolerance, uppers
        As in `read_probs`.
    sums : (3, M)
        Added to, if there are no keys: count, sum of top probabilities and number of right answers of each bin.
    keys : (n,) integers of the width of probs, or (0,)
        Written: the bits of the top probability times 2, plus 1 if the prediction is right.

    Returns
    -------
    int
        `CLEAN`, or the first row with an invalid target or probability; -0.0 is invalid here, because of its bits. The
        keys are then invalid, and the sums are unchanged.
    """
    top, correct = np.empty(len(probs), probs.dtype), np.empty(len(probs), np.uint8)
    wrong = (targets < 0) | (targets >= probs.shape[1]) | np.signbit(probs).any(axis=1)
    stop = int(np.argmax(wrong)) if wrong.any() else len(probs)
    bad = read_probs(
        probs[:stop],
        targets,
        np.empty(0),
        False,
        tolerance,
        0.0,
        False,
        uppers,
        0.0,
        top,
        correct,
        np.zeros((3, 0, 0)),
        np.zeros(4),
    )
    if bad != CLEAN or stop < len(probs):
        return bad if bad != CLEAN else stop
    _tally(top, correct, uppers, sums, keys)
    return CLEAN


def tally_events(
    probs: Floats,
    targets: Int64s,
    fold: bool,
    half: bool,
    uppers: Floats,
    sums: Float64s,
    keys: NDArray[np.signedinteger[Any]],
) -> int:
    """Judge a block of single events in one read: `tally_classes` of (n,) probabilities of the outcome 1.

    With ``fold`` the event is "the predicted outcome is right", with score max(p, 1 - p). A score of .5 then predicts 1
    if ``half`` is true.
    """
    for i, (p, y) in enumerate(zip(probs, targets, strict=True)):
        if y not in (0, 1) or not 0 <= p <= 1 or np.signbit(p):
            return i
    scores, outcomes = probs, targets.astype(np.uint8)
    if fold:
        outcomes = ((probs >= 0.5 if half else probs > 0.5) == (targets == 1)).astype(np.uint8)
        scores = np.maximum(probs, 1 - probs)
    _tally(scores, outcomes, uppers, sums, keys)
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
    """Judge a block of single events in one read: add them to the cells of a grid and to the totals.

    This does the work of `read_events` and `cell_rows` together, for probabilities that all count once. It also checks
    targets.

    Returns
    -------
    int
        `CLEAN`, or the first row with an invalid target or probability; the outputs are then invalid.
    """
    for i, (p, y) in enumerate(zip(probs, targets, strict=True)):
        if y not in (0, 1) or not 0 <= p <= 1:
            return i
    outcomes, no_weights = np.empty(len(probs), np.uint8), np.empty(0)
    read_events(probs, targets, no_weights, False, 0.0, False, True, probs, outcomes, totals)
    cell_rows(probs, outcomes, no_weights, False, edges, starts, shift, first, cells)
    return CLEAN


def _tally(
    scores: Floats, outcomes: UInt8s, uppers: Floats, sums: Float64s, keys: NDArray[np.signedinteger[Any]]
) -> None:
    if len(keys):
        keys[:] = 2 * scores.view(keys.dtype) + outcomes
    else:
        squares = np.zeros((4, len(uppers)))
        bin_rows(scores, outcomes, np.empty(0), False, uppers, squares)
        sums += squares[:3]


def bin_rows(
    scores: Floats, outcomes: UInt8s, weights: Float64s, weighted: bool, uppers: Floats, sums: Float64s
) -> None:
    """Add judged rows to a histogram: ``sums`` (4, M) of weight, w p, w y and w (p - y)^2 in each bin."""
    for i, p in enumerate(scores):
        w, y, b = weights[i] if weighted else 1.0, float(outcomes[i]), bin_of(p, uppers)
        sums[:, b] += w, w * float(p), w * y, w * (float(p) - y) ** 2


def cell_rows(
    scores: Floats,
    outcomes: UInt8s,
    weights: Float64s,
    weighted: bool,
    edges: Floats,
    starts: UInt16s,
    shift: int,
    first: int,
    sums: Float64s,
) -> None:
    """Add judged rows to the cells of a grid, from the `calibrant.grid.Lookup` of the scores' type.

    ``sums`` is (cells, 5), with weights (cells, 7), float64. The columns: the weight of the rows with outcome 0, with
    outcome 1; the sum of w p for each outcome; the sum of w p^2; with weights, the sum of w^2 for each outcome.
    """
    del starts, shift, first  # they only say where the fast twin starts to search
    for i, p in enumerate(scores):
        w, y = weights[i] if weighted else 1.0, int(outcomes[i])
        cell = len(edges) if p == 1 else int(np.searchsorted(edges, p, side="left"))
        sums[cell, y] += w
        sums[cell, 2 + y] += w * float(p)
        sums[cell, 4] += w * float(p) ** 2
        if weighted:
            sums[cell, 5 + y] += w**2


def bin_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any], uppers: Floats, sums: Float64s) -> None:
    """Add the rows of a table to a histogram: ``sums`` as in `bin_rows`."""
    for p, n, k in zip(scores.astype(np.float64), counts.astype(float), positives.astype(float), strict=True):
        sums[:, bin_of(p, uppers)] += np.array([n, n * p, k, (n - k) * p * p + k * (1 - p) ** 2])


def sum_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float, float, float]:
    """Return the sums of n, n p, k and (n - k) p^2 + k (1 - p)^2 over the rows of a table."""
    p, n, k = scores.astype(np.float64), counts.astype(np.float64), positives.astype(np.float64)
    squares = (n - k) * p**2 + k * (1 - p) ** 2
    return float(n.sum()), float((n * p).sum()), float(k.sum()), float(squares.sum())


def count_runs(keys: NDArray[np.unsignedinteger[Any]]) -> int:
    """Return the number of distinct scores among sorted keys (bits << 1 | outcome)."""
    return len(np.unique(keys >> keys.dtype.type(1)))


def fill_runs(
    keys: NDArray[np.unsignedinteger[Any]],
    bits: NDArray[np.unsignedinteger[Any]],
    counts: Int64s,
    positives: Int64s,
) -> None:
    """Write, for each distinct score among sorted keys, its bits, its count and its count of outcomes 1."""
    distinct, first, number = np.unique(keys >> keys.dtype.type(1), return_index=True, return_counts=True)
    bits[:] = distinct
    counts[:] = number
    positives[:] = np.add.reduceat((keys & keys.dtype.type(1)).astype(np.int64), first)


def bin_quantiles(
    scores: Floats, counts: NDArray[Any], positives: NDArray[Any], total: float, sums: Float64s, uppers: Float64s
) -> None:
    """Add the rows of a table to M equal-mass bins that never split a score.

    A score with count n and cumulative count C (with this n) goes to bin min(M - 1, floor(M (C - n/2) / total)): the
    last b with 2 b total <= M (2 C - n), in integers if the counts are integers. ``sums`` is as in `bin_rows`.
    ``uppers`` (M,) receives the largest score of each bin; for an empty bin that of the bin before, or 0.
    """
    cumulative = np.cumsum(counts)
    n_bins = sums.shape[1]
    index = np.searchsorted(2 * total * np.arange(1, n_bins), n_bins * (2 * cumulative - counts), side="right")
    for b in range(n_bins):
        rows = index == b
        p, n, k = scores[rows].astype(np.float64), counts[rows], positives[rows]
        sums[:, b] += n.sum(), (n * p).sum(), k.sum(), ((n - k) * p * p + k * (1 - p) ** 2).sum()
        uppers[b] = p[-1] if len(p) else (uppers[b - 1] if b else 0.0)


def pool_violators(counts: NDArray[Any], positives: NDArray[Any], starts: Int64s) -> int:
    """Pool adjacent violators: return the number of blocks with constant isotonic fit of positives / counts.

    ``starts`` (K,) receives the first row of each block. The fit of a block is its rate, and the rates increase from
    block to block.
    """
    pooled: list[tuple[float, float, int]] = []
    for i, (n, k) in enumerate(zip(counts.astype(float), positives.astype(float), strict=True)):
        block = (n, k, i)
        while pooled and pooled[-1][1] * block[0] >= block[1] * pooled[-1][0]:  # the rate before is not smaller
            mass, positive_sum, start = pooled.pop()
            block = (block[0] + mass, block[1] + positive_sum, start)
        pooled.append(block)
    starts[: len(pooled)] = [start for _, _, start in pooled]
    return len(pooled)


def isotonic_fits(counts: Float64s, positives: Float64s, fits: Float64s) -> None:
    """Write the nondecreasing fit of each row of positives (B, K) / counts (K,) to ``fits`` (B, K).

    A cell of no weight has the value of the block on its left, or, before all others, of the first block.
    """
    starts = np.empty(len(counts), np.int64)
    for row, fit in zip(positives, fits, strict=True):
        bounds = np.append(starts[: pool_violators(counts, row, starts)], len(counts))
        for a, b in pairwise(bounds):
            fit[a:b] = row[a:b].sum() / counts[a:b].sum()


def residuals(
    scores: Floats, outcomes: UInt8s, weights: Float64s, weighted: bool, out: Float64s
) -> tuple[float, float]:
    """Write w (y - p) of each row to ``out``; return their sum and the sum of their absolute values."""
    out[:] = outcomes - scores.astype(np.float64)
    if weighted:
        out *= weights
    return float(out.sum()), float(np.abs(out).sum())


def residual_moments(scores: Floats, residuals: Float64s, moments: Float64s) -> None:
    """Add residuals to equal cells of [0, 1]: ``moments`` (cells, `N_MOMENTS`), entry j the sum of r d^j.

    d is the score's offset from the middle of its cell, in cell widths, between -1/2 and 1/2.
    """
    n_cells = moments.shape[0]
    for p, r in zip(scores.astype(np.float64), residuals, strict=True):
        c = min(int(p * n_cells), n_cells - 1)
        moments[c] += r * (p * n_cells - c - 0.5) ** np.arange(N_MOMENTS)


def cosine_sums(scores: Floats, residuals: Float64s, coefficients: Float64s) -> None:
    """Add sum_i r_i cos(pi k p_i) to ``coefficients[k]``."""
    k = np.arange(len(coefficients))
    for p, r in zip(scores.astype(np.float64), residuals, strict=True):
        coefficients += r * np.cos(np.pi * k * p)
