"""Intervals of means over predictions: by the central limit theorem, Wilson's for a share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.notions import ScoreMeans
from calibrant.inputs.predictions import Layout
from calibrant.inputs.scores import mean_score, mean_square
from calibrant.inputs.weights import share_rows
from calibrant.measures.grid_cells import GridCells
from calibrant.measures.isotonic import isotonic
from calibrant.measures.means.base_rates import BaseRates
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import CalibrationSketch
from calibrant.statistics.cells import Cells
from calibrant.table import ReliabilityTable

DECIDING: Final = 30  # rows whose weights decide a variance, below which every interval is flagged
#: Why right answers alone have no skill.
ONLY_RIGHT: Final = "the {} says which answers are right, not how often each class is"


@dataclass(frozen=True, kw_only=True)
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
        means, cells = cls.of_event(table, right=right), GridCells.of(table)
        if cells is None:
            return means
        nll, nll_bound = log_loss_of_cells(cells)
        bound = 0.0 if right else accuracy_bound(cells, means.accuracy)
        return replace(means, nll=nll, nll_bound=nll_bound, accuracy_bound=bound)

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


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share seen in n rows."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if share <= 0 else min(max(middle - half, 0.0), share)
    return low, 1.0 if share >= 1 else max(min(middle + half, 1.0), share)


def accuracy_bound(cells: GridCells, value: float) -> float:
    """Bound the error of the share of right answers: a score of .5 predicts 1, lower scores in its cell 0."""
    doubt = cells.table.counts[cells.sums.high == 0.5].sum() / cells.table.total
    return float(min(doubt, max(value, 1 - value)))


def log_loss_of_cells(cells: GridCells) -> tuple[float, float]:
    """Return the least log loss that the sums allow, and how much larger it can be.

    The losses -log p of n1 predictions with mean score m in a cell sum to at least -n1 log m (Jensen), and at most
    to n1 times the chord between the cell's ends, at m.
    """
    least, most = 0.0, 0.0
    missed = (cells.sums.n0, cells.sums.n0 - cells.sums.s0, 1 - cells.sums.high, 1 - cells.sums.low)
    for n, sums, low, high in ((cells.sums.n1, cells.sums.s1, cells.sums.low, cells.sums.high), missed):
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.clip(sums / n, low, high)
            share = np.where(high > low, (high - mean) / (high - low), 0.0)
            chord = -(np.where(share > 0, share * np.log(low), 0.0) + (1 - share) * np.log(high))
            least += float(np.sum(np.where(n > 0, -n * np.log(mean), 0.0)))
            most += float(np.sum(np.where(n > 0, n * chord, 0.0)))
    if math.isinf(least):
        return math.inf, 0.0
    return least / cells.table.total, max(most - least, 0.0) / cells.table.total
