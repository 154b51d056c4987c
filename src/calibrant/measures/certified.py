"""Bound how far a number from the cells of a grid can be from the number of the predictions; the bounds always hold.

A table on a grid has for each cell (l, u] the number of predictions by outcome, n0 and n1, the sums of their scores,
S0 and S1, and the sum Q of all squared scores. This gives the sum of residuals r = y - p, n1 - S0 - S1, and the sum of
their absolute values, A = S0 + n1 - S1. No bound assumes where in a cell the scores lie. The cells of p = 0 and p = 1
hold one score each, so they are exact.

Scores of float32 are counted by edges rounded to float32. So a score may lie outside its cell by half a unit of its
last place: the bounds treat cells as wider by that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.scores import mean_score
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Closed, Norm
from calibrant.measures.cumulative import cumulative
from calibrant.measures.isotonic import isotonic
from calibrant.measures.smooth import smooth
from calibrant.measures.smooth.smooth import SmoothError
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.table import CellSums, ReliabilityTable

_SECOND: Final = 4 * math.exp(-0.5) / math.sqrt(2 * math.pi)  # the integral of |phi''|: .968
_FIRST: Final = math.sqrt(2 / math.pi)  # the integral of |phi'|
_SINGLE: Final = 2.0**-24  # half a unit in the last place of a float32, relative


def _largest_mean(s: Float64s, n: Float64s, others: Sequence[tuple[Float64s, Float64s]]) -> Float64s:
    """Return the largest mean of n numbers with sum s and some of ``others``: (count, size), largest size first."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [s / n]
        for count, size in others:
            s, n = s + count * size, n + count
            means.append(s / n)
    return np.asarray(np.fmax.reduce(means))


