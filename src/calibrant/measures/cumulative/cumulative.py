"""Calibration errors of cumulative residuals, without bins: Kolmogorov-Smirnov and Kuiper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
