"""The reliability table: rows sorted by score, each with its count, its mean score and its positive outcomes.

Every calibration measure is a function of it. An exact table has a row per distinct score; a table on a grid has a row
per occupied cell. Tables of one kind add up to the table of all their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.inputs.conversion import import_pyarrow
from calibrant.inputs.notions import PER_CLASS, Events, read, resolve
from calibrant.inputs.predictions import Notion, Predictions, as_predictions
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_ROWS, MOST_WEIGHT, integer_weights, unit_of
from calibrant.kernels import dispatch
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.table import grid as grids

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns of a table in Arrow, of a table on a grid, and of a table whose weights are not whole numbers.
COLUMNS: Final = ("scores", "counts", "positives")
GRID_COLUMNS: Final = ("cells", "score_sums", "positive_scores", "square_scores")
_SQUARES: Final = ("square_weights_0", "square_weights_1")

#: Types of columns in Arrow; the others are "double".
_TYPES: Final = {
    "scores": ("float", "double"),
    "counts": ("int64", "double"),
    "positives": ("int64", "double"),
    "cells": ("int64",),
}

_VERSION: Final = 1  # of the form in Arrow


class TableSums(NamedTuple):
    """Sums over all rows of a table: the counts, the scores, the outcomes and (score - outcome)^2."""

    total: float
    scores: float
    positives: float
    square_residuals: float


@dataclass(frozen=True, eq=False)
class ReliabilityTable:
    """Pooled scores of one event: a row per distinct score, or per occupied cell of a grid.

    Make one with `from_scores`, `from_predictions` or `from_arrow`; add two with ``+``. Rows are in increasing
    order of the score, so nothing computed from a table depends on the order of the predictions.

    Attributes
    ----------
    scores : (K,) float32 or float64
        The score of each row (its mean score, on a grid), strictly increasing.
    counts : (K,) int64, or float64 with weights
        The number of predictions (their weight).
    positives : (K,) like counts
        How many of them (their weight) had outcome 1.
    n : int
        The number of predictions, unweighted.
    grid : {"standard", "fine"} or None
        The grid of the cells; None for a row per distinct score.
    cells : (K,) int64 or None
        The cell of each row, on a grid.
    score_sums, positive_scores, square_scores : (K,) float64 or None
        On a grid: the sum of the scores, the sum of the scores with outcome 1, and the sum of squared scores. An exact
        table does not need them: each row has one score.
    square_weights : (2, K) float64 or None
        If weights are not integers, the sums of their squares over the predictions with outcome 0 and with outcome 1;
        None if each unit of count is a prediction. Only variances and debiased estimates need it.
    """

    scores: NDArray[np.floating[Any]]
    counts: NDArray[Any]
    positives: NDArray[Any]
    n: int
    _: KW_ONLY
    grid: grids.Grid | None = None
    cells: NDArray[np.int64] | None = field(default=None, repr=False)
    score_sums: NDArray[np.float64] | None = field(default=None, repr=False)
    positive_scores: NDArray[np.float64] | None = field(default=None, repr=False)
    square_scores: NDArray[np.float64] | None = field(default=None, repr=False)
    square_weights: NDArray[np.float64] | None = field(default=None, repr=False)

    @classmethod
    def from_scores(
        cls, scores: ArrayLike, outcomes: ArrayLike, *, weights: ArrayLike | None = None, grid: grids.Grid | None = None
    ) -> ReliabilityTable:
        """Return the table of scores and outcomes.

        Parameters
        ----------
        scores : (N,) array of any library
            Probabilities of one event, in [0, 1].
        outcomes : (N,) array of any library
            0 or 1 (or booleans, or floats 0.0 and 1.0): whether the event occurred.
        weights : (N,) array, optional
            Frequency weights: 2 counts the row twice, 0 leaves it out.
        grid : {"standard", "fine"}, optional
            Pool into the cells of this grid (4,396 or 19,984 at most) rather than by distinct score.

        Raises
        ------
        InputError
            For an invalid probability, outcome or weight.

        Notes
        -----
        Cost: without weights, one sort of N integers of the scores' width; with weights, an argsort of N scores; on a
        grid, a binary search per score.

        Examples
        --------
        >>> import calibrant
        >>> table = calibrant.ReliabilityTable.from_scores([0.2, 0.8, 0.8, 0.2], [0, 1, 0, 1])
        >>> table.scores, table.counts, table.positives
        (array([0.2, 0.8]), array([2, 2]), array([1, 1]))
        >>> (table + table).counts
        array([4, 4])
        """
        try:
            predictions = as_predictions(scores, outcomes, weights=weights, units=False)
            if predictions.layout != "binary":
                got = f"{predictions.n_classes} columns"
                raise InputError("probs", "shape (N,)", got, "pass the scores of one event")
            events = read(predictions, "positive", scoring=False).events
        except InputError as error:
            raise error.renamed({"probs": "scores", "targets": "outcomes"}) from None
        return cls.pool(events, grid=grid)

    @classmethod
    def pool(cls, events: Events, *, grid: grids.Grid | None = None) -> ReliabilityTable:
        """Return the table of evaluated events, by distinct score or on a grid; the events must be valid."""
        scores, outcomes, weights = events.scores, events.outcomes, events.weights
        if grid is not None:
            check_choice("grid", grid, grids.GRIDS)
            sums = cell_sums(events, grid)
            counts = sums[:, :2].astype(np.int64) if weights is None else sums[:, :2]
            squares = None if integer_weights(weights) else sums[:, 5:]
            return cls.of_cells(counts, sums[:, 2:5], squares, n=len(scores), grid=grid)
        if weights is None:
            return cls.unpack(dispatch.pack(scores, outcomes))
        order = np.lexsort((weights, outcomes, scores))  # sums do not depend on the order of the rows
        ordered, mass = scores[order] + scores.dtype.type(0), weights[order]  # + 0 turns -0.0 into 0.0
        columns = {"counts": mass, "positives": mass * outcomes[order]}
        if not integer_weights(weights):  # if they are, each unit is a prediction
            columns["square_weights"] = (weights**2 * np.stack([outcomes == 0, outcomes == 1]))[:, order]
        return _pooled(ordered, columns, n=len(scores), grid=None)

    @classmethod
    def from_predictions(
        cls,
        probs: Any,
        targets: ArrayLike | None = None,
        *,
        notion: Notion | None = None,
        weights: ArrayLike | None = None,
        ignore_index: int | None = None,
        logits: bool = False,
    ) -> ReliabilityTable:
        """Return the table of the evaluated event of predictions; a table as ``probs`` is returned unchanged.

        Parameters
        ----------
        probs, targets, notion, weights, ignore_index, logits
            As in `expected_calibration_error`; the notion is "positive" or "top-label", by default the shape
            decides.

        Raises
        ------
        InputError
            As `expected_calibration_error`; for any other argument passed with a table.

        Examples
        --------
        >>> import calibrant
        >>> table = calibrant.ReliabilityTable.from_predictions([[0.2, 0.8], [0.6, 0.4]], [1, 1])
        >>> table.scores, table.positives
        (array([0.6, 0.8]), array([0, 1]))
        """
        if isinstance(probs, ReliabilityTable):
            others = {"targets": targets, "notion": notion, "weights": weights, "ignore_index": ignore_index}
            probs.check_alone(**others, logits=logits or None)
            return probs
        check_targets(targets)
        options: dict[str, Any] = {"ignore_index": ignore_index, "logits": logits, "notion": notion}
        predictions = as_predictions(probs, targets, weights=weights, **options, units=False)
        return cls.of_predictions(predictions, resolve(predictions, notion))

    @classmethod
    def of_predictions(cls, predictions: Predictions, notion: Notion) -> ReliabilityTable:
        """Return the table of the one event of predictions that this notion evaluates."""
        if notion in PER_CLASS:
            remedy = "pass the column of one class at a time"
            raise InputError("notion", "'positive' or 'top-label' for a table of one event", repr(notion), remedy)
        return cls.pool(read(predictions, notion, scoring=False).events)

    def check_alone(self, **others: Any) -> None:
        """Reject an empty table, and other arguments passed with it."""
        for name, value in others.items():
            if value is not None:
                remedy = "leave this argument out, because the table contains all data"
                raise InputError(name, "no value with a ReliabilityTable", "a value", remedy)
        if len(self) == 0:
            remedy = "check the data and any filter that made the table"
            raise InputError("probs", "a table with at least one row", "an empty table", remedy)

    def on_grid(self, grid: grids.Grid) -> ReliabilityTable:
        """Return the table with its rows pooled into the cells of a grid.

        Raises
        ------
        InputError
            For a table that is on another grid.
        """
        check_choice("grid", grid, grids.GRIDS)
        if self.grid is not None:
            if self.grid == grid:
                return self
            remedy = f"pass {self.grid!r}, the grid of the table, or build a new table from the scores"
            raise InputError("grid", repr(self.grid), repr(grid), remedy)
        bounds = _bounds_of_cells(self.scores, grid)
        cells = np.flatnonzero(np.diff(bounds))
        scores = self.scores.astype(np.float64)
        columns = {
            "counts": self.counts,
            "positives": self.positives,
            "score_sums": self.counts * scores,
            "positive_scores": self.positives * scores,
            "square_scores": self.counts * scores**2,
        }
        if not self.whole:
            columns["square_weights"] = self.own_weights
        return _summed(cells, bounds[cells], columns, n=self.n, grid=grid)

    @classmethod
    def of_cells(
        cls,
        counts: NDArray[Any],
        sums: NDArray[np.float64],
        square_weights: NDArray[np.float64] | None,
        *,
        n: int,
        grid: grids.Grid,
    ) -> ReliabilityTable:
        """Return the table of the occupied cells of a grid, from sums over all its cells.

        ``counts`` (cells, 2) and ``square_weights`` (cells, 2) are by outcome. ``sums`` (cells, 3) are the sums of the
        scores by outcome, and of all squared scores.
        """
        totals = counts.sum(axis=1)
        cells = np.flatnonzero(totals)
        score_sums = sums[cells, 0] + sums[cells, 1]
        return cls(
            scores=_in_cells(score_sums / totals[cells], cells, grid),
            counts=totals[cells],
            positives=counts[cells, 1],
            n=n,
            grid=grid,
            cells=cells,
            score_sums=score_sums,
            positive_scores=sums[cells, 1],
            square_scores=sums[cells, 2],
            square_weights=None if square_weights is None else np.ascontiguousarray(square_weights[cells].T),
        )

    @classmethod
    def unpack(cls, keys: NDArray[np.unsignedinteger[Any]]) -> ReliabilityTable:
        """Return the table of events that `dispatch.pack` packed into integers; the keys may be overwritten."""
        return cls(*dispatch.distinct_keys(keys), n=len(keys))

    @property
    def provenance(self) -> dict[str, str]:
        """What the details of a result say about its table: the name of the grid, if it is on one."""
        return {} if self.grid is None else {"table": f"{self.grid} grid"}

    @cached_property
    def sums(self) -> TableSums:
        """The sums over all rows."""
        if self.grid is not None and self.score_sums is not None:
            columns = (self.counts, self.score_sums, self.positives, self.square_residuals)
            return TableSums(*(float(column.sum()) for column in columns))
        return TableSums(*dispatch.sum_pooled(self.scores, self.counts, self.positives))

    @property
    def total(self) -> float:
        """The weight of all rows; without weights their number."""
        return self.sums.total

    @property
    def impossible(self) -> float:
        """The weight of the predictions whose outcome had probability 0."""
        wrong = (self.scores == 0) * self.positives + (self.scores == 1) * (self.counts - self.positives)
        return float(wrong.sum())

    @cached_property
    def residuals(self) -> NDArray[np.float64]:
        """The sum of outcome - score in each row."""
        scores = self.score_sums if self.score_sums is not None else self.counts * self.scores.astype(np.float64)
        return np.asarray(self.positives - scores, dtype=np.float64)

    @property
    def square_residuals(self) -> NDArray[np.float64]:
        """The sum of (score - outcome)^2 in each row."""
        if self.square_scores is not None and self.positive_scores is not None:
            sums = self.square_scores - 2 * self.positive_scores + self.positives
            return np.asarray(np.maximum(sums, 0.0))  # below 0 by rounding
        wide = self.scores.astype(np.float64)
        return np.asarray((self.counts - self.positives) * wide**2 + self.positives * (1 - wide) ** 2)

    @property
    def whole(self) -> bool:
        """Whether each unit of count is a prediction: without weights, and with integer weights."""
        return self.square_weights is None

    @property
    def own_weights(self) -> NDArray[np.float64]:
        """The sums of squared weights by outcome, (2, K); with integer weights the counts, as each unit weighs 1."""
        if self.square_weights is None:
            return np.stack([self.counts - self.positives, self.positives]).astype(np.float64)
        return self.square_weights

    @property
    def own_products(self) -> NDArray[np.float64]:
        """The sum of squared weight times (score - outcome)^2 in each row: its variance around the scores."""
        if self.whole:
            return self.square_residuals
        wide, (no, yes) = self.scores.astype(np.float64), self.own_weights
        return np.asarray(no * wide**2 + yes * (1 - wide) ** 2)

    def __len__(self) -> int:
        return len(self.scores)

    def __add__(self, other: ReliabilityTable) -> ReliabilityTable:
        """Return the table of the rows of both: counts exactly, sums up to rounding."""
        if not isinstance(other, ReliabilityTable):
            return NotImplemented
        if self.grid != other.grid or (self.grid is None and self.scores.dtype != other.scores.dtype):
            raise InputError(
                "tables",
                f"two tables of the same kind ({_kind(self)})",
                _kind(other),
                "build both tables from scores of one floating-point type, and with the same argument grid",
            )
        if self.n + other.n > MOST_ROWS:
            got = f"{self.n:,} rows and {other.n:,} rows"
            raise InputError("tables", "at most 2^63 - 1 rows in total", got, "keep several tables")
        keys = np.concatenate([self._keys, other._keys])
        order = np.argsort(keys, kind="stable")
        names = COLUMNS[1:] if self.grid is None else (*COLUMNS[1:], *GRID_COLUMNS[1:])
        columns = {name: np.concatenate([getattr(self, name), getattr(other, name)])[order] for name in names}
        if not (self.whole and other.whole):
            columns["square_weights"] = np.concatenate([self.own_weights, other.own_weights], axis=1)[:, order]
        return _pooled(keys[order], columns, n=self.n + other.n, grid=self.grid)

    @property
    def _keys(self) -> NDArray[Any]:
        return self.scores if self.cells is None else self.cells

    def to_arrow(self) -> pa.Table:
        """Return the table as a `pyarrow.Table`, with its kind in the schema's metadata."""
        names = (*COLUMNS, *GRID_COLUMNS)
        columns = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.square_weights is not None:
            columns |= zip(_SQUARES, self.square_weights, strict=True)
        metadata = {"calibrant.table": str(_VERSION), "calibrant.n": str(self.n), "calibrant.grid": self.grid or ""}
        return import_pyarrow().table(columns).replace_schema_metadata(metadata)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> ReliabilityTable:
        """Return the table that `to_arrow` wrote.

        Raises
        ------
        InputError
            For a table that `to_arrow` did not write, and for one with a number that no reliability table has.
        """
        return cls(**_fields_of(table))


