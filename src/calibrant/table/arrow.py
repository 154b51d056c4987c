"""The columns of a reliability table in Arrow, and back, with every number checked: a kernel trusts its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.arrays import import_pyarrow
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_ROWS, MOST_WEIGHT
from calibrant.table import grid as grids

if TYPE_CHECKING:
    import pyarrow as pa

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

_VERSION: Final = 1


def to_arrow(
    columns: Mapping[str, NDArray[Any]], squares: NDArray[np.float64] | None, n: int, grid: grids.Grid | None
) -> pa.Table:
    """Return the columns as a `pyarrow.Table`, with the kind of the reliability table in its metadata."""
    named = {**columns, **({} if squares is None else dict(zip(_SQUARES, squares, strict=True)))}
    metadata = {"calibrant.table": str(_VERSION), "calibrant.n": str(n), "calibrant.grid": grid or ""}
    return import_pyarrow().table(named).replace_schema_metadata(metadata)


def from_arrow(table: Any) -> dict[str, Any]:
    """Return the fields of the reliability table that `to_arrow` wrote; `InputError` for any other content."""
    metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
    entries = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
    if entries.get("calibrant.table") != str(_VERSION):
        raise InputError(
            "table",
            f"a pyarrow.Table with metadata calibrant.table = {_VERSION}",
            f"metadata {sorted(entries) or 'missing'}",
            "write it with ReliabilityTable.to_arrow",
        )
    grid, n = entries.get("calibrant.grid") or None, entries.get("calibrant.n", "missing")
    _require("the metadata", f"calibrant.grid empty or one of {', '.join(grids.GRIDS)}", grid in (None, *grids.GRIDS))
    _require("the metadata", "calibrant.n a number of predictions", n.isascii() and n.isdecimal() and len(n) < 20)
    weighted = any(name in table.column_names for name in _SQUARES)
    names = (*COLUMNS, *(GRID_COLUMNS if grid else ()), *(_SQUARES if weighted else ()))
    columns = {name: _column(table, name) for name in names}
    _check(columns, int(n), grid)
    squares = np.stack([columns.pop(name) for name in _SQUARES]) if weighted else None
    return {**columns, "n": int(n), "grid": grid, "square_weights": squares}


def _column(table: Any, name: str) -> NDArray[Any]:
    """Return a column of numbers; columns of other types may promise more rows than they hold."""
    present, kinds = table.column_names, _TYPES.get(name, ("double",))
    _require(f"the columns {', '.join(present)}", f"one column {name!r}", present.count(name) == 1)
    column = table.column(name)
    found = f"{name} of type {column.type} with {column.null_count:,} nulls"
    good = str(column.type) in kinds and not column.null_count
    _require(found, f"{name} of type {' or '.join(kinds)} without nulls", good)
    return np.ascontiguousarray(column.to_numpy())


def _check(columns: Mapping[str, NDArray[Any]], n: int, grid: Any) -> None:
    scores, counts, positives = (columns[name] for name in COLUMNS)
    _require("positives of another type", "counts and positives of one type", counts.dtype == positives.dtype)
    rising = np.ones(len(scores), bool)
    rising[1:] = scores[1:] > scores[:-1]
    _each("scores", scores, "increasing, in [0, 1]", rising & (scores >= 0) & (scores <= 1))
    _require(f"calibrant.n = {n:,}", "a prediction or more for each row", len(scores) <= n <= MOST_ROWS)
    if counts.dtype.kind == "i":
        total = counts.sum(dtype=np.float64)
        _each("counts", counts, "1 or more", counts >= 1)
        _require(f"counts that add up to {total:g}", "counts of less than 2^63 in all", total <= MOST_ROWS)
    else:
        _each("counts", counts, "sums of weights", (counts >= LEAST_WEIGHT) & (counts <= n * MOST_WEIGHT))
    _each("positives", positives, "from 0 to the count", (positives >= 0) & (positives <= counts))
    for name in set(_SQUARES) & set(columns):
        _each(name, columns[name], "finite, not negative", (columns[name] >= 0) & (columns[name] < np.inf))
    if grid is not None:
        cells, score_sums = columns["cells"], columns["score_sums"]
        _each("cells", cells, "the cells of the scores", cells == grids.cell_of(scores, grid))
        more = 1 + n * 2.0**-51  # two sums over n numbers, each off by at most n 2^-52 of it
        for name, most in (("score_sums", counts), ("positive_scores", score_sums), ("square_scores", score_sums)):
            column = columns[name]
            _each(name, column, "sums of numbers in [0, 1]", (column >= 0) & (column <= most * more))


def _each(name: str, column: NDArray[Any], expected: str, good: NDArray[np.bool_]) -> None:
    if not good.all():
        row = int(np.argmin(good))
        _require(f"{name}[{row}] = {column[row]}", f"{name}: {expected}", good=False)


def _require(got: str, expected: str, good: bool) -> None:
    if not good:
        raise InputError("table", expected, got, "write the table again with ReliabilityTable.to_arrow")
