"""Calibration curves, the outcome rate as a function of the score, with their confidence and consistency bands."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.measures.means.means import gap_variance
from calibrant.measures.smooth.intervals import DesignEffects, Mesh
from calibrant.results import CalibrationCurve
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Independent, SamplingDesign
from calibrant.statistics.outcomes import Outcomes
from calibrant.statistics.resampling import Resampling, Stream, in_blocks, t_quantile
from calibrant.statistics.simultaneous import IsotonicBand

_POINTS: Final = 64  # points of a curve along the scores, and again as many along the rows
_NARROWEST: Final = 1e-3  # bandwidths below it show single cells


def shown_cells(cells: Cells) -> NDArray[np.intp]:
    """Return the cells at which curves are given: evenly along the scores and along the rows, both ends included."""
    along = np.searchsorted(cells.scores, np.linspace(cells.scores[0], cells.scores[-1], _POINTS))
    mass = np.cumsum(cells.counts)
    among = np.searchsorted(mass, np.linspace(0, mass[-1], _POINTS))
    return np.unique(np.clip(np.concatenate([along, among]), 0, len(cells) - 1))


def isotonic_curve(
    design: Independent | Clustered, consistency: tuple[Float64s, Float64s] | None, resampling: Resampling
) -> CalibrationCurve:
    """Return the isotonic fit x at the shown cells; ``consistency`` is its band under calibration.

    Confidence band: quantiles of fits to data drawn around x (Dimitriadis, Gneiting and Jordan 2021). Both need
    resampling. A simultaneous confidence band needs none; where the fit is outside it is widened.
    """
    cells = design.fine
    shown = cells.of(shown_cells)
    rates = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0][shown]
    nothing = np.full(len(shown), math.nan)
    confidence = (nothing, nothing)
    if resampling.bands == "simultaneous":
        confidence = IsotonicBand.of(cells.table, resampling.level).at(cells.scores[shown])
    elif resampling.n_resamples:
        refits = _refits_by_cluster(design, resampling) if isinstance(design, Clustered) else _refits(cells, resampling)
        confidence = resampling.band(refits)
    least, most = consistency or (nothing, nothing)
    return CalibrationCurve(
        kind="isotonic",
        scores=cells.scores[shown],
        rates=rates,
        confidence_lows=np.minimum(confidence[0], rates),
        confidence_highs=np.maximum(confidence[1], rates),
        consistency_lows=least,
        consistency_highs=most,
        level=resampling.level,
        bands=resampling.bands,
    )


def _refits(cells: Cells, resampling: Resampling) -> Float64s:
    """Return isotonic fits at the shown cells, (B, M), to outcomes of independent rows drawn from the fit."""
    shown = cells.of(shown_cells)
    fit = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0]
    refitted = Outcomes(cells.counts, cells.square_weights, fit)

    def block(rng: np.random.Generator, size: int) -> Float64s:
        return dispatch.isotonic_fits(cells.counts, refitted.draw(rng, size))[:, shown]

    n_resamples, seed = resampling.n_resamples, resampling.seed
    return np.concatenate(list(in_blocks(n_resamples, seed, Stream.REFITTED, block, cells=len(cells))))


def _refits_by_cluster(rows: Clustered, resampling: Resampling) -> Float64s:
    """Return isotonic fits at the shown cells, (B, M), to n x + sum_h Z_h (y_h - n_h x) of coarse cells, x the fit."""
    cells, places = rows.cells, rows.coarse(rows.fine.of(shown_cells))
    fit = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0]
    around = rows.y - rows.n * fit

    def block(rng: np.random.Generator, size: int) -> Float64s:
        positives = cells.counts * fit + rng.standard_normal((size, len(around))) @ around
        return np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)[:, places]

    return np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, Stream.REFITTED, block)))


def smooth_curve(design: SamplingDesign, bandwidth: float, level: float) -> CalibrationCurve:
    """Return the kernel regression of outcomes on scores of the cells, with the reflected Gaussian kernel.

    rate(t) = sum y K_s(t, p) / sum K_s(t, p) with s the smooth calibration error. The bands are pointwise and normal:
    sums of independent outcomes, of the variance of the fitted rates (confidence) and of the scores (consistency),
    around sum p K / sum K for the latter. The curve's own bias is in neither. For rows in clusters the variances have
    the design effects at the bandwidth, and Student's quantile the degrees of freedom of the mean gap.
    """
    cells, s = design.fine, max(bandwidth, _NARROWEST)
    shown = cells.of(shown_cells)
    mesh = Mesh.fine_enough(cells, s)

    def smoothed(sums: Float64s) -> Float64s:
        return mesh.smoothed_at_cells(sums, s)

    mass = np.maximum(smoothed(cells.counts), np.finfo(float).tiny)
    rate, mean_score = (np.clip(smoothed(sums) / mass, 0.0, 1.0) for sums in (cells.positives, cells.score_sums))
    t, deff = t_quantile(level, gap_variance(design).df), DesignEffects.of(design, s).at(cells.scores)[0]

    def around(middle: Float64s, variances: Float64s) -> tuple[Float64s, Float64s]:
        half = t * np.sqrt(mesh.at_cells(mesh.variance(variances, s)) * deff) / mass
        return np.clip(middle - half, 0.0, 1.0)[shown], np.clip(middle + half, 0.0, 1.0)[shown]

    low, high = around(rate, cells.square_weights * rate * (1 - rate))
    least, most = around(mean_score, cells.null_variances)
    return CalibrationCurve(
        kind="smooth",
        scores=cells.scores[shown],
        rates=rate[shown],
        confidence_lows=low,
        confidence_highs=high,
        consistency_lows=least,
        consistency_highs=most,
        level=level,
        bandwidth=s,
    )