def _bounds_of_cells(scores: NDArray[np.floating[Any]], grid: grids.Grid) -> NDArray[np.int64]:
    """Return where each cell begins among these increasing scores, and the end of the last one."""
    table = grids.edges(grid).astype(scores.dtype)
    bounds = np.concatenate([[0], np.searchsorted(scores, table, side="right"), [len(scores)]])
    below_one = np.searchsorted(scores, table[-1], side="left")
    bounds[:-1] = np.minimum(bounds[:-1], below_one)  # p = 1 has its own cell, also where other edges round to 1
    return bounds


def _kind(table: ReliabilityTable) -> str:
    return f"exact, {table.scores.dtype}" if table.grid is None else f"{table.grid} grid"


def _pooled(
    keys: NDArray[Any], columns: dict[str, NDArray[Any]], *, n: int, grid: grids.Grid | None
) -> ReliabilityTable:
    """Return the table with a row per distinct key, in which the columns add up.

    The keys are in increasing order: cells of the grid, or scores without one.
    """
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return _summed(keys[first], first, columns, n=n, grid=grid)


def _summed(
    keys: NDArray[Any], first: NDArray[np.int64], columns: dict[str, NDArray[Any]], *, n: int, grid: grids.Grid | None
) -> ReliabilityTable:
    """Return the table with these distinct keys; ``first`` has the place in the columns where each begins."""
    sums = {name: np.add.reduceat(x, first, axis=-1) if len(first) else x for name, x in columns.items()}
    if grid is None:
        return ReliabilityTable(scores=keys, n=n, grid=None, **sums)
    scores = _in_cells(sums["score_sums"] / sums["counts"], keys, grid)
    return ReliabilityTable(scores=scores, n=n, grid=grid, cells=keys, **sums)


