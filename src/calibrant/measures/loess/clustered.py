"""The interval of the integrated calibration index and the bands of the loess curve, of rows in clusters.

They are those of `loess.intervals`, with the variance of the gap at each anchor times a design effect that the gaps of
the buckets show, and Student's quantiles.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.loess.intervals import banded, loess, variances, window_rows
from calibrant.measures.means.clustered import gap_spread
from calibrant.results import CalibrationCurve
from calibrant.statistics.cluster_sums import Clustered, common_signs
from calibrant.statistics.intervals import PRIOR_ROWS, blend, thinned
from calibrant.statistics.resampling import Resampling, t_quantile
from calibrant.statistics.variance import Variance, widest

Float64s = NDArray[np.float64]

_TINY: Final = float(np.finfo(float).tiny)
_NOTHING: Final = 1e-9  # of the largest variance: where less is left, only rounding is


def design_effects(rows: Clustered) -> Float64s:
    """Return the design effect of the gap at each anchor, steadied by five clusters of that over all anchors."""
    curve, buckets = rows.cells.of(loess), len(rows.sizes)
    own = np.sum(rows.centred(curve.gaps(rows.gaps)) ** 2, axis=0) * buckets / (buckets - 1)
    independent = np.maximum(curve.squares @ rows.cells.squared_residuals, _TINY)
    overall = float(own.sum() / independent.sum())
    shown = np.where(independent > _NOTHING * independent.max(), own / independent, overall)
    return np.asarray((rows.kish * shown + PRIOR_ROWS * overall) / (rows.kish + PRIOR_ROWS))


def interval(rows: Clustered, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the mean gap between the scores and the curve of the coarse cells."""
    cells, curve = rows.cells, rows.cells.of(loess)
    near = np.full(len(cells), min(window_rows(cells), rows.kish))
    v = blend(near, cells.squared_residuals, cells.null_variances)
    gaps, deviations = curve.gaps(cells.gap_sums), np.sqrt(curve.squares @ v * design_effects(rows)) + _TINY
    g, slope = thinned(gaps / deviations)

    def spread(direction: Float64s) -> Variance:
        moved = (curve.shares * direction) @ curve.weights
        found = rows.gap_spread(moved)
        return Variance(max(rows.row_square(moved, v), 0.0) * found.deff, found.deff, found.df)

    low = max(float(curve.shares @ (deviations * g)) - widest([spread(slope)], level), 0.0) if rejected else 0.0
    common = common_signs(curve.anchors, float(cells.score_sums.sum()) / rows.total)
    return min(low, value), value + widest([spread(signs) for signs in (np.sign(gaps), *common)], level)


def loess_curve(rows: Clustered, shown: NDArray[np.intp], resampling: Resampling) -> CalibrationCurve:
    """Return the loess curve of all cells; the design effects of its bands are those of the coarse cells' curve."""
    t, curve = t_quantile(resampling.level, gap_spread(rows).df), rows.fine.of(loess)
    deff = rows.cells.of(loess).between(design_effects(rows), curve.anchors)
    halves = [t * np.sqrt(curve.squares @ v * deff) for v in variances(rows.fine)]
    return banded(rows.fine, shown, halves, resampling.level)
