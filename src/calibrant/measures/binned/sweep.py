"""The monotone sweep calibration error: bins as many as leave the observed frequencies increasing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import check_choice
from calibrant.inputs.predictions import Notion
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import NORMS, Norm
from calibrant.measures.isotonic.isotonic import isotonic_fit
from calibrant.measures.read_arguments import event_table
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.table import ReliabilityTable


def monotone_sweep_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    norm: Norm = "l1",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the monotone sweep calibration error: that of equal-mass bins whose number the data choose.

    For 2, 3, ... bins of equal frequency, the sweep stops at the first number for which a bin has a lower observed
    frequency than the bin before, and uses one bin less. With b bins, a score is in bin :math:`\lfloor b\, i / N
    \rfloor`, i being the mean rank of its rows, from 0. If the rates of the distinct scores never fall, each score is a
    bin of its own. The error is that of `expected_calibration_error` over these bins: in [0, 1], in units of
    probability; lower is better.

    It misleads near calibration: the outcomes choose the number of bins, so its value there is noise.

    Ties are never split, so the order of the rows plays no part; a row of weight 2 is two rows. Weights that are not
    whole count as many small equal ones, and there are at most as many bins as rows. The cells of a sketch are never
    split, so the number of bins may differ from the one that the rows would give. The authors' program takes the norm
    l2 by default. Parameters and errors are those of `expected_calibration_error`, for one evaluated event.

    Notes
    -----
    Cost: one read and one sort of N integers, then at most O(b) for each number of bins b. It takes longest if one
    pair of rows alone is out of order: then nearly every number of bins is tried.

    References
    ----------
    Roelofs, Cain, Shlens, Mozer (2022), arXiv 2012.08668.

    Examples
    --------
    >>> import calibrant
    >>> scores, outcomes = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1]
    >>> round(calibrant.monotone_sweep_calibration_error(scores, outcomes), 12)  # 3 bins; 4 bins have rates 0, 1, 0, 1
    0.133333333333
    """
    check_choice("norm", norm, NORMS)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return sweep_error(event_table(arguments, "the monotone sweep calibration error"), norm)


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
    return binned.norm_of_gaps(norm, gap_sums, counts, table.total)


def _decreasing(table: ReliabilityTable) -> NDArray[np.intp]:
    """Return the first and the last row of each block of the isotonic fit in which rates decrease, (2, blocks)."""
    fit = isotonic_fit(table.counts, table.positives)
    sizes = np.diff(fit.starts, append=len(table))
    differ = table.positives / table.counts < np.repeat(fit.values, sizes) - _tolerance(table)
    several = np.logical_or.reduceat(differ, fit.starts)
    return np.stack([fit.starts, fit.starts + sizes - 1])[:, several]


def _tolerance(table: ReliabilityTable) -> float:
    """Return how far two rates that are equal may be apart by rounding."""
    return 0.0 if table.whole else _ROUNDING


@dataclass(frozen=True, eq=False)
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