def _in_cells(means: NDArray[np.float64], cells: NDArray[np.int64], grid: grids.Grid) -> NDArray[np.float64]:
    """Return the mean scores of cells, each moved into its cell: they only locate the rows.

    Rounding can move a mean onto the cell's open edge, and float32 scores are counted by edges rounded to float32.
    """
    low, high = grids.ends_of(cells, grid)
    low, high = np.where(low < high, np.nextafter(low, 1), low), np.where(low < high, high, low)
    high = np.where((low < 1) & (high == 1), np.nextafter(1.0, 0), high)
    return np.clip(means, low, high)


def cell_sums(events: Events, grid: grids.Grid) -> NDArray[np.float64]:
    """Return the sums of events over the cells of a grid, as `dispatch.cell_rows` does."""
    lookup = grids.lookup(grid, events.scores.dtype)
    return dispatch.cell_rows(np.ascontiguousarray(events.scores), events.outcomes, events.weights, *lookup)


def check_targets(targets: ArrayLike | None) -> None:
    """Reject missing targets where a table may be passed, which contains them."""
    if targets is None:
        remedy = "pass the targets, because only a ReliabilityTable contains its targets"
        raise InputError("targets", "an array", "None", remedy)


def table_in_units(table: ReliabilityTable) -> ReliabilityTable:
    """Return a table with weights divided by their unit; the same object if the unit is 1.

    Equal weights count as no weights: counts are then numbers of rows. Weights far from 1 are divided by a power of 2.
    """
    if table.whole or table.n < 1:
        return table
    unit, equal = unit_of(table.n, float(table.counts.sum()), float(table.own_weights.sum()))
    if unit == 1 and not equal:
        return table
    names = ("counts", "positives", "score_sums", "positive_scores", "square_scores")
    columns = {name: getattr(table, name) / unit for name in names if getattr(table, name) is not None}
    if not equal:
        return replace(table, square_weights=table.own_weights / unit / unit, **columns)
    for name in ("counts", "positives"):
        columns[name] = np.rint(columns[name]).astype(np.int64)
    if int(columns["counts"].sum()) != table.n:  # so many rows that the unit is not exact enough to count them
        return table
    return replace(table, square_weights=None, **columns)


