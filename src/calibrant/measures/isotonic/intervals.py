"""The interval and the noise floor of CORP's miscalibration and discrimination, by in-sample and out-of-fold fits.

Of rows in clusters a fold is a set of whole buckets, so that no cluster is in a fit that judges it. A part is the mean
over rows of (f - y)^2 - (x - y)^2 = D^2 + 2 D (x - y), D = f - x, x the isotonic fit and f the score or the base rate;
its variance is that of its sums over buckets.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import around_mean, variance_of
from calibrant.statistics.design import Clustered
from calibrant.statistics.intervals import score_end
from calibrant.statistics.resampling import Resampling, Stream, alpha_of, generator, in_blocks, t_quantile

FOLDS: Final = 5
METHOD: Final = "in-sample and 5-fold isotonic fits"


@dataclass(frozen=True)
class Part:
    """An estimate of a part of the decomposition, the mean of D^2 for D the gap of two forecasts, with its spread.

    ``error`` is its standard error, with ``df`` degrees of freedom. Its square is about 4 r D^2 + s: ``growth`` is r,
    ``rest`` is s.
    """

    value: float
    error: float
    growth: float
    rest: float
    df: float = math.inf


class Forecasts(Protocol):
    """The isotonic fits to some rows, in sample and out of fold, and how differences of two forecasts vary.

    Forecasts in sample are those of the cells, (K,); out of fold they have an axis of the folds, or of the clusters,
    before it.
    """

    @property
    def cells(self) -> Cells:
        """The cells of the rows."""

    @property
    def in_sample(self) -> tuple[Float64s, Float64s]:
        """The fit to all rows, and the base rate."""

    @property
    def out_of_fold(self) -> tuple[Float64s, Float64s]:
        """The fits without the rows that they judge, and the base rates of these fits."""

    def inside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean of (first - y)^2 - (second - y)^2 over all rows."""

    def outside(self, first: Float64s, second: Float64s) -> Part:
        """Return the same, each row with the forecasts out of fold."""

    @property
    def null_discrimination_sd(self) -> float:
        """The standard deviation of the discrimination in sample, where scores tell nothing."""

    @property
    def rank_p_value(self) -> float:
        """The p-value of the hypothesis that higher scores have no more outcomes, one-sided."""


@dataclass(frozen=True, eq=False)
class RowForecasts:
    """The isotonic fits to independent rows, which fall into the folds at random."""

    cells: Cells
    seed: np.random.SeedSequence

    @cached_property
    def in_sample(self) -> tuple[Float64s, Float64s]:
        """The fit to all rows, and the base rate."""
        return in_sample(self.cells)

    @cached_property
    def _folds(self) -> tuple[Float64s, Float64s, Float64s, Float64s]:
        return out_of_fold(self.cells, self.seed)

    @property
    def out_of_fold(self) -> tuple[Float64s, Float64s]:
        """The fits without their own fold, (5, K), and their base rates."""
        return self._folds[2:]

    def inside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean difference over all rows."""
        return difference(self.cells, self.cells.counts, self.cells.positives, first, second)

    def outside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean difference over the rows of the folds."""
        return difference(self.cells, *self._folds[:2], first, second)

    @property
    def null_discrimination_sd(self) -> float:
        """The standard deviation of the discrimination in sample, where scores tell nothing."""
        return null_discrimination_sd(self.cells)

    @property
    def rank_p_value(self) -> float:
        """The p-value of Wilcoxon's rank sum."""
        return rank_p_value(self.cells)


def miscalibrations(cells: Cells, positives: Float64s, fits: Float64s) -> Float64s:
    """Return S(p) - S(x) of (B, K) outcomes and their fits, for the Brier score: the mean of (p - y)^2 - (x - y)^2."""
    given = np.sum(cells.counts * cells.scores**2) - 2 * np.einsum("bk,k->b", positives, cells.scores)
    fitted = np.einsum("bk,bk->b", fits, cells.counts * fits - 2 * positives)
    return np.asarray((given - fitted) / cells.total)


def in_sample(cells: Cells) -> tuple[Float64s, Float64s]:
    """Return the fit to all cells, and the base rate at each of them."""
    fit = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0]
    return fit, np.full(len(cells), cells.positives.sum() / cells.total)


