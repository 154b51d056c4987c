"""The cells that resampling works on: rows of a table, few enough to be drawn a thousand times.

In the ordinary bootstrap the counts of (cell, outcome) have exactly a multinomial law, and under the hypothesis that
the scores are right the outcomes of a cell have a binomial one. So every function of a table has its law from the
table alone, and rows never need to be drawn. A table of more rows than the standard grid has cells is pooled into it
first: of variances that leaves out what scores vary within a cell, w^2 / 12 of p (1 - p) for a cell of width w.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import grid as grids
from calibrant.table import ReliabilityTable
from calibrant.weights import effective_n

Float64s = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """A table of few rows, and what its resampling needs.

    Each cell is seen as ``trials`` predictions of weight ``units``: 1 without weights and with whole ones (then a
    prediction of weight 2 is two), (sum of squared weights) / (sum of weights) otherwise.
    """

    table: ReliabilityTable

    @classmethod
    def of(cls, table: ReliabilityTable) -> Cells:
        """Return a table's cells: its rows, or those of the standard grid where that has fewer."""
        few = table.grid is not None or len(table) <= len(grids.edges("standard")) + 1
        return cls(table if few else table.on_grid("standard"))

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
    def trials(self) -> NDArray[np.int64]:
        squares = self.table.square_weights
        if squares is None:
            return np.rint(self.counts).astype(np.int64)
        alike = np.rint(effective_n(self.counts, squares.sum(axis=0)))
        kinds = (self.positives > 0).astype(np.int64) + (self.positives < self.counts)
        return np.asarray(np.maximum(alike, kinds), dtype=np.int64)

    @cached_property
    def units(self) -> Float64s:
        return self.counts / self.trials

    @cached_property
    def successes(self) -> NDArray[np.int64]:
        """How many of the trials had outcome 1: with weights that are not whole, the nearest that keeps both kinds."""
        least, most = self.positives > 0, self.trials - (self.positives < self.counts)
        return np.clip(np.rint(self.positives / self.units), least, most).astype(np.int64)

    @cached_property
    def squared_residuals(self) -> Float64s:
        """Q, the sum of (score - outcome)^2, in units of squared weight."""
        return self.table.own_products

    @cached_property
    def null_variances(self) -> Float64s:
        """V0, the sum of p (1 - p): the variance of S if the scores are right."""
        if self.table.square_scores is not None:
            return self.units * np.maximum(self.score_sums - self.table.square_scores, 0.0)
        return self.units * self.counts * self.scores * (1 - self.scores)

    @property
    def total(self) -> float:
        """The weight of all predictions."""
        return self.table.total

    @cached_property
    def effective_n(self) -> float:
        """The number of predictions that weigh as much as these: (sum w)^2 / (sum w^2)."""
        return effective_n(self.total, float(np.sum(self.units * self.counts)))

    def drawn(self, trials: NDArray[np.int64], successes: NDArray[np.int64]) -> ReliabilityTable:
        """Return the table of predictions drawn from the cells, without the cells that none was drawn from."""
        table, held = self.table, np.flatnonzero(trials)
        units = self.units[held]
        counts, positives = trials[held] * units, successes[held] * units
        squares = None if table.square_weights is None else units * np.stack([counts - positives, positives])
        if squares is None:
            counts, positives = (x.astype(table.counts.dtype) for x in (counts, positives))
        n = int(trials.sum()) if table.square_weights is None and table.counts.dtype.kind != "f" else table.n
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
        if self.table.square_weights is None:
            return None
        return np.asarray(self.units * np.stack([self.counts - positives, positives]))
