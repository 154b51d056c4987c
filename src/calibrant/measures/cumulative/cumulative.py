"""Calibration errors of cumulative residuals, without bins: Kolmogorov-Smirnov and Kuiper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.grid_cells import GridCells
from calibrant.table import ReliabilityTable


def cumulative_gaps(table: ReliabilityTable) -> NDArray[np.float64]:
    """Return C_k: the sum of outcome - score up to the k-th distinct score, divided by the number of rows."""
    return np.asarray(np.cumsum(table.residuals) / table.total)


def ks_error(table: ReliabilityTable) -> float:
    """Return max |C_k| (Gupta et al. 2021): the order of predictions does not matter, as ties are one row."""
    return float(np.abs(cumulative_gaps(table)).max())


def kuiper_error(table: ReliabilityTable) -> float:
    """Return the range of C_k, with C_0 = 0 (Arrieta-Ibarra et al. 2022, ECCE-R)."""
    return float(cumulated_range(cumulative_gaps(table)))


def cumulated_range(cumulated: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the range of cumulative sums along the last axis, from 0 at the start."""
    return np.asarray(np.maximum(cumulated.max(axis=-1), 0.0) - np.minimum(cumulated.min(axis=-1), 0.0))


def ks_bound(cells: GridCells) -> float:
    """Bound the error of max |C|: within a cell C rises by at most n1 - S1 and falls by at most S0."""
    sums = np.cumsum(cells.table.residuals)
    before = sums - cells.table.residuals
    inside = np.maximum(np.abs(before + cells.sums.n1 - cells.sums.s1), np.abs(before - cells.sums.s0))[
        cells.sums.several
    ]
    most = float(inside.max(initial=0.0)) / cells.table.total
    return max(most - ks_error(cells.table), 0.0) + cells.rounding


def kuiper_bound(cells: GridCells) -> float:
    """Bound by how much the range of C is larger than that of the cells, which it is never below: as `ks_bound`."""
    sums = np.cumsum(cells.table.residuals)
    before = sums - cells.table.residuals
    most = np.where(cells.sums.several, before + cells.sums.n1 - cells.sums.s1, sums)
    least = np.where(cells.sums.several, before - cells.sums.s0, sums)
    widest = max(float(sums.max()), float(most.max()), 0.0) - min(float(sums.min()), float(least.min()), 0.0)
    return max(widest / cells.table.total - kuiper_error(cells.table), 0.0) + cells.rounding