def out_of_fold(cells: Cells, seed: np.random.SeedSequence) -> tuple[Float64s, Float64s, Float64s, Float64s]:
    """Return weights, outcomes and forecasts of (5, K) folds, each fitted without its own rows, and their base rates.

    The rows of each cell and outcome fall into the folds at random.
    """
    rng = generator(seed, Stream.FOLDS)
    number, units = cells.kinds

    def split(outcome: int) -> Float64s:
        return np.asarray(rng.multinomial(number[outcome], np.full(FOLDS, 1 / FOLDS)).T * units[outcome])

    positives = split(1)
    negatives = split(0)
    counts, fits, bases = positives + negatives, np.empty_like(positives), np.empty_like(positives)
    for fold in range(FOLDS):
        others = np.arange(FOLDS) != fold
        n, k = counts[others].sum(axis=0), positives[others].sum(axis=0)
        if n.sum() == 0:
            n, k = counts.sum(axis=0), positives.sum(axis=0)
        fits[fold] = dispatch.isotonic_fits(n, k[None])[0]
        bases[fold] = k.sum() / n.sum()
    return counts, positives, fits, bases


def difference(cells: Cells, counts: Float64s, positives: Float64s, first: Float64s, second: Float64s) -> Part:
    """Return the mean of (first - y)^2 - (second - y)^2 over rows, with its standard error."""
    missed, hit = first**2 - second**2, (1 - first) ** 2 - (1 - second) ** 2
    negatives = counts - positives
    mean = float(np.sum(negatives * missed + positives * hit)) / cells.total
    each = cells.squares_per_weight
    square = float(np.sum(each[0] * negatives * (missed - mean) ** 2 + each[1] * positives * (hit - mean) ** 2))
    d2, weights = (first - second) ** 2, each[0] * negatives + each[1] * positives
    within = weights * second * (1 - second)
    whole = float(np.sum(counts * d2)) / cells.total
    growth = float(np.sum(within * d2)) / whole if whole > 0 else float(within.sum())
    rest = float(np.sum(weights * (d2 - whole) ** 2)) / cells.total**2
    return Part(mean, math.sqrt(square) / cells.total, growth / cells.total**2, rest)


def miscalibration_interval(
    forecasts: Forecasts, value: float, null_sd: float, level: float, *, rejected: bool
) -> tuple[float, float]:
    """Return the interval of the miscalibration; ``null_sd`` is its standard deviation under calibration."""
    scores = forecasts.cells.scores
    inside = forecasts.inside(scores, forecasts.in_sample[0])
    outside = forecasts.outside(scores, forecasts.out_of_fold[0])
    low, high = part_interval(inside, outside, null_sd, level, shown=rejected)
    return min(low, value), max(high, value)


def discrimination_interval(forecasts: Forecasts, value: float, level: float) -> tuple[float, float]:
    """Return the interval of the discrimination; its lower end is 0 unless the rank sum shows that there is one."""
    (fit, base), (fits, bases) = forecasts.in_sample, forecasts.out_of_fold
    inside, outside = forecasts.inside(base, fit), forecasts.outside(bases, fits)
    shown = forecasts.rank_p_value <= alpha_of(level) / 2
    low, high = part_interval(inside, outside, forecasts.null_discrimination_sd, level, shown=shown)
    return min(low, value), max(high, value)


def part_interval(inside: Part, outside: Part, null_sd: float, level: float, *, shown: bool) -> tuple[float, float]:
    """Return low = O - t se_O and the high that solves high = T + t sqrt(4 r high + s + s0^2), never below IS.

    IS is the part in sample, biased upwards; O the part out of fold, biased downwards; T their mean. s0 is the standard
    deviation of IS where the true value is 0, and 4 r m + s the variance of IS where it is m: with few distinct scores
    the normal approximation holds for gaps, not for their squares. Each end has the quantile of its own error.
    ``shown`` says that a test has shown the part to be above 0; without, low is 0.
    """
    middle, rest = max((inside.value + outside.value) / 2, 0.0), inside.rest + null_sd**2
    high = score_end(middle, inside.growth, rest, t_quantile(level, inside.df))
    low = max(outside.value - t_quantile(level, outside.df) * outside.error, 0.0) if shown else 0.0
    return min(low, inside.value), max(high, inside.value)


