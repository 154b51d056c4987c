"""The frozen cells of [0, 1] that sketches and engines share.

The edges are sin(pi j / 2K)^2, j = 0..K, together with i / M, i = 0..M: (K, M) = (4096, 300) for the ``standard`` grid,
(16384, 3600) for the ``fine`` one. The arcsine map stabilises the variance of a proportion, so cells are narrow where
rare events and saturated networks need it; the i / M make every histogram whose number of bins divides M exact. The
table is shipped correctly rounded (`tools/make_grid.py`) because sine functions differ in the last bit between
libraries.

Cell 0 holds p = 0, cell j in 1..E-1 the scores in (edge j-1, edge j] but for 1, and cell E holds p = 1, with E edges.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

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
    """Return the edges of a grid, read-only; refuses a table whose checksum is not the one this code was made with."""
    check_choice("grid", grid, GRIDS)
    with (files("calibrant") / "grid_edges.npz").open("rb") as file, np.load(file) as tables:
        table: NDArray[np.float64] = tables[grid]
    if hashlib.sha256(table.tobytes()).hexdigest() != GRIDS[grid]:
        msg = "the grid's edge table is damaged; reinstall calibrant"
        raise CalibrantError(msg)
    table.setflags(write=False)
    return table


def cell_of(scores: NDArray[np.floating[Any]], grid: Grid) -> NDArray[np.int64]:
    """Return the cell of each score; scores of float32 are compared with the edges rounded to float32."""
    table = edges(grid).astype(scores.dtype)
    cells = np.searchsorted(table, scores, side="left")
    return np.asarray(np.where(scores == 1, len(table), cells), dtype=np.int64)
