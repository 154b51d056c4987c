"""Rows in clusters: p-values from replicates under calibration, and tables of replicates for any statistic.

Under calibration a replicate has the sums g* of `measures.simulated`: the residuals of each bucket of clusters are
multiplied by one random normal number. The data are compared with replicates on the same coarse cells. Where the scores
of every cluster add up to its outcomes, a sum cannot deviate: it counts as 0, so that rounding decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.inference.rows import ROUNDING
from calibrant.measures.binned.clustered import ClusterBins
from calibrant.measures.line.line import CERTAIN, log_odds
from calibrant.measures.simulated import ClusterNull, GapSums
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import NOTHING
from calibrant.statistics.design import Clustered
from calibrant.statistics.null import p_value
from calibrant.statistics.resampling import Resampling, Rng
from calibrant.table import ReliabilityTable

#: Draws tables: a function of a generator and of how many to draw.
Tables: TypeAlias = Callable[[np.random.Generator, int], Iterable[ReliabilityTable]]

#: Returns the group of each row of a table.
GroupsOf: TypeAlias = Callable[[ReliabilityTable], NDArray[np.intp]]

_N_BINS: Final = 15  # equal-mass bins of the factors c
_LEVEL: Final = 0.95  # unused: p-values have no level


def resampling_of(n_resamples: int, rng: Rng) -> Resampling:
    """Return the checked settings of the draws for a p-value."""
    return Resampling.of(_LEVEL, n_resamples, rng, least=1)


def varies(sums: Float64s, squares: Float64s) -> NDArray[np.bool_]:
    """Return which sums vary: those with A = sum_h S_h^2 above 1e-10 Q, from S_h, (H, M), and Q, (M,)."""
    return np.asarray(np.sum(sums**2, axis=0) > NOTHING * squares)


def _p_value(law: ClusterNull, statistic: Callable[[GapSums], Float64s], resampling: Resampling) -> float:
    """Return the p-value of a statistic of replicates."""
    return p_value(law.replicates(statistic, resampling), float(statistic(law.observed)[0]))


def cumulative_p_value(rows: Clustered, largest: Callable[[Float64s], Float64s], resampling: Resampling) -> float:
    """Return the p-value of a function ``largest`` of the cumulated sums of p - y, from (B, K) to (B,)."""
    free = varies(np.cumsum(rows.gaps, axis=1), np.cumsum(rows.cells.squared_residuals))

    def statistic(sums: GapSums) -> Float64s:
        return largest(np.where(free, np.cumsum(sums.cell_gaps, axis=-1), 0.0))

    return _p_value(ClusterNull.of(rows, _N_BINS), statistic, resampling)


def group_p_value(rows: Clustered, groups_of: GroupsOf, resampling: Resampling, *, fitted: bool) -> float:
    """Return the p-value of sum S^2 / (E (1 - E / n)) over groups of the score, E the sum of the scores.

    Parameters
    ----------
    groups_of : callable
        Returns the group of each row of a table. A coarse cell is in the group of the cell in its middle.
    fitted : bool
        Whether the scores were fitted to these outcomes. A fit leaves sum r = sum r logit(p) = 0. What a refit of the
        log-odds line would explain is then subtracted from each replicate.
    """
    bins = ClusterBins.of(rows, groups_of(rows.fine.table)[rows.cells.middle])
    law = ClusterNull(rows, uniform=bins, quantile=bins)
    groups = law.quantile.moments
    free = varies(law.quantile.gaps, groups.squared_residuals)
    expected, counts = groups.score_sums, groups.counts
    variances = np.maximum(expected * (1 - expected / counts), 0.0) * groups.square_weights / counts
    explained = _explained(rows, groups.first) if fitted else np.zeros((len(rows.cells), len(counts)))

    def statistic(sums: GapSums) -> Float64s:
        gaps = sums.quantile_gaps - (0.0 if sums.normals is None else sums.cell_gaps @ explained)
        certain = np.where(np.abs(gaps) > ROUNDING * counts, np.inf, 0.0)
        with np.errstate(over="ignore"):  # a score of 1e-320 whose event happened
            terms = np.divide(gaps**2, variances, out=certain, where=variances > 0)
        return np.asarray(np.where(free, terms, 0.0).sum(axis=-1))

    return _p_value(law, statistic, resampling)


def _explained(rows: Clustered, first: NDArray[np.intp]) -> Float64s:
    """Return how much a refit of the log-odds line moves the sum of each group, for sums of cells: (K, groups).

    It is psi' I^-1 D with psi = (1, logit p), v = n p (1 - p), I = sum v psi psi' and D the sum of v psi in each group.
    """
    p = rows.cells.scores
    v, x = rows.cells.counts * p * (1 - p), log_odds(np.clip(p, CERTAIN, 1 - CERTAIN))
    design = np.stack([np.ones_like(x), x])
    information = np.linalg.pinv((design * v) @ design.T, hermitian=True)
    return np.asarray(design.T @ information @ np.add.reduceat(design * v, first, axis=1))


# ------------------------------------------------------------ tables


def calibrated_tables(rows: Clustered) -> Tables:
    """Return what draws tables of replicates under calibration, on the coarse cells.

    Outcomes outside 0 to ``counts`` are kept. If they were cut off, sums over bins would vary too little: with 40
    clusters of ten copies the ECE would reject calibrated scores in a quarter of samples at 5 %.
    """
    law, cells = ClusterNull.of(rows, _N_BINS), rows.cells
    free = varies(rows.gaps, cells.squared_residuals)

    def draw(rng: np.random.Generator, size: int) -> Iterator[ReliabilityTable]:
        return map(cells.with_positives, np.where(free, law.drawn(rng, size).positives, cells.positives))

    return draw


def cluster_tables(rows: Clustered) -> Tables:
    """Return what draws tables of as many buckets as there are, with replacement, on the coarse cells."""
    cells, whole = rows.cells, rows.cells.table.whole
    dtype = cells.table.counts.dtype if whole else np.dtype(np.float64)
    sums = np.stack([rows.n, rows.y, rows.gaps + rows.y], axis=1)
    numbers, shares = rows.scalar("rows"), np.full(len(rows.n), 1 / len(rows.n))

    def drawn(times: Float64s) -> ReliabilityTable:
        counts, positives, scores = np.tensordot(times, sums, 1)
        held = np.flatnonzero(counts)
        masses = np.stack([counts - positives, positives])[:, held]
        return ReliabilityTable(
            np.clip(scores[held] / counts[held], 0.0, 1.0),
            counts[held].astype(dtype),
            positives[held].astype(dtype),
            int(times @ numbers),
            square_weights=None if whole else cells.squares_per_weight[:, held] * np.maximum(masses, 0.0),
        )

    def draw(rng: np.random.Generator, size: int) -> Iterator[ReliabilityTable]:
        return map(drawn, rng.multinomial(len(shares), shares, size).astype(np.float64))

    return draw