def null_discrimination_sd(cells: Cells) -> float:
    """Return the standard deviation of the discrimination in sample, where scores tell nothing.

    Then N DSC / (r (1 - r)), r the base rate, is chi-bar-square: a chi-square with L - 1 degrees of freedom, L the
    number of records among K ranks, whose mean is H = sum 1 / k and whose variance is H - sum 1 / k^2 (Robertson,
    Wright and Dykstra 1988). So its variance is 2 (H - 1) + H - sum 1 / k^2.
    """
    k = np.arange(1, len(cells) + 1)
    records = float(np.sum(1 / k))
    rate = float(cells.positives.sum() / cells.total)
    square = max(2 * (records - 1) + records - float(np.sum(1 / k**2)), 0.0)
    return rate * (1 - rate) * math.sqrt(square) / cells.effective_n


def rank_p_value(cells: Cells) -> float:
    """Return the p-value of the hypothesis that higher scores have no more outcomes: Wilcoxon's rank sum, one-sided."""
    from scipy.special import ndtr

    number = cells.kinds[0].astype(np.float64)
    n, positives = number.sum(axis=0), number[1]
    total, positive = float(n.sum()), float(positives.sum())
    ranks = np.cumsum(n) - (n - 1) / 2
    centred = float(np.sum(positives * (ranks - (total + 1) / 2)))
    ties = float(np.sum(n**3 - n))
    variance = positive * (total - positive) / 12 * ((total + 1) - ties / max(total * (total - 1), 1.0))
    return float(ndtr(-centred / math.sqrt(variance))) if variance > 0 else 1.0


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


def out_of_fold_by_cluster(rows: Clustered, seed: np.random.SeedSequence) -> tuple[Float64s, Float64s]:
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


def difference_by_cluster(rows: Clustered, first: Float64s, second: Float64s) -> Part:
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
        return in_sample(self.rows.cells)

    @cached_property
    def out_of_fold(self) -> tuple[Float64s, Float64s]:
        """The fits without the fold of a bucket, (H, K), and their base rates."""
        return out_of_fold_by_cluster(self.rows, self.resampling.seed)

    def inside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean difference over all rows."""
        return difference_by_cluster(self.rows, first, second)

    def outside(self, first: Float64s, second: Float64s) -> Part:
        """Return the mean difference, each bucket with its own forecasts."""
        return difference_by_cluster(self.rows, first, second)

    @property
    def null_discrimination_sd(self) -> float:
        """The standard deviation of the discrimination where scores tell nothing of the outcomes."""
        return null_discrimination_sd_by_cluster(self.rows, self.resampling)

    @property
    def rank_p_value(self) -> float:
        """The p-value of the rank sum, with the variance that buckets show."""
        return rank_p_value_by_cluster(self.rows)


def null_discrimination_sd_by_cluster(rows: Clustered, resampling: Resampling) -> float:
    """Return the standard deviation of the discrimination where scores tell nothing of the outcomes.

    Replicates are n r + c sum_h Z_h (y_h - n_h x), r the base rate and x the fit, with c^2 = sum n r (1 - r) /
    sum (y - x)^2: the dependence that is seen around the fit, with the variance of outcomes at the base rate. Without
    resampling it is the closed form of independent rows, as if rows of a cluster were copies.
    """
    cells = rows.cells
    if not resampling.n_resamples:
        return null_discrimination_sd(cells) * rows.effective_n / rows.kish
    fit, base = in_sample(cells)
    weights = cells.table.own_weights
    square = float(np.sum(weights[0] * fit**2 + weights[1] * (1 - fit) ** 2))
    variance = float(np.sum(weights * base * (1 - base)))
    if square <= _ROUNDING * float(weights.sum()):
        return null_discrimination_sd(cells) * rows.effective_n / rows.kish
    around = (rows.y - rows.n * fit) * math.sqrt(variance / square)

    def block(rng: np.random.Generator, size: int) -> Float64s:
        positives = cells.counts * base + rng.standard_normal((size, len(around))) @ around
        means = positives.sum(axis=1, keepdims=True) / rows.total
        fits = np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)
        parts = cells.counts * (means**2 - fits**2) + 2 * positives * (fits - means)
        return np.asarray(parts.sum(axis=1) / rows.total)

    blocks = in_blocks(resampling.n_resamples, resampling.seed, Stream.BOOTSTRAP, block)
    return float(np.concatenate(list(blocks)).std())


def rank_p_value_by_cluster(rows: Clustered) -> float:
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
