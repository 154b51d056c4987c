"""Find the bin or the cell of each score: what `bin_lookup` does for compiled loops; and the types of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]


def bins_of(p: Floats, uppers: Floats) -> NDArray[np.intp]:
    """Return the index of the first bin whose largest member is not below p, for each p."""
    bins: NDArray[np.intp] = np.minimum(np.searchsorted(uppers, p, side="left"), len(uppers) - 1)
    return bins


def cells_of(p: Floats, edges: Floats, starts: UInt16s, shift: int, first: int) -> NDArray[np.intp]:
    """Return the cell of each score, by the `calibrant.grid.Lookup` of the scores' type."""
    buckets = (np.minimum(p, 1 - p).view(f"i{p.itemsize}") >> shift) - first
    cells: NDArray[np.intp] = starts[2 * np.maximum(buckets, 0) + (p > 0.5)].astype(np.intp)
    for _ in range(2):  # a cell is at most two edges above its start
        cells += p > edges.take(cells, mode="clip")
    cells[p == 1] = len(edges)  # in float32 an edge before the last may be 1
    return cells
