"""The cells that resampling works on: rows of a table, few enough to be drawn a thousand times.

In the ordinary bootstrap the counts of (cell, outcome) have exactly a multinomial law, and under the hypothesis that
the scores are right the outcomes of a cell have a binomial one: `Outcomes` draws their sums. So every function of a
table has its distribution from the table alone, and rows never need to be drawn. A table of more rows than the standard
grid has cells is pooled into it first: of variances that leaves out what scores vary within a cell, w^2 / 12 of p (1 -
p) for a cell of width w.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import effective_n
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.cached import Memo, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable
from calibrant.table import grid as grids
from calibrant.table.reliability_table import COLUMNS, GRID_COLUMNS

_MOST_LISTED: Final = 63  # trials: every number of outcomes 1 is listed with its probability


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Sums of the outcomes of K cells that occur with given rates, from the sums of w and of w^2.

    A sum has the mean W r and the variance r (1 - r) sum w^2, whatever the outcomes seen. With equal weights the
    distribution is exact: binomial. Otherwise n trials are drawn, n the whole part of W^2 / sum w^2, so that no sum
    leaves [0, W].
    """

    weights: Float64s
    squares: Float64s
    rates: Float64s

    def draw(self, rng: np.random.Generator, size: int) -> Float64s:
        """Return (size, K) sums."""
        drawn, rates = np.empty((size, len(self.rates))), self.rates
        single, listed, many = self._kinds
        for cells in filter(len, self._kinds):
            places = slice(None) if len(cells) == len(rates) else cells
            if cells is single:
                drawn[:, places] = rng.random((size, len(cells))) < rates[cells]
            elif cells is listed:
                drawn[:, places] = self._listed.draw(rng, size)
            else:
                drawn[:, places] = rng.binomial(self._trials[many, None], rates[many, None], (len(many), size)).T
        if self._whole:
            return drawn
        unit = np.sqrt(self.squares / self._trials)
        return np.clip(self.weights * self.rates + unit * (drawn - self._trials * self.rates), 0.0, self.weights)

    @cached_property
    def _whole(self) -> bool:
        return np.array_equal(self.weights, self.squares)

    @cached_property
    def _trials(self) -> NDArray[np.int64]:
        if self._whole:
            return self.weights.astype(np.int64)
        return np.maximum(np.floor(self.weights**2 / self.squares * (1 + 1e-12)), 1).astype(np.int64)

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The cells of one trial, of some, and of many."""
        many = self._trials > _MOST_LISTED
        single = self._trials == 1
        return np.flatnonzero(single), np.flatnonzero(~single & ~many), np.flatnonzero(many)

    @cached_property
    def _listed(self) -> Aliases:
        listed = self._kinds[1]
        return Aliases.of(binomial_laws(self._trials[listed], self.rates[listed]))


def binomial_laws(trials: NDArray[np.int64], rates: Float64s) -> Float64s:
    """Return the probability of each number of outcomes 1, (K, M), M one more than the most trials."""
    width = int(trials.max(initial=0)) + 1
    k = np.arange(width)
    missed = np.maximum(trials[:, None] - k, 0)
    laws = _ways()[trials, :width] * rates[:, None] ** k * (1 - rates[:, None]) ** missed
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


@cache
def _ways() -> Float64s:
    """Return the binomial coefficients of all listed numbers of trials."""
    every = range(_MOST_LISTED + 1)
    return np.array([[math.comb(n, k) for k in every] for n in every], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Aliases:
    """Numbers 0..M - 1, M <= 256, with given distributions, drawn in constant time.

    Walker (1974, doi 10.1049/el:19740097).

    Each of M equally likely columns holds its own number with some probability, and otherwise one other, its alias.
    """

    own: Float64s
    others: NDArray[np.uint8]

    @classmethod
    def of(cls, laws: Float64s) -> Aliases:
        """Fill the columns of (K, M) distributions, all K at once: what a low column lacks comes from a high one."""
        n_laws, width = laws.shape
        starts = width * np.arange(n_laws)  # of each law among all columns
        chances, others = (laws * width).ravel(), np.tile(np.arange(width, dtype=np.uint8), n_laws)
        order = (np.argsort(chances.reshape(laws.shape), axis=1) + starts[:, None]).ravel()
        lowest, highest = starts.copy(), starts + width - 1
        low, high = order[lowest], order[highest]
        for _ in range(width - 1):
            others[low] = high - starts
            left = chances[high] - (1 - chances[low])
            chances[high] = left
            used = left < 1  # the high column has become a low one
            highest, lowest = highest - used, lowest + ~used
            low = np.where(used, high, order[np.minimum(lowest, starts + width - 1)])
            high = order[np.maximum(highest, starts)]
        return cls(chances.reshape(laws.shape), others.reshape(laws.shape))

    @cached_property
    def _both(self) -> Float64s:
        """The probabilities with the aliases as their last bytes, which moves them by less than 1e-13: one look-up."""
        return ((self.own.view(np.uint64) & ~np.uint64(255)) | self.others).view(np.float64)

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.uint8]:
        """Return (size, K) numbers, as bytes: tables and numbers then stay in the cache."""
        n_laws, width = self.own.shape
        share = rng.random((size, n_laws))
        share *= width
        column = share.astype(np.uint8)
        share -= column
        both = self._both.take(column + width * np.arange(n_laws))
        return np.where(share < both, column, both.view(np.uint64).astype(np.uint8))


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


class ResidualSums(NamedTuple):
    """Sums over the predictions of each cell, (K,); the squares are in units of squared weight.

    They are of p, of p - y, of (p - y)^2 and of p (1 - p), p the score and y the outcome.
    """

    score_sums: Float64s
    squared_gaps: Float64s
    squared_residuals: Float64s
    null_variances: Float64s


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
    def masses(self) -> Float64s:
        """The weight of the predictions with outcome 0 and with outcome 1, (2, K)."""
        return np.stack([self.counts - self.positives, self.positives])

    @cached_property
    def sums(self) -> ResidualSums:
        """The sums over the predictions of each cell that depend on their single scores."""
        exact = self.table.score_sums
        # not outcomes less residuals: the difference of 1 and 1 - 1e-20 is 0
        score_sums = np.asarray(self.counts * self.table.scores.astype(np.float64) if exact is None else exact)
        scores = np.clip(score_sums / self.counts, 0.0, 1.0)
        if self.table.whole:
            squared_gaps = score_sums - self.positives
        else:
            squared_gaps = np.asarray(scores * self.square_weights - self.table.own_weights[1])
        if self.table.square_scores is None:
            null_variances = self.square_weights * scores * (1 - scores)
        else:
            null_variances = self.units * np.maximum(score_sums - self.table.square_scores, 0.0)
        return ResidualSums(score_sums, squared_gaps, self.table.own_products, null_variances)

    @property
    def score_sums(self) -> Float64s:
        """The sum of the scores."""
        return self.sums.score_sums

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
        """The outcomes of a calibrated model: they occur with the scores."""
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

    @property
    def squared_gaps(self) -> Float64s:
        """The sum of score - outcome, in units of squared weight: `gap_sums`, with whole weights."""
        return self.sums.squared_gaps

    @property
    def squared_residuals(self) -> Float64s:
        """Q, the sum of (score - outcome)^2, in units of squared weight."""
        return self.sums.squared_residuals

    @property
    def null_variances(self) -> Float64s:
        """V0, the sum of p (1 - p): the variance of S if the scores are right."""
        return self.sums.null_variances

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
        masses = self.masses
        return np.divide(self.table.own_weights, masses, out=np.zeros_like(masses), where=masses > 0)

    @cached_property
    def kinds(self) -> tuple[NDArray[np.int64], Float64s]:
        """Predictions by outcome, 0 then 1, as equal ones: how many, and the weight of each, both (2, K).

        With weights that are not whole it is the effective sample size, rounded: 1 or more where there is any.
        """
        masses = self.masses
        alike = np.divide(masses**2, self.table.own_weights, out=np.zeros_like(masses), where=masses > 0)
        number = np.where(masses > 0, np.maximum(np.rint(alike), 1), 0)
        return number.astype(np.int64), np.divide(masses, number, out=np.zeros_like(masses), where=number > 0)

    def draw_rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw as many predictions as there are, with replacement: how many of each of `kinds`, (2, K)."""
        number = self.kinds[0]
        total = int(number.sum())
        return rng.multinomial(total, number.ravel() / total).reshape(number.shape)

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
        drawn = ReliabilityTable(table.scores[held], counts, positives, n, square_weights=squares)
        if table.cells is None or table.square_scores is None:
            return drawn
        scores, mean_square = self.scores[held], (table.square_scores / table.counts)[held]
        return replace(
            drawn,
            grid=table.grid,
            cells=table.cells[held],
            score_sums=counts * scores,
            positive_scores=positives * scores,
            square_scores=counts * mean_square,
        )

    def places(self, scores: Floats) -> NDArray[np.intp]:
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
        return replace(
            table,
            positives=positives,
            positive_scores=None if table.grid is None else positives * self.scores,
            square_weights=None if table.whole else self.units * np.stack([self.counts - positives, positives]),
        )
