"""The interval of the smooth calibration error of rows in clusters.

It is that of `smooth.intervals`, with the variance of the smoothed residual G(t) times a design effect deff(t) that the
smoothed residuals of the buckets show, and Student's quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.smooth.intervals import Mesh, crossing
from calibrant.statistics.cluster_sums import Clustered, common_signs
from calibrant.statistics.intervals import FEWEST, PRIOR_ROWS, blend, thinned, unbiased_end
from calibrant.statistics.variance import Variance, widest

Float64s = NDArray[np.float64]

_NODES: Final = 1024  # steps of the mesh of design effects
_NARROWEST: Final = 8 / _NODES  # the smallest bandwidth that this mesh shows
_TINY: Final = float(np.finfo(float).tiny)
_SMALLEST: Final = 1e-9
_NOTHING: Final = 1e-9  # of the largest deviation: where less is smoothed to, only rounding is left


@dataclass(frozen=True, eq=False)
class DesignEffects:
    """The design effect of the smoothed residual along the scores, and the effective clusters that the kernel sees.

    Both are given at (j + 1/2) / 1024.
    """

    deff: Float64s
    clusters: Float64s

    @classmethod
    def of(cls, rows: Clustered, bandwidth: float) -> DesignEffects:
        """Return the design effects at a bandwidth, steadied by five clusters of that over all scores."""
        s, buckets = max(bandwidth, _NARROWEST), len(rows.sizes)
        mesh = Mesh(rows.cells, _NODES)

        def smoothed(sums: Float64s) -> Float64s:
            return mesh.smoothed(sums, s)

        own = np.sum(rows.centred(smoothed(rows.gaps)) ** 2, axis=0) * buckets / (buckets - 1)
        independent = np.maximum(mesh.variance(rows.cells.squared_residuals, s), _TINY)
        near = np.maximum(smoothed(rows.n), 0.0)
        clusters = np.maximum(near.sum(axis=0), _SMALLEST) ** 2 / np.maximum(np.sum(near**2, axis=0), _SMALLEST**2)
        overall = float(own.sum() / independent.sum())
        several = independent > _NOTHING * independent.max()
        shown = np.divide(own, independent, out=np.full_like(own, overall), where=several)
        return cls((clusters * shown + PRIOR_ROWS * overall) / (clusters + PRIOR_ROWS), clusters)

    def at(self, scores: Float64s) -> tuple[Float64s, Float64s]:
        """Return both at these scores."""
        places = (np.arange(_NODES) + 0.5) / _NODES
        return np.interp(scores, places, self.deff), np.interp(scores, places, self.clusters)


def interval(rows: Clustered, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the smooth calibration error: low solves L_s = s, high U_s = s.

    The ends L_s and U_s of an interval for S(s) are those of `smooth.intervals.interval`. Variances of cells are
    blended as if each had the rows, or the clusters if they are fewer, that the kernel sees.
    """
    effects, start = DesignEffects.of(rows, value), max(value, _SMALLEST)
    high = crossing(lambda s: _ends(rows, effects, s, level)[1], start, up=True)
    low = crossing(lambda s: _ends(rows, effects, s, level)[0], start, up=False) if rejected else 0.0
    return min(low, value), max(high, value)


def _ends(rows: Clustered, effects: DesignEffects, s: float, level: float) -> tuple[float, float]:
    """Return L_s and U_s."""
    cells, n = rows.cells, rows.total
    mesh = Mesh.fine_enough(cells, s)
    near = np.minimum(mesh.rows_near(s), effects.at(cells.scores)[1])
    v = blend(near, cells.squared_residuals, cells.null_variances)
    density = mesh.smoothed(cells.gap_sums, s) / n
    deff = effects.at(mesh.nodes)[0]
    deviation = np.sqrt(mesh.variance(v, s) * deff) / n
    deviation = np.maximum(deviation, _NOTHING * max(float(deviation.max()), float(np.abs(density).max())) + _TINY)
    g, slope = thinned(density / deviation)

    def spread(direction: Float64s) -> Variance:
        moved = mesh.convolved_at_cells(direction, s)
        found = rows.gap_spread(moved)
        return Variance(max(rows.row_square(moved, v), 0.0) * found.deff / n**2, found.deff, found.df)

    thin, sign = spread(slope), spread(np.sign(density))
    common = [spread(signs) for signs in common_signs(mesh.nodes, float(cells.score_sums.sum()) / n)]
    middle, roots = float(mesh.integral(deviation * g)), float(mesh.integral(deviation))
    jensen = float(mesh.integral(np.abs(density))) + widest([sign, *common], level)
    several = all(roots**2 >= FEWEST * each.value for each in (sign, *common))
    least_biased = unbiased_end(middle, roots, widest([thin, *common], level), several=several)
    return middle - widest([thin], level), min(jensen, least_biased)
