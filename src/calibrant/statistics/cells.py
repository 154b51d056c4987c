"""The cells that resampling works on: rows of a table, few enough to be drawn a thousand times.

In the ordinary bootstrap the counts of (cell, outcome) have exactly a multinomial law, and under the hypothesis that
the scores are right the outcomes of a cell have a binomial one. So every function of a table has its law from the
table alone, and rows never need to be drawn. A table of more rows than the standard grid has cells is pooled into it
first: of variances that leaves out what scores vary within a cell, w^2 / 12 of p (1 - p) for a cell of width w.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import effective_n
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Memo, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.outcomes import Outcomes
from calibrant.table import ReliabilityTable
from calibrant.table import grid as grids
from calibrant.table.reliability_table import COLUMNS, GRID_COLUMNS


def spread_of(
    slopes: Float64s, variances: Float64s, gaps: tuple[Float64s, Float64s], total: float, square_total: float
) -> float:
    """Return the root of sum w^2 (f r - m)^2 over predictions, m the mean of f r.

    ``variances`` are the sums of w^2 r^2, which may be blended, ``gaps`` those of w r and of w^2 r, ``total`` and
    ``square_total`` those of w and of w^2 over all predictions. With whole weights w^2 stands for w.
    """
    mean = float(np.sum(slopes * gaps[0])) / total
    square = float(np.sum(slopes**2 * variances)) - 2 * mean * float(np.sum(slopes * gaps[1])) + mean**2 * square_total
    return math.sqrt(max(square, 0.0))


def pooled(table: ReliabilityTable) -> ReliabilityTable:
    """Return a table of few rows: the table itself, or on the standard grid where that has fewer cells."""
    few = table.grid is not None or len(table) <= len(grids.edges("standard")) + 1
    return table if few else table.on_grid("standard")


@dataclass(frozen=True, eq=False)
class Cells(Memo):
    """A table of few rows, and what its resampling needs.

    Without weights and with whole ones each unit of weight is a prediction. Otherwise variances are sums of squared
    weights, and what is drawn has their mean and variance.
    """

    table: ReliabilityTable

    @classmethod
    def from_table(cls, table: ReliabilityTable) -> Cells:
        """Return a table's cells: its rows, or those of the standard grid where that has fewer."""
        return cls(pooled(table))

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def counts(self) -> Float64s:
        return self.table.counts.astype(np.float64)

    @cached_property
    def positives(self) -> Float64s:
        return self.table.positives.astype(np.float64)

    @cached_property
    def score_sums(self) -> Float64s:
        return np.asarray(self.positives - self.table.residuals)

    @cached_property
    def scores(self) -> Float64s:
        """The mean score of each cell."""
        return np.clip(self.score_sums / self.counts, 0.0, 1.0)

    @cached_property
    def gap_sums(self) -> Float64s:
        """S, the sum of score - outcome: count times gap."""
        return self.score_sums - self.positives

    @cached_property
    def calibrated(self) -> Outcomes:
        """The outcomes of a calibrated model: they happen with the scores."""
        return Outcomes(self.counts, self.square_weights, self.scores)

    @cached_property
    def square_weights(self) -> Float64s:
        """The sum of squared weights; with whole ones each unit of weight is a prediction, and it is the count."""
        return self.counts if self.table.whole else self.table.own_weights.sum(axis=0)

    @cached_property
    def units(self) -> Float64s:
        """The mean weight of a unit of weight, (sum of squared weights) / (sum of weights): 1, with whole weights."""
        return self.square_weights / self.counts

    @cached_property
    def rows(self) -> Float64s:
        """The effective sample size of each cell: the count, with whole weights."""
        return effective_n(self.counts, self.square_weights)

    @cached_property
    def squared_gaps(self) -> Float64s:
        """The sum of score - outcome, in units of squared weight: `gap_sums`, with whole weights."""
        if self.table.whole:
            return self.gap_sums
        return np.asarray(self.scores * self.square_weights - self.table.own_weights[1])

    @cached_property
    def squared_residuals(self) -> Float64s:
        """Q, the sum of (score - outcome)^2, in units of squared weight."""
        return self.table.own_products

    @cached_property
    def null_variances(self) -> Float64s:
        """V0, the sum of p (1 - p): the variance of S if the scores are right."""
        if self.table.square_scores is not None:
            spreads = np.maximum(self.score_sums - self.table.square_scores, 0.0)
            return self.units * spreads
        return self.square_weights * self.scores * (1 - self.scores)

    @property
    def total(self) -> float:
        """The weight of all predictions."""
        return self.table.total

    def spread(self, slopes: Float64s, variances: Float64s) -> float:
        """Return the standard deviation of sum f r over predictions, r = score - outcome, f a slope of each cell."""
        sums, squares = float(self.square_weights.sum()), (self.gap_sums, self.squared_gaps)
        return spread_of(slopes, variances, squares, self.total, sums)

    @cached_property
    def effective_n(self) -> float:
        """The number of predictions that weigh as much as these: (sum w)^2 / (sum w^2)."""
        return effective_n(self.total, float(self.square_weights.sum()))

    @cached_property
    def squares_per_weight(self) -> Float64s:
        """The sum of squared weights by the sum of weights, for each outcome, (2, K): 1, with whole weights."""
        masses = np.stack([self.counts - self.positives, self.positives])
        return np.divide(self.table.own_weights, masses, out=np.zeros_like(masses), where=masses > 0)

    @cached_property
    def kinds(self) -> tuple[NDArray[np.int64], Float64s]:
        """Predictions by outcome, 0 then 1, as equal ones: how many, and the weight of each, both (2, K).

        With weights that are not whole it is the effective sample size, rounded: 1 or more where there is any.
        """
        masses = np.stack([self.counts - self.positives, self.positives])
        alike = np.divide(masses**2, self.table.own_weights, out=np.zeros_like(masses), where=masses > 0)
        number = np.where(masses > 0, np.maximum(np.rint(alike), 1), 0)
        return number.astype(np.int64), np.divide(masses, number, out=np.zeros_like(masses), where=number > 0)

    def drawn(self, number: NDArray[np.int64]) -> ReliabilityTable:
        """Return the table of so many predictions, (2, K), of each of `kinds`, without the cells that got none."""
        table, held = self.table, np.flatnonzero(number.any(axis=0))
        units = self.kinds[1][:, held]
        masses = number[:, held] * units
        squares = None if table.whole else masses * units
        if squares is None:
            masses = masses.astype(table.counts.dtype)
        counts, positives = masses.sum(axis=0), masses[1]
        n = int(number.sum()) if table.whole and table.counts.dtype.kind != "f" else table.n
        if table.grid is None or table.cells is None or table.square_scores is None:
            return ReliabilityTable(table.scores[held], counts, positives, n, square_weights=squares)
        scores, mean_square = self.scores[held], (table.square_scores / table.counts)[held]
        return ReliabilityTable(
            scores=table.scores[held],
            counts=counts,
            positives=positives,
            n=n,
            grid=table.grid,
            cells=table.cells[held],
            score_sums=counts * scores,
            positive_scores=positives * scores,
            square_scores=counts * mean_square,
            square_weights=squares,
        )

    def places(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
        """Return the cell of each of these scores, which must be those of rows of the table."""
        table = self.table
        if table.grid is None or table.cells is None:
            return np.searchsorted(table.scores, scores)
        return np.searchsorted(table.cells, grids.cell_of(scores, table.grid))

    def take(self, held: NDArray[np.bool_]) -> Cells:
        """Return some of the cells; the rows are counted as in the whole where counts are weights."""
        table = self.table
        columns = {name: getattr(table, name) for name in (*COLUMNS, *GRID_COLUMNS)}
        kept = {name: column[held] for name, column in columns.items() if column is not None}
        squares = None if table.whole else table.own_weights[:, held]
        n = table.n if table.total != table.n else round(float(kept["counts"].sum()))
        return Cells(replace(table, **kept, square_weights=squares, n=n))

    def with_positives(self, positives: NDArray[Any]) -> ReliabilityTable:
        """Return the table of the same scores with other outcomes."""
        table = self.table
        if table.grid is None:
            return ReliabilityTable(
                table.scores, table.counts, positives, table.n, square_weights=self._squares(positives)
            )
        return ReliabilityTable(
            scores=table.scores,
            counts=table.counts,
            positives=positives,
            n=table.n,
            grid=table.grid,
            cells=table.cells,
            score_sums=table.score_sums,
            positive_scores=positives * self.scores,
            square_scores=table.square_scores,
            square_weights=self._squares(positives),
        )

    def _squares(self, positives: NDArray[Any]) -> Float64s | None:
        if self.table.whole:
            return None
        return np.asarray(self.units * np.stack([self.counts - positives, positives]))
