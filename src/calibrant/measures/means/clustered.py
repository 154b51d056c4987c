"""Intervals of means over rows in clusters, Wilson's for a share, and the warnings that clusters call for.

The variance of a mean is that of independent rows times the design effect of its sums over buckets; the quantile is
that of Student's law with the degrees of freedom of these sums.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from calibrant.clusters import BucketSums
from calibrant.inputs.scores import Score
from calibrant.inputs.weights import share_rows
from calibrant.measures.means.base_rates import BaseRates
from calibrant.measures.means.intervals import mean_interval, unbiased
from calibrant.measures.means.means import (
    CLUSTERS,
    NO_SKILL_BY_CLUSTER,
    NORMAL,
    PredictionMeans,
    implied,
    rare,
    wilson_interval,
)
from calibrant.measures.means.ratio import ratio_square
from calibrant.measures.ranking.area import area_square, influences
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import Clustered, around_mean, centred, variance_of
from calibrant.statistics.intervals import blend
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import normal_quantile, t_quantile
from calibrant.statistics.variance import Variance

#: The end of the method of every number that clusters entered.
BY_CLUSTER: Final = "; by cluster"

#: The same where each cluster is one row: the rows are independent.
LONE: Final = "; clusters of one row"

_LEAST_DEFF: Final = 0.01  # of a share
_ROUNDING: Final = 1e-12  # relative: a smaller variance of rows is rounding
_LARGE: Final = 0.1  # share of the rows; a cluster with more decides the degrees of freedom


# ------------------------------------------------------------ the mean score and the ratio


def ratio_variance(rows: Clustered, ratio: float) -> Variance:
    """Return the variance of O - t E, t the ratio of observed to expected outcomes, by the sums of y - t p."""
    own = rows.centred(rows.y.sum(axis=1) - ratio * (rows.gaps + rows.y).sum(axis=1))
    return variance_of(own, ratio_square(rows.fine, ratio), rows.sizes)


def mean_score_variance(rows: Clustered, value: float) -> Variance:
    """Return the variance of the sum of the scores, whose mean is ``value``."""
    fine = rows.fine
    own = rows.centred((rows.gaps + rows.y).sum(axis=1))
    square = float(np.sum(fine.square_weights * (fine.scores - value) ** 2))
    return variance_of(own, square if square > _ROUNDING * rows.total * rows.unit else 0.0, rows.sizes)


# ------------------------------------------------------------ proper scores


def loss_spread(rows: Clustered, score: Score, means: PredictionMeans, sums: Float64s | None = None) -> Variance:
    """Return the spread of the sum of the Brier scores or log losses; the buckets must be scored.

    The variance of a row is the one of `means.means.score_interval`: where the scores are of the judged event, it is
    blended with what calibration implies, as five rows of prior. ``sums`` are other sums of the buckets, (H,).
    """
    mean, variance = (means.brier, means.brier_variance) if score == "brier" else (means.nll, means.nll_variance)
    sums = rows.scalar("brier" if score == "brier" else "nll") if sums is None else sums
    found = _sum_spread(rows, sums, variance, mean)
    if means.event:
        fine = rows.fine
        expected, square = implied(fine.scores, score)
        spread = float(np.sum(fine.square_weights * (square - mean * (2 * expected - mean))))
        n, implied_variance = np.array([rows.effective_n]), np.array([spread / (rows.unit * rows.total)])
        variance = max(float(blend(n, np.array([variance]), implied_variance)[0]), 0.0)
    whole = unbiased(variance * rows.unit * rows.total, rows.effective_n)
    return Variance(whole * found.deff, found.deff, found.df)


def _sum_spread(
    rows: Clustered, sums: Float64s, variance: float, mean: float, weights: Float64s | None = None
) -> Variance:
    """Return the spread of a sum from its sums over the buckets, (H,), and from the variance and mean of a row.

    ``weights`` are those of the buckets, by default of all.
    """
    weights = rows.weights if weights is None else weights
    own = centred(sums, weights)
    square = variance * rows.unit * rows.total
    return variance_of(own, square if variance > _ROUNDING * (mean**2 + variance) else 0.0, weights / rows.unit)


def score_interval(rows: Clustered, score: Score, means: PredictionMeans, level: float) -> Interval:
    """Return the interval of the mean Brier score or of the mean log loss, which is finite."""
    value = means.brier if score == "brier" else means.nll
    return Interval(*mean_interval(value, loss_spread(rows, score, means), rows.total, level), NORMAL)


def event_brier_interval(rows: Clustered, level: float) -> Interval:
    """Return the interval of the judged event's own mean Brier score.

    The sum of (p - y)^2 over a bucket is that of p (1 - p) less the exact one of (p - y) (1 - 2 p); p (1 - p) is
    linear in each coarse cell, around the cell's mean score.
    """
    means, c = PredictionMeans.of_event(rows.fine.table, right=False), rows.cells.scores
    sums = rows.n @ (c * (1 - c)) + (rows.gaps + rows.y - rows.n * c) @ (1 - 2 * c) - rows.scalar("tilt")
    return Interval(*mean_interval(means.brier, loss_spread(rows, "brier", means, sums), rows.total, level), NORMAL)


def skill_interval(rows: Clustered, means: PredictionMeans, rates: BaseRates, level: float) -> Interval:
    """Return the interval of the Brier skill 1 - B / U, of the sums of b - (B / U) u over the buckets.

    The error of the base rates adds what it does in `means.means.skill_interval`, with the design effect of u.
    """
    if rates.buckets is None or rates.places is None:
        return Interval(math.nan, math.nan, NO_SKILL_BY_CLUSTER)
    ratio, places = means.brier / rates.score, rates.places[rows.held]
    pooled = [np.bincount(places, x, len(rates.buckets)) for x in (rows.scalar("brier"), rows.weights)]
    brier, weights = (x.astype(np.float64, copy=False) for x in pooled)
    losses, filled = rates.buckets @ rates.losses, weights > 0
    variance = rates.variance(ratio, means.brier, means.brier_variance)
    found = _sum_spread(rows, (brier - ratio * losses)[filled], variance, means.brier, weights[filled])
    base = _sum_spread(rows, losses[filled], rates.own_variance, rates.score, weights[filled])
    second = 2 * (ratio * base.deff / rows.effective_n * rows.total) ** 2
    spread = found._replace(value=found.value / rates.score**2 + second)
    return Interval(*mean_interval(1 - ratio, spread, rows.total, level), NORMAL)


def area_variance(rows: Clustered) -> Variance:
    """Return the variance of the area under the ROC curve, by the sums of its influences over buckets.

    Within a coarse cell the rows of an outcome have the mean influence of its cells (Obuchowski 1997, doi
    10.2307/2533958, on these sums).
    """
    moved, fine = influences(rows.fine), rows.fine
    kinds = [fine.counts - fine.positives, fine.positives]
    without, having = (
        np.divide(rows.cells.pool(n * x), pooled, out=np.zeros(len(pooled)), where=pooled > 0)
        for n, x, pooled in ((n, x, rows.cells.pool(n)) for n, x in zip(kinds, moved, strict=True))
    )
    return variance_of((rows.n - rows.y) @ without + rows.y @ having, area_square(fine), rows.sizes)


# ------------------------------------------------------------ shares


def share_trials(n: float, rows: Clustered, spread: Variance, level: float, *, varied: bool) -> float:
    """Return the number of independent rows in which a share of n rows would be as uncertain.

    n / deff (z / t)^2 (Korn and Graubard 1998), the design effect at least .01; where all rows are alike, the effective
    number of clusters.
    """
    if not varied:
        return rows.kish
    t = t_quantile(level, spread.df)
    return n / max(spread.deff, _LEAST_DEFF) * (normal_quantile(level) / t) ** 2


def accuracy_spread(rows: Clustered, means: PredictionMeans) -> Variance:
    """Return the spread of the number of right answers; the buckets must be scored."""
    share = means.accuracy
    return _sum_spread(rows, rows.scalar("right"), share * (1 - share) * means.effective_n / means.accuracy_rows, share)


def accuracy_interval(rows: Clustered, means: PredictionMeans, level: float) -> tuple[float, float]:
    """Return Wilson's interval of the accuracy."""
    spread, varied = accuracy_spread(rows, means), 0 < means.accuracy < 1
    n = share_trials(means.accuracy_rows, rows, spread, level, varied=varied)
    return wilson_interval(means.accuracy, n, normal_quantile(level))


