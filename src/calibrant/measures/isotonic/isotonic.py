"""Isotonic recalibration, two decompositions of a proper score, and the intervals of CORP's parts.

The decompositions are CORP, and Murphy's with its within-bin term. The intervals of CORP's miscalibration and
discrimination are by fits in sample and out of fold. For rows in clusters a fold is a set of whole buckets, so that no
cluster is in a fit that evaluates it. A part is the mean over rows of (f - y)^2 - (x - y)^2 = D^2 + 2 D (x - y),
D = f - x, x the isotonic fit and f the score or the base rate; its variance is that of its sums over buckets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.scores import Score, mean_score
from calibrant.kernels import dispatch
from calibrant.measures.binned.binned import Bins
from calibrant.results import ScoreDecomposition
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Influence, SamplingDesign
from calibrant.statistics.folds import Parts
from calibrant.statistics.intervals import Variance, score_end
from calibrant.statistics.resampling import Resampling, Stream, generator, t_quantile
from calibrant.table import GridCells, ReliabilityTable

METHOD: Final = "in-sample and 5-fold isotonic fits"

_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """The nondecreasing fit of outcomes to scores, as blocks of equal value.

    ``starts`` is the first row of each block in the table; ``counts`` and ``positives`` are the sums over its rows.
    """

    starts: NDArray[np.int64]
    counts: NDArray[Any]
    positives: NDArray[Any]

    @property
    def values(self) -> NDArray[np.float64]:
        """The recalibrated probability of each block: its observed frequency."""
        return np.asarray(self.positives / self.counts, dtype=np.float64)


def isotonic_fit(counts: NDArray[Any], positives: NDArray[Any]) -> IsotonicFit:
    """Return the nondecreasing fit of the outcomes to the scores that minimises every proper score.

    Counts and positives are those of the distinct scores, in their order. Pool adjacent violators, in one pass and
    without a rate per score.
    """
    starts = dispatch.pool_violators(counts, positives)
    return IsotonicFit(starts, np.add.reduceat(counts, starts), np.add.reduceat(positives, starts))


def corp(table: ReliabilityTable, score: Score) -> ScoreDecomposition:
    """Decompose a mean score with the isotonic fit x: MCB = S(p) - S(x), DSC = S(rate) - S(x), UNC = S(rate)."""
    fit = isotonic_fit(table.counts, table.positives)
    issued, base = table_score(table, score), base_score(table, score)
    recalibrated = mean_score(score, fit.values, fit.counts, fit.positives, table.total)
    return ScoreDecomposition(issued, issued - recalibrated, base - recalibrated, base)


def table_score(table: ReliabilityTable, score: Score) -> float:
    """Return the mean score of the table's scores; the Brier score is exact on a grid too."""
    if score == "brier":
        return table.sums.square_residuals / table.total
    return mean_score(score, table.scores, table.counts, table.positives, table.total)


def base_score(table: ReliabilityTable, score: Score) -> float:
    """Return the mean score of always issuing the base rate: the uncertainty."""
    total, positives = table.total, table.sums.positives
    return mean_score(score, positives / total, total, positives, total)


def murphy(table: ReliabilityTable, bins: Bins, score: Score) -> ScoreDecomposition:
    """Decompose a mean score by bins: reliability, resolution, uncertainty and what the bins hide.

    Brier: REL = sum o_b (P_b - Y_b)^2, RES = sum o_b (Y_b - rate)^2. Log: the same with the Kullback-Leibler divergence
    of P_b (of the rate) from Y_b instead of the square. The within-bin term is score - (REL - RES + UNC); for the
    Brier score it is WBV - WBC of Stephenson, Coelho and Jolliffe (2008).
    """
    filled = bins.counts > 0
    n, k = bins.counts[filled], bins.positives[filled]
    mean_scores, event_rates = bins.score_sums[filled] / n, k / n
    binned, recalibrated = (mean_score(score, forecasts, n, k, table.total) for forecasts in (mean_scores, event_rates))
    base, issued = base_score(table, score), table_score(table, score)
    reliability, resolution = binned - recalibrated, base - recalibrated
    hidden = 0.0 if issued == binned else issued - binned  # both may be infinite
    return ScoreDecomposition(issued, reliability, resolution, base, hidden)


