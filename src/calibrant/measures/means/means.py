"""Intervals of means over predictions: by the central limit theorem, Wilson's for a share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.notions import ScoreMeans
from calibrant.inputs.predictions import Layout
from calibrant.inputs.scores import Score, mean_score, mean_square
from calibrant.inputs.weights import effective_n, share_rows
from calibrant.measures.certified import Certified
from calibrant.measures.isotonic import isotonic
from calibrant.measures.means.base_rates import BaseRates
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import CalibrationSketch
from calibrant.statistics.cells import Cells
from calibrant.statistics.intervals import blend
from calibrant.statistics.null import Interval
from calibrant.table import ReliabilityTable

MINORITY: Final = 15  # rows of the rarer outcome below which every interval is flagged
_CANCELS: Final = 1e-8  # of the mean's square: a difference of mean squares that is smaller has lost half its digits
DECIDING: Final = 30  # rows whose weights decide a variance, below which every interval is flagged
#: What is counted of the rarer outcome: rows, or the clusters that hold it.
ROWS: Final = "row"
CLUSTERS: Final = "cluster"
NORMAL: Final = "central limit theorem"
#: The method of an interval of the skill that takes the predictions and the base rates to vary together at worst.
ADDED: Final = f"{NORMAL}, standard errors added: safe, and wide"
#: Why there is no interval of the skill.
NO_SKILL_BY_CLUSTER: Final = "no interval by cluster: how often each class is in each cluster is not known"

#: Why right answers alone have no skill.
ONLY_RIGHT: Final = "the {} says which answers are right, not how often each class is"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionMeans:
    """Means over whole predictions, not over a judged event: accuracy, Brier score, log loss and their spread.

    Attributes
    ----------
    accuracy, brier, nll : float
        The means.
    accuracy_rows : float
        The number of equal rows in which the accuracy would be as uncertain.
    brier_variance, nll_variance : float
        The variances of a row's Brier score and of its finite log loss: ``effective_n`` times that of the mean.
    infinite : float
        The weight of the rows whose log loss is infinite.
    n : int
        The rows.
    effective_n : float
        Their effective sample size.
    layout : str
        The shape of the predictions. Of one event, "binary", calibration says what the scores should be.
    accuracy_bound, nll_bound : float
        The certified errors of accuracy and log loss; 0 if they are exact.
    base_rates : BaseRates or None
        The Brier score of always predicting the base rates; None if they are not known, and ``no_base_rates`` says why.
    """

    accuracy: float
    brier: float
    nll: float
    accuracy_rows: float
    brier_variance: float
    nll_variance: float
    infinite: float
    n: int
    effective_n: float
    layout: Layout
    accuracy_bound: float = 0.0
    nll_bound: float = 0.0
    base_rates: BaseRates | None = None
    no_base_rates: str = ""

    @property
    def event(self) -> bool:
        """Whether the scores are those of the judged event itself."""
        return self.layout == "binary"

    @classmethod
    def of_scores(
        cls,
        scores: ScoreMeans,
        squared: ScoreMeans,
        *,
        effective_n: float,
        n: int,
        layout: Layout,
        base_rates: BaseRates | None = None,
        no_base_rates: str = "",
    ) -> PredictionMeans:
        """Return the means, with the variances that the same means with squared weights give.

        The variance of a mean m is sum w^2 (x - m)^2 / W^2. With whole weights a row of weight 2 is two rows, and
        ``squared`` is ``scores``.
        """
        rows = effective_n
        if squared != scores:
            kinds = effective_n * np.array([1 - squared.accuracy, squared.accuracy])
            rows = float(share_rows(scores.accuracy, effective_n, kinds))
        return cls(
            accuracy=scores.accuracy,
            brier=scores.brier,
            nll=scores.nll,
            accuracy_rows=rows,
            brier_variance=_variance(scores.brier, squared.brier, squared.brier_square),
            nll_variance=_variance(scores.nll, squared.nll, squared.nll_square),
            infinite=scores.infinite,
            n=n,
            effective_n=effective_n,
            layout=layout,
            base_rates=base_rates,
            no_base_rates=no_base_rates,
        )

    @classmethod
    def of_sketch(cls, sketch: CalibrationSketch) -> PredictionMeans:
        """Return the exact means of a sketch."""
        sums = sketch.totals
        rates, reason = _rates_of_sketch(sketch)
        return cls.of_scores(
            sums.means,
            sums.squared_means,
            effective_n=sums.effective_n,
            n=sums.n,
            layout=sketch.layout or "binary",
            base_rates=rates,
            no_base_rates=reason,
        )

    @classmethod
    def of_table(cls, table: ReliabilityTable, *, right: bool) -> PredictionMeans:
        """Return the means of a table of one event; ``right`` says that the event is a right answer."""
        means, certified = cls.of_event(table, right=right), Certified.of(table)
        if certified is None:
            return means
        nll, nll_bound = certified.log_loss()
        accuracy_bound = 0.0 if right else certified.accuracy(means.accuracy)
        return replace(means, nll=nll, nll_bound=nll_bound, accuracy_bound=accuracy_bound)

    @classmethod
    def of_event(cls, table: ReliabilityTable, *, right: bool) -> PredictionMeans:
        """Return the same with the log loss and the accuracy of the cells' mean scores, without certified errors."""
        scores = _table_scores(table, np.stack([table.counts - table.positives, table.positives]), right=right)
        squared = scores if table.whole else _table_scores(table, table.own_weights, right=right)
        scores = replace(scores, brier=isotonic.table_score(table, "brier"), nll=isotonic.table_score(table, "log"))
        return cls.of_scores(
            scores,
            squared,
            effective_n=Cells.from_table(table).effective_n,
            n=table.n,
            layout="binary",
            base_rates=None if right else BaseRates.of_tables([table]),
            no_base_rates=ONLY_RIGHT.format("table") if right else "",
        )