@dataclass(frozen=True, eq=False)
class Certified:
    """The certified errors of one table on a grid."""

    table: ReliabilityTable
    cells: CellSums

    @classmethod
    def of(cls, table: ReliabilityTable) -> Certified | None:
        """Return the certified errors of a table; None for an exact table."""
        return None if table.cell_sums is None else cls(table, table.cell_sums)

    @cached_property
    def absolute(self) -> Float64s:
        """A, the sum of the absolute residuals in each row's cell."""
        cells = self.cells
        return np.maximum(cells.s0 + cells.n1 - cells.s1, 0.0)

    # ------------------------------------------------------------ scores of predictions

    def accuracy(self, value: float) -> float:
        """Bound the error of the share of right answers: a score of .5 predicts 1, lower scores in its cell 0."""
        doubt = self.table.counts[self.cells.high == 0.5].sum() / self.table.total
        return float(min(doubt, max(value, 1 - value)))

    def log_loss(self) -> tuple[float, float]:
        """Return the least log loss that the sums allow, and how much larger it can be.

        The losses -log p of n1 predictions with mean score m in a cell sum to at least -n1 log m (Jensen), and at most
        to n1 times the chord between the cell's ends, at m.
        """
        least, most = 0.0, 0.0
        cells = self.cells
        missed = (cells.n0, cells.n0 - cells.s0, 1 - cells.high, 1 - cells.low)
        for n, sums, low, high in ((cells.n1, cells.s1, cells.low, cells.high), missed):
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = np.clip(sums / n, low, high)
                share = np.where(high > low, (high - mean) / (high - low), 0.0)
                chord = -(np.where(share > 0, share * np.log(low), 0.0) + (1 - share) * np.log(high))
                least += float(np.sum(np.where(n > 0, -n * np.log(mean), 0.0)))
                most += float(np.sum(np.where(n > 0, n * chord, 0.0)))
        if math.isinf(least):
            return math.inf, 0.0
        return least / self.table.total, max(most - least, 0.0) / self.table.total

    # ------------------------------------------------------------ bins

    def split(self, n_bins: int, closed: Closed = "right") -> NDArray[np.bool_]:
        """Return the rows whose cells contain an edge of equal-width bins."""
        inner = binned.uniform_edges(n_bins)[1:-1]
        side: Any = "left" if closed == "right" else "right"
        first = np.searchsorted(inner, self.cells.low, side="right")
        return np.asarray(first < np.searchsorted(inner, self.cells.high, side=side))

    def split_by_mass(self, n_bins: int) -> NDArray[np.bool_]:
        """Return the rows whose cells may belong to several bins of equal mass.

        M (C - w / 2) / W decides the bin of a score with weight w and cumulative weight C; it is between its values at
        the cell's ends.
        """
        counts, slack = self.table.counts, 0.0 if self.table.counts.dtype.kind == "i" else 1e-12
        upto = np.cumsum(counts)
        first = np.floor(n_bins * (upto - counts) / upto[-1] * (1 - slack))
        last = np.ceil(n_bins * upto / upto[-1] * (1 + slack)) - 1
        return np.asarray((first < np.minimum(last, n_bins - 1)) & self.cells.several)

    def _moved(self, split: NDArray[np.bool_]) -> float:
        """Return 2 sum A / N: the most that an l1 error changes if predictions move between bins."""
        return 2 * float(self.absolute[split].sum()) / self.table.total

    def ece(self, n_bins: int, closed: Closed = "right") -> float:
        """Bound the error of the l1 error of equal-width bins: 0 if their edges are on the grid."""
        return self._moved(self.split(n_bins, closed))

    def ace(self, n_bins: int) -> float:
        """Bound the error of the l1 error of equal-mass bins."""
        return self._moved(self.split_by_mass(n_bins))

    def _parted(self, n_bins: int, values: Float64s) -> tuple[Float64s, Float64s]:
        """Return sums over the predictions certainly in each bin, and over those possibly in it."""
        split = self.split(n_bins)
        low, high = self.cells.low[split], self.cells.high[split]
        inner = binned.uniform_edges(n_bins)[1:-1]
        certain = np.bincount(self._bins(n_bins)[~split], values[~split], n_bins).astype(np.float64)
        possible = np.zeros(n_bins + 1)  # a cell may span many bins: differences at their ends
        np.add.at(possible, np.searchsorted(inner, low, side="right"), values[split])
        np.add.at(possible, np.searchsorted(inner, high, side="left") + 1, -values[split])
        return certain, np.maximum(np.cumsum(possible)[:-1], 0.0)

    def _bins(self, n_bins: int) -> NDArray[np.intp]:
        return binned.uniform_bin_of(self.table, n_bins)

    def rmsce(self, n_bins: int, value: float) -> float:
        """Bound the error of the l2 error of equal-width bins.

        A bin has S and n for certain, and A, n' and sums of squares R in split cells. S^2 / n grows by at most R
        (Cauchy-Schwarz), and is at least max(|S| - A, 0)^2 / (n + n').
        """
        if not self.split(n_bins).any():
            return 0.0
        certain, _ = self._parted(n_bins, self.table.residuals)
        n, n_possible = self._parted(n_bins, self.table.counts.astype(np.float64))
        _, moved = self._parted(n_bins, self.absolute)
        squares = float(self.table.square_residuals[self.split(n_bins)].sum())
        filled = n > 0
        most = float(np.sum(certain[filled] ** 2 / n[filled])) + squares
        least = float(np.sum(np.maximum(np.abs(certain[filled]) - moved[filled], 0) ** 2 / (n + n_possible)[filled]))
        ends = math.sqrt(most / self.table.total), math.sqrt(least / self.table.total)
        return min(max(ends[0] - value, value - ends[1], 0.0), max(value, 1.0 - value))

    def resolution(self, n_bins: int) -> float:
        """Bound the error of the sum of k^2 / n over equal-width bins, divided by N: the resolution, up to a constant.

        The sum is convex in the bins' sums (k, n), so that it grows most if each split cell becomes two bins, one for
        each outcome, and falls by no more than its gradient, (2 Y, -Y^2), says: a row with outcome y that moves from
        rate Y to Y' changes it by at least 2 y (Y' - Y) - (Y'^2 - Y^2).
        """
        split = self.split(n_bins)
        if not split.any():
            return 0.0
        table, bins = self.table, self._bins(n_bins)
        counts, positives = table.counts.astype(np.float64), table.positives.astype(np.float64)

        def rates_and_sum(rows: NDArray[np.bool_]) -> tuple[Float64s, float]:
            n, k = (np.bincount(bins[rows], values[rows], n_bins) for values in (counts, positives))
            rates = np.divide(k, n, out=np.full(n_bins, positives.sum() / counts.sum()), where=n > 0)
            return rates, float(k @ rates)

        rates, value = rates_and_sum(np.ones(len(table), dtype=bool))
        most = rates_and_sum(~split)[1] + float(positives[split].sum())
        inner = binned.uniform_edges(n_bins)[1:-1]
        first = np.searchsorted(inner, self.cells.low[split], side="right")
        last = np.searchsorted(inner, self.cells.high[split], side="left")
        own, fall = rates[bins[split]], np.zeros((2, int(split.sum())))
        for step in range(int((last - first).max()) + 1):  # the bins that a cell may reach, one at a time
            other = rates[np.minimum(first + step, last)]
            for y in (0, 1):
                np.minimum(fall[y], 2 * y * (other - own) - (other**2 - own**2), out=fall[y])
        least = value + float((counts - positives)[split] @ fall[0] + positives[split] @ fall[1])
        return max(most - value, value - least) / table.total

    def debiased_square(self, n_bins: int, value: float) -> float:
        """Bound the error of the debiased squared l2 error: interval arithmetic over its bins.

        If weights are not integers, the squares of single predictions use the cells' mean scores: the most that this
        changes is added.
        """
        widest = 1.0 + abs(value)  # it is between -1 and 1
        table, split = self.table, self.split(n_bins)
        if not table.whole:
            return widest if split.any() else min(self._weighted_squares(n_bins), widest)
        if not split.any():
            return 0.0
        s, _ = self._parted(n_bins, table.residuals)
        n, n_possible = self._parted(n_bins, table.counts.astype(np.float64))
        _, moved = self._parted(n_bins, self.absolute)
        q, q_possible = self._parted(n_bins, table.square_residuals)
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

    def _weighted_squares(self, n_bins: int) -> float:
        table, low, high = self.table, self.cells.low, self.cells.high
        hit, missed = (1 - low) ** 2 - (1 - high) ** 2, high**2 - low**2
        weights = table.own_weights
        doubt = np.where(self.cells.several, weights[0] * missed + weights[1] * hit, 0.0)
        bins = binned.bin_table(table, n_bins)
        squares = np.bincount(self._bins(n_bins), weights.sum(axis=0), n_bins)
        pairs = bins.counts**2 - squares
        by_bin = np.bincount(self._bins(n_bins), doubt, n_bins)
        enough = pairs > 0
        return float(np.sum((by_bin * bins.counts)[enough] / pairs[enough]) / table.total)

    def mce(self, n_bins: int, value: float) -> float:
        """Bound the error of the largest gap of the bins with 30 rows, from the least and the largest gap of each bin.

        The predictions certainly in a bin have a mean gap. A bin has at most two split cells, at its two ends. Gaps in
        a split cell are at most u with outcome 0 and u - 1 with outcome 1, and at least l and l - 1. The largest mean
        results from adding the predictions of split cells, largest gap first, as long as the mean grows; the least mean
        likewise. NaN if bins may have 30 rows but none certainly has.
        """
        if not self.split(n_bins).any():
            return 0.0
        cells = self.cells
        s, _ = self._parted(n_bins, -self.table.residuals)
        n, n_possible = self._parted(n_bins, self.table.counts.astype(np.float64))
        below, above = self._ends(n_bins)
        n0, n1, low, high = (np.append(values, 0.0) for values in (cells.n0, cells.n1, cells.low, cells.high))
        ups = [(counts[place], high[place] - y) for y, counts in enumerate((n0, n1)) for place in (above, below)]
        downs = [(counts[place], y - low[place]) for y, counts in ((1, n1), (0, n0)) for place in (below, above)]
        top, bottom = _largest_mean(s, n, ups), -_largest_mean(-s, n, downs)
        top, bottom = np.where(n > 0, top, np.fmax(top, 0.0)), np.where(n > 0, bottom, np.fmin(bottom, 0.0))
        integral = self.table.whole
        may, sure = (n + n_possible >= binned.LEAST_ROWS) | (not integral), (n >= binned.LEAST_ROWS) & integral
        if not sure.any():
            return math.nan if may.any() else 0.0
        most = float(np.nanmax(np.where(may, np.fmax(np.abs(top), np.abs(bottom)), 0.0)))
        nearest = np.where((bottom <= 0) & (top >= 0), 0.0, np.fmin(np.abs(top), np.abs(bottom)))
        least = float(np.nanmax(np.where(sure, nearest, 0.0)))
        return min(max(most - value, value - least, 0.0), 1.0)

    def _ends(self, n_bins: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the split cells at the lower and at the upper end of each bin; if absent, the number of cells.

        A cell that spans the complete bin counts only at its upper end.
        """
        split = np.flatnonzero(self.split(n_bins))
        inner = binned.uniform_edges(n_bins)[1:-1]
        first = np.searchsorted(inner, self.cells.low[split], side="right")
        edges = np.searchsorted(inner, self.cells.high[split], side="left") - first
        cut = np.arange(edges.sum()) + np.repeat(first - np.cumsum(edges) + edges, edges)  # bins, by their upper edges
        below, above = np.full((2, n_bins), len(self.cells.n0))
        above[cut] = below[cut + 1] = np.repeat(split, edges)
        return np.where(below == above, len(self.cells.n0), below), above

    def sized(self, sizes: NDArray[np.int64], norm: Norm, value: float) -> float:
        """Bound the error of `binned.calibration_error` over `binned.sized_bins` of a table on a grid.

        A bin that begins or ends inside a cell takes a share f of its residuals. The predictions could contribute up to
        A, so the bin's sum is off by at most d = (1 + f) A, and all bins together by at most 2 A per cell. By the
        triangle inequality, the maximum is off by at most max d / n, the l2 error by (sum d^2 / n / N)^(1/2).
        """
        counts, size = self.table.counts, self.table.total
        stop = np.cumsum(sizes)[sizes > 0]
        start = np.concatenate([[0], stop[:-1]])
        upto = np.cumsum(counts)
        first, last = np.searchsorted(upto, start, side="right"), np.searchsorted(upto, stop, side="left")
        alone = first == last
        begins, ends = upto[first] - counts[first] < start, upto[last] > stop
        doubt = np.where(self.cells.several, self.absolute, 0.0)
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

    # ------------------------------------------------------------ curves

    @property
    def _rounding(self) -> float:
        """The most that the rounding of sums over all rows changes a mean of numbers up to 1."""
        return self.table.n * 2.0**-52

    def smooth_error(self) -> SmoothError:
        """Return the smooth calibration error with its bound.

        The residuals of each cell move to its two ends, and keep their sum and first moment, S1 - Q. This replaces the
        kernel in a cell of width w by a linear interpolant. Its error is at most the second derivative times w^2 / 8,
        and at most the first times w / 2. S is off by at most sum A min(.968 (w / s)^2 / 8, .798 (w / s) / 2, 2) / N. S
        falls, so the root moves by no more.
        """
        error = smooth.smooth_error(*self._tents(), self.table.total)
        return SmoothError(error.value, error.error_bound + self.smooth_at(error.value))

    def smooth_integral(self, bandwidth: float) -> SmoothError:
        """Return S at a fixed bandwidth with its bound."""
        error = smooth.smooth_error_at(*self._tents(), self.table.total, bandwidth)
        return SmoothError(error.value, error.error_bound + self.smooth_at(bandwidth))

    def smooth_at(self, bandwidth: float) -> float:
        """Bound the change of S by the cells at a bandwidth."""
        low, high = self.cells.low, self.cells.high
        width = (high - low + 2 * _SINGLE * high) / max(bandwidth, 1e-100)
        each = np.minimum(np.minimum(_SECOND / 8 * width**2, _FIRST / 2 * width), 2.0)
        return float(np.sum((self.absolute * each)[self.cells.several])) / self.table.total

    def _tents(self) -> tuple[Float64s, Float64s]:
        """Return the edges and the residuals that move to them."""
        cells, several, sums = self.cells, self.cells.several, self.table.residuals
        low, high = cells.low[several], cells.high[several]
        first = (cells.s1 - cells.squares)[several] - low * sums[several]
        most = 2 * self.absolute[several]
        upper = np.clip(first / (high - low), -most, most)  # beyond it is only the rounding of a narrow cell
        places = np.concatenate([low, high, self.table.scores[~several]])
        laid = np.concatenate([sums[several] - upper, upper, sums[~several]])
        distinct, at = np.unique(places, return_inverse=True)
        return distinct, np.bincount(at, laid, len(distinct)).astype(np.float64, copy=False)

    def ks(self) -> float:
        """Bound the error of max |C|: within a cell C rises by at most n1 - S1 and falls by at most S0."""
        cells, sums = self.cells, np.cumsum(self.table.residuals)
        before = sums - self.table.residuals
        inside = np.maximum(np.abs(before + cells.n1 - cells.s1), np.abs(before - cells.s0))[cells.several]
        most = float(inside.max(initial=0.0)) / self.table.total
        return max(most - cumulative.ks_error(self.table), 0.0) + self._rounding

    def kuiper(self) -> float:
        """Bound by how much the range of C is larger than that of the cells, which it is never below: as `ks`."""
        cells, sums = self.cells, np.cumsum(self.table.residuals)
        before = sums - self.table.residuals
        most = np.where(cells.several, before + cells.n1 - cells.s1, sums)
        least = np.where(cells.several, before - cells.s0, sums)
        widest = max(float(sums.max()), float(most.max()), 0.0) - min(float(sums.min()), float(least.min()), 0.0)
        return max(widest / self.table.total - cumulative.kuiper_error(self.table), 0.0) + self._rounding

    def area(self) -> float:
        """Bound the error of the area under the ROC curve: in a cell the pairs may all be right, or all wrong."""
        cells = self.cells
        pairs = float(cells.n0.sum()) * float(cells.n1.sum())
        tied = float((cells.n0 * cells.n1.astype(np.float64))[cells.several].sum())
        return tied / (2 * pairs) + self._rounding if pairs > 0 else 0.0

    def recalibrated(self) -> float:
        """Bound the error of the Brier score of the isotonic fit, and so of MCB and DSC.

        The fit to cells scores no better than the fit to distinct scores. The fit to cells with zeros before ones
        scores no worse.
        """
        table, several, n0, n1 = self.table, self.cells.several, self.cells.n0, self.cells.n1
        counts = np.stack([np.where(several, n0, n0 + n1), np.where(several, n1, 0.0)], axis=1).reshape(-1)
        positives = np.stack([np.where(several, 0.0, n1), np.where(several, n1, 0.0)], axis=1).reshape(-1)
        filled = counts > 0
        best = isotonic.fit_of(counts[filled], positives[filled])
        fit = isotonic.isotonic_fit(table)
        scores = [mean_score("brier", f.values, f.counts, f.positives, table.total) for f in (fit, best)]
        return max(scores[0] - scores[1], 0.0) + self._rounding