def rate_spread(rows: Clustered) -> Variance:
    """Return the spread of the number of outcomes."""
    cells = rows.fine
    rate = float(cells.positives.sum()) / rows.total
    squares = cells.table.own_weights.sum(axis=1)
    square = around_mean(float(squares[1]), rate, float(squares[1]), float(squares.sum()))
    return variance_of(rows.centred(rows.y.sum(axis=1)), square, rows.sizes)


def rate_rows(rows: Clustered, level: float) -> float:
    """Return in how many independent rows the base rate would be as uncertain."""
    cells = rows.fine
    rate = float(cells.positives.sum()) / rows.total
    n = float(share_rows(rate, rows.total, cells.table.own_weights.sum(axis=1)))
    return share_trials(n, rows, rate_spread(rows), level, varied=0 < rate < 1)


# ------------------------------------------------------------ details and warnings


def details_of(buckets: BucketSums) -> dict[str, Any]:
    """Return what a result says about its clusters: their number, and the largest one's share of the rows."""
    return {"clusters": buckets.number, "largest_cluster": buckets.largest_share}


def rarer_clusters(rows: Clustered) -> int:
    """Return how many buckets hold the rarer outcome."""
    outcomes = rows.y.sum(axis=1)
    rarer = outcomes if float(outcomes.sum()) <= rows.total / 2 else rows.weights - outcomes
    return int(np.count_nonzero(rarer > _ROUNDING * rows.weights))


def flag_of(rows: Clustered) -> str:
    """Return a warning where intervals are not to be trusted, or nothing.

    Too few clusters hold the rarer outcome, or one cluster holds more than a tenth of the rows.
    """
    flags = list(filter(None, [rare(rarer_clusters(rows), unit=CLUSTERS)]))
    if rows.largest_share > _LARGE:
        share = f"{100 * rows.largest_share:.0f} %"
        flags.append(f"one cluster holds {share} of the rows: intervals are wide, p-values careful")
    return "; ".join(flags)
