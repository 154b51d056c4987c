"""The fixed cells of [0, 1] that sketches and engines share.

The edges are sin(pi j / 2K)^2, j = 0..K, together with i / M, i = 0..M: (K, M) = (4096, 300) for the ``standard`` grid,
(16384, 3600) for the ``fine`` one. The arcsine map stabilises the variance of a proportion, so cells are narrow near 0
and 1, for rare events and saturated networks. The i / M make a histogram exact if its number of bins divides M. The
package ships the edges, correctly rounded (`tools/make_grid.py`), because sine functions of different libraries differ
in the last bit.

With E edges, cell 0 holds p = 0, cell j in 1..E-1 the scores in (edge j-1, edge j] except 1, and cell E holds p = 1.
"""

from __future__ import annotations

import encodings.cp437  # noqa: F401 - zipfile imports it at its first use, where a fork may come in between
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, check_choice

Grid = Literal["standard", "fine"]

GRIDS: Final = {
    "standard": "3bf9e97c1e2934eefeffcbb4534944ab6d5b2df62cb0c19f133813e3823636b2",
    "fine": "1a899869f5ff4680846a3572ffa2ada3e88c23866dcd34ceb0c6ea566b1d6047",
}


@cache
def edges(grid: Grid) -> NDArray[np.float64]:
    """Return the edges of a grid, read-only; reject a file with another checksum than the one in this code."""
    check_choice("grid", grid, GRIDS)
    with (files(__package__) / "grid_edges.npz").open("rb") as file, np.load(file) as tables:
        table: NDArray[np.float64] = tables[grid]
    if hashlib.sha256(table.tobytes()).hexdigest() != GRIDS[grid]:
        msg = "the grid's edge table is damaged; reinstall calibrant"
        raise CalibrantError(msg)
    table.setflags(write=False)
    return table


class Lookup(NamedTuple):
    """How a kernel finds the cell of a score: a start cell from the bits of min(p, 1 - p), then the edges.

    Both p and 1 - p are exact below a half, so the leading bits of the smaller one locate the score relative to its
    distance from the nearer end. ``starts`` (2B,) holds two cells for each value of these bits: the cell of the
    smallest score up to a half, then the cell of the smallest score above a half. The score's cell is at most two edges
    above that. ``shift`` cuts the bits off; ``first`` is the value of the bits for the smallest resolved distance.
    """

    edges: NDArray[np.floating[Any]]
    starts: NDArray[np.uint16]
    shift: int
    first: int


#: For each grid: the power of two below its smallest edge, and how many mantissa bits separate neighbours.
_LOOKUPS: Final = {"standard": (-23, 11), "fine": (-27, 13)}


@cache
def lookup(grid: Grid, dtype: np.dtype[Any]) -> Lookup:
    """Return the lookup of a grid for scores of float32 or float64; the edges are rounded to that type."""
    table = edges(grid).astype(dtype)
    smallest, mantissa_bits = _LOOKUPS[grid]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    shift = np.finfo(dtype).nmant - mantissa_bits
    first, last = (int(np.array(end, dtype).view(unsigned)) >> shift for end in (2.0**smallest, 0.5))
    bounds = np.left_shift(np.arange(first, last + 2), shift).astype(unsigned).view(dtype).astype(np.float64)
    bounds[0] = 0.0  # all smaller distances share the first bucket
    wide = table.astype(np.float64)
    sides = [np.searchsorted(wide, ends, side="left") for ends in (bounds[:-1], 1 - bounds[1:])]
    starts = np.stack(sides, axis=1).reshape(-1).astype(np.uint16)
    for array in (table, starts):
        array.setflags(write=False)
    return Lookup(table, starts, shift, first)


def cell_of(scores: NDArray[np.floating[Any]], grid: Grid) -> NDArray[np.int64]:
    """Return the cell of each score; scores of float32 are compared with the edges rounded to float32."""
    table = edges(grid).astype(scores.dtype)
    cells = np.searchsorted(table, scores, side="left")
    return np.asarray(np.where(scores == 1, len(table), cells), dtype=np.int64)


def ends_of(cells: NDArray[np.int64], grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of each cell (low, high]; for the cells of p = 0 and p = 1 both are equal."""
    table = edges(grid)
    last = len(table) - 1
    low = np.where(cells > last, 1.0, table[np.clip(cells - 1, 0, last)])
    return low, table[np.minimum(cells, last)]