def _rates_of_sketch(sketch: CalibrationSketch) -> tuple[BaseRates | None, str]:
    """Return the base rates, or why the sketch does not have them."""
    if sketch.layout == "binary":
        if sketch.notion == "top-label":
            return None, ONLY_RIGHT.format("sketch")
        return BaseRates.of_tables([sketch.table]), ""
    if not sketch.has_classes:
        return None, "the sketch does not keep its classes: make it with classwise=True"
    tables = sketch.class_tables
    if sketch.layout == "multilabel":
        return BaseRates.of_tables(tables), ""
    masses = np.array([float(table.positives.sum()) for table in tables])
    squares = np.array([float(table.own_weights[1].sum()) for table in tables])
    return BaseRates.of_classes(masses, squares), ""


def _table_scores(table: ReliabilityTable, weights: NDArray[Any], *, right: bool) -> ScoreMeans:
    """Return the mean scores of a table's rows whose weights by outcome, (2, K), are these."""
    counts, positives = weights.sum(axis=0), weights[1]
    hits = positives if right else np.where(table.scores >= 0.5, positives, counts - positives)
    total, rows = float(counts.sum()), (table.scores, counts, positives)
    return ScoreMeans(
        accuracy=float(hits.sum()) / total,
        brier=mean_score("brier", *rows, total),
        brier_square=mean_square("brier", *rows, total),
        nll=mean_score("log", *rows, total),
        nll_square=mean_square("log", *rows, total),
        infinite=table.impossible,
    )


def _variance(mean: float, squared_mean: float, square: float) -> float:
    """Return the mean of (x - m)^2 over rows of squared weight; 0 for an infinite mean, which has no interval."""
    return max(square - mean * (2 * squared_mean - mean), 0.0) if math.isfinite(mean) else 0.0


def rarer_rows(cells: Cells) -> float:
    """Return the effective sample size of the rarer outcome."""
    kinds = np.stack([cells.counts - cells.positives, cells.positives])
    return rarer_of(kinds.sum(axis=1), cells.table.own_weights.sum(axis=1))


def rarer_of(weights: Float64s, squares: Float64s) -> float:
    """Return the same from the sums of weights and of squared weights by outcome, (2,) each.

    An outcome without squared weights has no rows: what differences of weights leave of it is rounding.
    """
    return min(effective_n(float(w), float(q)) if q > 0 else 0.0 for w, q in zip(weights, squares, strict=True))


def flag_of(cells: Cells) -> str:
    """Return a warning if one outcome is too rare for intervals to be trusted, or nothing."""
    return rare(rarer_rows(cells))


