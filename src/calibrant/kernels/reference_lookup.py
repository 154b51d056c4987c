"""Find the bin or the cell of each score: what `inlined` does for compiled loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Floats, UInt16s

#: p M times this is never above the bin of p, and at most one bin below, for M up to a million equal bins: rounding the
#: edge, the factor and the product to single precision changes it by less than a part in 2^22, and 2^-21 M is below 1.
LOWERED = 1 - 2.0**-21

_MANY = 1 << 11  # scores
_EVEN = 1e-3  # bins that the largest member of one may be off for bins of equal width


def bins_of(p: Floats, uppers: Floats) -> NDArray[np.intp]:
    """Return the index of the first bin whose largest member is not below p, for each p; p is in [0, 1].

    For many scores and bins of equal width, arithmetic takes less than a binary search; see `LOWERED`.
    """
    n_bins = len(uppers)
    if p.size < _MANY or np.abs(n_bins * uppers.astype(np.float64) - np.arange(1, n_bins + 1)).max() > _EVEN:
        return np.asarray(np.minimum(np.searchsorted(uppers, p, side="left"), n_bins - 1))
    bins = (p * p.dtype.type(n_bins * LOWERED)).astype(np.intp)
    bins += p > uppers.take(bins)
    return np.asarray(bins)


def cells_of(p: Floats, edges: Floats, starts: UInt16s, shift: int, first: int) -> NDArray[np.intp]:
    """Return the cell of each score, by the `table.grid.Lookup` of the scores' type."""
    buckets = (np.minimum(p, 1 - p).view(f"i{p.itemsize}") >> shift) - first
    cells: NDArray[np.intp] = starts[2 * np.maximum(buckets, 0) + (p > 0.5)].astype(np.intp)
    for _ in range(2):  # a cell is at most two edges above its start
        cells += p > edges.take(cells, mode="clip")
    cells[p == 1] = len(edges)  # in float32 an edge before the last may be 1
    return cells
