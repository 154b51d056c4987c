"""The rows of one event by their log-odds, which maps are fitted to and evaluated on.

Logits remain logits: a probability of double precision cannot tell log-odds above 37 apart. Only scores of 0 and 1 are
moved, because their log-odds are infinite. A sketch has one cell for all scores below the first edge of its grid, and
one for all above the last, so that its scores are moved up to these edges.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import Predictions
from calibrant.inputs.weights import integer_weights
from calibrant.recalibration.pieces import CLIP, HIGHEST, LEAST, log_odds_of, probabilities
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Memo, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import CoarseSums
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, SamplingDesign
from calibrant.table import GridCells, ReliabilityTable
from calibrant.table import grid as grids

_TAIL: Final = float(log_odds_of(np.array([1 - CLIP]))[0])  # log-odds beyond which the grid has one cell
_WIDE: Final = 1.0  # log-odds between the ends of a cell whose scores differ by much
_FAR: Final = 4.0  # the same for cells that are named
_CELLS_OF_TAIL: Final = 512  # for each factor e of the log-odds
_OF_LOGITS: Final = 1e-12  # difference of logits that are one number, relative to the largest
_ROUNDING: Final = 1e-9  # relative difference of small scores that are one score
_LAST_BITS: Final = 1e-11  # relative difference of scores that are one score, which matters near 1
_BEYOND: Final = 10_000  # more than the cells of the grid


@dataclass(frozen=True, eq=False)
class FitRows(Memo):
    """What a map is fitted to.

    Attributes
    ----------
    log_odds : (K,)
        The distinct log-odds of scores, ascending.
    counts, positives : (K,)
        The rows of each score, and how many have the event.
    prior_rows : float
        The number of prior rows.
    smallest, largest : float
        Scores are moved into [smallest, largest]. With 0 and 1 none is moved.
    """

    log_odds: Float64s
    counts: Float64s
    positives: Float64s
    prior_rows: float = 0.0
    smallest: float = 0.0
    largest: float = 1.0

    @classmethod
    def of_scores(cls, scores: Float64s, counts: Float64s, positives: Float64s, prior_rows: float = 0.0) -> Self:
        """Return rows of scores, with 0 and 1 moved."""
        z = log_odds_of(scores)
        return cls(z, counts, positives, prior_rows, *limits(z, float(counts.sum())))

    @cached_property
    def moved(self) -> Float64s:
        """The log-odds, moved into the range of the map."""
        return np.clip(self.log_odds, *log_odds_of(np.array([self.smallest, self.largest])))

    @cached_property
    def with_prior(self) -> FitRows:
        """These rows and the prior rows."""
        if not self.prior_rows:
            return self
        share = self.prior_rows / float(self.counts.sum())
        positives = self.positives + share * (self.counts * probabilities(self.moved))
        return replace(self, counts=self.counts * (1 + share), positives=positives, prior_rows=0.0)

    @property
    def ranked(self) -> bool:
        """Whether a row with the event has the higher score more often than a row without."""
        negatives = self.counts - self.positives
        below = np.cumsum(negatives) - negatives / 2
        return float(np.sum(self.positives * below)) > float(self.positives.sum() * negatives.sum()) / 2


def half_a_row(rows: float, nearest: float) -> float:
    """Return what zeros are moved up to: half a row in N + 1, at most half of the smallest other probability."""
    return max(LEAST, min(0.5 / (rows + 1), nearest / 2))


def limits(log_odds: Float64s, rows: float, least: float = 0.0) -> tuple[float, float]:
    """Return the range that scores with these log-odds are moved into, (0, 1) if none is moved.

    Scores up to ``least`` count as 0, and in the same way those near 1.
    """
    low, high = (_limit(z, rows, least) for z in (log_odds, -log_odds))
    return low, min(1 - high, HIGHEST) if high else 1.0


def _limit(log_odds: Float64s, rows: float, least: float) -> float:
    above = log_odds > log_odds_of(np.array([least]))[0]
    if above.all():
        return least
    nearest = probabilities(log_odds[above].min(initial=0.0))
    return max(least, half_a_row(rows, float(nearest)))


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredRows:
    """The evaluated rows of one event.

    Attributes
    ----------
    design : SamplingDesign
        How the rows vary, with the cells that are dealt into folds, (K,).
    log_odds, low, high : (K,)
        The log-odds of each cell, and the least and the largest ones that it can hold.
    of_outcomes : (1, K) or (2, K)
        The log-odds of each cell, or those of its rows without and with the event if they differ by much: of logits,
        and beyond the grid. There the loss of an outcome is nearly a line in the log-odds.
    exact : Rows
        The distinct rows, by their effective number. Every map has their range.
    distinct : ReliabilityTable
        The same rows as they were counted.
    merged, near : float
        The rows with different scores that the cells of a sketch, or of clusters, do not tell apart near 0 and 1, and
        how near.
    """

    design: SamplingDesign
    log_odds: Float64s
    low: Float64s
    high: Float64s
    of_outcomes: Float64s
    exact: FitRows
    distinct: ReliabilityTable
    merged: float
    near: float

    @property
    def fine(self) -> Cells:
        """The cells before clusters pooled them."""
        return self.design.fine

    @property
    def log_loss(self) -> tuple[float, float]:
        """The mean log loss of the unchanged scores, and the variance of that of a row, by the log-odds.

        The probability of a logit may be rounded to 1: in single precision from 17 on.
        """
        z, table = self.exact.log_odds, self.distinct
        losses = np.stack([np.logaddexp(0, z), np.logaddexp(0, -z)])
        masses = np.stack([table.counts - table.positives, table.positives]).astype(np.float64)
        squares = masses if table.whole else np.asarray(table.own_weights)
        held = masses > 0
        mean = float(np.sum(masses[held] * losses[held])) / float(masses.sum())
        if not math.isfinite(mean):
            return mean, 0.0
        return mean, float(np.sum(squares[held] * (losses[held] - mean) ** 2)) / float(squares[held].sum())

    @property
    def impossible(self) -> bool:
        """Whether a score of 0 or 1 was wrong."""
        rows = self.exact
        return bool(((rows.log_odds == -np.inf) & (rows.positives > 0)).any()) or bool(
            ((rows.log_odds == np.inf) & (rows.positives < rows.counts)).any()
        )

    @property
    def flag(self) -> str:
        """A sentence about rows that are merged; nothing without such rows."""
        if not self.merged:
            return ""
        near = f"{self.near:.1e}".replace("e-0", "e-")
        return f"{self.merged:,.6g} rows have scores within {near} of 0 or 1, and these scores are pooled at each end"

    @classmethod
    def of(cls, data: EvaluatedData) -> ScoredRows:
        """Return the evaluated rows of one event."""
        (table,) = data.tables
        z, distinct = _distinct(data, table)
        on_grid, logits = table.grid is not None, distinct is not table
        if not on_grid and data.clusters is None:
            z, distinct = _tied(z, distinct, logits=logits)
        counts, positives = (column.astype(np.float64) for column in (distinct.counts, distinct.positives))
        if data.clusters is not None:
            design: SamplingDesign = Clustered.of(Cells.from_table(table), data.clusters.event)
        else:
            cells = Cells.from_table(table) if on_grid else Cells(_pooled(distinct, _first_of_cells(z, logits=logits)))
            design = SamplingDesign(cells)
        cells = design.cells
        ends = limits(z, cells.effective_n, CLIP if on_grid else 0.0)
        if on_grid:
            low, high = map(log_odds_of, _ends(cells))
            middle = log_odds_of(cells.scores)
            of_outcomes = middle[np.newaxis]
        else:
            # Both are in the order of the scores, so that the first row of a cell has the same rows before it.
            first = np.searchsorted(np.cumsum(counts) - counts / 2, np.cumsum(cells.counts) - cells.counts)
            low, high = z[first], z[np.append(first[1:], len(z)) - 1]
            moved = np.clip(z, *log_odds_of(np.array(ends)))
            middle, wide = _middles(moved, counts, cells, first, (low, high), logits=logits)
            of_outcomes = _of_outcomes(moved, counts, positives, first, middle, wide)
        share = cells.effective_n / cells.total
        merged = (low < high) & (on_grid or data.clusters is not None)
        merged &= (np.abs(middle) >= _TAIL) | _differ(low, high, _FAR)
        nearest = np.where(middle < 0, high, -low)[merged]
        return cls(
            design=design,
            log_odds=middle,
            low=low,
            high=high,
            of_outcomes=of_outcomes,
            exact=FitRows(z, counts * share, positives * share, 0.0, *ends),
            distinct=distinct,
            merged=float(cells.counts[merged].sum()),
            near=float(probabilities(nearest).max(initial=0.0)),
        )


def _distinct(data: EvaluatedData, table: ReliabilityTable) -> tuple[Float64s, ReliabilityTable]:
    """Return the distinct log-odds of the rows, and a table with their scores in the same order."""
    read = None if data.predictions is None else _logits(data.predictions, data.notion)
    if read is None:
        return log_odds_of(table.scores.astype(np.float64)), table
    z, outcomes, weights = read
    mass = np.ones(len(z), np.int64) if weights is None else weights
    order = np.lexsort((mass, outcomes, z))
    z, outcomes, mass = z[order], outcomes[order], mass[order]
    first = np.flatnonzero(np.append(True, np.diff(z) != 0))
    squares = None
    if not integer_weights(weights):
        squares = np.add.reduceat(mass**2 * np.stack([outcomes == 0, outcomes == 1]), first, axis=1)
    distinct = ReliabilityTable(
        scores=probabilities(z[first]),
        counts=np.add.reduceat(mass, first),
        positives=np.add.reduceat(mass * outcomes, first),
        n=table.n,
        square_weights=squares,
    )
    return z[first], distinct


def _tied(log_odds: Float64s, table: ReliabilityTable, *, logits: bool) -> tuple[Float64s, ReliabilityTable]:
    """Return the rows with log-odds that differ by rounding alone as one, at their mean.

    A classifier may return different last bits for equal rows, by the processor. They would decide the blocks of an
    isotonic fit, and the folds.
    """
    if logits:
        rounding = np.full(len(log_odds), _OF_LOGITS * np.abs(log_odds[np.isfinite(log_odds)]).max(initial=0.0))
    else:
        rounding = _ROUNDING + _LAST_BITS / probabilities(-log_odds).clip(min=_LAST_BITS)
    with np.errstate(invalid="ignore"):
        first = np.flatnonzero(np.append(True, np.diff(log_odds) > rounding[1:]) | np.isinf(log_odds))
    if len(first) == len(log_odds):
        return log_odds, table
    counts = table.counts.astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = np.add.reduceat(log_odds * counts, first) / np.add.reduceat(counts, first)
    last = log_odds[np.append(first[1:], len(log_odds)) - 1]
    return np.where(log_odds[first] == last, last, means), _pooled(table, first)


def _logits(predictions: Predictions, notion: str) -> tuple[Float64s, NDArray[np.int64], Float64s | None] | None:
    """Return the log-odds of the event, its outcomes and the weights of evaluated rows, from logits; else None."""
    if not predictions.logits or predictions.layout == "multilabel":
        return None
    kept = predictions.evaluated
    labels, weights = predictions.targets[kept], None if predictions.weights is None else predictions.weights[kept]
    if predictions.device_rows is not None:
        z, right = predictions.device_rows.log_odds(notion)
        return z[kept] + 0.0, right[kept].astype(np.int64), weights
    blocks = [_log_odds(block.astype(np.float64), notion) for _, block in predictions.rows.blocks(0, predictions.n)]
    z, classes = (np.concatenate(column)[kept] for column in zip(*blocks, strict=True))
    outcomes = (labels == classes).astype(np.int64)
    return z + 0.0, outcomes, weights


def _log_odds(logits: Float64s, notion: str) -> tuple[Float64s, NDArray[np.intp]]:
    """Return the log-odds that the label of each row (n, C) is a class, and this class."""
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    n = len(logits)
    classes = np.ones(n, np.intp) if notion == "positive" else logits.argmax(axis=1)
    if notion != "positive" and logits.shape[1] == 2:
        classes = (logits[:, 1] >= logits[:, 0]).astype(np.intp)
    own = logits[np.arange(n), classes]
    others = logits.copy()
    others[np.arange(n), classes] = -np.inf
    most = others.max(axis=1)
    with np.errstate(invalid="ignore"):  # one class with a finite logit has no others
        around = np.where(np.isneginf(most)[:, np.newaxis], 0.0, np.exp(others - most[:, np.newaxis]))
    with np.errstate(divide="ignore"):
        rest = most + np.log(around.sum(axis=1))
    return own - rest, classes


def _first_of_cells(log_odds: Float64s, *, logits: bool) -> NDArray[np.intp]:
    """Return the first of the distinct log-odds of each cell: each alone, or if they are many those of the grid.

    Beyond its ends, cells are 0.2 % of the log-odds wide. Logits can have any scale: their cells have equally many.
    """
    most = len(grids.edges("standard")) + 1
    if len(log_odds) <= most:
        return np.arange(len(log_odds))
    if logits:
        return np.arange(most) * len(log_odds) // most
    size = np.maximum(np.abs(log_odds), _TAIL)
    beyond = np.sign(log_odds) * (_BEYOND + np.floor(np.log(size / _TAIL) * _CELLS_OF_TAIL))
    keys = np.where(size > _TAIL, beyond, grids.cell_of(probabilities(log_odds), "standard"))
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))


def _pooled(table: ReliabilityTable, first: NDArray[np.intp]) -> ReliabilityTable:
    """Return a table with the sums of consecutive rows, at their mean scores."""
    if len(first) == len(table):
        return table
    counts, positives = (np.add.reduceat(column, first) for column in (table.counts, table.positives))
    p = table.scores.astype(np.float64)
    scores = np.clip(np.add.reduceat(p * table.counts, first) / counts, p[first], p[np.append(first[1:], len(p)) - 1])
    squares = None if table.whole else np.add.reduceat(table.own_weights, first, axis=1)
    return ReliabilityTable(scores, counts, positives, table.n, square_weights=squares)


def _differ(low: Float64s, high: Float64s, by: float) -> NDArray[np.bool_]:
    """Return in which cells the ends differ by more."""
    with np.errstate(invalid="ignore"):
        return np.asarray(high - low > by)


def _middles(
    log_odds: Float64s,
    counts: Float64s,
    cells: Cells,
    first: NDArray[np.intp],
    ends: tuple[Float64s, Float64s],
    *,
    logits: bool,
) -> tuple[Float64s, NDArray[np.bool_]]:
    """Return the log-odds of each cell, those of its mean score, or of logits and of different scores their mean.

    ``ends`` are the least and the largest log-odds of each cell. The cells with a mean of several follow.
    """
    low, high = ends
    middle = log_odds_of(cells.scores)
    means = np.add.reduceat(log_odds * counts, first) / np.add.reduceat(counts, first)
    means = np.where(low == high, low, means)
    tail = (low == high) | ((logits | (np.abs(middle) >= _TAIL) | _differ(low, high, _WIDE)) & np.isfinite(means))
    return np.where(tail, means, middle), tail & (low < high)


def _of_outcomes(
    log_odds: Float64s,
    counts: Float64s,
    positives: Float64s,
    first: NDArray[np.intp],
    middle: Float64s,
    wide: NDArray[np.bool_],
) -> Float64s:
    """Return the mean log-odds of either outcome in ``wide`` cells, (2, K); (1, K) if none is."""
    if not wide.any():
        return middle[np.newaxis]
    masses = np.stack([counts - positives, positives])
    sums = np.add.reduceat(masses * np.where(np.isfinite(log_odds), log_odds, 0.0), first, axis=1)
    held = np.add.reduceat(masses, first, axis=1)
    return np.divide(sums, held, out=np.tile(middle, (2, 1)), where=wide & (held > 0))


def _ends(cells: Cells) -> tuple[Float64s, Float64s]:
    """Return the smallest and the largest score that each cell of a grid can hold, (K,)."""
    if isinstance(cells, CoarseSums):
        low, high = _ends(cells.fine)
        return low[cells.first], high[np.append(cells.first[1:], len(low)) - 1]
    grid = cast("GridCells", GridCells.of(cells.table))
    return np.where(grid.several, grid.low, cells.scores), np.where(grid.several, grid.high, cells.scores)