def rare(number: float, of: str = "", unit: str = ROWS) -> str:
    """Return a warning where too few rows, or clusters, have the rarer outcome, or nothing."""
    if number >= MINORITY * (1 - 1e-9):
        return ""
    if number == 0:
        return f"the outcome is the same in every row{of}: intervals may be too short"
    many = f"{number:.4g} {unit}{'s' * (number != 1)} {'of' if unit == ROWS else 'with'} the rarer outcome{of}"
    return f"{many}: fewer than {MINORITY}, intervals may be too short"


def heavy(rows: float) -> str:
    """Return a warning where the weights of so few rows decide that variances are not to be trusted, or nothing."""
    if rows >= DECIDING:
        return ""
    return f"the weights of few rows decide (as of {rows:.2g} equal ones): intervals may be too short"


def counted_rows(rows: int, weight: float) -> str:
    """Return a warning about whole weights, which may be those of a sample."""
    counted = (
        f"the weights are whole numbers that add up to {weight:,.0f} for {rows:,} rows, and each counts as many rows"
    )
    told = 'pass weights_are="sampling" (--weights-are sampling)'
    return f'{counted}: if they are sampling weights, {told}; if they are counts, "frequency"'


def normal_interval(mean: float, variance: float, n: float, z: float) -> tuple[float, float]:
    """Return mean -+ z sd / sqrt(n - 1), of a mean over n rows of this variance."""
    if n <= 1:
        return -math.inf, math.inf
    error = math.sqrt(variance / (n - 1))
    return mean - z * error, mean + z * error


def score_interval(cells: Cells, score: Score, means: PredictionMeans, z: float) -> Interval:
    """Return the interval of the mean Brier score or log loss.

    Where the scores are those of the judged event, the variance is blended with what calibration implies, as for the
    mean gap: an outcome that scores call nearly certain may not have failed yet.
    """
    n = means.effective_n
    mean, variance = (means.brier, means.brier_variance) if score == "brier" else (means.nll, means.nll_variance)
    if means.event:
        expected, square = implied(cells.scores, score)
        squares = cells.square_weights
        spread = float(np.sum(squares * (square - mean * (2 * expected - mean)))) / float(squares.sum())
        if min(variance, spread) < _CANCELS * mean**2:
            seen, spread = around(cells, score, mean)
            variance = seen if cells.table.grid is None else max(variance, seen)
        variance = float(blend(np.array([n]), np.array([variance]), np.array([spread]))[0])
    return Interval(*normal_interval(mean, variance, n, z), NORMAL)


def skill_interval(means: PredictionMeans, rates: BaseRates, z: float) -> Interval:
    """Return the interval of the Brier skill 1 - B / U: that of a ratio of two means over the same rows.

    The error of the base rates lowers U by sum (f - r)^2, f the rates of the rows: of second order, and all that is
    left where every row has one score. Its variance is at most 2 (U / n)^2.
    """
    ratio = means.brier / rates.score
    variance = rates.variance(ratio, means.brier, means.brier_variance) / rates.score**2
    variance += 2 * ratio**2 / means.effective_n
    low, high = normal_interval(1 - ratio, variance, means.effective_n, z)
    return Interval(low, high, ADDED if rates.brier is None else NORMAL)


def implied(scores: Float64s, score: Score) -> tuple[Float64s, Float64s]:
    """Return the mean and the mean square of a prediction's Brier score or log loss if its score is right."""
    p, q = scores, 1 - scores
    if score == "brier":
        return p * q, p * q**4 + q * p**4
    hit, miss = np.log(np.where(p > 0, p, 1.0)), np.log(np.where(q > 0, q, 1.0))
    return -p * hit - q * miss, p * hit**2 + q * miss**2


def around(cells: Cells, score: Score, mean: float) -> tuple[float, float]:
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


def surprises(cells: Cells) -> dict[str, str]:
    """Return a warning where too few outcomes are expected that scores call unlikely; a detail, or nothing."""
    likely = float(np.sum(cells.rows * np.minimum(cells.scores, 1 - cells.scores)))
    if likely >= MINORITY:
        return {}
    many = f"{likely:.2g} outcome{'s' * (likely != 1)} that the scores call unlikely"
    return {"flag": f"{many} expected: fewer than {MINORITY}, the interval may be too short"}


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share seen in n rows."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if share <= 0 else min(max(middle - half, 0.0), share)
    return low, 1.0 if share >= 1 else max(min(middle + half, 1.0), share)
