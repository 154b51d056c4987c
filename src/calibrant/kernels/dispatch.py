"""Run the kernels over rows of any layout, in the blocks and on the threads of `blocks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.blocks import BadRow, Rows, bounds_of, in_order, lanes_of, n_threads, summed
from calibrant.kernels.loading import kernels_for
from calibrant.kernels.reference import (
    BRIER,
    BRIER_SQUARES,
    CLEAN,
    CORRECT,
    IGNORED,
    INFINITE,
    N_TOTALS,
    NLL,
    NLL_SQUARES,
)
from calibrant.kernels.reference_lookup import Floats, Int64s, UInt8s, UInt16s
from calibrant.kernels.reference_tables import N_MOMENTS
from calibrant.runtime.arrays import Float64s

__all__ = [
    "BRIER",
    "BRIER_SQUARES",
    "CORRECT",
    "IGNORED",
    "INFINITE",
    "NLL",
    "NLL_SQUARES",
    "N_MOMENTS",
    "BadRow",
    "Rows",
    "bin_pooled",
    "bin_quantiles",
    "bin_rows",
    "bucket_rows",
    "cell_rows",
    "cosine_sums",
    "isotonic_fits",
    "n_threads",
    "number_rows",
    "pack",
    "pool_violators",
    "read_events",
    "read_logits",
    "read_probs",
    "residual_moments",
    "residuals",
    "sum_events",
    "sum_pooled",
    "tally",
]

_NO_WEIGHTS = np.empty(0)


def _weights_of(weights: Float64s | None) -> tuple[Float64s, bool]:
    return (_NO_WEIGHTS, False) if weights is None else (weights, True)


def _read_rows(
    rows: Rows,
    shape: tuple[int, int],
    read: Callable[[int, int, Floats, Float64s, Float64s, Floats | None], int],
    scratch_rows: bool,
) -> tuple[Float64s, Float64s]:
    """Run a reading pass over the blocks; return the totals and the histograms of shape (3, bins, classes)."""
    n_bins, n_classes = shape
    bounds = lanes_of(rows.n, rows.width, 3 * n_bins * n_classes) if n_classes else bounds_of(rows.n, rows.width)

    def work(block: int) -> tuple[Float64s, Float64s]:
        start, stop = bounds[block]
        totals, histograms = np.zeros(N_TOTALS), np.zeros((3, n_bins, n_classes))
        soft = np.empty((1, rows.width), dtype=rows.dtype) if scratch_rows else None
        for first, part in rows.blocks(start, stop):
            bad = read(first, first + len(part), part, histograms, totals, soft)
            if bad != CLEAN:
                raise BadRow(first + bad)
        return totals, histograms

    totals, histograms = np.zeros(N_TOTALS), np.zeros((3, n_bins, n_classes))
    for block_totals, block_histograms in in_order(work, len(bounds)):
        totals += block_totals
        histograms += block_histograms
    return totals, histograms


def read_probs(
    rows: Rows,
    targets: Int64s,
    weights: Float64s | None,
    *,
    tolerance: float,
    eps: float,
    scoring: bool,
    uppers: Floats | None,
    threshold: float,
    top: Floats,
    correct: UInt8s,
) -> tuple[Float64s, Float64s]:
    """Run `reference.read_probs` over all rows; ``uppers`` requests the histograms of the classes.

    Returns
    -------
    totals, histograms

    Raises
    ------
    BadRow
        At the first row with a value outside [0, 1] or a sum that is not 1.
    """
    kernels = kernels_for("rows", rows.n * rows.width)

    w, weighted = _weights_of(weights)
    shape = (0, 0) if uppers is None else (len(uppers), rows.width)
    edges = np.ones(1, dtype=rows.dtype) if uppers is None else uppers

    def read(a: int, b: int, part: Floats, histograms: Float64s, totals: Float64s, _: Floats | None) -> int:
        return int(
            kernels.read_probs(
                part,
                targets[a:b],
                w[a:b],
                weighted,
                tolerance,
                eps,
                scoring,
                edges,
                threshold,
                top[a:b],
                correct[a:b],
                histograms,
                totals,
            )
        )

    return _read_rows(rows, shape, read, scratch_rows=False)


def read_logits(
    rows: Rows,
    targets: Int64s,
    weights: Float64s | None,
    *,
    eps: float,
    scoring: bool,
    uppers: Floats | None,
    threshold: float,
    top: Floats,
    correct: UInt8s,
    probs: Floats | None = None,
) -> tuple[Float64s, Float64s]:
    """Run `reference.read_logits` over all rows; ``probs`` (n, C), if passed, receives the softmax."""
    kernels = kernels_for("rows", rows.n * rows.width)

    w, weighted = _weights_of(weights)
    shape = (0, 0) if uppers is None else (len(uppers), rows.width)
    edges = np.ones(1, dtype=rows.dtype) if uppers is None else uppers

    def read(a: int, b: int, part: Floats, histograms: Float64s, totals: Float64s, soft: Floats | None) -> int:
        return int(
            kernels.read_logits(
                part,
                targets[a:b],
                w[a:b],
                weighted,
                eps,
                scoring,
                edges,
                threshold,
                top[a:b],
                correct[a:b],
                histograms,
                totals,
                soft if probs is None else probs[a:b],
                probs is not None,
            )
        )

    return _read_rows(rows, shape, read, scratch_rows=True)


def read_events(
    rows: Rows,
    targets: Int64s,
    weights: Float64s | None,
    *,
    eps: float,
    logits: bool,
    scoring: bool,
    scores: Floats | None,
    outcomes: UInt8s,
) -> Float64s:
    """Run `reference.read_events` over all rows; ``scores``, if passed, receives the probabilities."""
    kernels = kernels_for("rows", rows.n)

    w, weighted = _weights_of(weights)
    no_scores = np.empty(0, dtype=rows.dtype)

    def read(a: int, b: int, part: Floats, _h: Float64s, totals: Float64s, _s: Floats | None) -> int:
        events = part.reshape(-1)
        if scores is not None and not logits:
            scores[a:b] = events
        block = scores[a:b] if scores is not None and logits else no_scores
        return int(
            kernels.read_events(
                events, targets[a:b], w[a:b], weighted, eps, logits, scoring, block, outcomes[a:b], totals
            )
        )

    totals, _ = _read_rows(rows, (0, 0), read, scratch_rows=False)
    return totals


def tally(
    probs: Floats, targets: Int64s, *, uppers: Floats | None, tolerance: float, fold: bool, half: bool
) -> NDArray[Any] | None:
    """Judge (n,) events or the top labels of (n, C) rows in one read, by `reference.tally_events` or `tally_classes`.

    Returns
    -------
    array or None
        With ``uppers``, the sums (3, M) of the bins with these largest members; else the packed events (n,), signed.
        None if a row is invalid or unusual: the reading passes then find out which.
    """
    kernels = kernels_for("rows", probs.size)

    n, keep = len(probs), uppers is None
    keys = np.empty(n if keep else 0, np.int32 if probs.dtype.itemsize == 4 else np.int64)
    edges = np.ones(1, probs.dtype) if uppers is None else uppers
    bounds = bounds_of(n, 1 if probs.ndim == 1 else probs.shape[1])

    def work(block: int) -> Float64s | None:
        a, b = bounds[block]
        sums = np.zeros((3, len(edges)))
        if probs.ndim == 1:
            status = kernels.tally_events(probs[a:b], targets[a:b], fold, half, edges, sums, keys[a:b])
        else:
            status = kernels.tally_classes(probs[a:b], targets[a:b], tolerance, edges, sums, keys[a:b])
        return sums if status == CLEAN else None

    total: Float64s | None = None
    for part in in_order(work, len(bounds)):
        if part is None:
            return None
        total = part if total is None else total + part
    return keys if keep else np.zeros((3, len(edges))) if total is None else total


def sum_events(
    probs: Floats, targets: Int64s | UInt8s, edges: Floats, starts: UInt16s, shift: int, first: int
) -> tuple[Float64s, Float64s] | None:
    """Judge (n,) probabilities of single events in one read, by `reference.sum_events`.

    Returns
    -------
    cells, totals or None
        The sums (cells, 5) and the totals. None if a row is invalid or unusual: the reading passes then find out
        which.
    """
    kernels = kernels_for("rows", len(probs))

    bounds = lanes_of(len(probs), 1, len(edges))

    def work(block: int) -> tuple[Float64s, Float64s] | None:
        a, b = bounds[block]
        cells, totals = np.zeros((len(edges) + 1, 5)), np.zeros(N_TOTALS)
        status = kernels.sum_events(probs[a:b], targets[a:b], edges, starts, shift, first, cells, totals)
        return (cells, totals) if status == CLEAN else None

    cells, totals = np.zeros((len(edges) + 1, 5)), np.zeros(N_TOTALS)
    for part in in_order(work, len(bounds)):
        if part is None:
            return None
        cells += part[0]
        totals += part[1]
    return cells, totals


def bin_rows(scores: Floats, outcomes: UInt8s, weights: Float64s | None, uppers: Floats) -> Float64s:
    """Run `reference_tables.bin_rows` over all rows; return the sums (4, M)."""
    kernels = kernels_for("tables", len(scores))

    w, weighted = _weights_of(weights)
    bounds = bounds_of(len(scores), 1)

    def work(block: int) -> Float64s:
        a, b = bounds[block]
        sums = np.zeros((4, len(uppers)))
        kernels.bin_rows(scores[a:b], outcomes[a:b], w[a:b], weighted, uppers, sums)
        return sums

    return summed(work, bounds, (4, len(uppers)))


def cell_rows(
    scores: Floats, outcomes: UInt8s, weights: Float64s | None, edges: Floats, starts: UInt16s, shift: int, first: int
) -> Float64s:
    """Run `reference_tables.cell_rows` over all rows; return the sums (cells, 5), with weights (cells, 7)."""
    kernels = kernels_for("tables", len(scores))

    w, weighted = _weights_of(weights)
    shape = (len(edges) + 1, 7 if weighted else 5)
    bounds = lanes_of(len(scores), 1, len(edges))

    def work(block: int) -> Float64s:
        a, b = bounds[block]
        sums = np.zeros(shape)
        kernels.cell_rows(scores[a:b], outcomes[a:b], w[a:b], weighted, edges, starts, shift, first, sums)
        return sums

    return summed(work, bounds, shape)


def bucket_rows(
    buckets: UInt16s,
    scores: Floats,
    outcomes: UInt8s,
    weights: Float64s | None,
    coarse: UInt16s,
    shape: tuple[int, int],
    lookup: tuple[Floats, UInt16s, int, int],
) -> Float64s:
    """Run `reference_clusters.bucket_rows` over all rows; return the sums (buckets, cells, 3)."""
    kernels = kernels_for("clusters", len(scores))

    w, weighted = _weights_of(weights)
    bounds = lanes_of(len(scores), 1, 3 * shape[0] * shape[1])

    def work(block: int) -> Float64s:
        a, b = bounds[block]
        sums = np.zeros((*shape, 3))
        kernels.bucket_rows(buckets[a:b], scores[a:b], outcomes[a:b], w[a:b], weighted, coarse, *lookup, sums)
        return sums

    return summed(work, bounds, (*shape, 3))


def number_rows(words: NDArray[np.unsignedinteger[Any]], most: int) -> tuple[Int64s, Int64s]:
    """Run `reference_clusters.number_rows`; return the number of each row and the first row of each number."""
    kernels = kernels_for("clusters", len(words))

    numbers = np.empty(len(words), np.int64)
    return numbers, kernels.number_rows(words, most, numbers)


def pack(scores: Floats, outcomes: UInt8s) -> NDArray[np.unsignedinteger[Any]]:
    """Return each score in [0, 1] and its outcome as one integer of the score's width, ``bits << 1 | outcome``.

    The integers sort like the scores, ties are adjacent, and the highest bit is 0.
    """
    unsigned = np.uint32 if scores.dtype.itemsize == 4 else np.uint64
    keys = np.left_shift(scores.view(unsigned), 1)  # the sign bit of -0.0 is shifted out
    keys |= outcomes
    return np.asarray(keys)


def bin_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any], uppers: Floats) -> Float64s:
    """Run `reference_tables.bin_pooled` over the rows of a table; return the sums (4, M)."""
    kernels = kernels_for("tables", len(scores))

    bounds = bounds_of(len(scores), 1)

    def work(block: int) -> Float64s:
        a, b = bounds[block]
        sums = np.zeros((4, len(uppers)))
        kernels.bin_pooled(scores[a:b], counts[a:b], positives[a:b], uppers, sums)
        return sums

    return summed(work, bounds, (4, len(uppers)))


def sum_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float, float, float]:
    """Run `reference_tables.sum_pooled` over the rows of a table."""
    kernels = kernels_for("tables", len(scores))

    bounds = bounds_of(len(scores), 1)

    def work(block: int) -> Float64s:
        a, b = bounds[block]
        return np.array(kernels.sum_pooled(scores[a:b], counts[a:b], positives[a:b]))

    total, score_sum, positive_sum, squares = summed(work, bounds, (4,)).tolist()
    return total, score_sum, positive_sum, squares


def bin_quantiles(
    scores: Floats, counts: NDArray[Any], positives: NDArray[Any], n_bins: int
) -> tuple[Float64s, Float64s]:
    """Run `reference_tables.bin_quantiles`; return the sums (4, M) and the largest score of each bin."""
    kernels = kernels_for("tables", len(scores))

    sums, uppers = np.zeros((4, n_bins)), np.zeros(n_bins)
    if int(counts.sum()) > 2**62 // n_bins:  # 2 M times the total does not fit into int64
        counts, positives = counts.astype(np.float64), positives.astype(np.float64)
    kernels.bin_quantiles(scores, counts, positives, counts.sum(), sums, uppers)
    return sums, uppers


def pool_violators(counts: NDArray[Any], positives: NDArray[Any]) -> Int64s:
    """Run `reference_tables.pool_violators`; return the first row of each block."""
    kernels = kernels_for("tables", len(counts))

    bounds = bounds_of(len(counts), 1)

    def work(block: int) -> Int64s:
        a, b = bounds[block]
        starts = np.empty(b - a, np.int64)
        return starts[: kernels.pool_violators(counts[a:b], positives[a:b], starts)] + a

    # The fit of all rows equals the fit of the blocks into which the parts were pooled.
    starts = np.concatenate(list(in_order(work, len(bounds))))
    if len(bounds) == 1:
        return starts
    last = np.empty(len(starts), np.int64)
    n = kernels.pool_violators(np.add.reduceat(counts, starts), np.add.reduceat(positives, starts), last)
    return np.asarray(starts[last[:n]])


def isotonic_fits(counts: Float64s, positives: Float64s) -> Float64s:
    """Run `reference_tables.isotonic_fits`; return the fits (B, K)."""
    kernels = kernels_for("tables", len(counts))

    fits = np.empty_like(positives)
    kernels.isotonic_fits(counts, positives, fits)
    return fits


def residuals(scores: Floats, outcomes: UInt8s, weights: Float64s | None) -> tuple[Float64s, float, float]:
    """Run `reference_tables.residuals` over all rows; return them, their sum and the sum of their absolute values."""
    kernels = kernels_for("tables", len(scores))

    w, weighted = _weights_of(weights)
    out, bounds = np.empty(len(scores)), bounds_of(len(scores), 1)

    def work(block: int) -> tuple[float, float]:
        a, b = bounds[block]
        sums: tuple[float, float] = kernels.residuals(scores[a:b], outcomes[a:b], w[a:b], weighted, out[a:b])
        return sums

    total, size = 0.0, 0.0
    for part, part_size in in_order(work, len(bounds)):
        total += part
        size += part_size
    return out, total, size


def residual_moments(scores: Floats, residuals: Float64s, n_cells: int) -> Float64s:
    """Run `reference_tables.residual_moments` over all rows; return the moments (cells, `N_MOMENTS`)."""
    kernels = kernels_for("tables", len(scores))

    bounds = lanes_of(len(scores), 1, n_cells)

    def work(block: int) -> Float64s:
        a, b = bounds[block]
        moments = np.zeros((n_cells, N_MOMENTS))
        kernels.residual_moments(scores[a:b], residuals[a:b], moments)
        return moments

    return summed(work, bounds, (n_cells, N_MOMENTS))


def cosine_sums(scores: Floats, residuals: Float64s, n: int) -> Float64s:
    """Run `reference_tables.cosine_sums`; return the first n coefficients."""
    kernels = kernels_for("tables", len(scores))

    coefficients = np.zeros(n)
    kernels.cosine_sums(scores, residuals, coefficients)
    return coefficients
