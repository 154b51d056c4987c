"""Calibration curves of rows in clusters: their confidence and consistency bands.

The curves are those of all cells. The bands of the isotonic fit are quantiles of fits to replicates on the coarse
cells, those of the smooth curve have the design effect of the smoothed residuals.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.measures.clustered_null import ClusterNull
from calibrant.measures.means.clustered import gap_spread
from calibrant.measures.smooth.intervals import DesignEffects, Mesh
from calibrant.results import CalibrationCurve
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import Clustered
from calibrant.statistics.intervals import consistency_band
from calibrant.statistics.resampling import Resampling, Stream, in_blocks, t_quantile

_NARROWEST: Final = 1e-3  # bandwidths below it show single cells


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


def isotonic_curve(
    rows: Clustered, shown: NDArray[np.intp], consistency: tuple[Float64s, Float64s] | None, resampling: Resampling
) -> CalibrationCurve:
    """Return the isotonic fit at the shown cells; ``consistency`` is its band under calibration.

    Confidence band: fits to n x + sum_h Z_h (y_h - n_h x), x the fit. Both bands need resampling.
    """
    fine, cells = rows.fine, rows.cells
    rates = dispatch.isotonic_fits(fine.counts, fine.positives[None])[0][shown]
    nothing = np.full(len(shown), math.nan)
    confidence = (nothing, nothing)
    if resampling.n_resamples:
        fit, places = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0], coarse_of(rows, shown)
        around = rows.y - rows.n * fit

        def block(rng: np.random.Generator, size: int) -> Float64s:
            positives = cells.counts * fit + rng.standard_normal((size, len(around))) @ around
            return np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)[:, places]

        drawn = list(in_blocks(resampling.n_resamples, resampling.seed, Stream.REFITTED, block))
        confidence = resampling.band(np.concatenate(drawn))
    least, most = consistency or (nothing, nothing)
    return CalibrationCurve(
        kind="isotonic",
        scores=fine.scores[shown],
        rates=rates,
        confidence_lows=np.minimum(confidence[0], rates),
        confidence_highs=np.maximum(confidence[1], rates),
        consistency_lows=least,
        consistency_highs=most,
        level=resampling.level,
    )


def smooth_curve(
    rows: Clustered, shown: NDArray[np.intp], bandwidth: float, resampling: Resampling
) -> CalibrationCurve:
    """Return the kernel regression of outcomes on scores, as `measures.curves.smooth_curve` does.

    Its bands are wider by t sqrt(deff(t)) / z, with deff at the bandwidth and t with the degrees of freedom of the mean
    gap.
    """
    s, fine = max(bandwidth, _NARROWEST), rows.fine
    mesh = Mesh.fine_enough(fine, s)

    def smoothed(sums: Float64s) -> Float64s:
        return mesh.smoothed_at_cells(sums, s)

    mass = np.maximum(smoothed(fine.counts), np.finfo(float).tiny)
    rate, mean_score = (np.clip(smoothed(sums) / mass, 0.0, 1.0) for sums in (fine.positives, fine.score_sums))
    t, deff = t_quantile(resampling.level, gap_spread(rows).df), DesignEffects.of(rows, s).at(fine.scores)[0]

    def around(middle: Float64s, variances: Float64s) -> tuple[Float64s, Float64s]:
        half = t * np.sqrt(mesh.at_cells(mesh.variance(variances, s)) * deff) / mass
        return np.clip(middle - half, 0.0, 1.0)[shown], np.clip(middle + half, 0.0, 1.0)[shown]

    low, high = around(rate, fine.square_weights * rate * (1 - rate))
    least, most = around(mean_score, fine.null_variances)
    return CalibrationCurve(
        kind="smooth",
        scores=fine.scores[shown],
        rates=rate[shown],
        confidence_lows=low,
        confidence_highs=high,
        consistency_lows=least,
        consistency_highs=most,
        level=resampling.level,
        bandwidth=s,
    )