def _fields_of(table: Any) -> dict[str, Any]:
    """Return the fields of the reliability table that `to_arrow` wrote; `InputError` for any other content.

    Every number is checked: a kernel trusts its table.
    """
    metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
    entries = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
    if entries.get("calibrant.table") != str(_VERSION):
        raise InputError(
            "table",
            f"a pyarrow.Table with metadata calibrant.table = {_VERSION}",
            f"metadata {sorted(entries) or 'missing'}",
            "write the table with ReliabilityTable.to_arrow",
        )
    grid, n = entries.get("calibrant.grid") or None, entries.get("calibrant.n", "missing")
    _require(
        "the metadata",
        f"calibrant.grid as an empty text or one of {', '.join(grids.GRIDS)}",
        grid in (None, *grids.GRIDS),
    )
    _require("the metadata", "calibrant.n as the number of predictions", n.isascii() and n.isdecimal() and len(n) < 20)
    weighted = any(name in table.column_names for name in _SQUARES)
    names = (*COLUMNS, *(GRID_COLUMNS if grid else ()), *(_SQUARES if weighted else ()))
    columns = {name: _column(table, name) for name in names}
    _check_columns(columns, int(n), grid)
    squares = np.stack([columns.pop(name) for name in _SQUARES]) if weighted else None
    return {**columns, "n": int(n), "grid": grid, "square_weights": squares}