def recalibrated_bound(cells: GridCells) -> float:
    """Bound the error of the Brier score of the isotonic fit, and so of MCB and DSC.

    The fit to cells scores no better than the fit to distinct scores. The fit to cells with zeros before ones
    scores no worse.
    """
    table, several, n0, n1 = cells.table, cells.several, cells.n0, cells.n1
    counts = np.stack([np.where(several, n0, n0 + n1), np.where(several, n1, 0.0)], axis=1).reshape(-1)
    positives = np.stack([np.where(several, 0.0, n1), np.where(several, n1, 0.0)], axis=1).reshape(-1)
    filled = counts > 0
    best = isotonic_fit(counts[filled], positives[filled])
    fit = isotonic_fit(table.counts, table.positives)
    scores = [mean_score("brier", f.values, f.counts, f.positives, table.total) for f in (fit, best)]
    return max(scores[0] - scores[1], 0.0) + cells.rounding


@dataclass(frozen=True)
class Part:
    """An estimate of a part of the decomposition, the mean of D^2 for D the gap of two forecasts, with its error.

    ``error`` is its standard error, with ``df`` degrees of freedom. Its square is about 4 r D^2 + s: ``growth`` is r,
    ``rest`` is s.
    """

    value: float
    error: float
    growth: float
    rest: float
    df: float = math.inf


class Forecasts(NamedTuple):
    """The isotonic fit and the base rate as forecasts of some rows: in sample, or out of fold."""

    #: (2, F, K): the weight of the rows without and with the event, of each fold or bucket of clusters, at each cell.
    #: In sample independent rows are one fold.
    masses: Float64s
    #: fit, base: (K,): the fit and the base rate at each cell; out of fold without the rows that they evaluate.
    fit: Float64s
    base: Float64s


def miscalibrations(cells: Cells, positives: Float64s, fits: Float64s) -> Float64s:
    """Return S(p) - S(x) of (B, K) outcomes and their fits, for the Brier score: the mean of (p - y)^2 - (x - y)^2."""
    of_scores = np.sum(cells.counts * cells.scores**2) - 2 * np.einsum("bk,k->b", positives, cells.scores)
    of_fits = np.einsum("bk,bk->b", fits, cells.counts * fits - 2 * positives)
    return np.asarray((of_scores - of_fits) / cells.total)


def in_sample(design: SamplingDesign) -> Forecasts:
    """Return the forecasts of rows by the fit to all of them."""
    cells = design.cells
    fit = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0]
    base = np.full(len(cells), cells.positives.sum() / cells.total)
    return Forecasts(Parts.of(design).masses, fit, base)


def out_of_fold(design: SamplingDesign, seed: np.random.SeedSequence) -> Forecasts:
    """Return the forecasts of the rows of 5 folds, each by the fit to the others, for each fold or bucket of clusters.

    The rows of each cell and outcome fall into the folds at random, those in clusters by whole buckets.
    """
    parts = Parts.of(design).dealt(generator(seed, Stream.FOLDS))
    fits, bases = np.empty_like(parts.masses[0]), np.empty_like(parts.masses[0])
    for fold in np.unique(parts.folds):
        others, inside = parts.without(fold).masses, parts.folds == fold
        n, positives = others.sum(axis=0).sum(axis=0), others[1].sum(axis=0)
        fits[inside] = dispatch.isotonic_fits(n, positives[None])[0]
        bases[inside] = positives.sum() / n.sum()
    return Forecasts(parts.masses, fits, bases)


def difference(design: SamplingDesign, masses: Float64s, first: Float64s, second: Float64s) -> Part:
    """Return the mean of (first - y)^2 - (second - y)^2 over rows, with its standard error.

    ``first`` and ``second`` are forecasts as in `Forecasts`. The error's square is about 4 r D^2 + s: r and s are those
    of independent rows, each times the design effect of its own sums, 2 D (x - y) and D^2.
    """
    cells = design.cells
    f, x = (np.broadcast_to(forecasts, masses.shape[1:]) for forecasts in (first, second))
    weights = cells.squares_per_weight[:, np.newaxis] * masses

    def mean_of(values: Float64s) -> float:
        return float(np.sum((masses * values).sum(axis=0))) / cells.total

    def variance(values: Float64s) -> Variance:
        """Return the variance of a sum over rows, from what a row without and with the event adds, (2, F, K)."""
        mean = mean_of(values)
        influence = Influence(
            square=float(np.sum((weights * (values - mean) ** 2).sum(axis=0))),
            by_bucket=lambda rows: (masses * values).sum(axis=(0, 2)) - mean * rows.weights,
            rounding=_ROUNDING * float(np.sum(weights * values**2)),
        )
        return design.variance(influence)

    gains = np.stack([f**2 - x**2, (1 - f) ** 2 - (1 - x) ** 2])
    d2, slopes = (f - x) ** 2, 2 * (f - x) * np.stack([x, x - 1])
    of_gains, of_d2 = variance(gains), variance(np.stack([d2, d2]))
    within, mean_d2 = weights.sum(axis=0) * x * (1 - x), mean_of(d2)
    growth = float(np.sum(within * d2)) / mean_d2 if mean_d2 > 0 else float(within.sum())
    return Part(
        value=mean_of(gains),
        error=of_gains.error / cells.total,
        growth=growth * variance(slopes).deff / cells.total**2,
        rest=of_d2.value / cells.total**2,
        df=of_gains.df,
    )


