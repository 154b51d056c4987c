"""The monotone sweep: as many equal-mass bins as leave the outcome rates increasing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Norm
from calibrant.measures.isotonic.isotonic import isotonic_fit
from calibrant.table import ReliabilityTable

_UNITS: Final = 1 << 40  # that weights which are not integers are counted in
_LARGEST: Final = 1 << 62  # product of a rank and a number of bins
_ROUNDING: Final = 1e-12  # of the rates of such weights


def sweep_error(table: ReliabilityTable, norm: Norm) -> float:
    """Return the calibration error over the most equal-mass bins before the rates of two neighbours decrease."""
    starts, pooled = np.arange(len(table)), _decreasing(table)
    if pooled.size:  # else the rates of all scores increase, and so do those of any bins
        ranks = _Ranks.of(table)
        starts = np.flatnonzero(np.diff(ranks.bins(ranks.most_increasing(table, pooled)), prepend=-1))
    counts = np.add.reduceat(table.counts, starts).astype(np.float64)
    gap_sums = -np.add.reduceat(table.residuals, starts)
    if norm == "l1":
        return float(binned.absolute_error(gap_sums, table.total))
    if norm == "l2":
        return float(binned.root_square_error(gap_sums, counts, table.total))
    return float(binned.largest_gap(gap_sums, counts))


def _decreasing(table: ReliabilityTable) -> NDArray[np.intp]:
    """Return the first and the last row of each block of the isotonic fit in which rates decrease, (2, blocks)."""
    fit = isotonic_fit(table)
    sizes = np.diff(fit.starts, append=len(table))
    differ = table.positives / table.counts < np.repeat(fit.values, sizes) - _tolerance(table)
    several = np.logical_or.reduceat(differ, fit.starts)
    return np.stack([fit.starts, fit.starts + sizes - 1])[:, several]


def _tolerance(table: ReliabilityTable) -> float:
    """Return how far two rates that are equal may be apart by rounding."""
    return 0.0 if table.whole else _ROUNDING


@dataclass(frozen=True, eq=False, slots=True)
class _Ranks:
    """The middle rank of each row of a table, (K,), below ``end``; ``most`` is the largest number of bins.

    Row i is in bin floor(b rank_i / end) of b. Both are integers: twice the ranks from 0 of rows, with the mean rank
    for ties. Weights that are not integers are counted in small units.
    """

    middle: NDArray[np.int64]
    end: int
    most: int

    @classmethod
    def of(cls, table: ReliabilityTable) -> _Ranks:
        counts, n = table.counts, table.n
        if table.whole:
            middle = (2 * np.cumsum(counts) - counts - 1).astype(np.int64)
            end, n = 2 * int(counts.sum()), int(counts.sum())
        else:
            share = (np.cumsum(counts) - counts / 2) / counts.sum()
            middle, end = (share * _UNITS).astype(np.int64), _UNITS
        return cls(middle, end, min(n, _LARGEST // end))

    def bins(self, n_bins: int, rows: Any = slice(None)) -> NDArray[np.int64]:
        """Return the bin of each row."""
        return np.asarray(n_bins * self.middle[rows] // self.end)

    def first_row(self, n_bins: int, bins: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the first row that is in one of these bins or in a later one."""
        return np.searchsorted(self.middle, -(-bins * self.end // n_bins))

    def most_increasing(self, table: ReliabilityTable, pooled: NDArray[np.intp]) -> int:
        """Return the last number of bins before the first at which the rate of a bin is below that of the one before.

        ``pooled`` are the first and last rows of the blocks of the isotonic fit in which rates decrease. The front of
        a block has a rate above the block's, the rest one below. So the rate decreases only where an edge between two
        bins cuts a block: only these edges are looked at.
        """
        low, high = self.middle[pooled]
        counts, positives = (np.append(0, np.cumsum(column)) for column in (table.counts, table.positives))
        for n_bins in range(2, self.most + 1):
            before, after = n_bins * low // self.end, n_bins * high // self.end
            edges = after - before
            if not edges.any():
                continue
            earlier = np.repeat(np.cumsum(edges) - edges - before, edges)
            rows = self.first_row(n_bins, np.arange(len(earlier)) - earlier + 1)
            left, right = self.bins(n_bins, rows - 1), self.bins(n_bins, rows)
            bounds = np.stack([self.first_row(n_bins, left), rows, self.first_row(n_bins, right + 1)])
            rates = np.diff(positives[bounds], axis=0) / np.diff(counts[bounds], axis=0)
            if (rates[1] < rates[0] - _tolerance(table)).any():
                return n_bins - 1
        return self.most
