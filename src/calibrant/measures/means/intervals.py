"""How means over rows vary: of the scores, of proper scores, of right answers and of outcomes; with their intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from calibrant.inputs.scores import Score
from calibrant.inputs.weights import share_rows
from calibrant.measures.event import Event
from calibrant.measures.means.means import PredictionMeans, wilson_interval
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import around_mean
from calibrant.statistics.design import MINORITY, Clustered, Influence, SamplingDesign
from calibrant.statistics.intervals import Variance, blend, clopper_pearson
from calibrant.statistics.resampling import alpha_of, normal_quantile

_CANCELS: Final = 1e-8  # of the mean's square: a difference of mean squares that is smaller has lost half its digits
_ROUNDING: Final = 1e-12  # relative: a smaller variance of rows is rounding


def gap_influence(design: SamplingDesign) -> Influence:
    """Return the influence on the mean gap, score - outcome, its square blended with what calibration implies.

    The blend is (K Q + 5 V0) / (K + 5), K the effective number of rows, or of clusters.
    """
    cells, fine, total = design.cells, design.fine, design.cells.total
    seen = cells.squared_residuals
    steadied = blend(np.full(len(cells), design.units), seen, cells.null_variances)
    mean, squared_gaps = float(cells.gap_sums.sum()) / total, float(cells.squared_gaps.sum())
    centre = mean * (2 * squared_gaps - mean * float(cells.square_weights.sum()))
    square, blended = (max(float(squares.sum()) - centre, 0.0) / total**2 for squares in (seen, steadied))
    return Influence(
        square=square,
        by_bucket=lambda clusters: clusters.gaps.sum(axis=1) / total,
        n=cells.effective_n,
        steadied=blended,
        rounding=_ROUNDING * float(seen.sum()) / total**2,
        cells=fine,
        values=np.stack([fine.scores, fine.scores - 1]) / total,
    )


def gap_variance(design: SamplingDesign) -> Variance:
    """Return the variance of the mean gap."""
    return design.variance(gap_influence(design))


def mean_score_influence(cells: Cells, value: float) -> Influence:
    """Return the influence on the mean score of these cells, whose value is given."""
    total = cells.total
    square = float(np.sum(cells.square_weights * (cells.scores - value) ** 2)) / total**2
    return Influence(
        square=square,
        by_bucket=lambda clusters: (clusters.gaps + clusters.y).sum(axis=1) / total,
        n=cells.effective_n,
        rounding=_ROUNDING / cells.effective_n,
        cells=cells,
        values=np.stack([cells.scores, cells.scores]) / total,
    )


# ------------------------------------------------------------ proper scores


def _rows(design: SamplingDesign, means: PredictionMeans) -> float:
    """Return the effective number of rows of means; in clusters each label of multilabel predictions is one."""
    return design.effective_n if isinstance(design, Clustered) else means.effective_n


def score_influence(
    design: SamplingDesign,
    score: Score,
    means: PredictionMeans,
    by_bucket: Callable[[Clustered], Float64s] | None = None,
) -> Influence:
    """Return the influence on the mean Brier score or log loss; the buckets of clusters must be scored.

    Where the scores are those of the judged event, the variance is blended with what calibration implies, as for the
    mean gap: an outcome that scores call nearly certain may not have failed yet. ``by_bucket`` are other sums of the
    buckets.
    """
    cells, n, name = design.fine, _rows(design, means), "brier" if score == "brier" else "nll"
    mean, variance = (means.brier, means.brier_variance) if score == "brier" else (means.nll, means.nll_variance)
    steadied = None
    if means.event:
        expected, square = _implied(cells.scores, score)
        squares = cells.square_weights
        by_scores = float(np.sum(squares * (square - mean * (2 * expected - mean)))) / float(squares.sum())
        if min(variance, by_scores) < _CANCELS * mean**2:
            seen, by_scores = _around(cells, score, mean)
            variance = seen if cells.table.grid is None else max(variance, seen)
        steadied = float(blend(np.array([n]), np.array([variance]), np.array([by_scores]))[0]) / n
    return Influence(
        square=variance / n,
        by_bucket=by_bucket or (lambda clusters: clusters.scalar(name) / clusters.total),
        n=n,
        steadied=steadied,
        rounding=_ROUNDING * (mean**2 + variance) / n,
    )


def event_brier_influence(design: SamplingDesign) -> Influence:
    """Return the influence on the judged event's own mean Brier score.

    The sum of (p - y)^2 over a bucket is that of p (1 - p) less the exact one of (p - y) (1 - 2 p); p (1 - p) is
    linear in each coarse cell, around the cell's mean score.
    """

    def by_bucket(rows: Clustered) -> Float64s:
        c = rows.cells.scores
        sums = rows.n @ (c * (1 - c)) + (rows.gaps + rows.y - rows.n * c) @ (1 - 2 * c) - rows.scalar("tilt")
        return np.asarray(sums / rows.total)

    cells = design.fine
    influence = score_influence(design, "brier", PredictionMeans.of_event(cells.table, right=False), by_bucket)
    values = np.stack([cells.scores**2, (1 - cells.scores) ** 2]) / cells.total
    return replace(influence, cells=cells, values=values)


def _implied(scores: Float64s, score: Score) -> tuple[Float64s, Float64s]:
    """Return the mean and the mean square of a prediction's Brier score or log loss if its score is right."""
    p, q = scores, 1 - scores
    if score == "brier":
        return p * q, p * q**4 + q * p**4
    hit, miss = np.log(np.where(p > 0, p, 1.0)), np.log(np.where(q > 0, q, 1.0))
    return -p * hit - q * miss, p * hit**2 + q * miss**2


