"""The coarse cells of [0, 1]: few enough that each bucket of clusters keeps its own sums in all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.table import grid as grids


@dataclass(frozen=True, slots=True)
class CoarseCells:
    """Coarse cells of the scores, and how many buckets have sums in them.

    The E edges are sin(pi j / 2A)^2, j = 0..A, together with i / M, i = 0..M. Cell 0 holds p = 0, cell j in 1..E-1 the
    scores in (edge j-1, edge j]. With ``one_apart``, p = 1 has cell E to itself.

    Attributes
    ----------
    n_arcs : int
        A, a divisor of 4,096; 0 for edges i / M only.
    n_parts : int
        M, a divisor of 300.
    n_buckets : int
        The most clusters with buckets of their own. More of them share this number of buckets.
    one_apart : bool
        Whether p = 1 has its own cell.
    """

    n_arcs: int
    n_parts: int
    n_buckets: int
    one_apart: bool

    @property
    def edges(self) -> NDArray[np.float64]:
        """The edges, (E,), read-only; each is an edge of the standard grid."""
        return _edges(self)

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.edges) + self.one_apart

    def of_grid(self, grid: grids.Grid) -> NDArray[np.uint16]:
        """Return the coarse cell of each cell of a grid, (cells of the grid,), read-only."""
        return _of_grid(self, grid)

    def of_scores(self, scores: NDArray[np.floating]) -> NDArray[np.uint16]:
        """Return the coarse cell of each score; scores of float32 are compared with the edges rounded to float32."""
        return self.of_grid("standard")[grids.cell_of(scores, "standard")]


#: The cells of a judged event: 256 buckets x 428 cells.
EVENT_CELLS: Final = CoarseCells(n_arcs=128, n_parts=300, n_buckets=256, one_apart=True)

#: The cells of one class among many: 32 buckets x 61 cells.
CLASS_CELLS: Final = CoarseCells(n_arcs=0, n_parts=60, n_buckets=32, one_apart=False)


@cache
def _edges(cells: CoarseCells) -> NDArray[np.float64]:
    """Return the edges of the standard grid that are nearest to the formula's, which is rounded differently."""
    arcs = np.sin(np.pi * np.arange(cells.n_arcs + 1) / (2 * max(cells.n_arcs, 1))) ** 2
    wanted = np.concatenate([arcs, np.arange(cells.n_parts + 1) / cells.n_parts])
    fine = grids.edges("standard")
    edges = np.unique(fine[np.abs(fine - wanted[:, np.newaxis]).argmin(axis=1)])
    edges.setflags(write=False)
    return edges


@cache
def _of_grid(cells: CoarseCells, grid: grids.Grid) -> NDArray[np.uint16]:
    fine = grids.edges(grid)
    coarse = np.append(np.searchsorted(cells.edges, fine), cells.n_cells - 1).astype(np.uint16)
    coarse.setflags(write=False)
    return coarse
