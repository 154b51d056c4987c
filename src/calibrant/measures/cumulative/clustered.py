"""The interval of the largest cumulative residual of rows in clusters."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import variance_of
from calibrant.statistics.design import Clustered
from calibrant.statistics.intervals import PRIOR_ROWS
from calibrant.statistics.resampling import Resampling, Stream, in_blocks, t_quantile

_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding


def interval(rows: Clustered, value: float, resampling: Resampling) -> tuple[float, float]:
    """Return the interval of max |C_k|, C_k the cumulative sums of residuals up to coarse cell k over N.

    u_hk are the cumulative sums of bucket h less N_h C_k. high = max_k (|C_k| + t s_k), s_k the standard deviation of
    C_k: that of independent rows, blended by clusters, times the root of the design effect that u_hk shows. With T
    within the quantile q of max |sum_h Z_h u_hk|, Z_h standard normal, low = 0; else low = T - q', q' the quantile of
    the largest sign(C_k) sum_h Z_h u_hk over the scores at which |C_k| >= T - q. The quantiles are widened by
    t / z sqrt(H / (H - 1)). Without resampling low is 0.
    """
    upto = np.cumsum(rows.gaps, axis=1)
    sums, around, buckets = upto.sum(axis=0), rows.centred(upto), len(rows.sizes)
    independent, blended = _row_squares(rows)
    largest = int(np.argmax(np.abs(sums)))
    found = variance_of(around[:, largest], float(independent[largest]), rows.sizes)
    t = t_quantile(resampling.level, found.df)
    own = np.sum(around**2, axis=0) * buckets / (buckets - 1)
    varied = independent > 0
    variances = np.where(varied, blended * own / np.where(varied, independent, 1.0), 0.0)
    high = max(float(np.max(np.abs(sums) + t * np.sqrt(variances))) / rows.total, value)
    if not resampling.n_resamples:
        return 0.0, high
    factor = t / resampling.z * math.sqrt(buckets / (buckets - 1)) / rows.total
    return _low(around * factor, sums / rows.total, value, resampling), high


def _row_squares(rows: Clustered) -> tuple[Float64s, Float64s]:
    """Return the sums over rows up to each coarse cell of (r - C)^2, and the same with blended variances; not negative.

    The first is 0 where only rounding is left.
    """
    cells, k, total = rows.cells, rows.kish, rows.unit * rows.total
    mean = np.cumsum(cells.gap_sums) / rows.total
    squares, null = np.cumsum(cells.squared_residuals), np.cumsum(cells.null_variances)
    centre = mean * (2 * np.cumsum(cells.squared_gaps) - mean * total)
    seen = np.where(squares - centre > _ROUNDING * squares, squares - centre, 0.0)
    return seen, np.maximum((k * squares + PRIOR_ROWS * null) / (k + PRIOR_ROWS) - centre, 0.0)


def _low(around: Float64s, sums: Float64s, value: float, resampling: Resampling) -> float:
    """Return the lower end from the deviations of the buckets, (H, K), and the cumulative sums, (K,)."""

    def quantile(columns: Float64s, *, both: bool) -> float:
        def block(rng: np.random.Generator, size: int) -> Float64s:
            drawn = rng.standard_normal((size, len(columns))) @ columns
            return np.asarray((np.abs(drawn) if both else drawn).max(axis=1))

        largest = np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, Stream.BOOTSTRAP, block)))
        return float(np.quantile(largest, 1 - resampling.tail))

    most = quantile(around, both=True)
    if value <= most:
        return 0.0
    near = np.abs(sums) >= min(value - most, float(np.abs(sums).max()))
    return max(value - max(quantile(around[:, near] * np.sign(sums[near]), both=False), 0.0), 0.0)
