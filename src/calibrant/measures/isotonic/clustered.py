"""The intervals of CORP's miscalibration and discrimination of rows in clusters, by in-sample and out-of-fold fits.

A fold is a set of whole buckets, so that no cluster is in a fit that judges it. A part is the mean over rows of
(f - y)^2 - (x - y)^2 = D^2 + 2 D (x - y), D = f - x, x the isotonic fit and f the score or the base rate; its spread is
that of its sums over buckets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.measures.isotonic import intervals as corp
from calibrant.measures.isotonic.intervals import FOLDS, Part
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import around_mean, variance_of
from calibrant.statistics.design import Clustered
from calibrant.statistics.resampling import Resampling, Stream, generator, in_blocks

_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding


def fold_of(rows: Clustered, seed: np.random.SeedSequence) -> NDArray[np.intp]:
    """Return the fold of each bucket, (H,): sorted by size, buckets are dealt in fives at random."""
    rng, buckets = generator(seed, Stream.FOLDS), len(rows.sizes)
    order = rng.permutation(buckets)
    order = order[np.argsort(-rows.sizes[order], kind="stable")]
    folds = np.empty(buckets, np.intp)
    for start in range(0, buckets, FOLDS):
        dealt = order[start : start + FOLDS]
        folds[dealt] = rng.permutation(FOLDS)[: len(dealt)]
    return folds


def out_of_fold(rows: Clustered, seed: np.random.SeedSequence) -> tuple[Float64s, Float64s]:
    """Return the fit at each coarse cell without the bucket's own fold, (H, K), and the base rate of that fit, (H, 1).

    Where the other folds have no rows the fit is that of the nearest lower cell.
    """
    folds, cells = fold_of(rows, seed), np.arange(len(rows.cells))
    fits, bases = np.empty_like(rows.n), np.empty((len(rows.sizes), 1))
    for fold in np.unique(folds):
        own = folds == fold
        others = ~own if not own.all() else own
        n, y = rows.n[others].sum(axis=0), rows.y[others].sum(axis=0)
        held = np.flatnonzero(n > 0)
        fit = dispatch.isotonic_fits(n[held], y[held][None])[0]
        fits[own] = fit[np.clip(np.searchsorted(held, cells, side="right") - 1, 0, None)]
        bases[own] = y.sum() / n.sum()
    return fits, bases


def difference(rows: Clustered, first: Float64s, second: Float64s) -> Part:
    """Return the mean of (first - y)^2 - (second - y)^2 over rows, with its standard error.

    ``first`` and ``second`` are forecasts of each coarse cell, (K,), or of each bucket and cell, (H, K). The error's
    square is about 4 r D^2 + s: r and s are those of independent rows, each times the design effect of its own sums,
    2 D (x - y) and D^2.
    """
    f, x = (np.broadcast_to(forecasts, rows.n.shape) for forecasts in (first, second))
    masses = np.stack([rows.n - rows.y, rows.y])
    each = rows.cells.squares_per_weight[:, np.newaxis]
    values = np.stack([f**2 - x**2, (1 - f) ** 2 - (1 - x) ** 2])
    mean = float(np.sum(masses * values)) / rows.total
    _, deviation, df = _spread(rows, masses, each, values)
    d2, slopes = (f - x) ** 2, 2 * (f - x) * np.stack([x, x - 1])
    within = (each * masses).sum(axis=0) * x * (1 - x)
    whole = float(np.sum(rows.n * d2)) / rows.total
    copies = float(np.sum(rows.sizes**2)) / rows.effective_n
    if whole > 0:
        growth = float(np.sum(within * d2)) / whole * _spread(rows, masses, each, slopes)[0]
    else:
        growth = float(within.sum()) * copies
    _, rest, _ = _spread(rows, masses, each, np.stack([d2, d2]))
    return Part(mean, deviation / rows.total, growth / rows.total**2, rest**2 / rows.total**2, df)


def _spread(rows: Clustered, masses: Float64s, each: Float64s, values: Float64s) -> tuple[float, float, float]:
    """Return the design effect, the standard deviation and the degrees of freedom of a sum over rows.

    ``values`` are those of a row of each outcome, bucket and cell, (2, H, K); ``masses`` is their weight, ``each`` the
    mean squared weight of a unit of weight.
    """
    own = (masses * values).sum(axis=(0, 2))
    mean, weights = float(own.sum()) / rows.total, each * masses
    square = around_mean(
        float(np.sum(weights * values**2)), mean, float(np.sum(weights * values)), float(np.sum(weights))
    )
    found = variance_of(own - mean * rows.weights, square, rows.sizes)
    return found.deff, found.error, found.df


@dataclass(frozen=True, eq=False)
class ClusterForecasts:
    """The isotonic fits to rows in clusters; a fold is a set of whole buckets."""

    rows: Clustered
    resampling: Resampling

    @property
    def cells(self) -> Cells:
        """The coarse cells of the rows."""
        return self.rows.cells

    @cached_property
    def in_sample(self) -> tuple[Float64s, Float64s]:
        """The fit to all rows, and the base rate."""
        return corp.in_sample(self.rows.cells)

    @cached_property
    def out_of_fold(self) -> tuple[Float64s, Float64s]:
        """The fits without the fold of a bucket, (H, K), and their base rates."""
        return out_of_fold(self.rows, self.resampling.seed)

    def inside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean difference over all rows."""
        return difference(self.rows, first, second)

    def outside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean difference, each bucket with its own forecasts."""
        return difference(self.rows, first, second)

    @property
    def null_discrimination_sd(self) -> float:
        """The standard deviation of the discrimination where scores tell nothing of the outcomes."""
        return null_discrimination_sd(self.rows, self.resampling)

    @property
    def rank_p_value(self) -> float:
        """The p-value of the rank sum, with the variance that buckets show."""
        return rank_p_value(self.rows)


def null_discrimination_sd(rows: Clustered, resampling: Resampling) -> float:
    """Return the standard deviation of the discrimination where scores tell nothing of the outcomes.

    Replicates are n r + c sum_h Z_h (y_h - n_h x), r the base rate and x the fit, with c^2 = sum n r (1 - r) /
    sum (y - x)^2: the dependence that is seen around the fit, with the variance of outcomes at the base rate. Without
    resampling it is the closed form of independent rows, as if rows of a cluster were copies.
    """
    cells = rows.cells
    if not resampling.n_resamples:
        return corp.null_discrimination_sd(cells) * rows.effective_n / rows.kish
    fit, base = corp.in_sample(cells)
    weights = cells.table.own_weights
    square = float(np.sum(weights[0] * fit**2 + weights[1] * (1 - fit) ** 2))
    variance = float(np.sum(weights * base * (1 - base)))
    if square <= _ROUNDING * float(weights.sum()):
        return corp.null_discrimination_sd(cells) * rows.effective_n / rows.kish
    around = (rows.y - rows.n * fit) * math.sqrt(variance / square)

    def block(rng: np.random.Generator, size: int) -> Float64s:
        positives = cells.counts * base + rng.standard_normal((size, len(around))) @ around
        means = positives.sum(axis=1, keepdims=True) / rows.total
        fits = np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)
        parts = cells.counts * (means**2 - fits**2) + 2 * positives * (fits - means)
        return np.asarray(parts.sum(axis=1) / rows.total)

    blocks = in_blocks(resampling.n_resamples, resampling.seed, Stream.BOOTSTRAP, block)
    return float(np.concatenate(list(blocks)).std())


def rank_p_value(rows: Clustered) -> float:
    """Return the p-value of the hypothesis that higher scores have no more outcomes, one-sided.

    z = sum u_h / sqrt(sum u_h^2) with u_h = sum_k (y_hk - r n_hk) (rank_k - mean rank): Wilcoxon's rank sum with the
    variance that buckets show.
    """
    from scipy.special import ndtr

    counts = rows.cells.counts
    rate = float(rows.cells.positives.sum()) / rows.total
    ranks = np.cumsum(counts) - counts / 2 - rows.total / 2
    own = (rows.y - rate * rows.n) @ ranks
    square = float(np.sum(own**2))
    return float(ndtr(-float(own.sum()) / math.sqrt(square))) if square > 0 else 1.0
