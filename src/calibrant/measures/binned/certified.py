"""How far binned errors of a grid's cells can be from those of the predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Closed, Norm
from calibrant.runtime.arrays import Float64s
from calibrant.table import GridCells


def split_cells(cells: GridCells, n_bins: int, closed: Closed = "right") -> NDArray[np.bool_]:
    """Return the rows whose cells contain an edge of equal-width bins."""
    inner = binned.uniform_edges(n_bins)[1:-1]
    side: Any = "left" if closed == "right" else "right"
    first = np.searchsorted(inner, cells.low, side="right")
    return np.asarray(first < np.searchsorted(inner, cells.high, side=side))


def ece_bound(cells: GridCells, n_bins: int, closed: Closed = "right") -> float:
    """Bound the error of the l1 error of equal-width bins: 0 if their edges are on the grid."""
    return _moved(cells, split_cells(cells, n_bins, closed))


def ace_bound(cells: GridCells, n_bins: int) -> float:
    """Bound the error of the l1 error of equal-mass bins.

    M (C - w / 2) / W decides the bin of a score with weight w and cumulative weight C; it is between its values at
    the ends of the cell.
    """
    counts, slack = cells.table.counts, 0.0 if cells.table.counts.dtype.kind == "i" else 1e-12
    upto = np.cumsum(counts)
    first = np.floor(n_bins * (upto - counts) / upto[-1] * (1 - slack))
    last = np.ceil(n_bins * upto / upto[-1] * (1 + slack)) - 1
    return _moved(cells, (first < np.minimum(last, n_bins - 1)) & cells.several)


def rmsce_bound(cells: GridCells, n_bins: int, value: float) -> float:
    """Bound the error of the l2 error of equal-width bins.

    A bin has S and n for certain, and A, n' and sums of squares R in split cells. S^2 / n grows by at most R
    (Cauchy-Schwarz), and is at least max(|S| - A, 0)^2 / (n + n').
    """
    if not split_cells(cells, n_bins).any():
        return 0.0
    certain, _ = _parted(cells, n_bins, cells.table.residuals)
    n, n_possible = _parted(cells, n_bins, cells.table.counts.astype(np.float64))
    _, moved = _parted(cells, n_bins, cells.absolute)
    squares = float(cells.table.square_residuals[split_cells(cells, n_bins)].sum())
    filled = n > 0
    most = float(np.sum(certain[filled] ** 2 / n[filled])) + squares
    least = float(np.sum(np.maximum(np.abs(certain[filled]) - moved[filled], 0) ** 2 / (n + n_possible)[filled]))
    ends = math.sqrt(most / cells.table.total), math.sqrt(least / cells.table.total)
    return min(max(ends[0] - value, value - ends[1], 0.0), max(value, 1.0 - value))


def debiased_square_bound(cells: GridCells, n_bins: int, value: float) -> float:
    """Bound the error of the debiased squared l2 error: interval arithmetic over its bins.

    If weights are not integers, the squares of single predictions use the cells' mean scores: the most that this
    changes is added.
    """
    widest = 1.0 + abs(value)  # it is between -1 and 1
    table, split = cells.table, split_cells(cells, n_bins)
    if not table.whole:
        return widest if split.any() else min(_weighted_squares(cells, n_bins), widest)
    if not split.any():
        return 0.0
    s, _ = _parted(cells, n_bins, table.residuals)
    n, n_possible = _parted(cells, n_bins, table.counts.astype(np.float64))
    _, moved = _parted(cells, n_bins, cells.absolute)
    q, q_possible = _parted(cells, n_bins, table.square_residuals)
    top = (np.abs(s) + moved) ** 2 - q
    bottom = np.maximum(np.abs(s) - moved, 0.0) ** 2 - q - q_possible
    # A bin of n predictions adds (S^2 - Q) / (n - 1), nothing if n < 2; this is between -n and n.
    fewest, most = np.maximum(n, 2.0) - 1, np.maximum(n + n_possible, 2.0) - 1
    high = np.where(top > 0, top / fewest, np.where(n < 2, 0.0, top / most))
    low = np.where(bottom < 0, bottom / fewest, np.where(n < 2, 0.0, bottom / most))
    ends = (
        np.minimum(high, n + n_possible).sum() / table.total,
        np.maximum(low, -n - n_possible).sum() / table.total,
    )
    return float(min(max(ends[0] - value, value - ends[1], 0.0), widest))


def resolution_bound(cells: GridCells, n_bins: int) -> float:
    """Bound the error of the sum of k^2 / n over equal-width bins, divided by N: the resolution, up to a constant.

    The sum is convex in the bins' sums (k, n), so that it grows most if each split cell becomes two bins, one for
    each outcome, and falls by no more than its gradient, (2 Y, -Y^2), says: a row with outcome y that moves from
    rate Y to Y' changes it by at least 2 y (Y' - Y) - (Y'^2 - Y^2).
    """
    split = split_cells(cells, n_bins)
    if not split.any():
        return 0.0
    table, bins = cells.table, binned.uniform_bin_of(cells.table, n_bins)
    counts, positives = table.counts.astype(np.float64), table.positives.astype(np.float64)

    def rates_and_sum(rows: NDArray[np.bool_]) -> tuple[Float64s, float]:
        n, k = (np.bincount(bins[rows], values[rows], n_bins) for values in (counts, positives))
        rates = np.divide(k, n, out=np.full(n_bins, positives.sum() / counts.sum()), where=n > 0)
        return rates, float(k @ rates)

    rates, value = rates_and_sum(np.ones(len(table), dtype=bool))
    most = rates_and_sum(~split)[1] + float(positives[split].sum())
    inner = binned.uniform_edges(n_bins)[1:-1]
    first = np.searchsorted(inner, cells.low[split], side="right")
    last = np.searchsorted(inner, cells.high[split], side="left")
    before, fall = rates[bins[split]], np.zeros((2, int(split.sum())))
    for step in range(int((last - first).max()) + 1):  # the bins that a cell may reach, one at a time
        after = rates[np.minimum(first + step, last)]
        for y in (0, 1):
            np.minimum(fall[y], 2 * y * (after - before) - (after**2 - before**2), out=fall[y])
    least = value + float((counts - positives)[split] @ fall[0] + positives[split] @ fall[1])
    return max(most - value, value - least) / table.total


def mce_bound(cells: GridCells, n_bins: int, value: float) -> float:
    """Bound the error of the largest gap of the bins with 30 rows, from the least and the largest gap of each bin.

    The predictions certainly in a bin have a mean difference. A bin has at most two split cells, at its two ends. Gaps
    in a split cell are at most u with outcome 0 and u - 1 with outcome 1, and at least l and l - 1. The largest mean
    results from adding the predictions of split cells, largest gap first, as long as the mean grows; the least mean
    likewise. NaN if bins may have 30 rows but none certainly has.
    """
    if not split_cells(cells, n_bins).any():
        return 0.0
    s, _ = _parted(cells, n_bins, -cells.table.residuals)
    n, n_possible = _parted(cells, n_bins, cells.table.counts.astype(np.float64))
    below, above = _ends(cells, n_bins)
    n0, n1, low, high = (np.append(values, 0.0) for values in (cells.n0, cells.n1, cells.low, cells.high))
    ups = [(counts[place], high[place] - y) for y, counts in enumerate((n0, n1)) for place in (above, below)]
    downs = [(counts[place], y - low[place]) for y, counts in ((1, n1), (0, n0)) for place in (below, above)]
    top, bottom = _largest_mean(s, n, ups), -_largest_mean(-s, n, downs)
    top, bottom = np.where(n > 0, top, np.fmax(top, 0.0)), np.where(n > 0, bottom, np.fmin(bottom, 0.0))
    integral = cells.table.whole
    may, sure = (n + n_possible >= binned.LEAST_ROWS) | (not integral), (n >= binned.LEAST_ROWS) & integral
    if not sure.any():
        return math.nan if may.any() else 0.0
    most = float(np.nanmax(np.where(may, np.fmax(np.abs(top), np.abs(bottom)), 0.0)))
    nearest = np.where((bottom <= 0) & (top >= 0), 0.0, np.fmin(np.abs(top), np.abs(bottom)))
    least = float(np.nanmax(np.where(sure, nearest, 0.0)))
    return min(max(most - value, value - least, 0.0), 1.0)


def sized_bound(cells: GridCells, sizes: NDArray[np.int64], norm: Norm, value: float) -> float:
    """Bound the error of `binned.calibration_error` over `binned.sized_bins` of a table on a grid.

    A bin that begins or ends inside a cell takes a share f of its residuals. The predictions could contribute up to
    A, so the bin's sum is off by at most d = (1 + f) A, and all bins together by at most 2 A per cell. By the
    triangle inequality, the maximum is off by at most max d / n, the l2 error by (sum d^2 / n / N)^(1/2).
    """
    counts, size = cells.table.counts, cells.table.total
    stop = np.cumsum(sizes)[sizes > 0]
    start = np.concatenate([[0], stop[:-1]])
    upto = np.cumsum(counts)
    first, last = np.searchsorted(upto, start, side="right"), np.searchsorted(upto, stop, side="left")
    alone = first == last
    begins, ends = upto[first] - counts[first] < start, upto[last] > stop
    doubt = np.where(cells.several, cells.absolute, 0.0)
    shift = np.zeros(len(stop))
    for row, part in ((first, begins | (alone & ends)), (last, ends & ~alone)):
        share = (np.minimum(upto[row], stop) - np.maximum(upto[row] - counts[row], start)) / counts[row]
        shift += np.where(part, (1 + share) * doubt[row], 0.0)
    if norm == "l1":
        cut = np.unique(np.concatenate([first[begins], last[ends]]))
        bound = min(float(shift.sum()), 2 * float(doubt[cut].sum())) / size
    else:
        gaps = shift / (stop - start)
        bound = float(gaps.max()) if norm == "max" else float(np.sqrt(np.sum(gaps * shift) / size))
    return min(bound, max(value, 1.0 - value))  # no error is outside [0, 1]


def _moved(cells: GridCells, split: NDArray[np.bool_]) -> float:
    """Return 2 sum A / N: the most that an l1 error changes if predictions move between bins."""
    return 2 * float(cells.absolute[split].sum()) / cells.table.total


def _parted(cells: GridCells, n_bins: int, values: Float64s) -> tuple[Float64s, Float64s]:
    """Return sums over the predictions certainly in each bin, and over those possibly in it."""
    split = split_cells(cells, n_bins)
    low, high = cells.low[split], cells.high[split]
    inner = binned.uniform_edges(n_bins)[1:-1]
    certain = np.bincount(binned.uniform_bin_of(cells.table, n_bins)[~split], values[~split], n_bins).astype(np.float64)
    possible = np.zeros(n_bins + 1)  # a cell may span many bins: differences at their ends
    np.add.at(possible, np.searchsorted(inner, low, side="right"), values[split])
    np.add.at(possible, np.searchsorted(inner, high, side="left") + 1, -values[split])
    return certain, np.maximum(np.cumsum(possible)[:-1], 0.0)


def _weighted_squares(cells: GridCells, n_bins: int) -> float:
    table, low, high = cells.table, cells.low, cells.high
    hit, missed = (1 - low) ** 2 - (1 - high) ** 2, high**2 - low**2
    weights = table.own_weights
    doubt = np.where(cells.several, weights[0] * missed + weights[1] * hit, 0.0)
    bins = binned.bin_table(table, n_bins)
    squares = np.bincount(binned.uniform_bin_of(cells.table, n_bins), weights.sum(axis=0), n_bins)
    pairs = bins.counts**2 - squares
    by_bin = np.bincount(binned.uniform_bin_of(cells.table, n_bins), doubt, n_bins)
    enough = pairs > 0
    return float(np.sum((by_bin * bins.counts)[enough] / pairs[enough]) / table.total)


def _ends(cells: GridCells, n_bins: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the split cells at the lower and at the upper end of each bin; if absent, the number of cells.

    A cell that spans the complete bin counts only at its upper end.
    """
    split = np.flatnonzero(split_cells(cells, n_bins))
    inner = binned.uniform_edges(n_bins)[1:-1]
    first = np.searchsorted(inner, cells.low[split], side="right")
    edges = np.searchsorted(inner, cells.high[split], side="left") - first
    cut = np.arange(edges.sum()) + np.repeat(first - np.cumsum(edges) + edges, edges)  # bins, by their upper edges
    below, above = np.full((2, n_bins), len(cells.n0))
    above[cut] = below[cut + 1] = np.repeat(split, edges)
    return np.where(below == above, len(cells.n0), below), above


def _largest_mean(s: Float64s, n: Float64s, others: Sequence[tuple[Float64s, Float64s]]) -> Float64s:
    """Return the largest mean of n numbers with sum s and some of ``others``: (count, size), largest size first."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [s / n]
        for count, size in others:
            s, n = s + count * size, n + count
            means.append(s / n)
    return np.asarray(np.fmax.reduce(means))