def _column(table: Any, name: str) -> NDArray[Any]:
    """Return a column of numbers; columns of other types may promise more rows than they hold."""
    present, kinds = table.column_names, _TYPES.get(name, ("double",))
    _require(f"the columns {', '.join(present)}", f"one column {name!r}", present.count(name) == 1)
    column = table.column(name)
    actual = f"{name} of type {column.type} with {column.null_count:,} nulls"
    good = str(column.type) in kinds and not column.null_count
    _require(actual, f"{name} of type {' or '.join(kinds)} without nulls", good)
    return np.ascontiguousarray(column.to_numpy())


def _check_columns(columns: Mapping[str, NDArray[Any]], n: int, grid: Any) -> None:
    scores, counts, positives = (columns[name] for name in COLUMNS)
    _require("positives of another type", "counts and positives of one type", counts.dtype == positives.dtype)
    rising = np.ones(len(scores), bool)
    rising[1:] = scores[1:] > scores[:-1]
    _require_each("scores", scores, "increasing, in [0, 1]", rising & (scores >= 0) & (scores <= 1))
    predictions = f"calibrant.n, the number of predictions, from {len(scores):,} (rows of the table) to 2^63 - 1"
    _require(f"calibrant.n = {n:,}", predictions, len(scores) <= n <= MOST_ROWS)
    if counts.dtype.kind == "i":
        total = counts.sum(dtype=np.float64)
        _require_each("counts", counts, "at least 1", counts >= 1)
        _require(f"counts that add up to {total:g}", "counts below 2^63 in total", total <= MOST_ROWS)
    else:
        _require_each("counts", counts, "sums of weights", (counts >= LEAST_WEIGHT) & (counts <= n * MOST_WEIGHT))
    _require_each("positives", positives, "from 0 to the count", (positives >= 0) & (positives <= counts))
    for name in set(_SQUARES) & set(columns):
        _require_each(name, columns[name], "finite and not negative", (columns[name] >= 0) & (columns[name] < np.inf))
    if grid is not None:
        cells, score_sums = columns["cells"], columns["score_sums"]
        _require_each("cells", cells, "the cells of the scores", cells == grids.cell_of(scores, grid))
        more = 1 + n * 2.0**-51  # two sums over n numbers, each off by at most n 2^-52 of it
        limits = {"score_sums": ("count", counts)}
        limits |= dict.fromkeys(("positive_scores", "square_scores"), ("sum of the scores", score_sums))
        for name, (limit, most) in limits.items():
            column = columns[name]
            _require_each(name, column, f"from 0 to the {limit}", (column >= 0) & (column <= most * more))


