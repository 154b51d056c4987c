"""Bands of rows in clusters: of the rates of bins under calibration, and of the isotonic fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.measures.clustered_null import ClusterNull
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import Clustered
from calibrant.statistics.intervals import consistency_band
from calibrant.statistics.resampling import Resampling, Stream, in_blocks


def bin_band(law: ClusterNull, resampling: Resampling) -> tuple[Float64s, Float64s]:
    """Return what the rates of the equal-width bins are within if the scores are right, (M,) each.

    Without resampling it is the binomial band of as many rows as n divided by the design effect.
    """
    if resampling.n_resamples:
        return resampling.band(law.replicates(lambda drawn: law.uniform.rates(drawn.uniform_positives), resampling))
    moments = law.uniform.moments
    means = moments.score_sums / moments.counts
    own, independent = law.uniform.null_variances, moments.null_variances
    varied = (own > 0) & (independent > 0)
    rows = moments.rows * np.where(varied, independent / np.where(varied, own, 1.0), 1.0)
    low, high = consistency_band(np.where(varied, means, 0.5), rows, resampling.tail)
    return np.where(varied, low, means), np.where(varied, high, means)


def coarse_of(rows: Clustered, shown: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the place among the coarse cells of each of these cells."""
    return np.searchsorted(rows.cells.first, shown, side="right") - 1


def refits(rows: Clustered, shown: NDArray[np.intp], resampling: Resampling) -> Float64s:
    """Return isotonic fits at the shown cells, (B, M), to n x + sum_h Z_h (y_h - n_h x) of coarse cells, x the fit."""
    cells, places = rows.cells, coarse_of(rows, shown)
    fit = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0]
    around = rows.y - rows.n * fit

    def block(rng: np.random.Generator, size: int) -> Float64s:
        positives = cells.counts * fit + rng.standard_normal((size, len(around))) @ around
        return np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)[:, places]

    return np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, Stream.REFITTED, block)))