def miscalibration_interval(
    design: SamplingDesign, value: float, null_sd: float, resampling: Resampling, *, rejected: bool
) -> tuple[float, float]:
    """Return the interval of the miscalibration; ``null_sd`` is its standard deviation under calibration."""
    return _interval(design, value, lambda _: design.cells.scores, null_sd, resampling, shown=rejected)


def discrimination_interval(design: SamplingDesign, value: float, resampling: Resampling) -> tuple[float, float]:
    """Return the interval of the discrimination; its lower end is 0 unless the rank sum shows that there is one."""
    if isinstance(design, Clustered):
        null_sd, chance = null_discrimination_sd_by_cluster(design, resampling), rank_p_value_by_cluster(design)
    else:
        null_sd, chance = null_discrimination_sd(design.cells), rank_p_value(design.cells)
    return _interval(
        design, value, lambda forecasts: forecasts.base, null_sd, resampling, shown=chance <= resampling.tail
    )


def _interval(
    design: SamplingDesign,
    value: float,
    first: Callable[[Forecasts], Float64s],
    null_sd: float,
    resampling: Resampling,
    *,
    shown: bool,
) -> tuple[float, float]:
    """Return the interval of the mean difference of the ``first`` forecasts and the isotonic fit: `part_interval`."""
    inside, outside = (
        difference(design, forecasts.masses, first(forecasts), forecasts.fit)
        for forecasts in (in_sample(design), out_of_fold(design, resampling.seed))
    )
    low, high = part_interval(inside, outside, null_sd, resampling.level, shown=shown)
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


def null_discrimination_sd_by_cluster(rows: Clustered, resampling: Resampling) -> float:
    """Return the standard deviation of the discrimination where scores tell nothing of the outcomes.

    Simulated data sets are n r + c sum_h Z_h (y_h - n_h x), r the base rate and x the fit, with c^2 = sum n r (1 - r) /
    sum (y - x)^2: the dependence that is seen around the fit, with the variance of outcomes at the base rate. Without
    resampling it is the closed form of independent rows, as if rows of a cluster were copies.
    """
    cells, weights = rows.cells, rows.cells.table.own_weights
    _, fit, base = in_sample(rows)
    square = float(np.sum(weights[0] * fit**2 + weights[1] * (1 - fit) ** 2))
    variance = float(np.sum(weights * base * (1 - base)))
    if not resampling.n_resamples or square <= _ROUNDING * float(weights.sum()):
        return null_discrimination_sd(cells) * rows.effective_n / rows.units
    around = (rows.y - rows.n * fit) * math.sqrt(variance / square)

    def block(rng: np.random.Generator, size: int) -> Float64s:
        positives = cells.counts * base + rng.standard_normal((size, len(around))) @ around
        means = positives.sum(axis=1, keepdims=True) / rows.total
        fits = np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)
        parts = cells.counts * (means**2 - fits**2) + 2 * positives * (fits - means)
        return np.asarray(parts.sum(axis=1) / rows.total)

    return float(resampling.draws(Stream.BOOTSTRAP, block).std())


def rank_p_value_by_cluster(rows: Clustered) -> float:
    """Return the p-value of the hypothesis that higher scores have no more outcomes, one-sided.

    z = sum u_h / sqrt(sum u_h^2) with u_h = sum_k (y_hk - r n_hk) (rank_k - mean rank): Wilcoxon's rank sum with the
    variance that buckets show.
    """
    from scipy.special import ndtr

    counts = rows.cells.counts
    rate = float(rows.cells.positives.sum()) / rows.total
    ranks = np.cumsum(counts) - counts / 2 - rows.total / 2
    sums = (rows.y - rate * rows.n) @ ranks
    square = float(np.sum(sums**2))
    return float(ndtr(-float(sums.sum()) / math.sqrt(square))) if square > 0 else 1.0
