"""The interval of the integrated calibration index, and the loess curve with its bands."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.loess.loess import Loess, Quantiles
from calibrant.measures.means.intervals import gap_variance
from calibrant.results import CalibrationCurve
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.intervals import blend, thinned, widest
from calibrant.statistics.resampling import t_quantile

_TINY: Final = float(np.finfo(float).tiny)


def loess(cells: Cells) -> Loess:
    """Return the loess curve of cells: ``cells.of(loess)`` computes it once."""
    return Loess.of(cells.table)


def absolute_gaps(cells: Cells, gap_sums: Float64s) -> Quantiles:
    """Return the absolute gaps between scores and loess curve, (..., K), from the sums of score - outcome."""
    return Quantiles(cells.of(loess).absolute_gaps(gap_sums), cells.counts, cells.table.whole)


def window_rows(cells: Cells) -> float:
    """Return the effective number of rows behind the curve at an anchor, the median."""
    return float(np.median(1 / (cells.of(loess).squares @ cells.square_weights)))


def design_effects(design: SamplingDesign) -> Float64s:
    """Return the design effect of the gap at each anchor."""
    curve = design.cells.of(loess)
    effects = design.effects(curve.gaps, lambda squares: np.asarray(curve.squares @ squares), design.units)
    return np.broadcast_to(effects, curve.anchors.shape)


def interval(design: SamplingDesign, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the mean gap between the scores and the curve that the true rates would have.

    low = sum o tau g(G / tau) - t sd[g'(G / tau)] and high = T + t sd[sign G]: G are the gaps at the anchors, o the
    shares of the rows, tau^2 the variances of G, sd[f] the standard deviation of sum o f G, and g as for binned errors.
    Variances of cells are blended with what calibration implies as if each had the rows behind an anchor, or the
    clusters if they are fewer.
    """
    cells, curve = design.cells, design.cells.of(loess)
    near = np.full(len(cells), min(window_rows(cells), design.units))
    v = blend(near, cells.squared_residuals, cells.null_variances)
    gaps, deviations = curve.gaps(cells.gap_sums), np.sqrt(curve.squares @ v * design_effects(design)) + _TINY
    g, slope = thinned(gaps / deviations)

    def half_width(*directions: Float64s) -> float:
        return widest((design.linear((curve.shares * f) @ curve.weights, v) for f in directions), level)

    low = max(float(curve.shares @ (deviations * g)) - half_width(slope), 0.0) if rejected else 0.0
    return min(low, value), value + half_width(np.sign(gaps), *design.common(curve.anchors))


def loess_curve(design: SamplingDesign, shown: NDArray[np.intp], level: float) -> CalibrationCurve:
    """Return the loess curve of the fine cells at those shown, with its bands.

    The design effects of the bands are those of the curve of the design's cells; Student's quantile has the degrees of
    freedom of the mean gap.
    """
    fine = design.fine
    t, curve = t_quantile(level, gap_variance(design).df), fine.of(loess)
    deff = design.cells.of(loess).between(design_effects(design), curve.anchors)
    return banded(fine, shown, [t * np.sqrt(curve.squares @ v * deff) for v in variances(fine)], level)


def variances(cells: Cells) -> tuple[Float64s, Float64s]:
    """Return the variances of the sums of outcomes in the cells: of the fitted rates, and of the scores."""
    rates = np.clip(cells.of(loess).between(_fitted(cells), cells.scores), 0.0, 1.0)
    return cells.square_weights * rates * (1 - rates), cells.null_variances


def banded(cells: Cells, shown: NDArray[np.intp], halves: list[Float64s], level: float) -> CalibrationCurve:
    """Return the curve at the shown cells with two pointwise bands: around it, and around the diagonal.

    ``halves`` are their half-widths at the anchors. Under calibration the mean of the curve is the diagonal: lines
    reproduce it. Of other curves the bias is in neither band.
    """
    scores, curve = cells.scores[shown], cells.of(loess)
    middle = curve.between(_fitted(cells), scores)
    half, null = (curve.between(values, scores) for values in halves)

    def within(rates: Float64s) -> Float64s:
        return np.clip(rates, 0.0, 1.0)

    return CalibrationCurve(
        kind="loess",
        scores=scores,
        rates=within(middle),
        confidence_lows=within(middle - half),
        confidence_highs=within(middle + half),
        consistency_lows=within(scores - null),
        consistency_highs=within(scores + null),
        level=level,
    )


def _fitted(cells: Cells) -> Float64s:
    """Return the curve at its anchors."""
    return np.asarray(cells.of(loess).anchors - cells.of(loess).gaps(cells.gap_sums))
