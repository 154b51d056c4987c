"""How far smooth errors of a grid's cells can be from those of the predictions.

Scores of float32 are counted by edges rounded to float32. So a score may lie outside its cell by half a unit of its
last place: the bounds treat cells as wider by that.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.measures.event import Event
from calibrant.measures.grid_cells import GridCells
from calibrant.measures.smooth import smooth
from calibrant.measures.smooth.smooth import SmoothError
from calibrant.runtime.arrays import Float64s
from calibrant.table import ReliabilityTable

_SECOND: Final = 4 * math.exp(-0.5) / math.sqrt(2 * math.pi)  # the integral of |phi''|: .968
_FIRST: Final = math.sqrt(2 / math.pi)  # the integral of |phi'|
_SINGLE: Final = 2.0**-24  # half a unit in the last place of a float32, relative


def certified_error(cells: GridCells) -> SmoothError:
    """Return the smooth calibration error with its bound.

    The residuals of each cell move to its two ends, and keep their sum and first moment, S1 - Q. This replaces the
    kernel in a cell of width w by a linear interpolant. Its error is at most the second derivative times w^2 / 8,
    and at most the first times w / 2. S is off by at most sum A min(.968 (w / s)^2 / 8, .798 (w / s) / 2, 2) / N. S
    falls, so the root moves by no more.
    """
    error = smooth.smooth_error(*_tents(cells), cells.table.total)
    return SmoothError(error.value, error.error_bound + kernel_bound(cells, error.value))


def certified_integral(cells: GridCells, bandwidth: float) -> SmoothError:
    """Return S at a fixed bandwidth with its bound."""
    error = smooth.smooth_error_at(*_tents(cells), cells.table.total, bandwidth)
    return SmoothError(error.value, error.error_bound + kernel_bound(cells, bandwidth))


def kernel_bound(cells: GridCells, bandwidth: float) -> float:
    """Bound the change of S by the cells at a bandwidth."""
    low, high = cells.sums.low, cells.sums.high
    width = (high - low + 2 * _SINGLE * high) / max(bandwidth, 1e-100)
    each = np.minimum(np.minimum(_SECOND / 8 * width**2, _FIRST / 2 * width), 2.0)
    return float(np.sum((cells.absolute * each)[cells.sums.several])) / cells.table.total


def _tents(cells: GridCells) -> tuple[Float64s, Float64s]:
    """Return the edges and the residuals that move to them."""
    several, sums = cells.sums.several, cells.table.residuals
    low, high = cells.sums.low[several], cells.sums.high[several]
    first = (cells.sums.s1 - cells.sums.squares)[several] - low * sums[several]
    most = 2 * cells.absolute[several]
    upper = np.clip(first / (high - low), -most, most)  # beyond it is only the rounding of a narrow cell
    places = np.concatenate([low, high, cells.table.scores[~several]])
    laid = np.concatenate([sums[several] - upper, upper, sums[~several]])
    distinct, at = np.unique(places, return_inverse=True)
    return distinct, np.bincount(at, laid, len(distinct)).astype(np.float64, copy=False)


def smooth_error(event: Event) -> SmoothError:
    """Return the smooth error of an event with its bound: ``event.of(smooth_error)``."""
    return error_of_table(event.table)


def error_of_table(table: ReliabilityTable, bandwidth: float | None = None) -> SmoothError:
    """Return the smooth error of a table with its bound; with a bandwidth the smoothed gap at it."""
    cells, rows = GridCells.of(table), (table.scores, table.residuals, table.total)
    if bandwidth is None:
        return smooth.smooth_error(*rows) if cells is None else certified_error(cells)
    return smooth.smooth_error_at(*rows, bandwidth) if cells is None else certified_integral(cells, bandwidth)