def _require_each(name: str, column: NDArray[Any], expected: str, good: NDArray[np.bool_]) -> None:
    if not good.all():
        row = int(np.argmin(good))
        _require(f"{name}[{row}] = {column[row]}", f"{name}: {expected}", good=False)


def _require(got: str, expected: str, good: bool) -> None:
    if not good:
        raise InputError("table", expected, got, "write the table again with ReliabilityTable.to_arrow")


@dataclass(frozen=True, eq=False)
class GridCells:
    """The cells of a table on a grid, as the certified errors of measures use them, each field (K,).

    A table on a grid has for each cell (l, u] the number of predictions by outcome, n0 and n1, the sums of the scores,
    S0 and S1, and the sum Q of all squared scores. This gives the sum of residuals r = y - p, n1 - S0 - S1, and the sum
    of their absolute values, A = S0 + n1 - S1. No bound assumes where in a cell the scores lie. The cells of p = 0 and
    p = 1 hold one score each, so they are exact.
    """

    table: ReliabilityTable
    #: low, high: the ends of (low, high].
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    #: Whether a cell can hold several scores: not the cells of p = 0 and p = 1, nor a cell with one prediction.
    several: NDArray[np.bool_]
    #: n0, n1: the predictions (their weight) by outcome. s0, s1: the sums of their scores.
    n0: NDArray[np.float64]
    n1: NDArray[np.float64]
    s0: NDArray[np.float64]
    s1: NDArray[np.float64]
    squares: NDArray[np.float64]  # the sum of all squared scores

    @classmethod
    def of(cls, table: ReliabilityTable) -> GridCells | None:
        """Return the cells of a table; None for an exact table."""
        if table.grid is None or table.cells is None or table.score_sums is None:
            return None
        if table.positive_scores is None or table.square_scores is None:
            return None
        low, high = grids.ends_of(table.cells, table.grid)
        n1 = table.positives.astype(np.float64)
        several = low < high
        if table.whole:  # then a count of 1 is one prediction
            several &= table.counts > 1
        s0 = np.maximum(table.score_sums - table.positive_scores, 0.0)
        return cls(table, low, high, several, table.counts - n1, n1, s0, table.positive_scores, table.square_scores)

    @cached_property
    def absolute(self) -> NDArray[np.float64]:
        """A, the sum of the absolute residuals in each row's cell."""
        return np.maximum(self.s0 + self.n1 - self.s1, 0.0)

    @property
    def rounding(self) -> float:
        """The most that the rounding of sums over all rows changes a mean of numbers up to 1."""
        return self.table.n * 2.0**-52