def _around(cells: Cells, score: Score, mean: float) -> tuple[float, float]:
    """Return the variance of a prediction's finite score around the mean, as seen and as calibration implies.

    They are sums of squares: where scores hardly vary, differences of mean squares are rounding alone.
    """
    p, q = cells.scores, 1 - cells.scores
    if score == "brier":
        missed, hit = p**2, q**2
    else:
        missed, hit = -np.log(np.where(q > 0, q, 1.0)), -np.log(np.where(p > 0, p, 1.0))
    squares, (missed, hit) = cells.table.own_weights, ((missed - mean) ** 2, (hit - mean) ** 2)
    seen = float(squares[0] @ missed + squares[1] @ hit)
    implied_sum = float(cells.square_weights @ (q * missed + p * hit))
    return seen / float(squares.sum()), implied_sum / float(squares.sum())


def surprises(event: Event) -> dict[str, str]:
    """Return a warning where too few outcomes are expected that scores call unlikely; a detail, or nothing."""
    cells = event.design.cells
    likely = float(np.sum(cells.rows * np.minimum(cells.scores, 1 - cells.scores)))
    if likely >= MINORITY:
        return {}
    many = f"{likely:.2g} outcome{'s' * (likely != 1)} that the scores call unlikely"
    return {"flag": f"{many} expected: fewer than {MINORITY}, the interval may be too short"}


# ------------------------------------------------------------ shares


def accuracy_influence(design: SamplingDesign, means: PredictionMeans) -> Influence:
    """Return the influence on the accuracy; the buckets of clusters must be scored."""
    share, n = means.accuracy, _rows(design, means)
    square = share * (1 - share) * means.effective_n / means.accuracy_rows / n
    return Influence(
        square=square,
        by_bucket=lambda clusters: clusters.scalar("right") / clusters.total,
        n=n,
        rounding=_ROUNDING * (share**2 / n + square),
    )


def accuracy_interval(design: SamplingDesign, means: PredictionMeans, level: float) -> tuple[float, float]:
    """Return Wilson's interval of the accuracy."""
    variance = design.variance(accuracy_influence(design, means))
    n = design.trials(means.accuracy_rows, variance, level, varied=0 < means.accuracy < 1)
    return wilson_interval(means.accuracy, n, normal_quantile(level))


def rate_rows(design: SamplingDesign, level: float) -> float:
    """Return in how many independent rows the base rate would be as uncertain."""
    cells = design.fine
    rate, squares = float(cells.positives.sum()) / cells.total, cells.table.own_weights.sum(axis=1)
    square = around_mean(float(squares[1]), rate, float(squares[1]), float(squares.sum()))
    influence = Influence(square=square, by_bucket=lambda clusters: clusters.y.sum(axis=1), n=cells.effective_n)
    n, variance = float(share_rows(rate, cells.total, squares)), design.variance(influence)
    return design.trials(n, variance, level, varied=0 < rate < 1)


def rate_interval(rate: float, rows: float, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a base rate that was seen in so many independent rows."""
    ends: tuple[Float64s, Float64s] = clopper_pearson(rate * rows, rows, alpha_of(level) / 2)
    return float(ends[0]), float(ends[1])


def uncertainty_interval(rate: float, rows: float, level: float) -> tuple[float, float]:
    """Return the range of r (1 - r) over the base rates r in `rate_interval`."""
    low, high = rate_interval(rate, rows, level)
    most = 0.25 if low <= 0.5 <= high else max(low * (1 - low), high * (1 - high))
    return min(low * (1 - low), high * (1 - high)), most
