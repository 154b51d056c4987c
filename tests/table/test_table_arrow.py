"""Reliability tables in Arrow: what `to_arrow` did not write is rejected, and names the first row at fault."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calibrant
from calibrant import ReliabilityTable
from calibrant.errors import InputError
from calibrant.table import grid as grids

pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(50)
SCORES, OUTCOMES, WEIGHTS = RNG.random(30), RNG.integers(0, 2, 30), RNG.random(30) + 0.1


def written(grid=None, weights=None):
    return ReliabilityTable.from_scores(SCORES, OUTCOMES, weights=weights, grid=grid).to_arrow()


def with_column(table, name, change):
    column = np.array(table.column(name).to_numpy())
    return table.set_column(table.column_names.index(name), name, pa.array(change(column)))


def put(row, value):
    def change(column):
        column[row] = value
        return column

    return change


DAMAGED = {
    "a score above 1": (None, "scores", put(29, 1.5), "scores[29] = 1.5"),
    "a score below 0": (None, "scores", put(0, -0.1), "scores[0] = -0.1"),
    "a score that is NaN": (None, "scores", put(7, np.nan), "scores[7] = nan"),
    "infinite scores": (None, "scores", put(slice(28, 30), np.inf), "scores[28] = inf"),
    "scores in another order": (None, "scores", lambda column: column[::-1], "scores[1] = "),
    "a score twice": (None, "scores", lambda column: np.maximum(column, column[1]), "scores[1] = "),
    "scores of half precision": (
        None,
        "scores",
        lambda column: column.astype(np.float16),
        "scores of type halffloat",
    ),
    "text": (None, "scores", lambda column: [str(x) for x in column], "scores of type string with 0 nulls"),
    "a null": (None, "scores", lambda column: [None, *column[1:]], "scores of type double with 1 nulls"),
    "a count of 0": (None, "counts", put(3, 0), "counts[3] = 0"),
    "counts that overflow": (None, "counts", lambda column: column + 2**62, "counts that add up to 1.38"),
    "short counts": (None, "counts", lambda column: column.astype(np.int32), "counts of type int32"),
    "counts of another type": (None, "counts", lambda column: column.astype(float), "positives of another type"),
    "more outcomes 1 than rows": (None, "positives", put(4, 2), "positives[4] = 2"),
    "fewer than none": (None, "positives", put(4, -1), "positives[4] = -1"),
    "another cell": ("standard", "cells", put(2, 9), "cells[2] = 9"),
    "a sum of scores above the count": ("standard", "score_sums", put(2, 99.0), "score_sums[2] = 99.0"),
    "a negative sum": ("fine", "positive_scores", put(2, -1.0), "positive_scores[2] = -1.0"),
    "squares that are NaN": ("fine", "square_scores", put(2, np.nan), "square_scores[2] = nan"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_column_is_rejected(damage):
    grid, name, change, got = DAMAGED[damage]
    with pytest.raises(InputError, match=re.escape(f"got {got}")) as caught:
        ReliabilityTable.from_arrow(with_column(written(grid), name, change))
    assert caught.value.argument == "table"


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [
        ("square_weights_1", 5, np.inf),
        ("square_weights_0", 6, -1.0),
        ("counts", 3, 0.0),
        ("counts", 4, np.inf),
        ("counts", 4, np.nan),
        ("counts", 4, 1e70),
    ],
)
def test_a_damaged_weight_is_rejected(name, row, value):
    with pytest.raises(InputError, match=re.escape(f"got {name}[{row}] = {value}")):
        ReliabilityTable.from_arrow(with_column(written(weights=WEIGHTS), name, put(row, value)))


def test_one_column_of_two_squares_is_rejected():
    with pytest.raises(InputError, match="one column 'square_weights_0'"):
        ReliabilityTable.from_arrow(written(weights=WEIGHTS).drop_columns(["square_weights_0"]))


def test_a_column_twice_is_rejected():
    table = written()
    with pytest.raises(InputError, match="one column 'counts'"):
        ReliabilityTable.from_arrow(table.append_column("counts", table.column("counts")))


@pytest.mark.parametrize("other", [np.arange(3), {"scores": [0.5]}, None])
def test_no_arrow_table_is_rejected(other):
    with pytest.raises(InputError, match=re.escape("a pyarrow.Table with metadata")):
        ReliabilityTable.from_arrow(other)


def test_metadata_in_no_text_are_rejected():
    table = written()
    with pytest.raises(InputError, match=r"calibrant\.grid"):
        ReliabilityTable.from_arrow(
            table.replace_schema_metadata({**table.schema.metadata, b"calibrant.grid": b"\xff"})
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("calibrant.grid", "coarse"),
        ("calibrant.n", "many"),
        ("calibrant.n", "29"),
        ("calibrant.n", str(2**63)),
        ("calibrant.n", "1" * 5000),
        ("calibrant.table", "2"),
    ],
)
def test_damaged_metadata_are_rejected(key, value):
    table = written()
    damaged = table.replace_schema_metadata({**table.schema.metadata, key.encode(): value.encode()})
    with pytest.raises(InputError, match=key):
        ReliabilityTable.from_arrow(damaged)


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match="one column 'positives'"):
        ReliabilityTable.from_arrow(written().drop_columns(["positives"]))


@pytest.mark.covering
@pytest.mark.parametrize("weights", [None, WEIGHTS, np.full(30, 0.3), 1e30 * WEIGHTS, 1e-30 * WEIGHTS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("grid", [None, "standard", "fine"])
def test_sums_of_tables_come_back(grid, dtype, weights):
    """Nothing that `to_arrow` writes is rejected: scores on edges, weights of any size, sums with outcomes 1 alone."""
    scores = np.concatenate([SCORES, grids.edges("standard"), [0.0, 1.0, 1.0]]).astype(dtype)
    n_more = len(scores) - 30
    w = None if weights is None else np.append(weights, np.resize(weights, n_more))
    table = ReliabilityTable.from_scores(scores, np.append(OUTCOMES, np.ones(n_more)), weights=w, grid=grid)
    total = table + table + table
    back = ReliabilityTable.from_arrow(total.to_arrow())
    assert calibrant.expected_calibration_error(back) == calibrant.expected_calibration_error(total)
